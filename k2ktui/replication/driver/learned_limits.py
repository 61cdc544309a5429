"""What targets accepted after they had refused batches for their size, kept from lap to lap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from time import monotonic

from k2ktui.engine.records.state import SourcePartition
from k2ktui.replication.copying.slot_settings import ProduceSettings
from k2ktui.replication.copying.slot_task import Fault, SizeLimit
from k2ktui.replication.topics.discovery import TopicSnapshot

# Data changes: after this time, a partition's batches are sent whole again. One that is refused
# then costs a few requests, and all that follow it are split at once.
_KEPT_S = 3600.0


@dataclass(frozen=True, slots=True)
class _Learned:
    limit: SizeLimit
    until: float
    settings: object


class RequestLimit:
    """The size of requests that the target's brokers take; the drivers of a run share one.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._learned: _Learned | None = None

    @property
    def now(self) -> SizeLimit | None:
        """What a batch may have so that it fits into a request; None for any."""
        learned = self._learned
        return None if learned is None or self._clock() >= learned.until else learned.limit

    def learn(self, size: int) -> bool:
        """Keep a size in bytes for an hour; return whether it is a new one."""
        before = self.now
        if before is not None and before.sent <= size:
            return False
        self._learned = _Learned(SizeLimit(size, size), self._clock() + _KEPT_S, None)
        return True

    def apply(self, settings: ProduceSettings) -> ProduceSettings:
        """Return how the target is written to, with requests that its brokers take."""
        limit = self.now
        if limit is None or limit.sent >= settings.request_bytes:
            return settings
        return replace(settings, request_bytes=limit.sent)


class LearnedLimits:
    """The size limits of a driver's partitions; each is forgotten after an hour.

    Args:
        clock: monotonic seconds.
        requests: that of requests, which batches of all partitions must fit into.
    """

    def __init__(
        self, clock: Callable[[], float] = monotonic, requests: RequestLimit | None = None
    ) -> None:
        self._clock = clock
        self.requests = requests or RequestLimit(clock)
        self._known: dict[SourcePartition, _Learned] = {}

    def of(self, source: SourcePartition) -> SizeLimit | None:
        """Return the limit of a partition's next batches; None if they are sent whole."""
        requests = self.requests.now
        learned = self._known.get(source) if self._known else None
        if learned is None:
            return requests
        if self._clock() >= learned.until:
            del self._known[source]
            return requests
        if requests is None:
            return learned.limit
        sent = min(learned.limit.sent, requests.sent)
        return SizeLimit(sent, min(learned.limit.uncompressed, requests.uncompressed))

    def learn(self, limits: Mapping[SourcePartition, SizeLimit], topics: TopicSnapshot) -> None:
        """Keep what a lap has found out, with the present settings of the targets."""
        until = self._clock() + _KEPT_S
        for source, limit in limits.items():
            self._known[source] = _Learned(limit, until, topics.sizes_of(source))

    def forget_changed(self, topics: TopicSnapshot) -> None:
        """Forget the limits of partitions whose targets have other settings now."""
        for source in [
            s for s, learned in self._known.items() if learned.settings != topics.sizes_of(s)
        ]:
            del self._known[source]


def describe_request_limit(size: int) -> str:
    """Return the note about a size of requests, in bytes, that was learned."""
    return (
        f"the target's brokers close connections on larger requests (socket.request.max.bytes): "
        f"requests have at most {size:,} bytes now"
    )


def with_settings(fault: Fault, sizes: Mapping[str, tuple[int, str]]) -> Fault:
    """Add the settings of the target topic to the message of a record that is too large."""
    # It may be about another topic, such as that of dead letters.
    settings = sizes.get(fault.refused_by)
    if settings is None:
        return fault
    limit, codec = settings
    compression = f"compression.type {codec}, " if codec else ""
    return replace(fault, message=f"{fault.message} ({compression}max.message.bytes {limit:,})")
