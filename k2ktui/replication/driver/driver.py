"""The driver: starts the laps of all slots and recovers after failures.

Each lap of a slot is a separate Spark job, so a failed slot resumes at once while the others
continue, and the slots do not pause between laps at the same time.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from math import inf
from time import monotonic, time

from k2ktui.engine.records.moved_topic import NO_MOVED_TOPICS, MovedTopics
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import REFUSALS, ClusterRefused, ConnectionFailed, K2kError, TimedOut
from k2ktui.kafka.control.reader import ReadInterrupted
from k2ktui.replication.copying import partition_faults
from k2ktui.replication.copying.failpoints import failpoint
from k2ktui.replication.copying.slot_task import (
    Assignment,
    Fault,
    FaultKind,
    LapOutcome,
    SlotResult,
)
from k2ktui.replication.driver.held_partitions import HeldPartitions
from k2ktui.replication.driver.isolation import UnfinishedTransactions
from k2ktui.replication.driver.laps import LapPlanner
from k2ktui.replication.driver.learned_limits import (
    LearnedLimits,
    describe_request_limit,
    with_settings,
)
from k2ktui.replication.driver.loss import LossRecorder
from k2ktui.replication.driver.run_parts import RunParts
from k2ktui.replication.fencing_errors import OwnershipLost, Superseded, TransactionUnfinished
from k2ktui.replication.ownership.commit_state import CommitState, adopt_positions
from k2ktui.replication.ownership.epochs import Contested
from k2ktui.replication.ownership.ownership import Ownership
from k2ktui.replication.ownership.pipeline import describe_malformed
from k2ktui.replication.reports.events import Finished, Note
from k2ktui.replication.reports.notes import SkippedReporter, ThrottledNotifier
from k2ktui.replication.reports.status import DriverStatus
from k2ktui.replication.reports.waiting import WaitingRecords
from k2ktui.replication.slots import SlotPlacement, SlotState, in_turn, make_slots
from k2ktui.replication.spark.session import SparkEnded
from k2ktui.replication.topics.deleted_topics import DeletedTopics
from k2ktui.replication.topics.discovery import TopicDiscovery, TopicSnapshot
from k2ktui.replication.topics.held_back import HeldBackWatch
from k2ktui.runtime.stop_flag import StopFlag
from k2ktui.text import counted, duration, safe_text

log = logging.getLogger(__name__)

_TICK_S = 0.2
_DISCOVERY_INTERVAL_S = 5.0
_LOST_IN_A_ROW = 3
_TAKE_OVER_RETRY_S = 1.0
_LOOK_S, _OWNER_LOOK_S = 3.0, 15.0  # each look bumps the lock
_DISCOVERY = "looking for new topics"
_LOOK = "looking for moved topics"
_TAKE_OVER = "taking over"
_LOST = frozenset({FaultKind.TRUNCATED, FaultKind.DIVERGED})


class Driver:
    """Runs one pipeline until stopped, or until caught up.

    I7: after any fault the pipeline resumes without an operator, or stops one partition with a
    reason. A lap that fails raises the slot's epoch and reads the positions from the target again;
    nothing that a failed lap remembered is used.

    Args:
        parts: the run's.
        ownership: takes the pipeline, or a slot of it, over.
        discovery: finds the partitions.
        status: what the driver writes, from its thread.
        stopping: set when the driver has to end, as by ``stop``; its loop says there that it moves.
    """

    def __init__(
        self,
        parts: RunParts,
        ownership: Ownership,
        discovery: TopicDiscovery,
        status: DriverStatus,
        stopping: StopFlag | None = None,
    ) -> None:
        config = self._config = parts.config
        self._ownership, self._spark, self._discovery = ownership, parts.laps, discovery
        self._status, self._report = status, status.report
        self._until_caught_up = parts.until_caught_up
        self._continue = config.on_source_data_loss == "continue"
        self._retries_sync = config.error_handling.on_commit_sync_timeout == "ignore"
        self._stopping = stopping or StopFlag()
        ownership.canceled = self._stopping.is_set
        self._positions: dict[SourcePartition, Position] = {}
        self._stopped = status.stopped
        self._held = HeldPartitions(parts.holds, self._report)
        self._moved = NO_MOVED_TOPICS  # as of the last takeover: a later one fences this driver
        self._next_look = 0.0
        self._limits = LearnedLimits(requests=parts.requests)
        self._refused: dict[SourcePartition, Fault] = {}
        self._until: dict[SourcePartition, int] = {}
        self._topics = TopicSnapshot()
        self._reported_notes: set[str] = set()
        self._slots: list[SlotState] = []
        self._notifier = ThrottledNotifier(self._report)
        self._loss = LossRecorder(ownership, self._report, self._notifier)
        self._deleted = DeletedTopics(config, ownership, status, self._notifier)
        self._laps = LapPlanner(parts, ownership)
        self._held_back = HeldBackWatch(self._report)
        self._skipped = SkippedReporter(self._report)
        self._waiting = WaitingRecords(self._notifier)
        self._unfinished = UnfinishedTransactions(ownership, self._laps, status)

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
        name = self._ownership.topic.ids
        log.info("%s: taking over with %s", name, counted(slots, "slot"))
        state = self._take_over(slots)
        if state is None:
            return self._finish()
        log.info("%s: took over with %s", name, counted(len(state.positions), "position"))
        self._positions = dict(state.positions)
        self._deleted.begin(state.deleted)
        if state.malformed:
            self._report(Note(describe_malformed(self._config, state)))
        self._slots = make_slots(slots, self._ownership.topic.shared_slot or 0)
        self._unfinished.begin(self._slots)
        self._leave_out(state.moved)
        first = self._discovery.discover(
            self._positions, moved=self._moved, lost_term=self._ownership.lost_term
        )
        if self._ownership.topic.shared_slot is None:  # of a slot, the others may have positions
            first.require_any(self._config, self._positions)
        # Where no run was there when a topic was deleted, only its position says where it ended.
        ends = {at: end for at in first.deleted if (end := self._positions[at].end)}
        self._deleted.look(first.deleted, first.routes.keys(), ends)
        self._apply_snapshot(first)
        if self._until_caught_up:
            self._until = self._topics.every_end()
        owner = self._ownership
        run = owner.run if owner.topic.shared_slot is None else owner.pipeline_run
        self._status.start(run.term, slots)
        self._follow_holds()
        with ThreadPoolExecutor(1, thread_name_prefix="discovery") as pool:
            self._loop(pool)
        return self._finish()

    def _take_over(self, slots: int) -> CommitState | None:
        """Take over; wait while a task of an earlier driver may still write. None if stopped."""
        while not self._stopping.is_set():
            try:
                return self._ownership.take_over(slots)
            except (TransactionUnfinished, TimedOut) as error:
                if not isinstance(error, TransactionUnfinished) and not self._retries_sync:
                    raise
                log.info("take-over waits: %s", error.message)
                self._notifier.report(_TAKE_OVER, error.message)
                self._stopping.wait(_TAKE_OVER_RETRY_S)
        return None

    def _loop(self, pool: ThreadPoolExecutor) -> None:
        pending, next_discovery = None, monotonic() + _DISCOVERY_INTERVAL_S
        while not self._stopping.is_set():
            if self._ownership.must_take_over:
                pending, next_discovery = None, monotonic() + self._take_over_again(pool)
            self._loss.record(len(self._slots), self._positions)
            self._forget(self._deleted.settle(self._slots, self._positions))
            self._unfinished.resume(self._positions)
            self._follow_holds()
            for slot in self._slots:
                self._start_lap(slot)
            running = [slot.running for slot in self._slots if slot.running is not None]
            if self._until_caught_up and not running and self._all_reached():
                return
            self._look_for_owner(running)
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
                    self._abandon_lap(slot, slot.running)
            if pending is None and monotonic() >= next_discovery:
                pending = self._discover(pool)
            if pending is not None and pending.done():
                next_discovery = monotonic() + self._finish_discovery(pending)
                pending = None

    def _discover(self, pool: ThreadPoolExecutor) -> Future[TopicSnapshot]:
        known = dict(self._positions)
        is_well = not (self._stopped or self._until or self._deleted.pending)
        lost_term = self._ownership.lost_term
        return pool.submit(self._discovery.discover, known, is_well, self._moved, lost_term)

    def _look_for_owner(self, running: Sequence[object]) -> None:
        """Find out whether another driver has taken over, where no lap runs that is fenced then.

        Whoever releases topics has done so, too. Runs that share a pipeline see its owners.
        """
        is_slot = self._ownership.topic.shared_slot is not None
        if running or monotonic() < self._next_look or (is_slot and not self._moved):
            return
        self._next_look = monotonic() + (_LOOK_S if self._moved else _OWNER_LOOK_S)
        try:
            self._ownership.confirm()
        except OwnershipLost:
            return  # it takes over again
        except Superseded:
            raise
        except K2kError as error:
            self._next_look = monotonic() + self._notifier.report_error(_LOOK, error, _LOOK_S)
        else:
            self._notifier.over(_LOOK)

    def _finish_discovery(self, pending: Future[TopicSnapshot]) -> float:
        """Apply what was discovered; return the seconds until the next discovery."""
        try:
            snapshot, before = pending.result(), self._topics
            # Partitions that a lap has set aside wait for it, also if nothing else has changed.
            self._deleted.look(snapshot.deleted, snapshot.routes.keys(), before.ends)
            if snapshot is not before:
                self._apply_snapshot(snapshot)
        except Superseded:
            raise
        except K2kError as error:
            return self._notifier.report_error(_DISCOVERY, error, _DISCOVERY_INTERVAL_S)
        self._notifier.over(_DISCOVERY)
        return _DISCOVERY_INTERVAL_S

    def _follow_holds(self) -> None:
        """Copy no longer what is held now, and again what was released, without a lap's delay."""
        changed = self._held.look(self._topics.routes.keys())
        if changed is None:
            return
        for slot in self._slots:
            if self._held.select(slot.sources):
                self._waiting.lap_failed(slot.number)  # records that are held do not wait
            if not changed.isdisjoint(slot.sources):
                self._cut_lap(slot)
        self._report_topics()

    def _cut_lap(self, slot: SlotState) -> None:
        """End a slot's lap now: fence its task, so that the next lap has other partitions.

        Without exactly-once nothing fences the task, which would copy the same as the next one: the
        lap ends by itself.
        """
        lap = slot.running
        if lap is None or lap.done() or not self._config.features.exactly_once:
            return
        log.info("slot %d: ending its lap, as what is held has changed", slot.number)
        slot.running, slot.lost = None, True
        self._spark.give_up(lap)
        self._after_fencing(slot, self._fence_lap(slot))

    def _report_topics(self) -> None:
        topics, held = self._topics, self._held.select(self._topics.routes.keys())
        self._status.discover(
            topics.routes.keys(),
            self._positions,
            topics.ends,
            held_back=topics.held_back,
            starts=topics.starts,
            lag_records=topics.sum_lags(held),
            held=held,
            moved=self._moved,
        )

    def _forget(self, deleted: Sequence[SourcePartition]) -> None:
        """Copy partitions of deleted topics no longer."""
        for source in deleted:
            self._until.pop(source, None)
            self._refused.pop(source, None)
            for slot in self._slots:
                if source in slot.sources:
                    slot.sources.remove(source)

    def _apply_snapshot(self, snapshot: TopicSnapshot) -> None:
        """Apply a snapshot: start new partitions, stop changed ones, assign them to slots."""
        self._topics = snapshot
        self._limits.forget_changed(snapshot)
        for note in [note for note in snapshot.notes if note not in self._reported_notes]:
            self._reported_notes.add(note)
            self._report(Note(note))
        recreated = snapshot.recreated if self._continue else {}
        for fault in snapshot.faults:
            if fault.source not in recreated:
                self._stopped.stop(fault)
        new = {s: p for s, p in snapshot.begin.items() if s not in self._positions}
        if recreated:
            log.info("%d source partitions created again", len(recreated))
            self._ownership.begin_term(len(self._slots))
            names = ", ".join(sorted({source.topic for source in recreated}))
            self._report(Note(f"{names}: created again on the source; copied from the start"))
        if new or recreated:
            self._write_start_positions({**new, **recreated})
        known = {source for slot in self._slots for source in slot.sources}
        known |= self._unfinished.sources
        routes = snapshot.routes
        placement = SlotPlacement(self._slots, routes, spread=bool(self._config.slots))
        for source in in_turn(routes.keys() - known, routes):
            slot, position = placement.choose(source), self._positions.get(source)
            if self._unfinished.admit(slot, source, routes[source], position):
                slot.sources.append(source)
        for fault in self._held_back.look(snapshot.held_back, self._positions, self._until):
            self._stopped.stop(fault)
        self._held.report(routes.keys())
        self._report_topics()

    def _write_start_positions(self, new: Mapping[SourcePartition, Position]) -> None:
        """Write the start positions of partitions before any of their records is copied."""
        term, ends = self._ownership.run.term, self._topics.ends
        stamped = {
            s: replace(p, term=term, since=term, end=max(p.end, ends.get(s, 0)))
            for s, p in new.items()
        }
        self._ownership.write_positions(stamped)
        self._positions.update(stamped)
        for source in stamped:
            self._stopped.clear(source)
            self._refused.pop(source, None)

    def _start_lap(self, slot: SlotState) -> None:
        # During an outage each of many slots waits for its time-outs in turn.
        self._stopping.moves()
        now = monotonic()
        if slot.running is not None or now < slot.not_before:
            return
        longest_s = inf
        if not self._until:
            self._stopped.retry(slot.sources)
            longest_s = self._stopped.longest_lap_s(slot.sources)
        assignments = [a for source in slot.sources if (a := self._assignment(source)) is not None]
        if not assignments:
            return
        try:
            if slot.broken:
                self._restore_from_target(slot)
                return
            task = self._laps.make_task(slot, *slot.take_turn(assignments), longest_s)
        except (Contested, ReadInterrupted):
            slot.broken = True  # read its positions before its next lap
            return
        except REFUSALS as error:
            self._stop_slot(slot, error)
            return
        except (ConnectionFailed, TimedOut) as error:
            self._postpone(slot, error)
            return
        slot.lost = False
        failpoint("token")
        slot.running = self._spark.submit([task])
        slot.deadline = monotonic() + self._laps.longest_s

    def _assignment(self, source: SourcePartition) -> Assignment | None:
        position, route = self._positions.get(source), self._topics.routes.get(source)
        if position is None or route is None or source in self._loss or source in self._deleted:
            return None
        if source in self._held or source.topic in self._moved:
            return None
        # What is before a record that is too large is copied, although its partition has stopped.
        refused = self._refused.get(source) if self._refused else None
        if source in self._stopped and (refused is None or self._stopped.why(source) != refused):
            return None
        until = self._until.get(source) if self._until_caught_up else None
        if self._until_caught_up and (until is None or position.offset >= until):
            return None
        limit, most = self._limits.of(source), self._topics.max_message_bytes(source)
        return Assignment(source, position, route, until, limit, refused, most)

    def _end_lap(self, slot: SlotState, future: Future[list[SlotResult]]) -> None:
        self._stopping.moves()
        slot.running = None
        error = future.exception()
        if isinstance(error, SparkEnded):
            raise error
        result = None if error else slot.adopt(future.result()[0], self._positions)
        if result is not None:
            self._limits.learn(result.size_limits, self._topics)
            size = result.request_bytes
            if size and self._limits.requests.learn(size):
                self._report(Note(describe_request_limit(size)))
        self._status.end_lap(slot.number, result)
        if result is not None and result.outcome is LapOutcome.DONE:
            slot.failures = 0
            self._skipped.add(result.skipped)
            self._notifier.over(slot.name)
            again = {fault.source for fault in result.faults}
            self._stopped.report_resumed(slot.copied, again)
        else:
            text = str(error) if error else result.error if result else ""
            reason = text.partition("\n")[0]  # the message without what to do next
            slot.lost = error is not None
            self._waiting.lap_failed(slot.number)
            self._recover(slot, reason, lost=error is not None)
        is_over = result is not None and result.outcome is LapOutcome.DONE
        for fault in result.faults if result else ():
            bounds = result.log_bounds if result else {}
            if not self._deleted.suspect(fault, bounds.get(fault.source)):
                self._handle_fault(fault, is_over=is_over)
        if result is not None and is_over:
            stays = (self._stopped, self._held)
            copied = [at for at in slot.copied if not any(at in those for those in stays)]
            ends = self._topics.ends
            self._waiting.lap_read(slot.number, copied, self._positions, ends, result.unread)
        self._status.report_progress([s.number for s in self._slots if s.running is not None])

    def _abandon_lap(self, slot: SlotState, lap: Future[list[SlotResult]]) -> None:
        """Fence a hung task, cancel its job, and let the slot continue with a new lap."""
        if self._spark.is_waiting(lap):
            self._notifier.report(slot.name, "its lap waits for a free core of Spark", lasts=True)
            slot.deadline = monotonic() + self._laps.longest_s
            return
        log.warning("slot %d: task did not end, canceling its job", slot.number)
        slot.running, slot.lost = None, True
        self._spark.give_up(lap)
        self._status.end_lap(slot.number, None)
        limit = duration(self._laps.longest_s)
        reason = f"its task did not end within {limit}; its Spark job was canceled"
        self._recover(slot, reason, lost=True)

    def _take_over_again(self, pool: ThreadPoolExecutor) -> float:
        """Take over again after ownership became unknown, as a starting driver does.

        If topics were moved or released meanwhile, they are discovered before the next laps begin:
        nothing would end these for what was released.

        Returns:
            Seconds until the next discovery.
        """
        self.give_up_laps()
        try:
            state = self._ownership.take_over(len(self._slots))
        except (ConnectionFailed, TimedOut, ClusterRefused) as error:
            self._stopping.wait(self._notifier.report_error(_TAKE_OVER, error, _TAKE_OVER_RETRY_S))
            return 0.0
        self._notifier.over(_TAKE_OVER)
        self._positions = dict(state.positions)
        self._unfinished.begin(self._slots)
        for slot in self._slots:
            slot.broken = False
        before = self._moved
        self._leave_out(state.moved)
        return self._finish_discovery(self._discover(pool)) if self._moved != before else 0.0

    def _leave_out(self, moved: MovedTopics) -> None:
        """Copy no longer what is moved now, and again what was released."""
        before, self._moved = self._moved, moved
        if moved == before:
            return
        own = {at.topic for at in self._positions if self._discovery.is_wanted(at)}
        for one in moved.all:
            if one.topic in own and one != before.get(one.topic):
                what = safe_text(one.describe())
                self._report(Note(f"{safe_text(one.topic)}: {what}; not copied until its release"))
        for one in before.all:
            if one.topic in own and one.topic not in moved:
                self._report(Note(f"{safe_text(one.topic)}: released, and copied again"))
        left_out = [at for at in moved.of(self._positions) if at.topic not in before]
        self._loss.forget(moved)
        self._deleted.forget(moved)
        self._status.forget(left_out)
        for source in left_out:
            self._refused.pop(source, None)
            self._until.pop(source, None)
        for slot in self._slots:
            if moved.of(slot.sources):
                self._waiting.lap_failed(slot.number)  # records that are not copied do not wait

    def give_up_laps(self) -> None:
        """Cancel the laps that run, and no others of the Spark session."""
        for slot in self._slots:
            if slot.running is not None:
                self._spark.give_up(slot.running)
                slot.running = None

    def _recover(self, slot: SlotState, reason: str, *, lost: bool) -> None:
        """After a failed lap: fence its task, and read the positions from the target."""
        log.info("slot %d: lap failed %d times: %s", slot.number, slot.failures + 1, reason)
        before = slot.offsets(self._positions)
        # Report every lost task, until several laps in a row have failed.
        always = lost and slot.failures < _LOST_IN_A_ROW
        error = self._fence_lap(slot)
        if slot.offsets(self._positions) != before:
            self._notifier.over(slot.name)
        if not self._stopping.is_set():
            self._notifier.report(
                slot.name, f"{reason}; its positions are read from the target again", always=always
            )
        self._after_fencing(slot, error)

    def _fence_lap(self, slot: SlotState) -> K2kError | None:
        """Fence a slot's task and read its positions; return why that was not possible."""
        slot.broken = True
        try:
            with suppress(ReadInterrupted):  # it is still broken, and read before its next lap
                self._restore_from_target(slot)
        except (*REFUSALS, ConnectionFailed, TimedOut) as error:
            return error
        return None

    def _after_fencing(self, slot: SlotState, error: K2kError | None) -> None:
        if isinstance(error, REFUSALS):
            self._stop_slot(slot, error)
        elif error is not None:
            self._postpone(slot, error)

    def _restore_from_target(self, slot: SlotState) -> None:
        self._ownership.recover(slot.identity)
        slot.lost = False
        failpoint("recovering")
        state = self._ownership.read(lambda: any(slot.lap_failed for slot in self._slots))
        adopt_positions(self._positions, slot.sources, state)
        log.info("slot %d: what was not committed is aborted, positions read", slot.number)
        slot.broken = False
        slot.back_off()

    def _postpone(self, slot: SlotState, error: K2kError) -> None:
        """Back off while the target does not answer; the slot copies nothing meanwhile."""
        log.info("slot %d: waiting for the target: %s", slot.number, error.message)
        slot.broken = True
        if isinstance(error, TransactionUnfinished) and self._unfinished.isolate(
            slot, error, self._topics.routes, self._positions
        ):
            return
        slot.back_off()
        self._notifier.report(slot.name, f"waiting for the target cluster: {error.message}")

    def _stop_slot(self, slot: SlotState, error: K2kError) -> None:
        """Stop the partitions of a slot after a refusal, which is tried again every 30 s.

        A cluster's authorizer may refuse for a minute, so that it does not end the run.
        """
        log.warning("slot %d: stopped: %s", slot.number, error.message)
        slot.broken = True
        for fault in partition_faults.slot_faults(slot.sources, error, self._positions):
            self._stopped.stop(fault)

    def _handle_fault(self, fault: Fault, *, is_over: bool) -> None:
        """Resolve a fault that needs no operator; otherwise stop the partition.

        ``is_over`` says whether the lap has committed what is before it.
        """
        source = fault.source
        if fault.kind is FaultKind.TOO_LARGE and source in self._topics.routes:
            fault = self._handle_refused(fault, is_over=is_over)
        if fault.kind in _LOST and self._continue:
            self._loss.add(fault)
            self._loss.record(len(self._slots), self._positions)
            return
        self._stopped.stop(fault)

    def _handle_refused(self, fault: Fault, *, is_over: bool) -> Fault:
        """Let what is before a record that is too large be copied; return the complete fault."""
        source = fault.source
        known = self._refused.get(source)
        if known is not None and known.offset < fault.offset and not is_over:
            return known  # another record is refused as well, before the one of the last lap
        self._refused.pop(source, None)
        if known is None or known.message != fault.message:
            route = self._topics.routes[source]
            names = {choice.name for choice in route.choices} or {route.topic}
            fault = with_settings(fault, self._discovery.read_sizes(names))
        position = self._positions.get(source)
        if position is not None and position.offset < fault.offset and not is_over:
            self._refused[source] = fault
        return fault

    def _all_reached(self) -> bool:
        return (
            bool(self._slots)
            and not self._loss.pending
            and not self._deleted.pending
            and all(self._assignment(source) is None for source in self._refused)
            and all(
                source in self._stopped
                or source in self._held
                or (source in self._positions and self._positions[source].offset >= end)
                for source, end in self._until.items()
            )
        )

    def _finish(self) -> Finished:
        self.give_up_laps()
        self._ownership.close()
        faults = self._stopped.faults
        if self._until_caught_up:
            known = {fault.source for fault in faults}
            until = {at: end for at, end in self._until.items() if at not in known}
            faults += self._held.find_faults(until, self._positions)
        caught_up = self._until_caught_up and self._all_reached() and not faults
        status = self._status
        finished = Finished(caught_up, status.records, time() - status.began_at, faults)
        status.finish(finished)
        return finished
