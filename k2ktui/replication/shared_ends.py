"""Whether all runs that share a pipeline have copied what the source had when one of them started.

A run knows of its own slots from their drivers. Of the slots of other runs, the commit topic says
so: a position is committed in one transaction with the records before it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic

from k2ktui.engine.slot_owners import SlotOwners, shared_slot_of
from k2ktui.engine.state import Position, SourcePartition
from k2ktui.errors import ClusterRefused, ConnectionFailed, TimedOut
from k2ktui.replication.events import Event
from k2ktui.replication.progress import ThrottledNotifier
from k2ktui.replication.slot_task import Fault

_READ_INTERVAL_S = 1.0
_WAITING = "waiting for other runs to catch up"


@dataclass(frozen=True)
class PipelineEnds:
    """What was there when a run started.

    Attributes:
        offsets: end offset of each partition that can be copied.
        recreated: topic ids of the partitions whose topic was created again, and is to be copied
            from its start: a position of the topic before says nothing.
        faults: the partitions that must not be copied.
    """

    offsets: Mapping[SourcePartition, int]
    recreated: Mapping[SourcePartition, str] = field(default_factory=dict)
    faults: tuple[Fault, ...] = ()

    def are_at(self, source: SourcePartition, position: Position | None) -> bool:
        """Return whether a committed position is at the partition's end, or after it."""
        if position is None or position.offset < self.offsets[source]:
            return False
        return position.topic_id == self.recreated.get(source, position.topic_id)


class SharedEnds:
    """The ends of all partitions at the start of a run; not thread-safe.

    Runs with ``--until-caught-up`` copy each slot up to the end that it has when they take it over.
    Each reads these ends before it takes any slot over. So the one that has read them first never
    waits for slots in which another one copies no further.

    Partitions at fault are not waited for. In this run's own slots, its drivers stop them.

    Args:
        ends: what was there when the run started.
        read: returns the committed positions of the whole pipeline; called on another thread.
        report: called with notes for the operator.
        clock: monotonic seconds.

    Attributes:
        left_faults: once the ends are reached, the faults of partitions in slots that this run has
            not copied.
    """

    def __init__(
        self,
        ends: PipelineEnds,
        read: Callable[[], Mapping[SourcePartition, Position]],
        report: Callable[[Event], None],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._ends, self._read, self._clock = ends, read, clock
        self._notifier = ThrottledNotifier(report, clock)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ends")
        self._reading: Future[Mapping[SourcePartition, Position]] | None = None
        self._read_at = -_READ_INTERVAL_S
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
        faults = [f for f in self._ends.faults if shared_slot_of(f.source, slots) not in reached]
        at_fault = {fault.source for fault in faults}
        left = [s for s in self._ends.offsets if shared_slot_of(s, slots) not in reached]
        if not self._are_committed([s for s in left if s not in at_fault]):
            return False
        self.left_faults = tuple(faults)
        return True

    def _are_committed(self, sources: Collection[SourcePartition]) -> bool:
        if not sources:
            return True
        positions = self._read_positions()
        if positions is None:
            return False
        behind = [s for s in sources if not self._ends.are_at(s, positions.get(s))]
        if behind:
            self._notifier.report(_WAITING, f"{min(behind)} has not reached its end offset")
        return not behind

    def close(self) -> None:
        """Wait until the thread has ended."""
        self._thread.shutdown()

    def _read_positions(self) -> Mapping[SourcePartition, Position] | None:
        """Return the positions that were read since the last call; None if there are none yet."""
        if self._reading is None:
            if self._clock() - self._read_at >= _READ_INTERVAL_S:
                self._reading, self._read_at = self._thread.submit(self._read), self._clock()
            return None
        if not self._reading.done():
            return None
        reading, self._reading = self._reading, None
        try:
            return reading.result()
        except (ConnectionFailed, TimedOut, ClusterRefused) as error:
            self._notifier.report(_WAITING, error.message)
            return None
