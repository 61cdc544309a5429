"""Fences a lock and the ids that it guards: who may write for a pipeline, or for a slot of it.

Protocol (docs/internals/exactly-once.md): only the driver bumps producer epochs. The lock is the
driver's transactional id; ``takeover.py`` says in which order a starting driver bumps which ids.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractContextManager
from random import random
from time import monotonic, sleep
from typing import Any, TypeVar

from k2ktui.errors import K2kError, LoginFailed, TimedOut
from k2ktui.kafka.admin.coordinators import TRANSACTIONS, describe_missing
from k2ktui.kafka.admin.transaction_state import TransactionState
from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.wire.cluster import CoordinatorError, Loop, Wire
from k2ktui.kafka.wire.codes import COORDINATOR_RETRIABLE, Code
from k2ktui.kafka.wire.transactions import init_producer
from k2ktui.replication.copying.failpoints import failpoint
from k2ktui.replication.fencing_errors import (
    OwnershipLost,
    TransactionUnfinished,
    coordinator_refused,
    ownership_lost,
    superseded,
    transaction_unfinished,
)
from k2ktui.replication.ownership.commit_state import CommitTopic
from k2ktui.replication.ownership.epochs import (
    STATE,
    Contested,
    NotOwner,
    ProducerEpochs,
    transactional_id,
)
from k2ktui.replication.ownership.takeover import (
    Confirm,
    FencedOwner,
    FenceId,
    FenceRecords,
    TakeLock,
    Written,
)

log = logging.getLogger(__name__)

_T = TypeVar("_T")
# The driver does nothing else while it waits for one slot's token, and tries again anyway.
_RENEW_S = 10.0
_DESCRIBE_S = 2.0
_TAKE_ATTEMPTS = 8
_TAKE_PAUSE_S = 2.0


class Fence:
    """The epochs of a lock and of its ids on the target, with errors for operators.

    Args:
        options: connection options of the target.
        cluster_id: the target's id, if it is known: another cluster is refused.
        pipeline: the pipeline's name, for messages.
        topic: the commit topic, whose use decides the ids.
        transactional: whether exactly-once is enabled; without it nothing is fenced.
        timeout_ms: transaction timeout in milliseconds; without exactly-once, delivery timeout.
        sync_timeout: seconds to wait for an answer, and for an open transaction.
        limit: entered while epochs are bumped; bounds how many locks are taken at the same time.
        has_successor: whether this driver has to end for another one; asked when the lock has
            another epoch. Its argument says whether that is certainly from another driver: it may
            be from a bump of this driver without a response.
        canceled: whether this driver is to end: nothing is waited for any more.

    Attributes:
        loop, wire: the connection, over which the owner's records are written, too.
        is_owned: whether this driver may ask for tokens; False until ``take``, and again when it is
            not known any more.
        unfinished: the transactional ids whose last transaction waited for markers when the lock
            was taken; no task of an earlier driver can write with them.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        *,
        cluster_id: str | None,
        pipeline: str,
        topic: CommitTopic,
        transactional: bool,
        timeout_ms: int,
        sync_timeout: float,
        limit: AbstractContextManager[object],
        has_successor: Callable[[bool], bool],
        canceled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._pipeline, self._group, self._ids = pipeline, topic.group, topic.ids
        self._transactional, self._timeout_ms = transactional, timeout_ms
        self._sync_timeout, self._limit = sync_timeout, limit
        self._has_successor, self._canceled = has_successor, canceled
        self.loop = Loop()
        self.wire = Wire(self.loop, options, "target", cluster_id)
        self._epochs = ProducerEpochs(self.wire, topic.ids, timeout_ms)
        self._is_open = self.is_owned = self._has_expired = False
        self.unfinished: dict[int, TransactionState] = {}

    def open(self) -> None:
        """Connect, once; raises ConnectionFailed or TimedOut."""
        if not self._is_open:
            self.loop.run(lambda: self.wire.open(self._sync_timeout, patient=True))
            self._is_open = True

    def take(self, play: Callable[[], FencedOwner]) -> FencedOwner:
        """Fence whoever has the lock; without exactly-once, nothing.

        Args:
            play: carries the steps of a takeover out, those of the lock and its ids with
                ``carry_out``. May be called again.

        Raises:
            Superseded: another driver takes it as well.
            Outdated: as for ``fence_owner``.
            TransactionUnfinished: a task of an earlier driver may still write.
            ConnectionFailed, TimedOut, Refused: the coordinator did not do it.
        """
        self.is_owned, self._has_expired, self.unfinished = False, False, {}
        fenced = FencedOwner(Written(0))
        for attempts_left in reversed(range(_TAKE_ATTEMPTS)):
            if not self._transactional:
                break
            try:
                with self._limit:
                    fenced = play()
                break
            except OwnershipLost:
                if not attempts_left or self._canceled():
                    raise
                log.info(
                    "take-over of %s contested, trying again (%d left)",
                    self._pipeline,
                    attempts_left,
                )
                # Another starting driver may be retrying too: a random delay lets one of them win.
                sleep(random() * _TAKE_PAUSE_S)  # noqa: S311 - not a secret
        self.is_owned = True
        return fenced

    def carry_out(self, step: TakeLock | FenceRecords | Confirm | FenceId) -> bool | None:
        """Carry out a step of a takeover that bumps the lock, or an id that it guards."""
        epochs, seconds = self._epochs, self._sync_timeout
        match step:
            case TakeLock():
                self._run(lambda: epochs.take_ownership(seconds))
            case FenceRecords():
                self._run(lambda: epochs.fence(STATE, seconds))
                self.unfinished.clear()
                log.info("fencing earlier drivers of %s", self._ids)
                self.is_owned = True  # of this id; no other one is used until all are fenced
            case Confirm():
                self.confirm(seconds)
            case FenceId(slot):
                failpoint("fencing")
                return self._fence_slot(slot)
        return None

    def _fence_slot(self, slot: int) -> bool:
        """Bump a slot's epoch; False: the coordinator has done it, and waits for markers."""
        until = monotonic() + self.renew_s
        while True:
            try:
                self._run_slot(slot, lambda: self._epochs.fence(slot, self._sync_timeout))
                return True
            except TransactionUnfinished as error:
                log.info("slot %d of %s: %s", slot, self._ids, error.message)
                if error.fenced and error.state is not None:
                    self.unfinished[slot] = error.state
                    return False
                if monotonic() > until or self._canceled():
                    raise

    def renew(self, slot: int) -> Producer:
        """Raise a slot's epoch on the condition that nothing else did, and return the token.

        Raises:
            Superseded: another driver has taken over.
            Contested: something else raised it, or ``take`` did not fence the slot; ``recover`` the
                slot and read its positions.
            TransactionUnfinished: its last transaction waits for markers.
            TimedOut: the coordinator did not answer; the same again is safe.
        """
        if not self._transactional:
            id_, timeout = Producer(None), self.renew_s
            return self._run(lambda: init_producer(self.wire, id_, self._timeout_ms, timeout))
        if not self.is_owned:
            raise ownership_lost(has_expired=self._has_expired)
        return self._run_slot(slot, lambda: self._epochs.renew(slot, self.renew_s))

    def recover(self, slot: int) -> Producer:
        """Fence whatever is left of a slot's task; its positions must be read after this.

        Raises:
            Superseded, TransactionUnfinished, TimedOut: as ``renew``.
        """
        try:
            return self.renew(slot)
        except Contested:
            return self._run_slot(slot, lambda: self._epochs.reclaim(slot, self.renew_s))

    def confirm(self, seconds: float | None = None) -> None:
        """Raise if another driver has the lock; it is bumped for that."""
        self._run(lambda: self._epochs.confirm_ownership(seconds or self.renew_s))

    def producer_ids(self) -> dict[int, int]:
        """Return the producer ids of the slots that were fenced, by slot."""
        return self._epochs.producer_ids()

    def waiting_state(self, slot: int) -> TransactionState | None:
        """Return the state of a slot's last transaction if it is known to wait for markers."""
        state = self.loop.run(lambda: self._epochs.describe(slot, _DESCRIBE_S))
        return state if state is not None and (state.aborting or state.committing) else None

    def read_states(self) -> dict[str, tuple[int, int]]:
        """Return producer id and epoch of each id, and of the lock; raises as ``confirm``."""
        return self._run(lambda: self._epochs.read_states(self.renew_s))

    @property
    def renew_s(self) -> float:
        """Seconds to wait for an answer while the pipeline is copied."""
        return min(self._sync_timeout, _RENEW_S)

    def close(self, *, fence: bool = True) -> None:
        """Bump the epoch of every id, so that no task can write any longer, and disconnect."""
        if fence and self._transactional and self._epochs.numbers:
            with contextlib.suppress(K2kError):  # no longer the owner, or target unreachable
                self._fence_own()
        self.wire.close()
        self.loop.close()

    def _fence_own(self) -> None:
        self.confirm()
        for slot in self._epochs.numbers:
            with contextlib.suppress(Contested, TransactionUnfinished):
                self.renew(slot)

    def explain(self, error: CoordinatorError) -> K2kError:
        """Return the error for operators: a refusal, or why the coordinator does not answer."""
        refusal = coordinator_refused(error, self._group, self._timeout_ms)
        outage = self.wire.outage() if error.code in COORDINATOR_RETRIABLE else None
        if outage is None and error.code == Code.COORDINATOR_NOT_AVAILABLE:
            missing = self.loop.run(lambda: describe_missing(self.wire, TRANSACTIONS))
            if missing:
                return TimedOut(f"{refusal.message}; {missing}", hint=refusal.hint)
        if outage is None or isinstance(outage, LoginFailed):
            return outage or refusal
        return TimedOut(f"{refusal.message}; {outage.message}", hint=refusal.hint)

    def _run(self, request: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Run epoch requests and translate their errors for operators."""
        try:
            result: _T = self.loop.run(request)
        except NotOwner as error:
            if self._has_successor(error.is_certain):
                raise superseded(self._pipeline) from error
            self.is_owned = False
            self._has_expired |= error.has_expired
            log.warning("ownership of %s unknown, taking over again", self._pipeline)
            raise ownership_lost(has_expired=self._has_expired) from error
        except CoordinatorError as error:
            raise self.explain(error) from error
        return result

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
            name = transactional_id(self._ids, slot)
            raise transaction_unfinished(name, slot, state, fenced=fenced) from error
