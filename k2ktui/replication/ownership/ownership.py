"""What one run owns: a whole pipeline, or one slot of a pipeline that runs share.

Both are the same mechanism: a ``Fence`` says who may write, a ``RecordStore`` what was written, and
taking over is fencing, reading, and beginning a new term. They differ in what they find and leave:

- A whole pipeline: before any slot is fenced, the layout is written, and every shared slot that any
  layout has had is fenced as well. A run that takes a slot over later finds that layout.
- A shared slot: it is given up unless the newest run record of the pipeline has its layout
  (docs/internals/ownership.md#one-layout).

``takeover.py`` says in which order; here is what is read and written.

A takeover of the whole pipeline can also only record moved topics: the run that it fences goes on
afterwards (docs/internals/ownership.md#moved-topics).
"""

from __future__ import annotations

import logging
import socket
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from threading import BoundedSemaphore
from time import monotonic, sleep
from typing import Any

from k2ktui.engine.deleted_logs import DeletedLog, deleted_log_key, deleted_log_value
from k2ktui.engine.moves.positions import Recovery
from k2ktui.engine.records.cluster_pair import UNKNOWN_PAIR, ClusterPair
from k2ktui.engine.records.editions import Edition, Editions, layout_id, merge_editions
from k2ktui.engine.records.evidence import NO_EVIDENCE, Evidence, find_lost_term
from k2ktui.engine.records.moved_topic import MovedTopic, TopicMoves
from k2ktui.engine.records.run_record import NO_RUN, Interruption, Run, SharedLayout, has_been_cut
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.kafka.admin.transaction_state import TransactionState
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.producer_id import Producer
from k2ktui.replication.copying.failpoints import failpoint
from k2ktui.replication.copying.partition_reader import now_ms
from k2ktui.replication.fencing_errors import (
    Superseded,
    clusters_changed,
    layout_changed,
    never_fenced,
    unreadable_moves,
)
from k2ktui.replication.ownership.commit_state import CommitState, CommitTopic, find_newest
from k2ktui.replication.ownership.epochs import STATE
from k2ktui.replication.ownership.fence import Fence
from k2ktui.replication.ownership.record_store import RecordStore
from k2ktui.replication.ownership.takeover import (
    AwaitSlots,
    BeginningStep,
    FencedOwner,
    FenceSlot,
    FencingStep,
    Outdated,
    PipelineStep,
    ReadStable,
    ReadWritten,
    Stable,
    WriteEarly,
    WriteRun,
    Written,
    begin,
    carry_out,
    fence_owner,
    fence_pipeline,
    fence_slots,
)
from k2ktui.text import counted

log = logging.getLogger(__name__)

_AGAIN_S = 0.2
_NO_MOVES = TopicMoves()
MovedPositions = Callable[[CommitState, int], Mapping[SourcePartition, Position | None]]
"""Returns the new positions of moved topics, None to remove one, for a state and a new term."""
# How long a fenced run waits for the run record of the one that has fenced it. One that only
# records moved topics writes it within milliseconds, and may be killed after that.
_SUCCESSOR_S, _INTERRUPTED_S = 10.0, 30.0


@dataclass(frozen=True, slots=True)
class Claim:
    """What a run wants to own, and what its run record will say.

    Attributes:
        name: the pipeline's name, for messages and the run record.
        topic: the commit topic; its ``shared_slot`` is the slot, None for the whole pipeline.
        transactional: whether exactly-once is enabled; without it nothing is fenced.
        timeout_ms: transaction timeout in milliseconds; without exactly-once, delivery timeout.
        sync_timeout: seconds to wait for open transactions and for reading the topic.
        parallelism: how many shared slots are fenced at the same time.
        pair: what the run copies, for its run record; None keeps that of the run before.
        bidirectional: the mode in which it leaves out what came from the target; "" if it does not.
        guard: called after each take-over with the id of the drill that the run record names, ""
            without one; what it raises keeps the pipeline from copying. If it raises nothing, the
            run record names that drill no more.
        fenced_by: the drill that fences the pipeline, for its run record; "" for none, None keeps
            that of the run before.
        digest: that of the file by which the run copies, for its run record; "" keeps that of the
            run before.
        layout: id of the layout that the slot belongs to; "" for the whole pipeline.
        read_evidence: reads what earlier runs left beside the commit topic; called only if that has
            lost its run record, or never had one.
        recovery: what earlier runs may have used, where the commit topic has lost their run
            records; None counts only what is on record.
    """

    name: str
    topic: CommitTopic
    transactional: bool
    timeout_ms: int
    sync_timeout: float
    parallelism: int = 1
    pair: ClusterPair | None = None
    bidirectional: str = ""
    guard: Callable[[str], None] | None = None
    fenced_by: str | None = None
    digest: str = ""
    layout: str = ""
    read_evidence: Callable[[], Evidence] = lambda: NO_EVIDENCE
    recovery: Recovery | None = None

    @property
    def lost_run(self) -> Run | None:
        """A run record in place of those that are lost; None if none is."""
        recovery, slot = self.recovery, self.topic.shared_slot
        if recovery is None or slot is None:
            return recovery.run if recovery is not None else None
        return Run(0, recovery.ids.get(slot, 1), shared_slot=slot)


