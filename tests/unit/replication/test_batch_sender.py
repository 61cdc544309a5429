"""When a writer may say that a target partition does not exist: only when a broker said so."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.future import Future

from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.wire import produce_request
from k2ktui.kafka.wire.cluster import Loop, OutcomeUnknown, PartitionLeader, Signal, TopicInfo
from k2ktui.replication.copying import batch_sender as module
from k2ktui.replication.copying.batch_sender import (
    BatchRefused,
    BatchSender,
    Fenced,
    PartitionsUnavailable,
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
    sender = BatchSender(wire, Producer(None, 1, 0), Signal(loop), lambda *_: None, settings)

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
    sender = BatchSender(
        wire, Producer(None, 1, 0), Signal(loop), lambda _, base: landed.append(base)
    )
    sender.offer(OutgoingBatch(TARGET, memoryview(bytearray(61)), 1))
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
    sender = BatchSender(wire, Producer("x", 1, 0), Signal(loop), lambda *_: None)
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
    sender = BatchSender(wire, Producer("x", 1, 0), Signal(loop), lambda *_: None)

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
