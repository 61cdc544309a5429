"""The status of a run: its drivers write it; heartbeats, metrics and probes read it.

Each driver writes the part of what it copies: the whole pipeline, or one slot of a pipeline that
runs share. What concerns the whole run is summed over the parts when it is read. Any thread may
read, and any may write: one lock guards all parts. Whoever takes reports may wait: another lock
keeps those of several drivers in order, and no reader waits for it.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic, time

from k2ktui.engine.records.moved_topic import NO_MOVED_TOPICS, MovedTopics
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.engine.status import HeldBack, sum_lags
from k2ktui.replication.copying.partition_reader import now_ms
from k2ktui.replication.copying.slot_task import (
    Fault,
    FaultKind,
    LapOutcome,
    SlotResult,
    SlotStats,
    SourceLogBounds,
)
from k2ktui.replication.reports.events import (
    Event,
    Finished,
    FirstRecord,
    Note,
    Progress,
    Rehearsed,
    Report,
    SlotsAssigned,
    Started,
    Stopped,
    Trouble,
)
from k2ktui.replication.reports.stopped import StoppedPartitions
from k2ktui.text import counted, safe_message, safe_text

log = logging.getLogger(__name__)

PROGRESS_S = 5.0
"""Seconds between two progress reports where laps are short, or many slots have laps."""
# Drivers of several slots find the same at about the same time.
_SAME_NOTE_S = 10.0
_PROBLEM_CHARS = 500


@dataclass(slots=True)
class PartitionFigures:
    """Figures of one source partition; None is unknown.

    Attributes:
        labels: those of its points.
        position: as committed on the target.
        log_bounds: bounds of its log at the end of its last lap, when it was at ``position``.
        at: the end of that lap, epoch seconds.
        start, end: log start offset, if it is held, and last stable offset, as last discovered.
        held_back: source offsets that an open transaction holds back.
        is_held: whether an operator holds it.
    """

    labels: Mapping[str, str | int]
    position: Position | None = None
    log_bounds: SourceLogBounds | None = None
    at: float | None = None
    start: int | None = None
    end: int | None = None
    held_back: int | None = None
    is_held: bool = False


@dataclass(slots=True)
class SlotFigures:
    """Figures of one slot: the sum of all its laps in ``stats``, and of the last one the times.

    ``ended_at`` is the end of its last lap in epoch seconds, 0 if it had none.
    """

    stats: SlotStats = field(default_factory=SlotStats)
    laps: Counter[LapOutcome] = field(default_factory=Counter)
    seconds: float | None = None
    pause_s: float | None = None
    ended_at: float = 0.0


class RunStatus:
    """What is known of one run.

    Args:
        pipeline: its name.
        report: called with every report, from several threads.
        began_at: epoch seconds of the request to run; now, unless it was before.
        progress_s: minimum seconds between two progress reports.
        is_ending: returns whether the run was requested to stop.
        clock: epoch seconds.

    Attributes:
        lock: guards all that several threads use.
        reporting: is held while a driver reports; to be taken before ``lock``.
        drivers: the part of each driver by its slot; None is that of a whole pipeline.
        keeps_rows: whether drivers keep figures of each partition: only metrics read them.
        slots: figures of each slot that the run has or had.
        term: that of the last takeover; 0 before.
        ready_s, first_s: seconds until it had taken over, and until its first record was visible.
        progress: the last report of it.
        faults_seen: how often a partition stopped.
        generation, owned: the last owners of slots that runs share, and which are this run's; None
            if it shares none.
        records: number of records that were copied.
        rehearsed: the last rehearsal of a failover.
        pair_state: where the workload is, or goes, by the drills on the target; "" if unknown.
        mappings_expire_at: epoch seconds at which the first mapping that a consumer group needs
            expires; None if none is needed or expires, or if it is not known.
    """

    def __init__(
        self,
        pipeline: str,
        report: Callable[[Report], None],
        began_at: float | None = None,
        *,
        progress_s: float = 0.0,
        is_ending: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time,
    ) -> None:
        self.pipeline, self._report, self.clock = pipeline, report, clock
        self.began_at = clock() if began_at is None else began_at
        self.is_ending, self._progress_s = is_ending, progress_s
        self.lock, self.reporting = threading.RLock(), threading.RLock()
        self.drivers: dict[int | None, DriverStatus] = {}
        self.keeps_rows = True
        self.slots: dict[int, SlotFigures] = {}
        self.term = 0
        self.ready_s: float | None = None
        self.first_s: float | None = None
        self.progress: Progress | None = None
        self.faults_seen: Counter[FaultKind] = Counter()
        self.generation = 0
        self.owned: tuple[int, ...] | None = None
        self.records = 0
        self.rehearsed: Rehearsed | None = None
        self.pair_state = ""
        self.mappings_expire_at: float | None = None
        self._is_incomplete = False
        self._troubles = _Troubles()
        self._notes: dict[str, tuple[int | None, float]] = {}
        self._beat_at = self._progress_at = monotonic()
        # Since the last progress report: the laps of all slots, and which slots ended one.
        self._stats, self._pause_s, self._ended = SlotStats(), 0.0, set[int]()

    def add_driver(self, slot: int | None = None) -> DriverStatus:
        """Return the part of a new driver: of a slot, or of the whole pipeline.

        Until it has taken over, it has nothing.
        """
        with self.lock:
            began_at = self.began_at if slot is None else self.clock()
            driver = self.drivers[slot] = DriverStatus(self, slot, began_at)
            if slot in self.slots:
                self.slots[slot].ended_at = 0.0  # another run may have had it meanwhile
        return driver

    def report(self, event: Event) -> None:
        """Take an event that is not of a driver."""
        if isinstance(event, Trouble):
            with self.lock:
                self._troubles.take(event)
        elif isinstance(event, SlotsAssigned):
            with self.lock:
                self.generation, self.owned = event.generation, event.slots
                self.add_slots(event.slots)
        else:
            self._report(event)

    @contextmanager
    def updating(self) -> Iterator[None]:
        """Hold the lock for figures; a defect in them must not stop replication, and is noted."""
        text = ""
        with self.lock:
            try:
                yield
            except Exception as error:
                text = self.take_defect(error)
        if text:
            with self.reporting:
                self._report(Note(text))

    def take_defect(self, error: Exception) -> str:
        """Log a defect in the figures; return the note on the first one, "" for others."""
        level = logging.DEBUG if self._is_incomplete else logging.WARNING
        log.log(level, "the status is incomplete", exc_info=error)
        if self._is_incomplete:
            return ""
        self._is_incomplete = True
        return f"status: incomplete, {type(error).__name__}: {safe_text(error)} (the run continues)"

    def add_slots(self, numbers: Iterable[int]) -> None:
        """Let slots have figures, which are zero at first."""
        for number in numbers:
            self.slots.setdefault(number, SlotFigures())

    @property
    def slots_taken(self) -> int:
        """Number of slots that its drivers have taken over."""
        with self.lock:
            return sum(driver.slots for driver in self.drivers.values())

    @property
    def slots_owned(self) -> int | None:
        """Number of slots that it has, or takes over; None before the first one."""
        if not self.term:
            return None
        return self.slots_taken if self.owned is None else len(self.owned)

    @property
    def partitions(self) -> int:
        """Number of source partitions that its drivers can copy."""
        with self.lock:
            return sum(driver.copied for driver in self.drivers.values())

    @property
    def lag_records(self) -> int | None:
        """Source offsets that were not copied when its drivers last discovered; None if unknown."""
        with self.lock:
            return sum_lags(driver.lag_records for driver in self.drivers.values())

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The partitions that had stopped when their drivers ended, without released slots."""
        with self.lock:
            return tuple(fault for driver in self.drivers.values() for fault in driver.faults)

    def problem(self) -> tuple[str, int]:
        """Return what keeps records from being copied, and since when (epoch milliseconds).

        Of several problems, it is the one that has lasted longest; the text says how many others
        there are. One that keeps no record from being copied has the time 0, and comes last.
        """
        with self.lock:
            known = [
                *(stop for driver in self.drivers.values() for stop in driver.stopped.problems()),
                *(last for driver in self.drivers.values() for last in driver.troubles.lasting()),
                *self._troubles.lasting(),
            ]
        text, since_ms = min(known, key=lambda one: (not one[1], one[1]), default=("", 0))
        others = len(known) - 1
        more = f" (and {counted(others, 'other problem')})" if others > 0 else ""
        return safe_message(text, _PROBLEM_CHARS) + more, since_ms

    def beat(self) -> None:
        """Take note of a heartbeat that was written."""
        self._beat_at = monotonic()

    @property
    def silent_s(self) -> float:
        """Seconds since the last heartbeat was written, or since there is a run."""
        return monotonic() - self._beat_at

    def start(self, driver: DriverStatus) -> Started:
        """Return what the run has taken over, with a driver that has just done so."""
        with self.lock:
            is_more = self.term > 0
            if not is_more:
                self._progress_at = monotonic()
            self.term = max(other.term for other in self.drivers.values())
            self.ready_s = self.clock() - (driver.began_at if is_more else self.began_at)
            slots = self.slots_taken
            partitions = sum(other.copied for other in self.drivers.values() if other.slots)
            return Started(self.pipeline, self.term, slots, partitions, self.ready_s, is_more)

    def end_lap(self, number: int, result: SlotResult | None) -> None:
        """Add a slot's result; None if its task was lost. Without times, its worker never began."""
        with self.updating():
            slot = self.slots.setdefault(number, SlotFigures())
            self._ended.add(number)
            has_times = result is not None and result.began_at > 0
            slot.laps[result.outcome if result and has_times else LapOutcome.FAILED] += 1
            slot.seconds = result.ended_at - result.began_at if result and has_times else None
            slot.pause_s = None
            if result is None:
                return
            if slot.ended_at and has_times:
                slot.pause_s = result.began_at - slot.ended_at
                self._pause_s = max(self._pause_s, slot.pause_s)
            slot.ended_at = result.ended_at
            slot.stats, self._stats = slot.stats.plus(result.stats), self._stats.plus(result.stats)

    def count_records(self, result: SlotResult) -> FirstRecord | None:
        """Count the records of a slot's result."""
        with self.lock:
            self.records += result.stats.records
            if self.first_s is not None or not (result.first_commit_at and result.stats.records):
                return None
            self.first_s = result.first_commit_at - self.began_at
            return FirstRecord(self.first_s)

    def report_progress(self, running: Collection[int]) -> None:
        """Report progress, if each running slot of a driver has ended a lap since the last time."""
        is_early = monotonic() - self._progress_at < self._progress_s
        if not is_early and self._ended and self._ended.issuperset(running):
            self._report(self._take_progress())

    def report_rest(self) -> None:
        """Report the progress of records that no report has."""
        if self._stats.records:
            self._report(self._take_progress())

    def _take_progress(self) -> Progress:
        with self.lock:
            now, stats, last = monotonic(), self._stats, self.progress
            self.progress = Progress(
                lap=last.lap + 1 if last else 1,
                seconds=now - self._progress_at,
                records=stats.records,
                written_bytes=stats.written_bytes,
                rebuilt=stats.rebuilt,
                transactions=stats.transactions,
                commit_s=stats.commit_s,
                cpu_s=stats.cpu_s,
                pause_s=self._pause_s,
                partitions=self.partitions,
                stopped=sum(len(driver.stopped) for driver in self.drivers.values()),
                lag_records=self.lag_records,
            )
            self._stats, self._pause_s, self._progress_at = SlotStats(), 0.0, now
            self._ended.clear()
            return self.progress

    def is_new(self, slot: int | None, text: str) -> bool:
        """Return whether no driver of another slot has just reported the same note."""
        with self.lock:
            now = monotonic()
            self._notes = {t: at for t, at in self._notes.items() if now - at[1] < _SAME_NOTE_S}
            before = self._notes.get(text)
            if before is not None and before[0] != slot:
                return False
            self._notes[text] = slot, now
            return True


