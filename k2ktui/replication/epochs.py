"""Producer epochs as fencing tokens: which driver owns a pipeline, which task of a slot may write.

The rules, and why they are safe on every transaction version, are in docs/exactly-once.md. In
short: the driver's transactional id never carries a transaction, so that its epoch changes only
when a driver raises it, and a conditional raise (KIP-360) of it is a compare-and-set on every
broker version. Any other id may lose its epoch without a rival: before transaction version 2 the
coordinator that aborts an open transaction raises the epoch and forgets the last one
(``TransactionMetadata.prepareFenceProducerEpoch``), and no version keeps it through a change of
the coordinator (``TransactionLog.readTxnRecordValue``). A refusal there is a question to the
driver's id, never a verdict.

Everything here is a coroutine of plain requests, so that tests run it against a model of the
coordinator.
"""

from __future__ import annotations

from k2ktui.kafka.codes import FENCED, Code
from k2ktui.kafka.transactions import Producer, init_producer
from k2ktui.kafka.wire import CoordinatorError, Wire

DRIVER = -1
STATE = -2
_NAMES = {DRIVER: "driver", STATE: "state"}

# Short.MaxValue - 1 in TransactionMetadata.isEpochExhausted: the next raise gets a new producer id.
LAST_EPOCH = 32766
# A conditional raise of an epoch that is not the current one. The coordinator fails with
# UNKNOWN_SERVER_ERROR where the current one is the last of its producer id: at 32766 with a
# transaction open it aborts that with epoch 32767, and only an unconditional raise gets past it.
_NOT_CURRENT = FENCED | {Code.UNKNOWN_SERVER_ERROR}


class NotOwner(Exception):
    """Another driver has raised the driver's id."""


class OwnershipUnknown(Exception):
    """The driver's id is not at our epoch, but that may be a raise of our own without response."""


class Contested(Exception):
    """The epoch of a slot was raised by something else, but the driver still owns the pipeline."""


def transactional_id(group: str, slot: int) -> str:
    """Return the transactional id of a slot, of the driver, or of the driver's own records."""
    return f"{group}.{_NAMES.get(slot, slot)}"


class ProducerEpochs:
    """The producer ids and epochs that one driver holds.

    ``seconds`` of every method bounds each of its requests; past it they raise CoordinatorError,
    and doing the same again is safe.

    Args:
        wire: the target cluster.
        group: the commit group, which owns the positions.
        timeout_ms: transaction time-out of the slots.
    """

    def __init__(self, wire: Wire, group: str, timeout_ms: int) -> None:
        self._wire = wire
        self._group = group
        self._timeout_ms = timeout_ms
        self._held: dict[int, Producer] = {}
        self._unknown_raise = False

    @property
    def numbers(self) -> list[int]:
        """Slots (and STATE) that were fenced for this driver."""
        return [number for number in self._held if number != DRIVER]

    async def take_ownership(self, seconds: float) -> None:
        """Raise the driver's id, whoever held it: from here on no other driver is the owner.

        Raises:
            CoordinatorError: the coordinator refused or did not answer.
        """
        self._held.clear()
        await self._raise_twice(DRIVER, seconds)

    async def confirm_ownership(self, seconds: float) -> None:
        """Raise the driver's id on the condition that no other driver did.

        Raises:
            NotOwner: another driver did.
            OwnershipUnknown: another driver did, or an earlier raise of our own went unanswered.
            CoordinatorError: the coordinator refused or did not answer.
        """
        held = self._held[DRIVER]
        try:
            raised = await self._raise(held, seconds)
        except CoordinatorError as error:
            if error.code not in _NOT_CURRENT:
                raise
            certain = error.code in FENCED and not self._unknown_raise
            raise (NotOwner if certain else OwnershipUnknown)() from error
        if raised.producer_id != held.producer_id and held.epoch < LAST_EPOCH:
            # The id has expired: whoever asks first gets it, an owner of long ago too.
            raise OwnershipUnknown
        self._held[DRIVER] = raised

    async def fence(self, slot: int, seconds: float) -> None:
        """Abort what a slot left open and fence its tasks, if the pipeline is still ours.

        A driver that was suspended finds out here and leaves the slot alone. The token may only
        be used after one more ``confirm_ownership``: a driver that takes over after that raises
        the slot later, and so fences this token.

        Raises:
            NotOwner, OwnershipUnknown, CoordinatorError: as ``confirm_ownership``.
        """
        await self.confirm_ownership(seconds)
        await self._raise_twice(slot, seconds)

    async def renew(self, slot: int, seconds: float) -> Producer:
        """Raise a slot's epoch on the condition that nothing else did, and return the token.

        Raises:
            Contested: something else did; ``reclaim`` the slot, then read its positions.
            NotOwner, OwnershipUnknown, CoordinatorError: as ``confirm_ownership``.
        """
        held = self._held[slot]
        try:
            raised = await self._raise(held, seconds)
        except CoordinatorError as error:
            if error.code not in _NOT_CURRENT:
                raise
        else:
            # A new producer id: the epochs of the old one are used up, or the id has expired.
            if raised.producer_id == held.producer_id:
                self._held[slot] = raised
                return raised
        await self.confirm_ownership(seconds)
        raise Contested

    async def reclaim(self, slot: int, seconds: float) -> Producer:
        """Raise a slot's epoch whatever it is, and return the token if the pipeline is ours.

        Positions of the slot that were known before must be read again.

        Raises:
            NotOwner, OwnershipUnknown, CoordinatorError: as ``confirm_ownership``.
        """
        await self.fence(slot, seconds)
        await self.confirm_ownership(seconds)
        return self._held[slot]

    async def _raise_twice(self, slot: int, seconds: float) -> None:
        """Twice: a coordinator takes a raise from the previous epoch for a repeat of the last."""
        anyone = Producer(transactional_id(self._group, slot))
        await self._raise(anyone, seconds)
        self._held[slot] = await self._raise(anyone, seconds)

    async def _raise(self, current: Producer, seconds: float) -> Producer:
        own = current.transactional_id == transactional_id(self._group, DRIVER)
        unknown = self._remember_unknown if own else lambda: None
        return await init_producer(self._wire, current, self._timeout_ms, seconds, unknown)

    def _remember_unknown(self) -> None:
        # For good: such a request may still arrive, and look like a rival.
        self._unknown_raise = True
