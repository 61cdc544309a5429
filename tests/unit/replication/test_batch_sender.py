"""When a writer may say that a target partition does not exist: only when a broker said so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import sleep
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.future import Future

from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.wire import produce_request
from k2ktui.kafka.wire._kafka_python import ClosedInUseError
from k2ktui.kafka.wire.cluster import (
    Loop,
    OutcomeUnknown,
    PartitionLeader,
    Signal,
    TopicInfo,
    Wire,
)
from k2ktui.replication.copying import batch_sender as module
from k2ktui.replication.copying.batch_sender import (
    BatchRefused,
    BatchSender,
    Fenced,
    PartitionsUnavailable,
    RecordTooLargeToSend,
    RequestTooLarge,
    SlotFailed,
)
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch
from k2ktui.replication.copying.slot_settings import ProduceSettings

TARGET = ("t", 0)
DEFAULTS = ProduceSettings()


class _Metadata:
    """A cluster that answers nothing but metadata: one answer, or silence."""

    def __init__(self, loop: Loop, answer: TopicInfo | None) -> None:
        self.loop = loop
        self._answer = answer

    async def metadata(self, topics: Any) -> dict[str, TopicInfo]:
        if self._answer is None:
            raise OutcomeUnknown("no broker answers")
        return {"t": self._answer}


def pump_until(answer: TopicInfo | None, rounds: int, settings: ProduceSettings = DEFAULTS) -> None:
    loop = Loop()
    wire: Any = _Metadata(loop, answer)
    sender = BatchSender(wire, Producer(None, 1, 0), Signal(loop), settings)

    async def run() -> None:
        sender.offer(OutgoingBatch(TARGET, memoryview(bytearray(61)), 1))
        for _ in range(rounds):
            await loop.sleep(await sender.pump())

    try:
        loop.run(run)
    finally:
        loop.close()


class _Acknowledging(_Metadata):
    """A cluster that answers every batch with one base offset, or one error code."""

    def __init__(self, loop: Loop, base_offset: int, code: int = 0) -> None:
        super().__init__(loop, TopicInfo(0, "", {0: PartitionLeader(1, 0)}))
        part = produce_request.ProducedPartition(0, code, base_offset, "")
        self._response = produce_request.ProduceResponse(
            [produce_request.ProducedTopic("t", [part])], 0
        )

    def version_of(self, _: Any) -> int:
        return 11

    def post(self, *_: Any) -> Any:
        return Future().success(self._response)


@pytest.mark.parametrize("base_offset", [7, -1])
def test_an_acknowledgement_without_an_offset_is_no_mapping(base_offset: int) -> None:
    loop = Loop()
    wire: Any = _Acknowledging(loop, base_offset)
    landed: list[int] = []
    owner: Any = SimpleNamespace(acknowledge=lambda _, base: landed.append(base))
    sender = BatchSender(wire, Producer(None, 1, 0), Signal(loop))
    sender.offer(OutgoingBatch(TARGET, memoryview(bytearray(61)), 1, owner=owner))
    try:
        if base_offset < 0:
            with pytest.raises(BatchRefused, match="has no offset"):
                loop.run(sender.drain)
            assert landed == []
        else:
            loop.run(sender.drain)
            assert landed == [7]
    finally:
        loop.close()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        *((code, PartitionsUnavailable) for code in (6, 19, 20)),
        *((code, BatchRefused) for code in (-1, 76, 999)),
        *((code, SlotFailed) for code in (45, 59, 120)),
        (47, Fenced),
    ],
)
def test_what_an_error_code_stops(
    code: int, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition, unless the code is about the producer or its transaction."""
    monkeypatch.setattr(module, "UNAVAILABLE_AFTER_S", 0.1)
    loop = Loop()
    wire: Any = _Acknowledging(loop, -1, code)
    sender = BatchSender(wire, Producer("x", 1, 0), Signal(loop))
    sender.offer(OutgoingBatch(TARGET, memoryview(bytearray(61)), 1))
    try:
        with pytest.raises(error) as raised:
            loop.run(sender.drain)
        assert type(raised.value) is error
    finally:
        loop.close()


class _Failing(_Metadata):
    """A cluster whose partitions all take no writes, and a clock that a test moves."""

    def __init__(self, loop: Loop) -> None:
        leaders = {number: PartitionLeader(1, 0) for number in range(2)}
        super().__init__(loop, TopicInfo(0, "", leaders))
        self.now = 100.0

    def version_of(self, _: Any) -> int:
        return 11

    def post(self, request: Any, _: int) -> Any:
        topics = [
            produce_request.ProducedTopic(
                "t", [produce_request.ProducedPartition(number, 19, -1, "") for number in range(2)]
            )
        ]
        return Future().success(produce_request.ProduceResponse(topics, 0))