class DriverStatus:
    """The part of a run's status that one driver writes; ``RunStatus.add_driver`` makes it.

    Attributes:
        began_at: epoch seconds of the request to copy it.
        stopped: the partitions that stopped.
        partitions: figures of those that it can copy, and of stopped ones.
        copied: number of those that it can copy.
        term, slots: of its takeover; 0 before, and when it has released them.
        lag_records: source offsets that were not copied at the last discovery, without what is
            held; None if unknown.
        moved: source topics that drills moved to the target.
        troubles: what lasts.
        faults: the partitions that had stopped when it ended.
        is_over: whether it has ended, and writes and reports no more.
    """

    def __init__(self, run: RunStatus, slot: int | None, began_at: float) -> None:
        self._run, self._slot, self.began_at = run, slot, began_at
        self.stopped = StoppedPartitions(self.report, run.lock)
        self.partitions: dict[SourcePartition, PartitionFigures] = {}
        self.copied = self.term = self.slots = 0
        self.lag_records: int | None = None
        self.moved: MovedTopics = NO_MOVED_TOPICS
        self.troubles = _Troubles()
        self.faults: tuple[Fault, ...] = ()
        self.is_over = False

    @property
    def records(self) -> int:
        """Number of records that the run has copied."""
        return self._run.records

    def report(self, event: Event) -> None:
        """Take an event of the driver."""
        run = self._run
        with run.reporting:
            with run.lock:
                if self.is_over:
                    return
                if isinstance(event, Trouble):
                    self.troubles.take(event)
                    return
                if isinstance(event, Stopped):
                    run.faults_seen[event.fault.kind] += 1
                elif isinstance(event, Note) and not run.is_new(self._slot, event.text):
                    return
            run.report(event)

    def start(self, term: int, slots: int) -> None:
        """Report the takeover: of the pipeline's term, with so many slots."""
        run = self._run
        with run.reporting:
            with run.lock:
                if self.is_over:
                    return
                self.term, self.slots = term, slots
                run.add_slots(range(slots) if self._slot is None else (self._slot,))
                started = run.start(self)
            run.report(started)

    def discover(
        self,
        partitions: Collection[SourcePartition],
        positions: Mapping[SourcePartition, Position],
        ends: Mapping[SourcePartition, int],
        *,
        held_back: Mapping[SourcePartition, HeldBack] = {},
        starts: Mapping[SourcePartition, int] = {},
        lag_records: int | None = None,
        held: Collection[SourcePartition] = frozenset(),
        moved: MovedTopics = NO_MOVED_TOPICS,
    ) -> None:
        """Take what topic discovery has read.

        Args:
            partitions: those that can be copied.
            positions: those of the last ended laps.
            ends: last stable offsets; a partition without a leader has none.
            held_back: what open transactions hold back above them.
            starts: log start offsets of what is held.
            lag_records: from the positions that were committed when the ends were read, without
                what is held; None if unknown.
            held: the partitions that operators hold.
            moved: source topics that a drill has moved, whose partitions are left out.
        """
        # Some may have stopped since their topics were moved.
        self.forget([source for source in self.stopped.kinds() if source.topic in moved])
        with self._run.updating():
            self.copied, self.lag_records, self.moved = len(partitions), lag_records, moved
            if not self._run.keeps_rows:
                return
            for source in partitions:
                row = self._row(source)
                if source in ends:
                    row.end, by = ends[source], held_back.get(source)
                    row.held_back = by.records if by else 0
                row.is_held = source in held
                row.start = starts.get(source, row.start)
                row.position = positions.get(source, row.position)
            for source in self.partitions.keys() - partitions - self.stopped.kinds().keys():
                del self.partitions[source]

    def end_lap(self, number: int, result: SlotResult | None) -> None:
        """Add the result of a lap of a slot; None if its task was lost."""
        run = self._run
        with run.reporting:
            if self.is_over:
                return
            first = run.count_records(result) if result is not None else None
            run.end_lap(number, result)
            if result is not None and result.outcome is LapOutcome.DONE and result.began_at:
                self._move(result)
            if first is not None:
                run.report(first)

    def _move(self, result: SlotResult) -> None:
        with self._run.updating():
            if not self._run.keeps_rows:
                return
            now = self._run.clock()
            for source, position in result.positions.items():
                row = self._row(source)
                row.position, row.log_bounds = position, result.log_bounds.get(source)
                row.at = now

    def report_progress(self, running: Collection[int]) -> None:
        """Report progress, if each of its running slots has ended a lap since the last time."""
        with self._run.reporting:
            if not self.is_over:
                self._run.report_progress(running)

    def forget(self, sources: Collection[SourcePartition]) -> None:
        """Forget partitions that it copies no longer."""
        with self._run.updating():
            for source in sources:
                self.partitions.pop(source, None)
        for source in sources:
            self.stopped.clear(source)

    def finish(self, finished: Finished) -> None:
        """Take the driver's result; that of a whole pipeline is the run's, and reported."""
        self.faults = finished.faults
        if self._slot is None:
            with self._run.reporting:
                self._run.report_rest()
                self._run.report(finished)

    def end(self, *, reached: bool = False) -> None:
        """Take note that the driver of a slot has ended; later calls have no effect.

        What it has copied is another run's then, unless it has ``reached`` its end, or the run
        ends.
        """
        run = self._run
        with run.reporting:
            with run.lock:
                if self.is_over:
                    return
                self.is_over = True
                self.troubles = _Troubles()
                if not reached:
                    self.slots = 0
                    if not run.is_ending() and run.drivers.get(self._slot) is self:
                        del run.drivers[self._slot]
                is_last = all(driver.is_over for driver in run.drivers.values())
            if is_last:
                run.report_rest()

    def _row(self, source: SourcePartition) -> PartitionFigures:
        row = self.partitions.get(source)
        if row is None:
            name, topic, partition = self._run.pipeline, source.topic, source.partition
            row = PartitionFigures({"pipeline": name, "topic": topic, "partition": partition})
            self.partitions[source] = row
        return row


class _Troubles:
    """What lasts, by subject, with the epoch milliseconds since when; 0 if it blocks no record."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, int]] = {}

    def take(self, trouble: Trouble) -> None:
        """Take a trouble, or its end; the time of one that changes its text stays."""
        before = self._known.pop(trouble.subject, None)
        if trouble.text:
            since_ms = before[1] if before else now_ms()
            self._known[trouble.subject] = trouble.text, since_ms if trouble.blocks else 0

    def lasting(self) -> Iterable[tuple[str, int]]:
        """Return the texts and times."""
        return self._known.values()
