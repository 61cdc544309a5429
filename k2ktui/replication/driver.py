"""The driver: starts the laps of all slots and recovers after failures.

Each lap of a slot is a separate Spark job, so a failed slot resumes at once while the others
continue, and the slots do not pause between laps at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from time import monotonic, time

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.state import Position, SourcePartition
from k2ktui.errors import ConnectionFailed, K2kError, TimedOut
from k2ktui.replication.commit_state import CommitState, adopt_positions
from k2ktui.replication.copying.failpoints import failpoint
from k2ktui.replication.discovery import TopicDiscovery, TopicSnapshot
from k2ktui.replication.epochs import Contested
from k2ktui.replication.events import (
    Event,
    Finished,
    Note,
    Started,
)
from k2ktui.replication.fencing import TransactionFencer
from k2ktui.replication.fencing_errors import Superseded, TransactionUnfinished
from k2ktui.replication.held_back import HeldBackWatch
from k2ktui.replication.isolation import UnfinishedTransactions
from k2ktui.replication.laps import LapPlanner
from k2ktui.replication.loss import LossRecorder
from k2ktui.replication.progress import ProgressReporter, ThrottledNotifier
from k2ktui.replication.slot_task import (
    Assignment,
    Fault,
    FaultKind,
    LapOutcome,
    SlotResult,
)
from k2ktui.replication.slots import SlotState, choose_slot
from k2ktui.replication.spark import SparkEnded, SparkRuntime
from k2ktui.replication.stopped import StoppedPartitions
from k2ktui.runtime.stop_flag import StopFlag

_TICK_S = 0.2
_SURVEY_EVERY_S = 5.0
_LOST_IN_A_ROW = 3
_TAKE_OVER_RETRY_S = 1.0
_LOOK = "looking for new topics"
_TAKE_OVER = "taking over"
_LOST = frozenset({FaultKind.TRUNCATED, FaultKind.DIVERGED})


class Driver:
    """Runs one pipeline until stopped, or until caught up.

    Args:
        spark: runs the laps; started by the caller.
        report: called with every event, from the driver's thread.
        mapping_partitions: partitions of the mapping topic, 0 without offset mapping.
        until_caught_up: end when every partition has reached the end it had at the start.
        began_at: epoch seconds of the request to run.
    """

    def __init__(
        self,
        config: PipelineConfig,
        fencer: TransactionFencer,
        spark: SparkRuntime,
        surveyor: TopicDiscovery,
        report: Callable[[Event], None],
        *,
        mapping_partitions: int,
        until_caught_up: bool = False,
        began_at: float | None = None,
    ) -> None:
        self._config = config
        self._fencer = fencer
        self._spark = spark
        self._surveyor = surveyor
        self._report = report
        self._until_caught_up = until_caught_up
        self._continue = config.on_source_data_loss == "continue"
        self._stopping = StopFlag()
        self._began_at = began_at or time()
        self._positions: dict[SourcePartition, Position] = {}
        self._stopped = StoppedPartitions(report)
        self._limits: dict[SourcePartition, int] = {}
        self._until: dict[SourcePartition, int] = {}
        self._survey = TopicSnapshot()
        self._noted: set[str] = set()
        self._slots: list[SlotState] = []
        self._progress_reporter = ProgressReporter(report, self._began_at)
        self._troubles = ThrottledNotifier(report)
        self._loss = LossRecorder(fencer, report, self._troubles)
        self._laps = LapPlanner(config, fencer, mapping_partitions)
        self._held_back = HeldBackWatch(report)
        self._unfinished = UnfinishedTransactions(fencer, self._laps, self._stopped, report)

    def stop(self) -> None:
        """Request a stop and return at once; called from signal handlers and other threads."""
        self._stopping.set()

    def run(self, slots: int) -> Finished:
        """Take over the pipeline and copy.

        Raises:
            Superseded: another driver took over.
            SparkEnded: Spark has ended and could not be restarted.
            K2kError: the pipeline could not start; nothing was copied.
        """
        books = self._take_over(slots)
        if books is None:
            return self._finish()
        self._positions = dict(books.positions)
        if books.malformed:
            ignored = "are not in k2ktui's format and were ignored"
            self._report(Note(f"{books.malformed} records of {self._fencer.topic.name} {ignored}"))
        self._slots = [SlotState(number, number) for number in range(slots)]
        self._unfinished.begin(self._slots)
        self._learn(self._surveyor.survey(self._positions))
        if self._until_caught_up:
            self._until = self._survey.every_end()
        self._report(
            Started(
                self._config.name,
                self._fencer.run.term,
                slots,
                len(self._survey.routes),
                time() - self._began_at,
            )
        )
        with ThreadPoolExecutor(1, thread_name_prefix="discovery") as pool:
            self._loop(pool)
        return self._finish()

    def _take_over(self, slots: int) -> CommitState | None:
        """Take over; wait while a task of an earlier driver may still write. None if stopped."""
        while not self._stopping.is_set():
            try:
                return self._fencer.take_over(slots)
            except TransactionUnfinished as error:
                self._troubles.report(_TAKE_OVER, error.message)
                self._stopping.wait(_TAKE_OVER_RETRY_S)
        return None

    def _loop(self, pool: ThreadPoolExecutor) -> None:
        looking: Future[TopicSnapshot] | None = None
        next_look = monotonic() + _SURVEY_EVERY_S
        self._progress_reporter.begin()
        while not self._stopping.is_set():
            if self._fencer.must_take_over:
                self._take_over_again()
            self._loss.record(len(self._slots), self._positions)
            self._unfinished.resume(self._positions)
            for slot in self._slots:
                self._start_lap(slot)
            running = [slot.running for slot in self._slots if slot.running is not None]
            if self._until_caught_up and not running and self._all_reached():
                return
            if running:
                wait(running, timeout=_TICK_S, return_when=FIRST_COMPLETED)
            else:
                self._stopping.wait(_TICK_S / 4)
            for slot in self._slots:
                if slot.running is None:
                    continue
                if slot.running.done():
                    self._end_lap(slot, slot.running)
                elif monotonic() >= slot.deadline:
                    self._give_up_lap(slot, slot.running)
            if looking is None and monotonic() >= next_look:
                looking = pool.submit(self._surveyor.survey, dict(self._positions))
            if looking is not None and looking.done():
                self._finish_discovery(looking)
                looking, next_look = None, monotonic() + _SURVEY_EVERY_S

    def _finish_discovery(self, looking: Future[TopicSnapshot]) -> None:
        try:
            self._learn(looking.result())
        except Superseded:
            raise
        except K2kError as error:
            self._troubles.report(_LOOK, error.message)
        else:
            self._troubles.over(_LOOK)

    def _learn(self, survey: TopicSnapshot) -> None:
        """Apply a snapshot: start new partitions, stop changed ones, assign them to slots."""
        self._survey = survey
        for note in [note for note in survey.notes if note not in self._noted]:
            self._noted.add(note)
            self._report(Note(note))
        reborn = survey.reborn if self._continue else {}
        for fault in survey.faults:
            if fault.source not in reborn:
                self._stopped.stop(fault)
        begun = {s: p for s, p in survey.begin.items() if s not in self._positions}
        if reborn:
            self._fencer.begin_term(len(self._slots))
            names = ", ".join(sorted({source.topic for source in reborn}))
            self._report(Note(f"{names}: created again on the source; copied from the start"))
        if begun or reborn:
            self._begin({**begun, **reborn})
        known = {source for slot in self._slots for source in slot.sources}
        known |= self._unfinished.sources
        for source in sorted(survey.routes.keys() - known):
            loads = [len(slot.sources) for slot in self._slots]
            at = choose_slot(
                loads, survey.routes[source].path, spread=bool(self._config.spark.slots)
            )
            slot, position = self._slots[at], self._positions.get(source)
            if self._unfinished.admit(slot, source, survey.routes[source], position):
                slot.sources.append(source)
        for fault in self._held_back.look(survey.held_back, self._positions, self._until):
            self._stopped.stop(fault)
        self._report(survey.event(self._positions))

    def _begin(self, begun: Mapping[SourcePartition, Position]) -> None:
        """Write the start positions of partitions before any of their records is copied."""
        term = self._fencer.run.term
        stamped = {s: replace(p, term=term, since=term) for s, p in begun.items()}
        self._fencer.write_positions(stamped)
        self._positions.update(stamped)
        for source in stamped:
            self._stopped.clear(source)

    def _start_lap(self, slot: SlotState) -> None:
        now = monotonic()
        if slot.running is not None or now < slot.not_before:
            return
        if not self._until:
            self._stopped.retry(slot.sources)
        assignments = [a for source in slot.sources if (a := self._assignment(source)) is not None]
        if not assignments:
            return
        try:
            if slot.broken:
                self._believe_target(slot)
                return
            token = self._laps.token(slot, tuple(assignments))
        except Contested:
            slot.broken = True  # read its positions before its next lap
            return
        except (ConnectionFailed, TimedOut) as error:
            self._postpone(slot, error)
            return
        slot.lost = False
        failpoint("token")
        slot.running = self._spark.submit([token])
        slot.deadline = monotonic() + self._laps.longest_s

    def _assignment(self, source: SourcePartition) -> Assignment | None:
        position, route = self._positions.get(source), self._survey.routes.get(source)
        if position is None or route is None or source in self._stopped or source in self._loss:
            return None
        until = self._until.get(source) if self._until_caught_up else None
        if self._until_caught_up and (until is None or position.offset >= until):
            return None
        if source in self._limits:
            route = replace(route, batch_limit=self._limits[source])
        return Assignment(source, position, route, until)

    def _end_lap(self, slot: SlotState, future: Future[list[SlotResult]]) -> None:
        slot.running = None
        error = future.exception()
        if isinstance(error, SparkEnded):
            raise error
        result = None if error else future.result()[0]
        self._progress_reporter.lap_ended(slot.number, result)
        if result is not None and result.outcome is LapOutcome.DONE:
            self._positions.update(result.positions)
            slot.failures = 0
            self._troubles.over(slot.name)
            again = {fault.source for fault in result.faults}
            self._stopped.copied(result.positions.keys() - again)
        else:
            told = str(error) if error else result.error if result else ""
            reason = told.partition("\n")[0]  # what happened; below it is what to do
            slot.lost = error is not None
            self._recover(slot, reason, lost=error is not None)
        for fault in result.faults if result else ():
            self._judge(fault)
        if self._progress_reporter.all_ended(
            [s.number for s in self._slots if s.running is not None]
        ):
            self._progress()

    def _give_up_lap(self, slot: SlotState, lap: Future[list[SlotResult]]) -> None:
        """Fence a hung task, cancel its job, and let the slot continue with a new lap."""
        if self._spark.is_waiting(lap):  # for a free core
            slot.deadline = monotonic() + self._laps.longest_s
            return
        slot.running, slot.lost = None, True
        self._spark.give_up(lap)
        self._progress_reporter.lap_ended(slot.number, None)
        reason = (
            f"its task did not end within {self._laps.longest_s:.0f} s; its Spark job was canceled"
        )
        self._recover(slot, reason, lost=True)

    def _take_over_again(self) -> None:
        """Take over again after ownership became unknown, as a starting driver does."""
        for slot in self._slots:
            if slot.running is not None:
                self._spark.give_up(slot.running)
                slot.running = None
        try:
            books = self._fencer.take_over(len(self._slots))
        except (ConnectionFailed, TimedOut) as error:
            self._troubles.report(_TAKE_OVER, error.message)
            self._stopping.wait(_TAKE_OVER_RETRY_S)
            return
        self._troubles.over(_TAKE_OVER)
        self._positions = dict(books.positions)
        self._unfinished.begin(self._slots)
        for slot in self._slots:
            slot.broken = False

    def _recover(self, slot: SlotState, reason: str, *, lost: bool) -> None:
        """After a failed lap: fence what is left of it, and believe only the target."""
        slot.broken = True
        before = slot.offsets(self._positions)
        # Report every lost task, until several laps in a row have failed.
        news = lost and slot.failures < _LOST_IN_A_ROW
        away: K2kError | None = None
        try:
            self._believe_target(slot)
        except (ConnectionFailed, TimedOut) as error:
            away = error
        if slot.offsets(self._positions) != before:
            self._troubles.over(slot.name)
        if not self._stopping.is_set():
            self._troubles.report(
                slot.name, f"{reason}; its positions are read from the target again", news=news
            )
        if away:
            self._postpone(slot, away)

    def _believe_target(self, slot: SlotState) -> None:
        self._fencer.recover(slot.identity)
        slot.lost = False
        failpoint("recovering")
        adopt_positions(self._positions, slot.sources, self._fencer.read())
        slot.broken = False
        slot.failed()

    def _postpone(self, slot: SlotState, error: K2kError) -> None:
        """Back off while the target does not answer; the slot copies nothing meanwhile."""
        slot.broken = True
        if isinstance(error, TransactionUnfinished) and self._unfinished.isolate(
            slot, error, self._survey.routes, self._positions
        ):
            return
        slot.failed()
        self._troubles.report(slot.name, f"waiting for the target cluster: {error.message}")

    def _judge(self, fault: Fault) -> None:
        """Resolve a fault that needs no operator; otherwise stop the partition."""
        source = fault.source
        if fault.kind is FaultKind.TOO_LARGE and source not in self._limits:
            if source in self._survey.routes:  # otherwise it is no longer copied
                self._limits[source] = self._survey.batch_limit(source)
            return
        if fault.kind in _LOST and self._continue:
            self._loss.add(fault)
            self._loss.record(len(self._slots), self._positions)
            return
        self._stopped.stop(fault)

    def _all_reached(self) -> bool:
        return (
            bool(self._slots)
            and not self._loss.pending
            and all(
                source in self._stopped
                or (source in self._positions and self._positions[source].offset >= end)
                for source, end in self._until.items()
            )
        )

    def _progress(self) -> None:
        self._progress_reporter.progress(
            partitions=len(self._survey.routes),
            stopped=len(self._stopped),
            lag_records=self._survey.lag_records,
        )

    def _finish(self) -> Finished:
        if any(slot.running is not None for slot in self._slots):
            self._spark.cancel()
        self._fencer.close()
        if self._progress_reporter.unreported:
            self._progress()
        faults = self._stopped.faults
        caught_up = self._until_caught_up and self._all_reached() and not faults
        finished = Finished(
            caught_up, self._progress_reporter.records, time() - self._began_at, faults
        )
        self._report(finished)
        return finished