@pytest.mark.parametrize(("later_s", "stopped"), [(1, {0, 1}), (19, {0})])
def test_each_partition_has_its_own_time(
    later_s: int, stopped: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of one outage stop together; one that has just begun to fail does not."""
    loop = Loop()
    wire: Any = _Failing(loop)
    monkeypatch.setattr(module, "monotonic", lambda: wire.now)
    sender = BatchSender(wire, Producer("x", 1, 0), Signal(loop))

    async def run() -> None:
        for second in range(100):
            if second in (0, later_s):
                target = ("t", 0 if second == 0 else 1)
                sender.offer(OutgoingBatch(target, memoryview(bytearray(61)), 1))
            await sender.pump()
            wire.now += 1

    try:
        with pytest.raises(PartitionsUnavailable) as raised:
            loop.run(run)
    finally:
        loop.close()
    assert raised.value.reasons.keys() == {("t", number) for number in stopped}


UNKNOWN = TopicInfo(3)
LEADERLESS = TopicInfo(0, "", {0: PartitionLeader(-1, 7)})


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GONE_AFTER_S", 0.1)


def test_unknown_to_the_brokers() -> None:
    with pytest.raises(BatchRefused):
        pump_until(UNKNOWN, 20)


def test_a_partition_without_a_leader_is_given_up_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    pump_until(LEADERLESS, 6)
    monkeypatch.setattr(module, "UNAVAILABLE_AFTER_S", 0.2)
    with pytest.raises(PartitionsUnavailable, match="it has no leader") as raised:
        pump_until(LEADERLESS, 40)
    assert raised.value.reasons.keys() == {TARGET}


def test_a_cluster_that_does_not_answer_is_no_fault_of_a_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "UNAVAILABLE_AFTER_S", 0.05)
    pump_until(None, 6)
    with pytest.raises(SlotFailed, match="no leader") as raised:
        pump_until(None, 20, ProduceSettings(delivery_timeout_s=0.2))
    assert not isinstance(raised.value, PartitionsUnavailable)


class _Narrow(_Metadata):
    """A cluster that closes the connection on requests above a size, and takes all others."""

    as_other_cluster = staticmethod(lambda error: None)
    was_closed = staticmethod(Wire.was_closed)

    def __init__(self, loop: Loop, most: Callable[[int], int], partitions: int) -> None:
        """``most`` is the size by the number of requests before."""
        leaders = {number: PartitionLeader(1, 0) for number in range(partitions)}
        super().__init__(loop, TopicInfo(0, "", leaders))
        self._most, self.sizes, self.taken = most, list[int](), list[bytes]()

    def version_of(self, _: Any) -> int:
        return 8

    def post(self, request: Any, _: int) -> Any:
        (topic,) = request.topic_data
        batches = {part.index: bytes(part.records) for part in topic.partition_data}
        size = sum(map(len, batches.values()))
        self.sizes.append(size)
        if size > self._most(len(self.sizes) - 1):
            return Future().failure(ClosedInUseError("socket disconnected"))
        base = 10 * len(self.taken)
        self.taken += batches.values()
        parts = [produce_request.ProducedPartition(at, 0, base, "") for at in batches]
        topics = [produce_request.ProducedTopic("t", parts)]
        return Future().success(produce_request.ProduceResponse(topics, 0))


def send_to(wire: Any, sizes: Sequence[int], count: int = 2) -> BatchSender:
    sender = BatchSender(wire, Producer("x", 1, 0), Signal(wire.loop))
    for number, size in enumerate(sizes):
        sender.offer(OutgoingBatch(("t", number), memoryview(bytearray(size)), count))
    try:
        wire.loop.run(sender.drain)
    finally:
        wire.loop.close()
    return sender


def test_a_closed_connection_makes_requests_smaller_and_leaves_the_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long it takes to go through a request, its batches are sent again in one."""
    fails = module._Queue.fails  # noqa: SLF001

    def fails_slowly(queue: Any, reason: str, *, silent: bool = False) -> None:
        sleep(0.01)
        fails(queue, reason, silent=silent)

    monkeypatch.setattr(module._Queue, "fails", fails_slowly)  # noqa: SLF001
    wire = _Narrow(Loop(), lambda _: 300_000, 8)
    sender = send_to(wire, [100_000] * 8)
    assert wire.sizes == [800_000, 800_000, 400_000, 400_000, *[200_000] * 4]
    assert sender.request_bytes == 200_000
    assert len(set(wire.taken)) == 1 and len(wire.taken) == 8
    assert sender.acknowledged_bytes == 800_000


@pytest.mark.parametrize(("count", "error"), [(2, RequestTooLarge), (1, RecordTooLargeToSend)])
def test_a_batch_alone_that_closes_the_connection_ends_the_lap(
    count: int, error: type[Exception]
) -> None:
    """Whether it was taken is unknown: it may not be split under this epoch."""
    wire = _Narrow(Loop(), lambda _: 300_000, 1)
    with pytest.raises(error):
        send_to(wire, [500_000], count)
    assert wire.sizes == [500_000] * 2 and not wire.taken


def test_a_broker_that_stops_does_not_make_requests_smaller() -> None:
    """It has taken as much before, or closes connections on the smallest requests, too."""
    wire: Any = _Narrow(Loop(), lambda before: -1 if 1 <= before <= 5 else 100_000, 8)
    sender = BatchSender(wire, Producer("x", 1, 0), Signal(wire.loop))

    async def run() -> None:
        for _ in range(2):
            sender.offer(OutgoingBatch(("t", 0), memoryview(bytearray(90_000)), 1))
            await sender.drain()

    wire.loop.run(run)
    wire.loop.close()
    assert sender.request_bytes == DEFAULTS.request_bytes
    assert wire.sizes == [90_000] * 7


def test_a_batch_that_an_answer_does_not_have_is_sent_again() -> None:
    wire: Any = _Narrow(Loop(), lambda _: 300_000, 2)
    answer = wire.post
    empty = produce_request.ProduceResponse([], 0)

    def post(request: Any, node: int) -> Any:
        answered = answer(request, node)
        return Future().success(empty) if len(wire.sizes) == 1 else answered

    wire.post = post
    sender = send_to(wire, [100_000])
    assert sender.idle and wire.sizes == [100_000] * 2
    assert len(set(wire.taken)) == 1, "with its sequence number"
