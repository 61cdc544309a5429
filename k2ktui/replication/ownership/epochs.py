"""Producer epochs as fencing tokens: which driver owns a pipeline, which task of a slot may write.

docs/internals/exactly-once.md has the rules and why they are safe on every transaction version. In
short: the driver's transactional id never has a transaction, so its epoch changes only when a
driver bumps it, and a conditional bump (KIP-360) is a compare-and-set on every broker version. Any
other id may lose its epoch without a competing driver: before transaction version 2, a coordinator
that aborts an open transaction bumps the epoch and forgets the last one
(``TransactionMetadata.prepareFenceProducerEpoch``), and no version keeps the last epoch through a
change of coordinator (``TransactionLog.readTxnRecordValue``). If such an id is refused, the
driver's id decides whether the pipeline is still owned.

The methods are coroutines of plain requests, so that tests can run them against a model of the
coordinator.
"""

from __future__ import annotations

import logging
from functools import partial
from math import inf
from time import monotonic

from k2ktui.kafka.admin.transaction_state import TransactionState, describe_transaction
from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.wire.cluster import CoordinatorError, CoordinatorWire
from k2ktui.kafka.wire.codes import FENCED, Code
from k2ktui.kafka.wire.transactions import init_producer

log = logging.getLogger(__name__)

DRIVER = -1
STATE = -2
_NAMES = {DRIVER: "driver", STATE: "state"}

# Short.MaxValue - 1 in TransactionMetadata.isEpochExhausted: the next bump gets a new producer id.
# No transaction is begun with it: Kafka 4.0.0 could not abort it, ever (KAFKA-19367).
LAST_EPOCH = 32766
# Seconds to wait for the end of a slot's last transaction before its state is asked for.
_PATIENCE_S = 2.0
_LOOK_AGAIN_S = 0.05
# Errors of a conditional bump from an epoch that is not the current one. The coordinator fails
# with UNKNOWN_SERVER_ERROR if the current epoch is the last of its producer id: at 32766 with an
# open transaction, it aborts the transaction with epoch 32767, and only an unconditional bump
# succeeds after that.
_NOT_CURRENT = FENCED | {Code.UNKNOWN_SERVER_ERROR}


class NotOwner(Exception):
    """The driver's id has another epoch than this driver's.

    Attributes:
        is_certain: whether another driver has bumped it. Otherwise it may have been a bump of this
            driver whose response was lost, or the id has expired.
        has_expired: whether the coordinator had forgotten the id, and a bump of this driver has
            created it again.
    """

    def __init__(self, *, is_certain: bool, has_expired: bool = False) -> None:
        super().__init__()
        self.is_certain, self.has_expired = is_certain, has_expired


class Contested(Exception):
    """Something else bumped the epoch of a slot, but the driver still owns the pipeline."""


def transactional_id(group: str, slot: int) -> str:
    """Return the transactional id of a slot, of the driver (DRIVER) or of its records (STATE)."""
    return f"{group}.{_NAMES.get(slot, slot)}"


