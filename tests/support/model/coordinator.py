"""A model of Kafka's transaction coordinator, for the requests that our drivers send.

It follows ``TransactionCoordinator.scala`` and ``TransactionMetadata.scala`` of Apache Kafka 3.9
and 4.0: ``prepareInitProducerIdTransit``, ``prepareIncrementProducerEpoch``,
``prepareFenceProducerEpoch``, ``prepareProducerIdRotation`` and ``endTransaction``. Beside it lies
what transactions change: committed records, positions and run records of one pipeline.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from enum import Enum
from types import SimpleNamespace
from typing import Any

from kafka.protocol.admin.transactions import DescribeTransactionsRequest
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.wire.cluster import OutcomeUnknown
from k2ktui.kafka.wire.codes import Code

_LAST_EPOCH = 32766  # Short.MaxValue - 1: isEpochExhausted
_NONE = -1
_UNKNOWN_ID = 105  # TRANSACTIONAL_ID_NOT_FOUND


class Version(Enum):
    """How the coordinator raises the epoch of a transaction that it aborts by itself."""

    TV1 = "before transaction version 2: by one, and forgets the last epoch"
    TV2_400 = "version 2 as in 4.0.0: by two (KAFKA-19367); from the last epoch never"
    TV2 = "version 2: by one, and remembers the last epoch"


class State(Enum):
    EMPTY = 0
    ONGOING = 1
    PREPARED = 2
    COMPLETE = 3


class Fault(Enum):
    """What befalls a request."""

    NONE = 0
    REQUEST_LOST = 1
    RESPONSE_LOST = 2
    LATE = 3  # the connection is lost, the request arrives some time later


@dataclass
class Transaction:
    """The metadata of one transactional id, and what its open transaction would change."""

    producer_id: int
    epoch: int = _NONE
    last_epoch: int = _NONE
    previous_id: int = _NONE
    state: State = State.EMPTY
    committing: bool = False
    changes: list[Any] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)  # where the changes are in the log
    first: int | None = None  # where the log holds something that has no marker yet


@dataclass(frozen=True)
class Produce:
    """Append a change to the open transaction of a token."""

    producer: Producer
    change: Any


@dataclass(frozen=True)
class Run:
    """A run record: which driver, its term, its slots; of a pipeline, or of a shared slot."""

    driver: int
    term: int
    slots: int
    group: str = "g"


@dataclass(frozen=True)
class Copied:
    """Record ``value`` of a source partition, and with it the position behind it, in a term."""

    partition: int
    value: int
    term: int = 0


@dataclass(frozen=True)
class Placed:
    """The position of a source partition that was set: the next record to copy."""

    partition: int
    value: int
    term: int


@dataclass(frozen=True)
class Moved:
    """A record that says whether the topic of a source partition is moved."""

    partition: int
    is_moved: bool


class Coordinator:
    """The coordinator, and the target's committed state.

    Args:
        version: how it treats a transaction that it aborts.
        first_epoch: epoch of ids that are new.
        remembers: an unconditional bump keeps the last epoch, too. Kafka's coordinator forgets it;
            another one of the protocol may not.
    """

    def __init__(
        self, version: Version, first_epoch: int = _NONE, *, remembers: bool = False
    ) -> None:
        self.version, self.remembers = version, remembers
        self.first_epoch = first_epoch
        self.ids: dict[str, Transaction] = {}
        self.committed: list[Any] = []
        self._committed_at: list[int] = []
        self.written: list[Any] = []
        self.blocked: set[str] = set()
        self._next_id = 0

    def handle(self, request: Any) -> Any:
        """Carry a request out and return its response."""
        match request:
            case InitProducerIdRequest():
                return self._init(request)
            case AddPartitionsToTxnRequest():
                code = self._add(request)
                result = SimpleNamespace(partition_error_code=code, partition_index=0)
                topic = SimpleNamespace(name="t", results_by_partition=[result])
                return SimpleNamespace(results_by_topic_v3_and_below=[topic])
            case DescribeTransactionsRequest():
                return SimpleNamespace(transaction_states=[self._describe(request)])
            case EndTxnRequest():
                return SimpleNamespace(error_code=self._end(request))
            case Produce():
                return self._produce(request)
        raise AssertionError(request)

    def time_out(self, name: str) -> None:
        """``abortTimedOutTransactions`` for one id."""
        if self.ids[name].state is State.ONGOING:
            self._fence(self.ids[name])

    def move(self) -> None:
        """Another broker loads the log, which has no last epoch (``TransactionLog``)."""
        for transaction in self.ids.values():
            transaction.last_epoch = _NONE

    def expire(self, name: str) -> None:
        """``transactional.id.expiration.ms`` has passed without a request."""
        if self.ids[name].state in (State.EMPTY, State.COMPLETE):
            del self.ids[name]
            self.first_epoch = _NONE

    def block(self, name: str) -> None:
        """Let a data partition take no marker of an id; the commit topic does."""
        self.blocked.add(name)

    def open(self) -> set[str]:
        """Names of the ids whose transactions hold the commit topic's last stable offset back."""
        return {
            name
            for name, transaction in self.ids.items()
            if transaction.state is State.ONGOING
            or (transaction.state is State.PREPARED and name not in self.blocked)
        }

    def visible(self) -> list[Any]:
        """Return what a read_committed reader sees before the last stable offset."""
        firsts = (self.ids[name].first for name in self.open())
        stable = min((first for first in firsts if first is not None), default=len(self.written))
        at = zip(self.committed, self._committed_at, strict=True)
        return [entry for entry, offset in at if offset < stable]

    def kept(self, is_wanted: Callable[[Any], bool]) -> list[Any]:
        """Return what compaction leaves of a key: its last committed entry, and all after it."""
        at = zip(self.committed, self._committed_at, strict=True)
        last = max((offset for entry, offset in at if is_wanted(entry)), default=0)
        return [entry for entry in self.written[last:] if is_wanted(entry)]

    def complete(self) -> None:
        """Write the markers of what is prepared."""
        for name in self.ids:
            self._complete(name)

    def _complete(self, name: str) -> None:
        transaction = self.ids[name]
        if transaction.state is State.PREPARED and name not in self.blocked:
            transaction.state, transaction.first = State.COMPLETE, None

    def _describe(self, request: Any) -> Any:
        (name,) = request.transactional_ids
        if name not in self.ids:  # it expired, before a late request for it arrived
            return SimpleNamespace(error_code=_UNKNOWN_ID)
        transaction = self.ids[name]
        prepared = "PrepareCommit" if transaction.committing else "PrepareAbort"
        return SimpleNamespace(
            error_code=Code.NONE,
            transaction_state=prepared
            if transaction.state is State.PREPARED
            else transaction.state.name,
            producer_id=transaction.producer_id,
            producer_epoch=transaction.epoch,
            topics=[SimpleNamespace(topic="t", partitions=[0])],
        )

    def _new_id(self) -> int:
        self._next_id += 1
        return self._next_id

    def _init(self, request: Any) -> Any:
        code = self._try_init(request)
        transaction = self.ids[request.transactional_id]
        return SimpleNamespace(
            error_code=code, producer_id=transaction.producer_id, producer_epoch=transaction.epoch
        )

    def _try_init(self, request: Any) -> int:
        name = request.transactional_id
        if name not in self.ids:
            self.ids[name] = Transaction(self._new_id(), epoch=self.first_epoch)
        transaction, expected = self.ids[name], request.producer_epoch
        conditional = request.producer_id != _NONE
        if conditional and not (
            transaction.epoch == _NONE
            or request.producer_id == transaction.producer_id
            or (request.producer_id == transaction.previous_id and expected >= _LAST_EPOCH)
        ):
            return Code.PRODUCER_FENCED
        if transaction.state is State.PREPARED:
            self._complete(name)
            return Code.CONCURRENT_TRANSACTIONS
        if transaction.state is State.ONGOING:  # whatever epoch was expected
            self._fence(transaction)
            unfinished = transaction.state is State.ONGOING
            return Code.UNKNOWN_SERVER_ERROR if unfinished else Code.CONCURRENT_TRANSACTIONS
        if transaction.epoch >= _LAST_EPOCH and (not conditional or expected == transaction.epoch):
            transaction.last_epoch = transaction.epoch if conditional else _NONE
            transaction.previous_id, transaction.producer_id, transaction.epoch = (
                transaction.producer_id,
                self._new_id(),
                0,
            )
        elif transaction.epoch >= _LAST_EPOCH:
            return Code.UNKNOWN_SERVER_ERROR  # an IllegalStateException
        elif not conditional:
            last = transaction.epoch if self.remembers else _NONE
            transaction.epoch, transaction.last_epoch = transaction.epoch + 1, last
        elif transaction.epoch in (_NONE, expected):
            transaction.epoch, transaction.last_epoch = transaction.epoch + 1, transaction.epoch
        elif expected != transaction.last_epoch:
            return Code.PRODUCER_FENCED
        transaction.state = State.EMPTY
        return Code.NONE

    def _fence(self, transaction: Transaction) -> None:
        if self.version is Version.TV2_400 and transaction.epoch >= _LAST_EPOCH:
            transaction.epoch = (
                _LAST_EPOCH + 1
            )  # the second bump fails, now and whenever it is repeated
            return
        last, transaction.epoch = transaction.epoch, transaction.epoch + 1
        transaction.last_epoch = _NONE
        if self.version is Version.TV2:
            transaction.last_epoch = last
        elif self.version is Version.TV2_400:
            transaction.last_epoch, transaction.epoch = transaction.epoch, transaction.epoch + 1
        transaction.state, transaction.committing = State.PREPARED, False
        transaction.changes.clear()
        transaction.offsets.clear()

    def _not_current(self, name: str, producer_id: int, epoch: int) -> int:
        transaction = self.ids.get(name)
        if transaction is None or transaction.producer_id != producer_id:
            return Code.INVALID_PRODUCER_ID_MAPPING
        return Code.NONE if transaction.epoch == epoch else Code.PRODUCER_FENCED

    def _add(self, request: Any) -> int:
        name = request.v3_and_below_transactional_id
        code = self._not_current(
            name, request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
        )
        if code:
            return code
        transaction = self.ids[name]
        if transaction.state is State.PREPARED:
            self._complete(name)
            return Code.CONCURRENT_TRANSACTIONS
        transaction.state = State.ONGOING
        return Code.NONE

    def _end(self, request: Any) -> int:
        code = self._not_current(
            request.transactional_id, request.producer_id, request.producer_epoch
        )
        if code:
            return code
        transaction = self.ids[request.transactional_id]
        if transaction.state is not State.ONGOING:
            return Code.INVALID_TXN_STATE
        if request.committed:
            self.committed += transaction.changes
            self._committed_at += transaction.offsets
        transaction.changes.clear()
        transaction.offsets.clear()
        transaction.state, transaction.committing = State.PREPARED, request.committed
        return Code.NONE

    def _produce(self, request: Produce) -> int:
        producer = request.producer
        name = producer.transactional_id or ""
        code = self._not_current(name, producer.producer_id, producer.epoch)
        if code or self.ids[name].state is not State.ONGOING:
            return Code.INVALID_PRODUCER_EPOCH  # the leader has the abort's marker
        transaction, offset = self.ids[name], len(self.written)
        transaction.changes.append(request.change)
        transaction.offsets.append(offset)
        if transaction.first is None:
            transaction.first = offset
        self.written.append(request.change)
        return Code.NONE