@dataclass(frozen=True, slots=True)
class _Division:
    """How a pipeline is to be divided into slots that runs share."""

    slots: int
    edition: int  # the number that the runs of this file have announced
    puts_first: bool

    def make_layout(self, editions: Editions, digest: str) -> SharedLayout:
        """Return a new layout, not ready; ``editions`` are those of all runs so far."""
        edition = Edition()
        if digest:
            first, known = editions.next(digest), editions.edition_of(digest, self.edition)
            edition = first if self.puts_first else known
        return SharedLayout(layout_id(uuid.uuid4().hex, edition), self.slots)


class _SlotFencing:
    """Fences shared slots for a takeover of the pipeline, several at the same time.

    Args:
        pool: has as many threads as slots are fenced at the same time.
        claim: of the pipeline.
        fence: fences a slot and returns its states; None if another run has taken it meanwhile.

    Attributes:
        states: those of all slots that were fenced.
    """

    def __init__(
        self,
        pool: ThreadPoolExecutor,
        claim: Claim,
        fence: Callable[[int], dict[str, tuple[int, int]] | None],
    ) -> None:
        self._pool, self._claim, self._fence = pool, claim, fence
        self._begun: dict[int, Future[dict[str, tuple[int, int]] | None]] = {}
        self._until: float | None = None
        self.states: dict[str, tuple[int, int]] = {}

    def begin(self, slot: int) -> None:
        """Begin to fence a slot; return once a thread is free for the next one.

        So that lock is bumped right after the pipeline's was confirmed.
        """
        self._begun[slot] = self._pool.submit(self._fence, slot)
        running = [fencing for fencing in self._begun.values() if not fencing.done()]
        if len(running) >= self._claim.parallelism:
            wait(running, return_when=FIRST_COMPLETED)

    def finish(self) -> list[int]:
        """Wait for all that were begun; return the slots that other runs have taken meanwhile.

        Raises:
            TimedOut: other runs take them each time.
            Exception: what fencing one raised.
        """
        contested = []
        for slot, fencing in self._begun.items():
            states = fencing.result()
            if states is None:
                contested.append(slot)
            else:
                self.states |= states
        self._begun = {}
        if contested:
            now = monotonic()
            self._until = self._until or now + self._claim.sync_timeout
            if now > self._until:
                raise never_fenced(self._claim.name, contested[0])
            sleep(_AGAIN_S)
        return contested


