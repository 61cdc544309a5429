"""The batches of one target partition, waiting and in flight."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from time import monotonic

from k2ktui.replication.copying.outgoing_batch import OutgoingBatch, TargetPartition

IN_FLIGHT = 5


@dataclass(slots=True, eq=False)
class PartitionQueue:
    """The batches of one target partition: waiting and in flight, oldest first.

    ``end`` is the target offset after the last acknowledged record. ``parts`` has what is sent in
    place of batches in flight that were refused for their size.
    """

    target: TargetPartition
    waiting: deque[OutgoingBatch] = field(default_factory=deque)
    flying: deque[OutgoingBatch] = field(default_factory=deque)
    sequence: int = 0
    answered: int = 0
    proven: bool = False
    end: int = 0
    broken: int = 0
    retry_at: float = 0.0
    gone_since: float = 0.0
    failing_since: float = 0.0
    silent: bool = False
    reason: str = ""
    parts: dict[OutgoingBatch, list[OutgoingBatch]] = field(default_factory=dict)

    @property
    def idle(self) -> bool:
        return not self.waiting and not self.flying

    def fails(self, reason: str, *, silent: bool = False) -> None:
        """Record that the partition accepts no writes and why; ``silent`` if no broker answered."""
        self.failing_since = self.failing_since or monotonic()
        self.silent, self.reason = silent, reason

    def resend(self, retry_at: float) -> None:
        """Queue all batches in flight again, in order, once each of them has failed."""
        again = [part for outgoing in self.flying for part in self.parts.get(outgoing, [outgoing])]
        self.waiting.extendleft(reversed(again))
        # Those behind a refused batch failed because it was missing: nothing has to be waited for.
        self.retry_at = 0.0 if self.parts else retry_at
        self.flying.clear()
        self.parts.clear()
        self.broken = 0

    def ready(self, now: float) -> bool:
        """Return whether the next batch may be sent.

        Until the first batch of an epoch is acknowledged, only one is in flight: a broker without
        state for the producer accepts any sequence number, so a second could overtake the first.
        """
        limit = IN_FLIGHT if self.proven else 1
        return (
            bool(self.waiting)
            and not self.broken
            and len(self.flying) < limit
            and (now >= self.retry_at)
        )
