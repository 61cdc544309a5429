"""The driver's side of exactly-once: producer epochs, the run record and the positions.

Protocol (docs/exactly-once.md): only the driver bumps producer epochs. A starting driver first
bumps the driver's transactional id, which makes it the owner, then the id of the driver's own
records, so that the previous driver can no longer change the run record. It then reads how many
slots earlier drivers may have used and bumps those.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import random
from time import monotonic, sleep
from typing import Any, TypeVar

from k2ktui.engine.cluster_pair import UNKNOWN_PAIR, ClusterPair
from k2ktui.engine.deleted_logs import DeletedLog, deleted_log_key, deleted_log_value
from k2ktui.engine.editions import Editions
from k2ktui.engine.run_record import Run, SharedLayout, run_key, run_value
from k2ktui.engine.state import Position, SourcePartition, position_key, position_value
from k2ktui.errors import K2kError, LoginFailed, TimedOut
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.codes import COORDINATOR_RETRIABLE, FENCED, REFUSALS, TOO_LARGE, Code
from k2ktui.kafka.control_reader import await_stable
from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.transaction_state import TransactionState
from k2ktui.kafka.transactions import init_producer
from k2ktui.kafka.wire import CoordinatorError, Loop, OutcomeUnknown, Wire
from k2ktui.replication import commit_state
from k2ktui.replication.commit_state import CommitState, CommitTopic
from k2ktui.replication.copying.failpoints import failpoint
from k2ktui.replication.copying.partition_reader import now_ms
from k2ktui.replication.copying.writer import BatchRefused, Fenced, SlotFailed
from k2ktui.replication.driver_records import write_records
from k2ktui.replication.epochs import (
    DRIVER,
    STATE,
    Contested,
    NotOwner,
    OwnershipUnknown,
    ProducerEpochs,
    transactional_id,
)
from k2ktui.replication.fencing_errors import (
    OwnershipLost,
    TransactionUnfinished,
    clusters_changed,
    coordinator_refused,
    outcome_unknown,
    ownership_lost,
    records_refused,
    refuse_unreadable,
    superseded,
    transaction_unfinished,
)
from k2ktui.replication.producer_registry import ProducerRegistry

_T = TypeVar("_T")
# The driver does nothing else while it waits for one slot's token, and tries again anyway.
_RENEW_S = 10.0
_DESCRIBE_S = 2.0
_TAKE_OVER_ATTEMPTS = 8
_TAKE_OVER_PAUSE_S = 2.0


class TransactionFencer:
    """Bumps producer epochs and writes the driver's own records.

    Args:
        target: the target cluster.
        options: connection options of the target.
        name: the pipeline's name, for messages and the run record.
        topic: the commit topic.
        transactional: whether exactly-once is enabled; without it nothing is fenced.
        timeout_ms: transaction timeout in milliseconds; without exactly-once, delivery timeout.
        sync_timeout: seconds to wait for open transactions and for reading the topic.
        pair: what the run copies, for its run record; None keeps that of the run before.
        bidirectional: the mode in which it leaves out what came from the target; "" if it does not.
        guard: called after each take-over with the id of the drill that the run record names, ""
            without one; what it raises keeps the pipeline from copying. If it raises nothing, the
            run record names that drill no more.
        fence: the drill that fences the pipeline, for its run record; "" for none, None keeps that
            of the run before.
        digest: that of the file by which the run copies, for its run record; "" keeps that of the
            run before.

    Attributes:
        run: the run that this driver has begun.
        unfinished: the transactional ids whose last transaction waited for markers when this driver
            took over; no task of an earlier driver can write with them.
        retired: the transactional ids whose producer id is registered for another source cluster.
    """

    def __init__(
        self,
        target: Cluster,
        options: Mapping[str, Any],
        *,
        name: str,
        topic: CommitTopic,
        transactional: bool,
        timeout_ms: int,
        sync_timeout: float,
        pair: ClusterPair | None = None,
        bidirectional: str = "",
        guard: Callable[[str], None] | None = None,
        fence: str | None = None,
        digest: str = "",
    ) -> None:
        self._fence = fence
        self._digest = digest
        self._target, self._guard = target, guard
        self._name, self._pair, self._bidirectional = name, pair, bidirectional
        self.topic = topic
        self._transactional = transactional
        self._timeout_ms, self._sync_timeout = timeout_ms, sync_timeout
        self._loop = Loop()
        self._wire = Wire(self._loop, options, "target", pair.target if pair else None)
        self._epochs = ProducerEpochs(self._wire, topic.ids, timeout_ms)
        self._own_runs: set[Run] = set()
        self._connected = self._owned = self._began = False
        self.run = Run(0, 0)
        self.unfinished: dict[int, TransactionState] = {}
        self.retired: frozenset[int] = frozenset()
        self._layout: SharedLayout | None = None  # of the run records that it writes
        # The pair of the run records that it writes until that on record was compared; None after.
        self._pair_on_record: ClusterPair | None = None
        self._registry = ProducerRegistry(topic.group, pair if transactional else None)

    def take_over(self, slots: int) -> CommitState:
        """Fence every other driver of this pipeline, begin a new term, return the state before it.

        Raises:
            Superseded: another driver has started in the meantime.
            Refused: the positions belong to other clusters, by the run record.
            TransactionUnfinished: a task of an earlier driver may still write.
            ConnectionFailed, TimedOut, Refused: taking over failed; no position was changed.
            Exception: what the guard raises.
        """
        self._connect()
        self._owned = False
        self.unfinished = {}
        if self._transactional:
            self._fence_others(slots)
        state = self.read()
        self.run = state.run
        failpoint("fenced")
        self._check()
        # Again, although the preflight has: a run in between may have recorded other ids.
        self._follow(state)
        self._owned = True
        self._registry.adopt(state.registrations, self.pair)
        held = self._epochs.producer_ids().items()
        self.retired = frozenset(n for n, id_ in held if not self._registry.is_usable(id_))
        try:
            self.begin_term(slots + len(self.unfinished.keys() | self.retired))
        except K2kError:
            self._owned = False
            raise
        self._began = True
        failpoint("begun")
        if self._guard is not None:
            self._guard(self.run.fenced_by)
            if self.run.fenced_by:
                self._fence = ""
                self._write_run(self.run.term, self.run.slots)
        return state

    def _connect(self) -> None:
        if not self._connected:
            self._loop.run(lambda: self._wire.open(self._sync_timeout, patient=True))
            self._connected = True

    @property
    def pair(self) -> ClusterPair:
        """What the run copies between; unknown if it copies nothing."""
        return self._pair or UNKNOWN_PAIR

    @property
    def must_take_over(self) -> bool:
        """Whether this driver owned the pipeline but ownership is now unknown."""
        return self._began and not self._owned

    def _fence_others(self, slots: int) -> None:
        for left in reversed(range(_TAKE_OVER_ATTEMPTS)):
            try:
                self._try_to_fence_others(slots)
                return
            except OwnershipLost:
                if not left:
                    raise
                # Another starting driver may be retrying too: a random delay lets one of them win.
                sleep(random() * _TAKE_OVER_PAUSE_S)  # noqa: S311 - not a secret

    def _try_to_fence_others(self, slots: int) -> None:
        epochs, seconds = self._epochs, self._sync_timeout
        self._run(lambda: epochs.take_ownership(seconds))
        self._run(lambda: epochs.fence(STATE, seconds))
        self.unfinished.clear()
        # Uncommitted run records count too: fencing too many slots is harmless, but a slot's open
        # transaction hides all later records until the slot is fenced.
        self._announce(found := list(self._written_runs()))
        for slot in range(max([slots, *(run.slots for run in found)])):
            failpoint("fencing")
            self._fence_slot(slot)
        self._run(lambda: epochs.confirm_ownership(seconds))

    def _fence_slot(self, slot: int) -> None:
        """Bump a slot's epoch, unless the coordinator has done it and waits for markers."""
        until = monotonic() + self._renew_s
        while True:
            try:
                return self._run_slot(slot, lambda: self._epochs.fence(slot, self._sync_timeout))
            except TransactionUnfinished as error:
                if error.fenced and error.state is not None:
                    self.unfinished[slot] = error.state
                    return None
                if monotonic() > until:
                    raise

    def _announce(self, found: Sequence[Run]) -> None:
        """Do what must precede the fencing of slots; ``found`` are the runs of earlier drivers."""

    def _check(self) -> None:
        """Decide whether to begin a term, once all slots are fenced; raise if not."""

    def _recorded_pair(self, state: CommitState) -> ClusterPair:
        """Return the clusters on record."""
        return state.run.pair

    def _follow(self, state: CommitState) -> None:
        """Compare the clusters with those on record, and adopt the aliases of these.

        Raises:
            Refused: the positions belong to another cluster.
        """
        if self._pair is None:
            return
        recorded = self._recorded_pair(state)
        changed = recorded.find_changed(self._pair)
        if changed and (state.positions or self.topic.shared_slot is not None):
            raise clusters_changed(self._name, changed)
        self._pair = self._pair.follow(recorded)

    def _written_runs(self) -> Iterator[Run]:
        self.topic = commit_state.with_all_partitions(self._target, self.topic)
        return commit_state.read_written_runs(self._target, self.topic, self._sync_timeout)

    def read(self, canceled: Callable[[], bool] = lambda: False) -> CommitState:
        """Wait until no transaction is open on the commit topic, then read the state."""
        self.topic = topic = commit_state.with_all_partitions(self._target, self.topic)
        if self._transactional:
            await_stable(self._target, topic.name, topic.partitions, self._sync_timeout, canceled)
        state = commit_state.read_commit_state(self._target, topic, self._sync_timeout)
        # Another cluster under the same address has no positions: all would be copied again.
        self._target.require_expected()
        return state

    def begin_term(self, slots: int) -> None:
        """Begin a new term, whose positions supersede all earlier ones, even larger offsets.

        Raises:
            Superseded, TimedOut: as ``write_positions``.
            Refused: no run could read the record, as its term or its slots are too many.
        """
        self._write_run(self.run.term + 1, max(slots, self.run.slots))

    def add_id(self) -> int:
        """Return the number of one more transactional id; ``recover`` it before its first use.

        Raises:
            Superseded, TimedOut: as ``write_positions``.
            Refused: no run could read the record.
        """
        added = self.run.slots
        self._write_run(self.run.term, added + 1)
        return added

    def _write_run(self, term: int, slots: int) -> None:
        pair = self._pair_on_record or self._pair or self.run.pair
        host, way = socket.gethostname(), (self.run.registers, self.run.bidirectional)
        if self._pair:
            way = self._registry.is_active, self._bidirectional
        slot, most = self.topic.shared_slot, self.run.most_shared
        fence = self.run.fenced_by if self._fence is None else self._fence
        run = Run(
            term, slots, self._name, host, now_ms(), pair, *way, self._layout, most, slot, fence
        )
        if slot is None:  # the run record of a slot is of the layout in that of the pipeline
            editions = self._editions()
            run = replace(run, digest=self._digest or self.run.digest, editions=editions)
        refuse_unreadable(run, self.topic.name)
        self._own_runs.add(run)
        self._write([(run_key(self.topic.group, slot), run_value(run))], register=True)
        self.run = run

    def _editions(self) -> Editions:
        """Return the editions for the run record; a file that no run had is the next one."""
        known = self.run.editions
        return known.with_edition(known.edition_of(self._digest)) if self._digest else known

    def renew(self, slot: int) -> Producer:
        """Raise a slot's epoch on the condition that nothing else did, and return the token.

        Raises:
            Superseded: another driver has taken over.
            Contested: something else raised it, or ``take_over`` did not fence the slot;
                ``recover`` the slot and read its positions.
            TransactionUnfinished: its last transaction waits for markers.
            TimedOut: the coordinator did not answer; the same again is safe.
        """
        if not self._transactional:
            id_, timeout = Producer(None), self._renew_s
            return self._run(lambda: init_producer(self._wire, id_, self._timeout_ms, timeout))
        if not self._owned:
            raise ownership_lost()
        token = self._run_slot(slot, lambda: self._epochs.renew(slot, self._renew_s))
        return self._registered(slot, token)

    def recover(self, slot: int) -> Producer:
        """Fence whatever is left of a slot's task; its positions must be read after this.

        Raises:
            Superseded, TransactionUnfinished, TimedOut: as ``renew``.
        """
        try:
            return self.renew(slot)
        except Contested:
            token = self._run_slot(slot, lambda: self._epochs.reclaim(slot, self._renew_s))
            return self._registered(slot, token)

    def _registered(self, slot: int, token: Producer) -> Producer:
        """Return the token; first register its producer id, if it is new."""
        if not self._registry.is_usable(token.producer_id):
            self.retired |= {slot}
        elif slot >= 0 and self._registry.missing([token.producer_id], 0):
            self._write([], register=True)
        return token

    def waiting_state(self, slot: int) -> TransactionState | None:
        """Return the state of a slot's last transaction if it is known to wait for markers."""
        state = self._loop.run(lambda: self._epochs.describe(slot, _DESCRIBE_S))
        return state if state is not None and (state.aborting or state.committing) else None

    def renew_own(self) -> None:
        """Abort a transaction that the driver's own write left open; raises as ``recover``."""
        self.recover(STATE)

    @property
    def longest_commit_s(self) -> float:
        """Seconds after which a lap can no longer commit what it wrote."""
        return self._timeout_ms / 1000

    @property
    def _renew_s(self) -> float:
        return min(self._sync_timeout, _RENEW_S)

    def write_positions(self, changed: Mapping[SourcePartition, Position]) -> None:
        """Write positions outside a lap, for example start positions.

        Raises:
            Superseded: another driver has taken over; nothing was written.
            TimedOut: the outcome is unknown.
        """
        group = self.topic.group
        self._write([(position_key(group, s), position_value(p)) for s, p in changed.items()])

    def write_deleted(self, logs: Iterable[DeletedLog]) -> None:
        """Record source logs that were deleted too early; raises as write_positions."""
        group = self.topic.group
        self._write([(deleted_log_key(group, log), deleted_log_value(log)) for log in logs])

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
        group = self.topic.group
        run = replace(self.run, term=self.run.term + 1, pair=pair, started_ms=now_ms(), layout=None)
        refuse_unreadable(run, self.topic.name)
        self._own_runs.add(run)
        positions = [(position_key(group, s), position_value(p)) for s, p in changed.items()]
        self._write([(run_key(group), run_value(run)), *positions])
        self.run = run

    def remove_positions(self, sources: Collection[SourcePartition]) -> None:
        """Delete positions from all partitions of the commit topic; raises as write_positions."""
        keys = [position_key(self.topic.group, source) for source in sources]
        self._write([(key, None) for key in keys], range(self.topic.partitions))

    def _write(
        self,
        entries: Sequence[tuple[bytes, bytes | None]],
        partitions: Sequence[int] = (),
        *,
        register: bool = False,
    ) -> None:
        """Write records in a transaction; ``register`` adds the registrations that are missing."""
        at = now_ms()
        new = self._registry.missing(self._epochs.producer_ids().values(), at) if register else []
        entries = [*entries, *self._registry.records(new)]
        if not entries:
            return
        producer = self.recover(STATE)
        where = [(self.topic.name, p) for p in partitions or (self.topic.partition(DRIVER),)]
        try:
            self._loop.run(
                lambda: write_records(
                    self._wire, producer, where, entries, at, transactional=self._transactional
                )
            )
        except (Fenced, CoordinatorError) as error:
            if not isinstance(error, Fenced) and error.code not in FENCED:
                raise self._explain(error) from None
            # Not necessarily another driver: the coordinator also aborts timed-out transactions.
            self._run(lambda: self._epochs.confirm_ownership(self._renew_s))
            raise outcome_unknown(self.topic.name, "the transaction was aborted") from None
        except (SlotFailed, BatchRefused) as error:
            if error.code in REFUSALS | TOO_LARGE:
                raise records_refused(self.topic.name, error.code, str(error)) from None
            raise outcome_unknown(self.topic.name, str(error)) from None
        except OutcomeUnknown as error:
            raise outcome_unknown(self.topic.name, str(error)) from None
        self._registry.mark_written(new)

    def close(self, *, fence: bool = True) -> None:
        """Bump every slot's epoch, so that no task can write any longer, and disconnect."""
        if fence and self._transactional and self._epochs.numbers:
            with contextlib.suppress(K2kError):  # no longer the owner, or target unreachable
                self._fence_own()
        self._wire.close()
        self._loop.close()

    def _fence_own(self) -> None:
        self._run(lambda: self._epochs.confirm_ownership(self._renew_s))
        for slot in self._epochs.numbers:
            with contextlib.suppress(Contested, TransactionUnfinished):
                self.renew(slot)

    def _run(self, request: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Run epoch requests and translate their errors for operators."""
        try:
            result: _T = self._loop.run(request)
        except NotOwner:
            raise superseded(self._name) from None
        except OwnershipUnknown:
            if self._began and self._has_successor():
                raise superseded(self._name) from None
            self._owned = False
            raise ownership_lost() from None
        except CoordinatorError as error:
            raise self._explain(error) from None
        return result

    def _explain(self, error: CoordinatorError) -> K2kError:
        """Return the error for operators: a refusal, or why the coordinator does not answer."""
        found = coordinator_refused(error, self.topic.group, self._timeout_ms)
        outage = self._wire.outage() if error.code in COORDINATOR_RETRIABLE else None
        if outage is None or isinstance(outage, LoginFailed):
            return outage or found
        return TimedOut(f"{found.message}; {outage.message}", hint=found.hint)

    def _run_slot(self, slot: int, request: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Run epoch requests for a slot whose last transaction may wait for markers."""
        return self._run(lambda: self._unless_unfinished(slot, request))

    async def _unless_unfinished(
        self, slot: int, request: Callable[[], Coroutine[Any, Any, _T]]
    ) -> _T:
        try:
            return await request()
        except CoordinatorError as error:
            if error.code != Code.CONCURRENT_TRANSACTIONS or slot < 0:
                raise
            state = await self._epochs.describe(slot, _DESCRIBE_S)
            fenced = state is not None and self._epochs.is_fenced(slot, state)
            name = transactional_id(self.topic.ids, slot)
            raise transaction_unfinished(name, slot, state, fenced=fenced) from None

    def _has_successor(self) -> bool:
        """Return whether another driver has begun a term since this one did."""
        others = (run for run in self._written_runs() if run not in self._own_runs)
        return any(run.term >= self.run.term for run in others)
