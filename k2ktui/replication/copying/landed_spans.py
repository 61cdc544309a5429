"""How far a slot has written to its target partitions, and which offsets it wrote alone.

Another program's record, or an aborted attempt of our own, takes offsets that no acknowledgment
names. So offsets are known to be ours only where the next acknowledged batch follows the one before
it directly, or after the one marker that ended its transaction.
"""

from __future__ import annotations

from collections.abc import Iterable

from k2ktui.engine.records.state import Landed, Position
from k2ktui.replication.copying.outgoing_batch import TargetPartition


class LandedSpans:
    """The spans of one lap, continued from the positions that it begins with.

    Args:
        positions: those of the slot's partitions.
        transactional: whether each transaction leaves a marker in the partitions that it wrote to.
            If not, the span of ``of`` is empty: an offset between two batches would be taken for a
            marker by a later run with transactions.
    """

    def __init__(self, positions: Iterable[Position], *, transactional: bool) -> None:
        self._transactional = transactional
        self._spans: dict[TargetPartition, tuple[int, int]] = {}
        self._written: set[TargetPartition] = set()  # by the open transaction
        for at in (at for position in positions for at in position.landed):
            target = at.topic, at.partition
            first, end = self._spans.get(target, (0, -1))
            # Of two that end together both are true, and the longer one says more.
            if at.end > end or (at.end == end and at.first < first):
                self._spans[target] = at.first, at.end

    @property
    def ends(self) -> dict[TargetPartition, int]:
        """Where each target partition ended after the last record that was committed to it."""
        return {target: end for target, (_, end) in self._spans.items()}

    def add(self, target: TargetPartition, base: int, count: int) -> None:
        """Add an acknowledged batch; ``base`` is the target offset of its first record."""
        first, end = self._spans.get(target, (base, base))
        marker = 0 if target in self._written else 1
        # An empty span must not be continued: it does not say what was written before it.
        if first == end or base != end + marker:
            first = base
        self._spans[target] = first, base + count
        self._written.add(target)

    def mark_committed(self) -> None:
        """Expect a marker after what each target partition has got since the last call."""
        self._written.clear()

    def of(self, targets: Iterable[TargetPartition]) -> tuple[Landed, ...]:
        """Return how far these target partitions are written, with what was added so far."""
        return tuple(self._landed(target) for target in targets if target in self._spans)

    def _landed(self, target: TargetPartition) -> Landed:
        first, end = self._spans[target]
        return Landed(*target, first if self._transactional else end, end)
