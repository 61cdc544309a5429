"""The partitions of a driver that operators hold: they are not copied, and keep their positions.

A hold needs no fencing: what a lap has read when it begins may still be committed, once. The driver
ends a lap that copies what is held now, so that a long one does not go on until its time is over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from k2ktui.engine.records.hold import NO_HOLDS, Hold, Holds
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.replication.copying.partition_faults import held_fault
from k2ktui.replication.copying.slot_task import Fault
from k2ktui.replication.reports.events import Event, Note
from k2ktui.text import safe_text


class HeldPartitions:
    """What of a driver's partitions is held, as it was last read.

    Args:
        read: returns the present holds of the pipeline; never waits.
        report: called with a note when a topic or a partition is held, or released.
    """

    def __init__(self, read: Callable[[], Holds], report: Callable[[Event], None]) -> None:
        self._read, self._report = read, report
        self._holds = NO_HOLDS
        self._noted: dict[Hold, None] = {}

    def __contains__(self, source: SourcePartition) -> bool:
        # Most of the time there are none, and thousands of partitions are asked for.
        return bool(self._holds) and self._holds.of(source.topic, source.partition) is not None

    def look(self, sources: Collection[SourcePartition]) -> frozenset[SourcePartition] | None:
        """Take over the present holds.

        Args:
            sources: the driver's partitions: other holds are not reported.

        Returns:
            Which of the partitions are held now and were not, or are held no more; None if no hold
            has changed.
        """
        holds, before = self._read(), self._holds
        if holds == before:
            return None
        self._holds = holds
        self.report(sources)
        return before.held(sources) ^ holds.held(sources)

    def report(self, sources: Collection[SourcePartition]) -> None:
        """Report the holds and releases of a driver's partitions that were not reported yet."""
        topics, partitions = {at.topic for at in sources}, set(sources)
        own = {
            hold: None
            for hold in self._holds.all
            if (hold.topic in topics if hold.partition is None else _source(hold) in partitions)
        }
        for hold in self._noted.keys() - own.keys():
            self._report(Note(f"{safe_text(hold.key.name)}: released, and copied again"))
        for hold in own.keys() - self._noted.keys():
            name, by = safe_text(hold.key.name), safe_text(hold.describe())
            self._report(Note(f"{name}: {by}; not copied until k2ktui release"))
        self._noted = own

    def select(self, sources: Collection[SourcePartition]) -> frozenset[SourcePartition]:
        """Return which of these partitions are held."""
        return self._holds.held(sources)

    def find_faults(
        self, until: Mapping[SourcePartition, int], positions: Mapping[SourcePartition, Position]
    ) -> tuple[Fault, ...]:
        """Return a fault for each held partition that has not reached its end.

        Args:
            until: the end offset that each partition has to reach.
            positions: the replicated positions.
        """
        return tuple(
            held_fault(source, hold, position.offset)
            for source, end in sorted(until.items())
            if (hold := self._holds.of(source.topic, source.partition)) is not None
            and (position := positions.get(source)) is not None
            and position.offset < end
        )


def _source(hold: Hold) -> SourcePartition:
    return SourcePartition(hold.topic, hold.partition or 0)
