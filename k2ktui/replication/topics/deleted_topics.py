"""Source topics that were deleted: they are no longer copied, without a fault.

A partition is stopped only if it had uncopied records, until an operator acknowledges the loss
(``k2ktui offsets acknowledge``).
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from time import monotonic

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.deleted_logs import DeletedLog
from k2ktui.engine.records.moved_topic import MovedTopics
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import K2kError
from k2ktui.replication.copying.partition_faults import deleted_fault
from k2ktui.replication.copying.partition_reader import now_ms
from k2ktui.replication.copying.slot_task import Fault, FaultKind, SourceLogBounds
from k2ktui.replication.fencing_errors import Superseded
from k2ktui.replication.ownership.ownership import Ownership
from k2ktui.replication.reports.events import Note
from k2ktui.replication.reports.notes import ThrottledNotifier
from k2ktui.replication.reports.status import DriverStatus
from k2ktui.replication.slots import SlotState
from k2ktui.text import counted, list_names

log = logging.getLogger(__name__)

_RETRY_S = 1.0
_SUBJECT = "recording a deleted source topic"
_NAMES = 5


class DeletedTopics:
    """The partitions of a run whose source topic was deleted, or seems to have been.

    A lap notices the deletion first. The partition is then set aside, without a fault, until the
    next discovery has asked the source for the topic by name. If the topic exists, the partition is
    copied again.

    Args:
        config: the pipeline.
        ownership: writes what is recorded of them.
        status: the driver's: partitions with records that were not copied are stopped there.
        notifier: reports failures to write.
    """

    def __init__(
        self,
        config: PipelineConfig,
        ownership: Ownership,
        status: DriverStatus,
        notifier: ThrottledNotifier,
    ) -> None:
        self._listed = config.topics.names
        self._continues = config.on_source_data_loss == "continue"
        self._ownership, self._status = ownership, status
        self._stopped, self._notifier = status.stopped, notifier
        self._records: dict[SourcePartition, DeletedLog] = {}
        self._suspected: set[SourcePartition] = set()
        self._unsettled: set[SourcePartition] = set()
        self._settled: set[SourcePartition] = set()
        self._ends: dict[SourcePartition, int] = {}
        self._not_before = 0.0

    def __contains__(self, source: SourcePartition) -> bool:
        if not (self._suspected or self._unsettled or self._settled):
            return False
        return source in self._suspected or source in self._unsettled or source in self._settled

    @property
    def pending(self) -> bool:
        """Whether it is undecided for some partitions if all of their records were copied."""
        return bool(self._suspected or self._unsettled)

    def begin(self, recorded: Mapping[SourcePartition, DeletedLog]) -> None:
        """Start with what earlier runs and operators have recorded."""
        self._records = dict(recorded)

    def suspect(self, fault: Fault, bounds: SourceLogBounds | None) -> bool:
        """Set a partition aside whose topic a lap did not find; return whether that was done.

        A topic that the configuration lists by name is never set aside: its fault is reported.
        """
        source = fault.source
        if fault.kind is not FaultKind.GONE or source.topic in self._listed:
            return False
        if bounds is not None:
            self._learn_end(source, bounds.end)
        self._suspected.add(source)
        log.info("%s: its topic was not found by a lap, asking the source", source)
        return True

    def look(
        self,
        deleted: Mapping[SourcePartition, DeletedLog | None],
        existing: Collection[SourcePartition],
        ends: Mapping[SourcePartition, int],
    ) -> None:
        """Take over what a discovery has found.

        Args:
            deleted: partitions of topics that do not exist, with what is recorded of them.
            existing: partitions that can be copied: a topic that was missing may be back.
            ends: last stable offsets, as they were read before.
        """
        self._suspected.clear()
        back = [at for at in (*self._settled, *self._unsettled) if at in existing]
        if back:
            log.info("topics exist again: %s", list_names([str(at) for at in sorted(back)], _NAMES))
        self._stopped.release(back)
        self._settled.difference_update(back)
        self._unsettled.difference_update(back)
        for source, record in deleted.items():
            if record is not None:
                self._records[source] = record.follow(self._records.get(source))
            if source in self._settled:
                self._look_for_acknowledgment(source)
                continue
            self._learn_end(source, ends.get(source, -1))
            self._unsettled.add(source)

    def forget(self, moved: MovedTopics) -> None:
        """Decide nothing about topics that are moved: what they lack was written after the move."""
        for sources in (self._suspected, self._unsettled, self._settled):
            sources.difference_update(moved.of(sources))

    def settle(
        self, slots: Sequence[SlotState], positions: Mapping[SourcePartition, Position]
    ) -> list[SourcePartition]:
        """Decide about partitions without a running lap; return those that all slots can forget.

        While its lap runs, a partition's position may still reach the end. A failure to write is
        reported, and a later call tries again.

        Raises:
            Superseded: another driver has taken over.
        """
        if not self._unsettled or monotonic() < self._not_before:
            return []
        busy = {
            source
            for slot in slots
            if slot.running is not None or slot.broken
            for source in slot.sources
        }
        ready = sorted(self._unsettled - busy)
        if not ready:
            return []
        records = {source: self._judge(source, positions[source]) for source in ready}
        new = [made for at, made in records.items() if made and made != self._records.get(at)]
        if new and not self._write(new):
            return []
        copied = []
        for source, record in records.items():
            log.info(
                "%s deleted on the source: copied up to %d, last seen end %d, %s",
                source,
                positions[source].offset,
                self._ends.get(source, -1),
                "no longer copied" if record is None else f"{record.lost} offsets not copied",
            )
            if record is not None and not record.acknowledged:
                self._stopped.stop(deleted_fault(source, record))
            else:
                copied.append(source)
        self._unsettled.difference_update(ready)
        self._settled.update(ready)
        if copied:
            self._status.forget(copied)
            self._note([at for at in copied if records[at] is None], positions)
        return ready

    def _judge(self, source: SourcePartition, position: Position) -> DeletedLog | None:
        """Return what is recorded of a partition; None if no record is known to be lost."""
        known = self._records.get(source)
        if known is not None and not known.is_of(position.offset, position.topic_id):
            known = None
        end = self._ends.get(source, -1)
        if known is not None and known.end >= end:
            return known
        if end <= position.offset or self._continues:
            return None
        return DeletedLog(
            source.topic, source.partition, position.offset, end, position.topic_id, now_ms()
        )

    def _write(self, logs: Sequence[DeletedLog]) -> bool:
        try:
            self._ownership.write_deleted(logs)
        except Superseded:
            raise
        except K2kError as error:
            pause_s = self._notifier.report_error(_SUBJECT, error, _RETRY_S)
            self._not_before = monotonic() + pause_s
            return False
        self._notifier.over(_SUBJECT)
        for deleted in logs:
            self._records[SourcePartition(deleted.topic, deleted.partition)] = deleted
        return True

    def _look_for_acknowledgment(self, source: SourcePartition) -> None:
        record = self._records.get(source)
        if source in self._stopped and record is not None and record.acknowledged:
            self._status.forget([source])
            who = f"acknowledged by {record.acknowledged}"
            self._status.report(
                Note(f"{source}: {counted(record.lost, 'offset')} not copied, {who}")
            )

    def _learn_end(self, source: SourcePartition, end: int) -> None:
        self._ends[source] = max(end, self._ends.get(source, -1))

    def _note(
        self, copied: Sequence[SourcePartition], positions: Mapping[SourcePartition, Position]
    ) -> None:
        """Report the deleted topics, by what is known of their last records."""
        behind = {at.topic for at in copied if self._ends.get(at, -1) > positions[at].offset}
        unknown = {at.topic for at in copied if self._ends.get(at, -1) < 0} - behind
        for topics, what in (
            (
                {at.topic for at in copied} - behind - unknown,
                "all records up to the last known end were copied",
            ),
            (behind, "the last records were not copied (onSourceDataLoss: continue)"),
            (unknown, "this run has not seen where they ended"),
        ):
            if topics:
                names = list_names(sorted(topics), _NAMES)
                number = counted(len(topics), "topic")
                self._status.report(
                    Note(f"{number} deleted on the source, no longer copied; {what}: {names}")
                )