class Pause:
    """What a driver awaits before each request: the test decides when it continues, and how."""

    def __await__(self) -> Generator[None, Fault, Fault]:
        return (yield)


class ModelWire:
    """The wire layer as ``k2ktui.kafka.wire.transactions`` uses it, to the model."""

    def __init__(self, coordinator: Coordinator, late: list[Any]) -> None:
        self._coordinator = coordinator
        self._late = late
        self.loop = self

    async def sleep(self, seconds: float) -> None:
        """Nothing waits: the test's schedule is the only time."""

    def version_of(self, request: type) -> int:
        """Every request is known."""
        return 0

    async def coordinator(self, transactional_id: str, timeout: float = 60.0) -> int:
        """There is one broker."""
        return 1

    def forget_coordinator(self, transactional_id: str) -> None:
        """There is one broker."""

    async def send(
        self, request: Any, node: int | None = None, timeout: float | None = None
    ) -> Any:
        """Send a request; the test decides what befalls it."""
        fault = await Pause()
        if fault is Fault.LATE:
            self._late.append(request)
        if fault in (Fault.LATE, Fault.REQUEST_LOST):
            raise OutcomeUnknown
        response = self._coordinator.handle(request)
        if fault is Fault.RESPONSE_LOST:
            raise OutcomeUnknown
        return response


class DirectWire(ModelWire):
    """Answers at once, without faults.

    Args:
        coordinator: the model.
        at: number of the request before which ``meanwhile`` is called, once.
        meanwhile: what others do then.
    """

    def __init__(
        self, coordinator: Coordinator, at: int = -1, meanwhile: Callable[[], object] = lambda: None
    ) -> None:
        super().__init__(coordinator, [])
        self._until, self._meanwhile = at, meanwhile

    async def send(
        self, request: Any, node: int | None = None, timeout: float | None = None
    ) -> Any:
        """Send a request."""
        self._until, is_now = self._until - 1, self._until == 0
        if is_now:
            self._meanwhile()
        return self._coordinator.handle(request)

    def close(self) -> None:
        """Nothing is open."""
