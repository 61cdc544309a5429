"""Fetch batches from many partitions of one cluster over the wire protocol.

librdkafka's consumer is not used: it looks up its group's coordinator even if it never joins, and
the first lookup makes a broker create ``__consumer_offsets``, but the source must only be read. A
fetch response also carries what verification needs: log start offset, high watermark, last stable
offset, and the error of each partition.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from k2ktui.kafka.wire.cluster import NotSent, OutcomeUnknown, TopicInfo, Wire, WireClient
from k2ktui.kafka.wire.codes import LEADER_MOVED, TOPIC_GONE, Code, code_name
from k2ktui.kafka.wire.read_requests import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    fetch_request,
    list_offsets_request,
)
from k2ktui.log.batch import AbortedTransactions, Batch, CorruptBatch, split_batches
from k2ktui.text import counted

if TYPE_CHECKING:
    # Executors of Spark, which read with ConsumerOptions, lack confluent-kafka.
    from k2ktui.kafka.clients import Cluster, Partition

NEAR_BYTES = 64 << 10
FAR_BYTES = 1 << 20
_RESPONSE_BYTES = 16 << 20
_PARTITIONS_A_REQUEST = 128
_PAUSE_S = 0.05
# A broker that hangs must not use up the time of the others.
_REQUEST_S = 10.0
_UNAUTHORIZED = "the principal may not read it"
_THROTTLED = "its cluster throttles this client (quota)"


class PartitionRequest(Protocol):
    """The data requested from one partition, and how far it has been read."""

    def next_offset(self) -> int | None:
        """Return the offset to fetch from, None when the request is complete."""

    def set_bounds(self, start: int, stable: int, high: int) -> None:
        """Set log start offset, last stable offset and high watermark, before any batch."""

    def add_batch(self, batch: Batch) -> None:
        """Add a committed batch; called in order, once per batch.

        Raises:
            CorruptBatch: its bytes do not follow the format.
        """

    def add_aborted_batch(self, batch: Batch) -> None:
        """Add a batch of an aborted transaction; called in order with the committed ones.

        Raises:
            CorruptBatch: its bytes do not follow the format.
        """

    def advance(self, offset: int) -> None:
        """Take note that every committed record below an offset has been delivered."""

    def finish(self) -> None:
        """Take note that no further record follows up to the last stable offset."""

    def refuse(self, reason: str) -> None:
        """Take note that the rest cannot be read, and why."""


@runtime_checkable
class MarkerRequest(PartitionRequest, Protocol):
    """A request that is told of control batches, too; to others they are offsets without a record.

    In order with the batches of records, as all of them.
    """

    def add_control_batch(self, batch: Batch) -> None:
        """Add a control batch, which is a transaction marker."""


def late_reason(timeout_s: float) -> str:
    """Return why a request is refused that only lacked time: nothing was in its way."""
    return f"not read within {timeout_s:g} s"


@dataclass(frozen=True, slots=True)
class ConsumerOptions:
    """A cluster for a process that has its connection options alone.

    Attributes:
        options: those of consumers, as ``kafka.properties.translation.wire`` returns them; contains
            secrets.
        label: ``source`` or ``target``, for messages.
    """

    options: Mapping[str, Any] = field(repr=False)
    label: str


class Fetcher:
    """Connections to one cluster, opened at first use; not thread-safe.

    Args:
        cluster: the cluster, with its consumer properties.
    """

    def __init__(self, cluster: Cluster | ConsumerOptions) -> None:
        self._cluster = cluster
        self._open: WireClient | None = None

    def run(
        self,
        requests: Mapping[Partition, PartitionRequest],
        timeout: float,
        partition_bytes: int = NEAR_BYTES,
        *,
        isolation: int = READ_COMMITTED,
    ) -> None:
        """Serve every request, or refuse it when the timeout expires.

        Args:
            requests: requests by topic and partition.
            timeout: seconds.
            partition_bytes: maximum bytes per partition and fetch.
            isolation: with ``READ_UNCOMMITTED``, batches of open and aborted transactions are
                committed ones, up to the high watermark.

        Raises:
            ConnectionFailed: no broker responded, or authentication failed.
            ConfigError: the client properties are not usable.
        """
        reading = _Reading(requests, timeout, partition_bytes, isolation)
        if requests:
            self._connect(timeout).run(reading.run)

    def close(self) -> None:
        """Disconnect."""
        opened, self._open = self._open, None
        if opened is not None:
            opened.close()

    def _connect(self, timeout: float) -> WireClient:
        if self._open is None:
            cluster = self._cluster
            if isinstance(cluster, ConsumerOptions):
                options = cluster.options
            else:
                from k2ktui.kafka.properties.translation import wire

                options = wire(cluster.config, "consumer")
            self._open = WireClient(options, cluster.label)
            try:
                self._open.open(timeout)
            except BaseException:
                self.close()
                raise
        return self._open


class _Reading:
    """One run: rounds of one request per leader, until all is served or the timeout expires."""

    def __init__(
        self,
        requests: Mapping[Partition, PartitionRequest],
        timeout: float,
        partition_bytes: int,
        isolation: int,
    ) -> None:
        self._isolation = isolation
        self._left = {
            at: request for at, request in requests.items() if request.next_offset() is not None
        }
        self._timeout = timeout
        self._until = monotonic() + timeout
        self._bytes = partition_bytes
        self._trouble: dict[Partition, str] = {}
        self._starved: set[Partition] = set()
        self._out_of_range: set[Partition] = set()

    async def run(self, connection: Wire) -> None:
        while self._left and self._seconds() > 0:
            try:
                led = await self._leaders(connection)
            except (NotSent, OutcomeUnknown) as error:
                self._trouble.update(dict.fromkeys(self._left, str(error)))
            else:
                await self._rounds(connection, led)
            if self._left:
                await connection.loop.sleep(_PAUSE_S)
        for at in list(self._left):
            why = self._trouble.get(at, "")
            late = late_reason(self._timeout)
            self._refuse(at, f"{late}: {why}" if why else late)

    def _seconds(self) -> float:
        return self._until - monotonic()

    def _patience(self) -> float:
        return max(0.001, min(_REQUEST_S, self._seconds()))

    def _refuse(self, at: Partition, reason: str) -> None:
        self._left.pop(at).refuse(reason)

    async def _leaders(self, connection: Wire) -> dict[int, list[Partition]]:
        known = await connection.metadata({topic for topic, _ in self._left})
        led: dict[int, list[Partition]] = defaultdict(list)
        for at in list(self._left):
            node = self._leader(at, known.get(at[0]))
            if node >= 0:
                led[node].append(at)
        return led

    def _leader(self, at: Partition, info: TopicInfo | None) -> int:
        """Return the leader of a partition; -1 if there is none, or the partition is refused."""
        code = info.error if info else Code.UNKNOWN_TOPIC_OR_PARTITION
        if code == Code.TOPIC_AUTHORIZATION_FAILED:
            self._refuse(at, _UNAUTHORIZED)
        elif code in TOPIC_GONE:
            self._refuse(at, "the topic does not exist, or the principal may not describe it")
        elif code == Code.INVALID_TOPIC:
            self._refuse(at, "the topic name is not valid")
        elif info and info.partitions and at[1] not in info.partitions:
            self._refuse(at, f"the topic has only {counted(len(info.partitions), 'partition')}")
        elif info and at[1] in info.partitions and info.partitions[at[1]].node >= 0:
            return info.partitions[at[1]].node
        else:
            self._trouble[at] = "it has no leader"
        return -1

    async def _rounds(self, connection: Wire, led: dict[int, list[Partition]]) -> None:
        """Fetch from all leaders in parallel, repeatedly, while that makes progress."""
        while led and self._seconds() > 0:
            posted = []
            for node, partitions in led.items():
                asked = {at: self._next(at) for at in partitions[:_PARTITIONS_A_REQUEST]}
                request = self._fetch(asked)
                posted.append((node, asked, connection.post(request, node, self._patience())))
            moved: set[Partition] = set()
            for node, asked, answer in posted:
                try:
                    moved |= self._deliver(await connection.answer(answer), asked)
                    moved |= await self._measure(connection, node)
                except (NotSent, OutcomeUnknown) as error:
                    self._trouble.update(dict.fromkeys(asked.keys() & self._left, str(error)))
            if not moved:
                return
            led = {node: self._order(partitions, moved) for node, partitions in led.items()}
            led = {node: partitions for node, partitions in led.items() if partitions}

    def _next(self, at: Partition) -> int:
        offset = self._left[at].next_offset()
        return -1 if offset is None else offset

    def _order(self, partitions: list[Partition], moved: set[Partition]) -> list[Partition]:
        """Put partitions without progress first: only the first is sure to get a whole batch."""
        left = [at for at in partitions if at in self._left and at not in self._trouble]
        return sorted(left, key=lambda at: at in moved)

    def _deliver(self, response: Any, asked: dict[Partition, int]) -> set[Partition]:
        """Deliver a response; return the partitions that made progress."""
        moved = set()
        first = next(iter(asked))
        if response.throttle_time_ms > 0 and not response.responses:
            self._trouble.update(dict.fromkeys(asked.keys() & self._left, _THROTTLED))
        for topic in response.responses:
            for part in topic.partitions:
                at = topic.topic, part.partition_index
                if at in asked and self._take(at, asked[at], part, first=at == first):
                    moved.add(at)
        return moved

    def _take(self, at: Partition, offset: int, part: Any, *, first: bool) -> bool:
        code, request = part.error_code, self._left[at]
        if code == Code.OFFSET_OUT_OF_RANGE:
            self._out_of_range.add(at)
            self._trouble[at] = code_name(code)
            return False
        if code == Code.TOPIC_AUTHORIZATION_FAILED:
            self._refuse(at, _UNAUTHORIZED)
            return True
        if code in LEADER_MOVED | TOPIC_GONE:
            self._trouble[at] = code_name(code)
            return False
        if code:
            self._refuse(at, f"the broker refuses to read it: {code_name(code)}")
            return True
        self._trouble.pop(at, None)
        stable = part.last_stable_offset if part.last_stable_offset >= 0 else part.high_watermark
        end = part.high_watermark if self._isolation == READ_UNCOMMITTED else stable
        request.set_bounds(part.log_start_offset, stable, part.high_watermark)
        seen = self._batches(at, offset, part)
        if at not in self._left:
            return True
        request.advance(seen)
        # The first partition of a request gets at least one batch, if there is one (KIP-74).
        if seen >= end or (seen == offset and first):
            request.finish()
        if request.next_offset() is None:
            del self._left[at]
        elif seen == offset:
            self._starved.add(at)
        return at not in self._left or seen > offset

    def _batches(self, at: Partition, offset: int, part: Any) -> int:
        """Deliver the batches of a response; return the offset after the last one."""
        aborted = [(a.producer_id, a.first_offset) for a in part.aborted_transactions or ()]
        filter_, request, seen = AbortedTransactions(aborted), self._left[at], offset
        try:
            for batch in split_batches(part.records or b""):
                dropped = filter_.drops(batch)
                # After compaction a response may begin with a batch that ends before the offset.
                if batch.last_offset < offset:
                    continue
                if batch.count and request.next_offset() is not None:
                    _deliver(request, batch, dropped=dropped)
                seen = batch.last_offset + 1
        except CorruptBatch as error:
            self._refuse(at, f"the batch at offset {seen} is corrupt: {error}")
        return seen

    def _fetch(self, asked: Mapping[Partition, int]) -> Any:
        wanted = {
            at: (offset, FAR_BYTES if at in self._starved else self._bytes)
            for at, offset in asked.items()
        }
        return fetch_request(wanted, isolation=self._isolation, max_bytes=_RESPONSE_BYTES)

    async def _measure(self, connection: Wire, node: int) -> set[Partition]:
        """Query the bounds of logs for which the fetch offset was out of range.

        Returns:
            The partitions that made progress.
        """
        asked, self._out_of_range = sorted(self._out_of_range), set()
        if not asked:
            return set()
        offsets = []
        for which, isolation in (
            (EARLIEST, READ_UNCOMMITTED),
            (LATEST, READ_COMMITTED),
            (LATEST, READ_UNCOMMITTED),
        ):
            request = list_offsets_request(asked, which, isolation)
            offsets.append(_offsets(await connection.send(request, node, self._patience())))
        starts, stables, highs = offsets
        known = [at for at in asked if at in starts and at in stables and at in highs]
        return {at for at in known if self._apply_bounds(at, starts[at], stables[at], highs[at])}

    def _apply_bounds(self, at: Partition, start: int, stable: int, high: int) -> bool:
        request, before = self._left[at], self._next(at)
        request.set_bounds(start, stable, high)
        if self._next(at) == before:
            return False  # only briefly out of range, as during a leader change
        del self._trouble[at]
        if request.next_offset() is None:
            del self._left[at]
        return True


def _deliver(request: PartitionRequest, batch: Batch, *, dropped: bool) -> None:
    """Hand a batch to a request; errors as for ``add_batch``."""
    if batch.is_control:
        if isinstance(request, MarkerRequest):
            request.add_control_batch(batch)
        return
    if not batch.crc_ok():
        raise CorruptBatch("wrong checksum")
    (request.add_aborted_batch if dropped else request.add_batch)(batch)


def _offsets(response: Any) -> dict[Partition, int]:
    return {
        (topic.name, part.partition_index): part.offset
        for topic in response.topics
        for part in topic.partitions
        if part.error_code == Code.NONE and part.offset >= 0
    }
