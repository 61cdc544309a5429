"""Continues after records that the source lost (``onSourceDataLoss: continue``)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import monotonic

from k2ktui.engine.records.gaps import gaps_before
from k2ktui.engine.records.moved_topic import MovedTopics
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import K2kError
from k2ktui.replication.copying.slot_task import Fault
from k2ktui.replication.fencing_errors import Superseded
from k2ktui.replication.ownership.ownership import Ownership
from k2ktui.replication.reports.events import Event, Note
from k2ktui.replication.reports.notes import ThrottledNotifier

_RETRY_S = 1.0
_SUBJECT = "continuing after lost records"


class LossRecorder:
    """Moves positions back to where the source's log was truncated below what was read.

    The source has lost records that were already copied, and other records have their offsets now.
    A loss beyond the position needs no new term: the lap passes over it and records the gap. Until
    the new position is written, this partition is not copied; the others are.

    Args:
        ownership: writes the positions.
        report: called with a note for each partition that continues.
        notifier: reports failures to write.
    """

    def __init__(
        self,
        ownership: Ownership,
        report: Callable[[Event], None],
        notifier: ThrottledNotifier,
    ) -> None:
        self._ownership = ownership
        self._report = report
        self._notifier = notifier
        self._faults: dict[SourcePartition, Fault] = {}
        self._not_before = 0.0

    def __contains__(self, source: SourcePartition) -> bool:
        return bool(self._faults) and source in self._faults

    @property
    def pending(self) -> bool:
        """Whether a loss is not yet recorded."""
        return bool(self._faults)

    def add(self, fault: Fault) -> None:
        """Add a loss, which ``record`` will write."""
        self._faults[fault.source] = fault

    def forget(self, moved: MovedTopics) -> None:
        """Drop the losses of topics that are copied no longer: their positions are final."""
        self._faults = {at: fault for at, fault in self._faults.items() if at.topic not in moved}

    def record(self, slots: int, positions: dict[SourcePartition, Position]) -> None:
        """Write pending losses in a new term and update ``positions``.

        Positions at or before the loss stay: what was read beyond them was not committed, as the
        lap failed. Records from there to the loss are still to be copied, and the next lap finds
        the loss again, if it is still there.

        A failure is reported, and a later call retries. Repeating a write whose outcome is unknown
        is safe, because nothing is copied from these positions in between.

        Raises:
            Superseded: another driver has taken over.
        """
        if not self._faults or monotonic() < self._not_before:
            return
        faults = [
            fault
            for source, fault in self._faults.items()
            if source in positions and fault.offset < positions[source].offset
        ]
        if not faults:
            self._faults.clear()
            return
        try:
            self._ownership.begin_term(slots)
            moved = {
                fault.source: self._move_position(positions[fault.source], fault)
                for fault in faults
            }
            self._ownership.write_positions(moved)
        except Superseded:
            raise
        except K2kError as error:
            pause_s = self._notifier.report_error(_SUBJECT, error, _RETRY_S)
            self._not_before = monotonic() + pause_s
            return
        self._notifier.over(_SUBJECT)
        positions.update(moved)
        self._faults.clear()
        for fault in faults:
            text = f"continued at {fault.offset} (onSourceDataLoss: continue)"
            self._report(Note(f"{fault.message}; {text}"))

    def _move_position(self, position: Position, fault: Fault) -> Position:
        """Return the position moved back, by the rules of ``engine/moves/positions.py``."""
        term, offset = self._ownership.run.term, fault.offset
        gaps = gaps_before(position.gaps, offset)
        moved = replace(position.moved_back(offset), leader_epoch=-1, term=term, gaps=gaps)
        if offset <= position.start:  # the mapping starts over
            return replace(moved, start=offset, since=term, gaps=())
        return moved