class Ownership:
    """Takes a pipeline or a slot over, hands out tokens for it, and writes its records.

    Args:
        target: the target cluster.
        options: connection options of the target's producer.
        claim: what is to be owned.
        limit: entered while epochs are bumped.

    Attributes:
        canceled: whether this driver is to end; then it waits for no other driver.
        run: the run that this driver has begun.
        pipeline_run: the run record of the whole pipeline as of the last takeover of a slot.
        retired: the transactional ids whose producer id is registered for another source cluster.
    """

    def __init__(
        self,
        target: Cluster,
        options: Mapping[str, Any],
        claim: Claim,
        limit: AbstractContextManager[object] | None = None,
    ) -> None:
        self._target, self._options, self._claim = target, options, claim
        self._slot_limit = BoundedSemaphore(claim.parallelism)
        self._pair, self._fenced_by = claim.pair, claim.fenced_by
        self.canceled: Callable[[], bool] = lambda: False
        self._began = False
        self._found = NO_RUN  # the pipeline's newest record when this driver took over last
        self._fence = Fence(
            options,
            cluster_id=claim.pair.target if claim.pair else None,
            pipeline=claim.name,
            topic=claim.topic,
            transactional=claim.transactional,
            timeout_ms=claim.timeout_ms,
            sync_timeout=claim.sync_timeout,
            limit=limit or nullcontext(),
            has_successor=self._has_successor,
            canceled=lambda: self.canceled(),
        )
        self._store = RecordStore(
            target,
            claim.topic,
            self._fence,
            claim.pair if claim.transactional else None,
            transactional=claim.transactional,
            sync_timeout=claim.sync_timeout,
        )
        self.run = self.pipeline_run = NO_RUN
        self.retired: frozenset[int] = frozenset()
        self._layout: SharedLayout | None = None  # of the run records that it writes
        # As of the last takeover of a whole pipeline, for the run records that it writes.
        self._floor = self._lost_term = 0
        self._log_starts: tuple[int, ...] = ()

    @property
    def lost_term(self) -> int:
        """Positions of this term and earlier ones may be lost; 0 if none is (``Run.lost_term``)."""
        is_slot = self._claim.topic.shared_slot is not None
        return self.pipeline_run.lost_term if is_slot else self._lost_term

    @property
    def topic(self) -> CommitTopic:
        """The commit topic."""
        return self._store.topic

    @property
    def pair(self) -> ClusterPair:
        """What the run copies between; unknown if it copies nothing."""
        return self._pair or UNKNOWN_PAIR

    @property
    def unfinished(self) -> Mapping[int, TransactionState]:
        """The transactional ids whose last transaction waited for markers at the takeover."""
        return self._fence.unfinished

    @property
    def must_take_over(self) -> bool:
        """Whether this driver owned the pipeline but ownership is now unknown."""
        return self._began and not self._fence.is_owned

    @property
    def longest_commit_s(self) -> float:
        """Seconds after which a lap can no longer commit what it wrote."""
        return self._claim.timeout_ms / 1000

    # Taking over

    def take_over(self, slots: int) -> CommitState:
        """Fence every other driver, begin a new term, return the state before it.

        Args:
            slots: number of slots of a whole pipeline; a shared slot is one.

        Raises:
            Superseded: another driver has started in the meantime.
            LayoutChanged: the slot is of a layout that is no longer the pipeline's.
            Refused: the positions belong to other clusters, by the run record.
            UnreadableRecords: it is not known which topics a drill has moved.
            TransactionUnfinished: a task of an earlier driver may still write.
            ConnectionFailed, TimedOut, Refused: taking over failed; no position was changed.
            Exception: what the guard raises.
        """
        if self._claim.topic.shared_slot is not None:
            return self._take_over(self._take_slot)
        return self._take_over(partial(self._take_pipeline, slots))

    def divide(self, slots: int, edition: int = 0, *, puts_first: bool = False) -> CommitState:
        """Take the whole pipeline over, and divide it into slots that runs share.

        ``publish_layout`` lets them begin. Raises as ``take_over``.

        Args:
            slots: number of slots.
            edition: the number that the runs of this file have announced for its edition.
            puts_first: let the file of this run count before those of all other runs.
        """
        division = _Division(slots, edition, puts_first)
        return self._take_over(partial(self._take_pipeline, 0, division))

    def move(
        self, moves: TopicMoves, positions: MovedPositions = lambda state, term: {}
    ) -> CommitState:
        """Record moved topics and releases, and return the state after that.

        No run copies a moved topic any more when this returns. The runs that are fenced meanwhile
        go on by themselves, and read what is moved when they take over.

        Args:
            moves: topics that are moved, and released.
            positions: called while every run is fenced; what it returns is written. Only positions
                of moved topics are safe: runs that share the pipeline may go on already.

        Raises:
            Superseded, TransactionUnfinished, ConnectionFailed, TimedOut, Refused: as
                ``take_over``; the moves may have been recorded, and doing it again is safe.
            Exception: what ``positions`` raises; no position was written then.
        """
        self._fence.open()
        try:
            fenced = self._fence_pipeline(0, partial(self._record, moves))
            end = partial(self._end_move, positions)
            state: CommitState = carry_out(begin(fenced, 0), end).state
        finally:
            self._fence.is_owned = False
        return state

    def _record(self, moves: TopicMoves, runs: Sequence[Run]) -> int:
        """Write moves and releases; return how many shared slots any layout has had.

        A run that takes a slot over later finds them; one that did earlier is fenced after this.
        The layout stays as it is, so that each slot is copied again as soon as it has been fenced,
        unless an attempt to change it may have been interrupted.
        """
        newest, committed = find_newest(runs), self._store.read_committed()
        before = newest.interrupts or Interruption(newest.term)
        self._layout = newest.layout
        if newest.layout is not None and newest.layout != committed.run.layout:
            self._layout = replace(newest.layout, ready=False)
        self._recall(runs)
        has_moved = newest.has_moved or bool(moves.moved or committed.moved)
        self.run = replace(self.run, has_moved=has_moved)
        self._write_run(
            self.run.term + 1,
            self.run.slots,
            committed.run.pair,
            interrupts=Interruption(before.term),
            moved=moves,
        )
        failpoint("moved")
        return self.run.most_shared

    def _end_move(self, positions: MovedPositions, step: BeginningStep) -> Stable | None:
        if isinstance(step, ReadStable):
            state = self._read()
            return Stable(max(self.run.term, state.run.term), state)
        interrupted = self.run.interrupts
        assert interrupted is not None
        changed: Mapping[SourcePartition, Position | None] = {}
        try:
            changed = positions(step.state, step.term)
        finally:  # the runs go on
            self.remove_positions([at for at, new in changed.items() if new is None])
            self._write_run(
                step.term,
                step.ids,
                interrupts=replace(interrupted, is_over=True),
                changed={at: new for at, new in changed.items() if new is not None},
            )
        return None

    def _read(self) -> CommitState:
        """Wait until what was written before the bumps is decided, then read the state.

        Moved topics are read with the positions: docs/internals/ownership.md says why.

        Raises:
            UnreadableRecords: it is not known which topics are moved.
        """
        state = self._store.read()
        if state.unreadable_moves:
            raise unreadable_moves(self.topic.name, state.unreadable_moves)
        return state

    def _take_over(self, take: Callable[[], CommitState]) -> CommitState:
        self._fence.open()
        try:
            state = take()
        except BaseException:
            self._fence.is_owned = False
            raise
        self._began = True
        failpoint("begun")
        if self._claim.guard is not None:
            self._claim.guard(self.run.fenced_by)
            if self.run.fenced_by:
                self._fenced_by = ""
                self._write_run(self.run.term, self.run.slots)
        return state

    def _take_pipeline(self, slots: int, division: _Division | None = None) -> CommitState:
        fenced = self._fence_pipeline(slots, partial(self._write_division, division))
        state: CommitState = carry_out(begin(fenced, slots), self._begin_term).state
        return state

    def _fence_pipeline(self, slots: int, early: Callable[[Sequence[Run]], int]) -> FencedOwner:
        """Fence every run of the pipeline.

        Args:
            slots: number of slots of this driver.
            early: writes what a run that takes a shared slot over later has to find, by the run
                records so far; returns how many shared slots any layout has had.
        """
        runs: list[Run] = []

        def carry(fencing: _SlotFencing, step: PipelineStep) -> Any:
            match step:
                case ReadWritten():
                    runs[:] = self._read_runs()
                    ids = max([slots, *(run.slots for run in runs)])
                    return Written(ids, self._found.term)
                case WriteEarly():
                    return early(runs)
            return self._carry_slots_out(fencing, step)

        def play() -> FencedOwner:
            with ThreadPoolExecutor(self._claim.parallelism, "fencing") as pool:
                fencing = _SlotFencing(pool, self._claim, self._fence_slot)
                return carry_out(fence_pipeline(), partial(carry, fencing))

        return self._fence.take(play)

    def _carry_slots_out(self, fencing: _SlotFencing, step: PipelineStep) -> Any:
        match step:
            case FenceSlot(slot):
                return fencing.begin(slot)
            case AwaitSlots():
                return fencing.finish()
        assert not isinstance(step, ReadWritten | WriteEarly)
        return self._fence.carry_out(step)

    def _take_slot(self) -> CommitState:
        try:
            fenced = self._fence.take(partial(self._fence_owner, self._claim.layout))
        except Outdated as error:
            raise layout_changed(self._claim.name) from error
        state: CommitState = carry_out(begin(fenced), self._begin_term).state
        self.pipeline_run = self._found
        return state

    def _fence_owner(self, layout: str | None) -> FencedOwner:
        """Fence the owner of the slot; raises Outdated if it is not of this layout."""

        def carry(step: FencingStep) -> Any:
            if isinstance(step, ReadWritten):
                return self._read_written()
            return self._fence.carry_out(step)

        return carry_out(fence_owner(layout), carry)

    def _read_written(self) -> Written:
        """Return what the run records of the slot, and of the pipeline, say.

        Those of the pipeline count even if they are not committed yet: the driver that writes them
        bumps the lock of this slot later than this run did, or has bumped it before, which fences
        this run.
        """
        runs, slot = self._store.read_written_runs(), self._claim.topic.shared_slot
        if (lost := self._claim.lost_run) is not None:
            runs = [lost, *runs]
        self._found = newest = find_newest(run for run in runs if run.shared_slot is None)
        division = newest.division
        return Written(
            max([1, *(run.slots for run in runs if run.shared_slot == slot)]),
            newest.term,
            division.id if division is not None and division.ready else None,
        )

    def _begin_term(self, step: BeginningStep) -> Stable | None:
        if isinstance(step, WriteRun):
            # Without exactly-once no run record was read before: as many slots as the one before.
            self._write_run(step.term, max(step.ids, self.run.slots))
            return None
        state = self._read()
        self.run = replace(state.run, has_moved=bool(state.moved), interrupts=None)
        is_slot = self._claim.topic.shared_slot is not None
        if not is_slot:
            if not self._claim.transactional:  # nothing was fenced, and no run record was read
                self._look_for_losses(state.run)
            if (lost := self._claim.lost_run) is not None:
                self.run = find_newest([lost, self.run])
        failpoint("fenced")
        if is_slot:
            self._require_same_topic(state)
            # Of the pipeline's run: the slot's own last run may be of before a restore.
            self._follow(self._found.pair, binds=True)
        else:
            # Again, although the preflight has: a run in between may have recorded other ids.
            self._follow(state.run.pair, binds=bool(state.positions))
        self._adopt(state)
        return Stable(self.run.term, state, self.retired)

    def _require_same_topic(self, state: CommitState) -> None:
        """Give the slot up if the commit topic may have lost records; the leader finds out.

        Since the run records were read, it may have lost some at either end, or been created again:
        a partition without a position is not new then.
        """
        starts = self._store.read_log_starts()
        if state.pipeline_run.division != self._found.division or has_been_cut(self._found, starts):
            raise layout_changed(self._claim.name)

    def _read_runs(self) -> list[Run]:
        """Return the run records of the pipeline, also those never committed.

        Fencing too many slots is harmless, but a slot's open transaction hides all later records
        until the slot is fenced.
        """
        runs = self._store.read_written_runs()
        self._found = find_newest(runs)
        self._look_for_losses(self._found)
        lost = self._claim.lost_run
        # First: of records with the same term, the last one counts.
        return runs if lost is None else [lost, *runs]

    def _look_for_losses(self, newest: Run) -> None:
        """Find out what the commit topic has lost since its newest run record was written.

        Without a run record, the next term is above every term that anything else on the target
        names: mappings of a higher term would count before those of this run.
        """
        starts = self._store.read_log_starts()
        # As it is read: a run record of its own is recognized by all of its fields.
        self._log_starts = tuple(starts[n] for n in sorted(starts)) if any(starts.values()) else ()
        evidence = self._claim.read_evidence() if newest.term == 0 else NO_EVIDENCE
        self._lost_term = find_lost_term(newest, starts, lambda: evidence, self.pair.sources)
        self._floor = max(newest.term, evidence.term, self._lost_term)
        if self._lost_term != newest.lost_term:
            log.warning(
                "%s has lost records of %s up to term %d",
                self.topic.name,
                self.topic.ids,
                self._lost_term,
            )

    def _write_division(self, division: _Division | None, runs: Sequence[Run]) -> int:
        """Write the new layout; return how many shared slots any layout has had."""
        most = max((run.most_shared for run in runs), default=0)
        self._layout = None
        if division is None and not most:
            return 0
        self._recall(runs)
        if division is not None:
            self._layout = division.make_layout(self.run.editions, self._claim.digest)
            self.run = replace(self.run, most_shared=max(most, division.slots))
        # The pair must be a committed one. What was accepted or started in a transaction that was
        # aborted does not count, and what this run copies between is compared only later.
        committed = self._store.read_committed()
        self._follow(committed.run.pair, binds=bool(committed.positions))
        self.begin_term(self.run.slots, committed.run.pair)
        return self.run.most_shared

    def _recall(self, runs: Sequence[Run]) -> None:
        """Take over what the run records say of all earlier runs, also those never committed."""
        self.run = replace(
            find_newest(runs),
            slots=max((run.slots for run in runs), default=0),
            most_shared=max((run.most_shared for run in runs), default=0),
            # Of all records: no number may be used for two files.
            editions=merge_editions(run.editions for run in runs),
        )

    def _fence_slot(self, slot: int, *, reads: bool = False) -> dict[str, tuple[int, int]] | None:
        """Fence whatever run has a shared slot, as ``fence`` does."""
        owned = self.of_slot(slot, "")
        try:
            return owned.fence(reads=reads)
        finally:
            owned.close(fence=False)

    def fence(self, *, reads: bool = False) -> dict[str, tuple[int, int]] | None:
        """Fence the run that owns the slot without taking the slot over.

        A run that takes the slot over at the same time finds that the layout has changed.

        Args:
            reads: return producer id and epoch of each transactional id; otherwise nothing.

        Returns:
            What is to be read; None if another run has taken the slot meanwhile.

        Raises:
            TransactionUnfinished, ConnectionFailed, TimedOut, Refused: as ``take_over``.
        """
        self._fence.open()
        try:
            self._fence.take(partial(self._fence_owner, None))
            return self._fence.read_states() if reads else {}
        except Superseded:
            return None

    def _follow(self, recorded: ClusterPair, *, binds: bool) -> None:
        """Compare the clusters with those on record, and adopt the aliases of these.

        Args:
            recorded: the clusters on record.
            binds: whether there may be positions, which belong to these.

        Raises:
            Refused: the positions belong to another cluster.
        """
        if self._pair is None:
            return
        changed = recorded.find_changed(self._pair)
        if changed and binds:
            raise clusters_changed(self._claim.name, changed)
        self._pair = self._pair.follow(recorded)

    def _adopt(self, state: CommitState) -> None:
        """Find out which producer ids may be used."""
        self._store.adopt(state.registrations, self.pair)
        ids = self._fence.producer_ids().items()
        self.retired = frozenset(n for n, id_ in ids if not self._store.is_usable(id_))

    def of_slot(self, slot: int, layout: str) -> Ownership:
        """Return the ownership of a shared slot; ``layout`` is the id of its layout.

        ``fencingMaxParallelism`` of those that are made here bump epochs at the same time.
        """
        claim = self._claim
        topic = replace(self.topic, shared_slot=slot)
        claim = replace(claim, topic=topic, layout=layout, digest="")
        return Ownership(self._target, self._options, claim, self._slot_limit)

    def _has_successor(self, is_certain: bool) -> bool:
        """Return whether this driver has to end because another one has taken over.

        A takeover that only records moved topics ends no run: this one waits until it is over.

        Args:
            is_certain: another driver has bumped the lock, and may not have written its run record.
        """
        if self._claim.topic.shared_slot is not None:
            return is_certain or (self._began and bool(self._store.read_later_runs(self.run.term)))
        if not self._began:
            return is_certain and not self._is_interrupted()
        began = monotonic()
        while True:
            later = self._store.read_later_runs(self.run.term)
            waited_s = monotonic() - began
            if later:
                interrupted = find_newest(later).interrupts
                # Of earlier ones, compaction keeps none.
                if interrupted is None or any(run.interrupts is None for run in later):
                    return True
                if not self._store.has_written(interrupted.term):
                    return True
                if interrupted.is_over or waited_s > _INTERRUPTED_S:
                    return False
            elif not is_certain or waited_s > _SUCCESSOR_S:
                return is_certain
            if self.canceled():
                return False  # not known, and this driver is ending: it writes nothing any more
            sleep(_AGAIN_S)

    def _is_interrupted(self) -> bool:
        """Return whether this takeover met a driver that only records moved topics."""
        newest = find_newest(self._store.read_written_runs())
        interrupted = newest.interrupts
        return interrupted is not None and (not interrupted.is_over or newest != self._found)

    def read_states(self) -> dict[str, tuple[int, int]]:
        """Return producer id and epoch of each transactional id, as this driver has left them.

        It fences shared slots again.

        Raises:
            Superseded, OwnershipLost: another driver has taken over, or may have.
            ConnectionFailed, TimedOut, Refused: as for :meth:`take_over`.
        """
        with ThreadPoolExecutor(self._claim.parallelism, "fencing") as pool:
            fencing = _SlotFencing(pool, self._claim, partial(self._fence_slot, reads=True))
            carry_out(fence_slots(self.run.most_shared), partial(self._carry_slots_out, fencing))
        # Last: another driver would have bumped the epoch of the driver's id first.
        states = self._fence.read_states()
        return states | fencing.states

    def close(self, *, fence: bool = True) -> None:
        """Bump every slot's epoch, so that no task can write any longer, and disconnect."""
        self._fence.close(fence=fence)

    # Tokens

    def renew(self, slot: int) -> Producer:
        """Raise a slot's epoch on the condition that nothing else did; see ``Fence.renew``."""
        return self._registered(slot, self._fence.renew(slot))

    def recover(self, slot: int) -> Producer:
        """Fence whatever is left of a slot's task; see ``Fence.recover``."""
        return self._registered(slot, self._fence.recover(slot))

    def _registered(self, slot: int, token: Producer) -> Producer:
        """Return the token; first register its producer id, if it is new."""
        if not self._store.is_usable(token.producer_id):
            self.retired |= {slot}
        elif slot >= 0:
            self._store.register(token.producer_id)
        return token

    def confirm(self) -> None:
        """Raise if another driver has fenced this one; without exactly-once, none can.

        Raises:
            Superseded, OwnershipLost: another one has, or may have.
            ConnectionFailed, TimedOut, Refused: the coordinator did not say.
        """
        if self._claim.transactional:
            self._fence.confirm()

    def renew_own(self) -> None:
        """Abort a transaction that the driver's own write left open; raises as ``recover``."""
        self._fence.recover(STATE)

    def waiting_state(self, slot: int) -> TransactionState | None:
        """Return the state of a slot's last transaction if it is known to wait for markers."""
        return self._fence.waiting_state(slot)

    # Records

    def read(self, canceled: Callable[[], bool] = lambda: False) -> CommitState:
        """Wait until no transaction is open on the commit topic, then read the state."""
        return self._store.read(canceled)

    def begin_term(self, slots: int, recorded: ClusterPair = UNKNOWN_PAIR) -> None:
        """Begin a new term, whose positions supersede all earlier ones, even larger offsets.

        Args:
            slots: number of slots.
            recorded: the clusters that the run record keeps, if they are known.

        Raises:
            Superseded, TimedOut: as ``write_positions``.
            Refused: no run could read the record, as its term or its slots are too many.
        """
        self._write_run(self.run.term + 1, max(slots, self.run.slots), recorded)

    def publish_layout(self) -> SharedLayout:
        """Begin a term in which runs may take the slots of the layout over; return the layout.

        Raises:
            Superseded, TimedOut: as ``begin_term``.
        """
        assert self._layout is not None
        self._layout = replace(self._layout, ready=True)
        self.begin_term(self.run.slots)
        return self._layout

    def add_id(self) -> int:
        """Return the number of one more transactional id; ``recover`` it before its first use.

        Raises:
            Superseded, TimedOut: as ``write_positions``.
            Refused: no run could read the record.
        """
        added = self.run.slots
        self._write_run(self.run.term, added + 1)
        return added

    def _write_run(
        self,
        term: int,
        slots: int,
        recorded: ClusterPair = UNKNOWN_PAIR,
        interrupts: Interruption | None = None,
        moved: TopicMoves = _NO_MOVES,
        changed: Mapping[SourcePartition, Position] | None = None,
    ) -> None:
        before, slot = self.run, self._claim.topic.shared_slot
        term = max(term, self._floor + 1)
        way = (before.registers, before.bidirectional)
        if self._pair:
            way = self._store.registers, self._claim.bidirectional
        run = Run(
            term,
            slots,
            self._claim.name,
            socket.gethostname(),
            now_ms(),
            recorded if recorded.is_known else self._pair or before.pair,
            *way,
            self._layout,
            before.most_shared,
            slot,
            before.fenced_by if self._fenced_by is None else self._fenced_by,
            has_moved=before.has_moved,
            interrupts=interrupts,
            has_unregistered=before.has_unregistered,
        )
        if slot is None:  # the run record of a slot is of the layout in that of the pipeline
            digest = self._claim.digest or before.digest
            run = replace(
                run,
                digest=digest,
                editions=self._editions(),
                lost_term=self._lost_term,
                log_starts=self._log_starts,
            )
        self._store.write_run(run, changed or None, moved=moved.moved)
        if moved.released:
            self._store.remove_moved(moved.released)
        self.run = run
        log.info("term %d of %s begun with %s", term, self.topic.ids, counted(slots, "slot"))

    def _editions(self) -> Editions:
        """Return the editions for the run record; a file that no run had is the next one."""
        known, digest = self.run.editions, self._claim.digest
        if not digest:
            return known
        edition = self._layout.edition if self._layout else known.edition_of(digest)
        return known.with_edition(edition)

    def write_positions(self, changed: Mapping[SourcePartition, Position]) -> None:
        """Write positions outside a lap, for example start positions.

        Raises:
            Superseded: another driver has taken over; nothing was written.
            TimedOut: the outcome is unknown.
        """
        self._store.write(self._store.position_entries(changed))

    def write_deleted(self, logs: Iterable[DeletedLog]) -> None:
        """Record source logs that were deleted too early; raises as write_positions."""
        group = self.topic.group
        self._store.write([(deleted_log_key(group, log), deleted_log_value(log)) for log in logs])

    def accept_pair(self, pair: ClusterPair, changed: Mapping[SourcePartition, Position]) -> None:
        """Record that clusters were restored, and write positions of the next term.

        Both are written in one transaction: a partition that must not be copied is never seen
        without its mark. The term is new, so that the record of no earlier run counts.

        Args:
            pair: the clusters of now, with the ids that they had.
            changed: positions, of the term after this driver's.

        Raises:
            Superseded, TimedOut: as ``write_positions``.
        """
        run = replace(self.run, term=self.run.term + 1, pair=pair, started_ms=now_ms(), layout=None)
        self._store.write_run(run, changed)
        self.run = run

    def settle_losses(self, changed: Mapping[SourcePartition, Position]) -> None:
        """Write positions, and that no position of the pipeline is lost any more.

        Both are written in one transaction, in the term of this driver.

        Raises:
            Superseded, TimedOut: as ``write_positions``.
        """
        run = replace(self.run, lost_term=0)
        self._store.write_run(run, changed)
        self.run, self._lost_term = run, 0

    def write_recovered(
        self,
        changed: Mapping[SourcePartition, Position],
        moved: Collection[MovedTopic],
        producer_ids: Collection[int],
        *,
        is_registered: bool,
    ) -> None:
        """Write recovered positions of the next term, with all that must be known beside them.

        One transaction: a partition is never copied on before it is known which topics are moved,
        and which producer ids have written for the pipeline.

        Args:
            changed: positions, of the term after this driver's.
            moved: topics that drills have moved.
            producer_ids: those that have written for the pipeline.
            is_registered: whether these are all.

        Raises:
            Superseded, TimedOut: as ``write_positions``.
        """
        run = replace(
            self.run,
            term=self.run.term + 1,
            started_ms=now_ms(),
            layout=None,
            has_moved=self.run.has_moved or bool(moved),
            has_unregistered=self.run.has_unregistered or not is_registered,
            lost_term=0,
        )
        self._store.write_run(run, changed, moved, producer_ids)
        self.run, self._lost_term = run, 0

    def remove_positions(self, sources: Collection[SourcePartition]) -> None:
        """Delete positions from all partitions of the commit topic; raises as write_positions."""
        self._store.remove_positions(sources)