class ProducerEpochs:
    """The producer ids and epochs that one driver holds.

    The ``seconds`` argument of every method is the timeout of each of its requests. A request that
    times out raises CoordinatorError; calling the method again is safe. A slot whose last
    transaction does not end raises it with CONCURRENT_TRANSACTIONS after ``patience`` seconds.

    Args:
        wire: connection to the target cluster.
        group: the commit group, which owns the positions.
        timeout_ms: transaction timeout in milliseconds.
        patience: seconds.
    """

    def __init__(
        self, wire: CoordinatorWire, group: str, timeout_ms: int, patience: float = _PATIENCE_S
    ) -> None:
        self._wire = wire
        self._patience = patience
        self._group = group
        self._timeout_ms = timeout_ms
        self._held: dict[int, Producer] = {}
        self._has_lost_response = False

    @property
    def numbers(self) -> list[int]:
        """Numbers of the slots (and STATE) that this driver has fenced."""
        return [number for number in self._held if number != DRIVER]

    def producer_ids(self) -> dict[int, int]:
        """Return the producer ids of the slots that this driver has fenced, by slot."""
        return {slot: held.producer_id for slot, held in self._held.items() if slot >= 0}

    async def take_ownership(self, seconds: float) -> None:
        """Bump the driver's epoch unconditionally: previous owners lose the pipeline.

        Raises:
            CoordinatorError: the coordinator refused or did not answer.
        """
        self._held.clear()
        await self._bump_twice(DRIVER, seconds)
        log.info("owner of %s with epoch %d", self._group, self._held[DRIVER].epoch)

    async def confirm_ownership(self, seconds: float) -> None:
        """Bump the driver's epoch on the condition that no other driver did.

        Raises:
            NotOwner: another driver did, the response to an earlier bump was lost, or the id has
                expired; after that, until ``take_ownership``, nothing is asked.
            CoordinatorError: the coordinator refused or did not answer.
        """
        held = self._held.get(DRIVER)
        if held is None:
            raise NotOwner(is_certain=False)
        try:
            bumped = await self._bump(held, seconds)
        except CoordinatorError as error:
            if error.code not in _NOT_CURRENT:
                raise
            is_certain = error.code in FENCED and not self._has_lost_response
            log.warning(
                "ownership of %s %s: %s", self._group, "lost" if is_certain else "unknown", error
            )
            raise NotOwner(is_certain=is_certain) from error
        if bumped.producer_id != held.producer_id and held.epoch < LAST_EPOCH:
            # The id expired, so the first requester gets it, even a former owner. The former
            # epoch is forgotten: it would be refused, as if another driver had raised it, which
            # ends the run, although this bump has.
            del self._held[DRIVER]
            log.warning(
                "ownership of %s unknown: the coordinator has forgotten its transactional id, "
                "which was not used for transactional.id.expiration.ms",
                self._group,
            )
            raise NotOwner(is_certain=False, has_expired=True)
        self._held[DRIVER] = bumped

    async def fence(self, slot: int, seconds: float) -> None:
        """Abort a slot's open transaction and fence its tasks, if this driver is the owner.

        A driver that was suspended detects a new owner here and does not touch the slot. Use the
        new epoch only after one more ``confirm_ownership``: a driver that takes over after that
        bumps the slot's epoch later and so fences this one.

        Raises:
            NotOwner, CoordinatorError: as ``confirm_ownership``.
        """
        await self.confirm_ownership(seconds)
        await self._bump_twice(slot, seconds)

    async def renew(self, slot: int, seconds: float) -> Producer:
        """Bump a slot's epoch unless another process did since, and return the producer.

        Ownership is confirmed afterwards. A driver that has taken over meanwhile may not have been
        able to bump this slot, if the slot's transaction waited for a marker.

        Raises:
            Contested: something else did; ``reclaim`` the slot, then read its positions.
            NotOwner, CoordinatorError: as ``confirm_ownership``.
        """
        held = self._held.get(slot)
        bumped = held and await self._bump_held(held, seconds)
        await self.confirm_ownership(seconds)
        if bumped is None:
            log.info(
                "slot %d of %s: its epoch was raised by another process, or its id has expired",
                slot,
                self._group,
            )
            raise Contested
        self._held[slot] = bumped
        return bumped

    async def _bump_held(self, held: Producer, seconds: float) -> Producer | None:
        """Bump the epoch of a held producer; None if it is not the current one."""
        try:
            bumped = await self._bump(held, seconds)
        except CoordinatorError as error:
            if error.code not in _NOT_CURRENT:
                raise
            return None
        # A new producer id means that the old one's epochs are exhausted or it has expired.
        return bumped if bumped.producer_id == held.producer_id else None

    def is_fenced(self, slot: int, state: TransactionState) -> bool:
        """Return whether no token of a slot can write any longer, from its state after a bump.

        An abort increases the epoch, so no token has the epoch of one that waits for its markers.
        A commit does not: the task that requested it may begin another transaction after it.
        """
        held = self._held.get(slot)
        # The held token shows whether the answer is of an outdated coordinator.
        return state.aborting and (
            held is None or (state.producer_id == held.producer_id and state.epoch > held.epoch)
        )

    async def describe(self, slot: int, seconds: float) -> TransactionState | None:
        """Return the coordinator's state of a slot; None if unknown."""
        return await describe_transaction(self._wire, transactional_id(self._group, slot), seconds)

    async def read_states(self, seconds: float) -> dict[str, tuple[int, int]]:
        """Return producer id and epoch of each id that this driver has fenced, and of its own.

        Ids whose state the brokers do not show (before Kafka 3.0) are left out. The driver's own id
        is confirmed last: another driver would have bumped it before any other id.

        Raises:
            NotOwner, CoordinatorError: as ``confirm_ownership``.
        """
        states = {}
        for number in self.numbers:
            state = await self._describe_ended(number, seconds)
            if state is not None:
                name = transactional_id(self._group, number)
                states[name] = state.producer_id, state.epoch
        await self.confirm_ownership(seconds)
        own = self._held[DRIVER]
        return states | {transactional_id(self._group, DRIVER): (own.producer_id, own.epoch)}

    async def _describe_ended(self, number: int, seconds: float) -> TransactionState | None:
        """Return the state of an id after its last transaction, whose end may raise the epoch."""
        until = monotonic() + seconds
        while True:
            state = await self.describe(number, seconds)
            if state is None or not (state.aborting or state.committing):
                return state
            if monotonic() > until:
                return None
            await self._wire.loop.sleep(_LOOK_AGAIN_S)

    async def reclaim(self, slot: int, seconds: float) -> Producer:
        """Bump a slot's epoch unconditionally and return the producer, if this driver is the owner.

        The positions of the slot must be read again afterwards.

        Raises:
            NotOwner, CoordinatorError: as ``confirm_ownership``.
        """
        await self.fence(slot, seconds)
        await self.confirm_ownership(seconds)
        return self._held[slot]

    async def _bump_twice(self, slot: int, seconds: float) -> None:
        """Bump twice, so that no former token has the epoch before the current one.

        A conditional bump from that epoch counts as a retry. By the source of Kafka's coordinator,
        an unconditional bump forgets it, and one is enough; the second does not rely on that.
        """
        anyone = Producer(transactional_id(self._group, slot))
        await self._bump(anyone, seconds)
        self._held[slot] = await self._bump(anyone, seconds)

    async def _bump(self, current: Producer, seconds: float) -> Producer:
        """Bump an epoch; what has transactions gets none with the last epoch of a producer id."""
        own = current.transactional_id == transactional_id(self._group, DRIVER)
        state = current.transactional_id == transactional_id(self._group, STATE)
        request = partial(
            init_producer,
            self._wire,
            transaction_timeout_ms=self._timeout_ms,
            deadline=seconds,
            on_unknown=self._note_lost_response if own else lambda: None,
            patience=inf if own or state else self._patience,
        )
        bumped = await request(current)
        log.debug(
            "%s: producer id %d, epoch %d",
            bumped.transactional_id,
            bumped.producer_id,
            bumped.epoch,
        )
        if bumped.epoch >= LAST_EPOCH and not own:
            return await request(bumped)
        return bumped

    def _note_lost_response(self) -> None:
        # Never reset: such a request may still arrive and look like a competing driver.
        self._has_lost_response = True
