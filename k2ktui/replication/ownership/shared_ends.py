"""Decide when all runs that share a pipeline have copied what the source had at a run's start.

A run knows the progress of its own slots from their drivers, and that of other runs' slots from the
commit topic: a position is committed in one transaction with the records before it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic
from types import MappingProxyType

from k2ktui.engine.deleted_logs import DeletedLog
from k2ktui.engine.ownership.slot_owners import SlotOwners, shared_slot_of
from k2ktui.engine.records.hold import NO_HOLDS, Holds
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import ClusterRefused, ConnectionFailed, TimedOut
from k2ktui.replication.copying.partition_faults import deleted_fault, held_fault
from k2ktui.replication.copying.slot_task import Fault
from k2ktui.replication.ownership.commit_state import CommitState
from k2ktui.replication.reports.events import Event
from k2ktui.replication.reports.notes import ThrottledNotifier

_READ_INTERVAL_S = 1.0
# How often the source is asked for topics that do not reach their ends; twice without a topic, and
# it is deleted. A broker that has just started may know none.
_LOOK_INTERVAL_S = 5.0
_WAITING = "waiting for other runs to catch up"


class SharedEnds:
    """The ends of all partitions at the start of a run; not thread-safe.

    Runs with ``--until-caught-up`` copy each slot up to the end that it has when they take it over.
    Each reads these ends before it takes any slot over. This way, the run that read them first
    never waits for a slot whose owner has stopped at its own, earlier end.

    Partitions at fault are not waited for, nor are those that operators hold, or whose topic was
    moved or deleted since. In this run's own slots, its drivers stop them.

    Args:
        offsets: end offset of each partition that can be copied.
        read: reads what was committed; called on another thread.
        find_deleted: returns which of some topics the source does not have any longer, where a
            pattern selects them; called on that thread, too.
        report: called with notes for the operator.
        clock: monotonic seconds.
        recreated: new topic ids of partitions whose topic was created again and is copied from its
            start; positions in the former topic do not count.
        faults: the partitions that must not be copied.
        continues: whether records that the source has lost are skipped
            (``onSourceDataLoss: continue``).
        holds: returns what operators hold now; never waits.

    Attributes:
        left_faults: once the ends are reached, the faults of partitions in slots that this run has
            not copied.
    """

    def __init__(
        self,
        offsets: Mapping[SourcePartition, int],
        read: Callable[[], CommitState],
        find_deleted: Callable[[Collection[str]], Collection[str]],
        report: Callable[[Event], None],
        clock: Callable[[], float] = monotonic,
        *,
        recreated: Mapping[SourcePartition, str] = MappingProxyType({}),
        faults: Collection[Fault] = (),
        continues: bool = False,
        holds: Callable[[], Holds] = lambda: NO_HOLDS,
    ) -> None:
        self._offsets, self._recreated = offsets, recreated
        self._faults, self._continues, self._holds = faults, continues, holds
        self._read, self._clock = read, clock
        self._find_deleted = find_deleted
        self._notifier = ThrottledNotifier(report, clock)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ends")
        self._reading: Future[CommitState] | None = None
        self._read_at = -_READ_INTERVAL_S
        self._looked_at = -_LOOK_INTERVAL_S
        # Written by the thread: topics that were missing in the last look, and in two in turn.
        self._missing: frozenset[str] = frozenset()
        self._deleted: frozenset[str] = frozenset()
        self._behind: frozenset[str] = frozenset()
        self.left_faults: tuple[Fault, ...] = ()

    def are_reached(self, own: str, owners: SlotOwners, reached: Collection[int]) -> bool:
        """Return whether every partition has reached its end; never waits for a cluster.

        Args:
            own: id of this run.
            owners: who owns which slot.
            reached: the slots that this run has copied up to their ends.
        """
        if not owners.slots or owners.of(own) - set(reached):
            return False
        slots = owners.slots
        faults = [f for f in self._faults if shared_slot_of(f.source, slots) not in reached]
        at_fault = {fault.source for fault in faults}
        others = [s for s in self._offsets if shared_slot_of(s, slots) not in reached]
        lost = self._find_lost([s for s in others if s not in at_fault])
        if lost is None:
            return False
        self.left_faults = (*faults, *lost)
        return True

    def _find_lost(self, sources: Collection[SourcePartition]) -> list[Fault] | None:
        """Return the faults of those that are held, or deleted; None while others are behind."""
        if not sources:
            return []
        committed = self._read_committed()
        if committed is None:
            return None
        positions = committed.positions
        behind = [s for s in sources if not self._is_at(s, positions.get(s))]
        # Nobody copies topics that a drill has moved since.
        behind = [source for source in behind if source.topic not in committed.moved]
        holds = self._holds()
        held = {s: hold for s in behind if (hold := holds.of(s.topic, s.partition)) is not None}
        behind = [source for source in behind if source not in held]
        waiting = [s for s in behind if s.topic not in self._deleted]
        if waiting:
            self._behind = frozenset(source.topic for source in behind)
            self._notifier.report(_WAITING, f"{min(waiting)} has not reached its end offset")
            return None
        lost = (self._loss(s, positions.get(s), committed.deleted.get(s)) for s in behind)
        offsets = {source: at.offset for source in held if (at := positions.get(source))}
        return [
            *(held_fault(source, hold, offsets.get(source, 0)) for source, hold in held.items()),
            *(fault for fault in lost if fault is not None),
        ]

    def _is_at(self, source: SourcePartition, position: Position | None) -> bool:
        """Return whether a committed position is at the partition's end, or after it."""
        if position is None or position.offset < self._offsets[source]:
            return False
        return position.topic_id == self._recreated.get(source, position.topic_id)

    def _loss(
        self, source: SourcePartition, position: Position | None, recorded: DeletedLog | None
    ) -> Fault | None:
        """Return the fault of a partition whose topic was deleted before it reached its end.

        None if an operator has acknowledged the loss, or set ``onSourceDataLoss: continue``.
        """
        if position is None or self._continues or self._is_at(source, position):
            return None
        if recorded is None or not recorded.is_of(position.offset, position.topic_id):
            end = max(position.offset, self._offsets[source])
            recorded = DeletedLog(
                source.topic, source.partition, position.offset, end, position.topic_id
            )
        return None if recorded.acknowledged else deleted_fault(source, recorded)

    def close(self) -> None:
        """Wait until the thread has ended."""
        self._thread.shutdown()

    def _look(self) -> CommitState:
        """Read what was committed, after asking for topics that are behind; on the thread."""
        if self._behind and self._clock() - self._looked_at >= _LOOK_INTERVAL_S:
            self._looked_at = self._clock()
            missing = frozenset(self._find_deleted(self._behind))
            self._deleted, self._missing = missing & self._missing, missing
        return self._read()

    def _read_committed(self) -> CommitState | None:
        """Return what was read since the last call; None if there is nothing yet."""
        if self._reading is None:
            if self._clock() - self._read_at >= _READ_INTERVAL_S:
                self._reading, self._read_at = self._thread.submit(self._look), self._clock()
            return None
        if not self._reading.done():
            return None
        reading, self._reading = self._reading, None
        try:
            return reading.result()
        except (ConnectionFailed, TimedOut, ClusterRefused) as error:
            self._notifier.report(_WAITING, error.message)
            return None
