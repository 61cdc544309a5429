"""When a writer may say that a target partition does not exist: only when a broker said so."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.future import Future

from k2ktui.kafka import produced
from k2ktui.kafka.transactions import Producer
from k2ktui.kafka.wire import Loop, OutcomeUnknown, PartitionLeader, Signal, TopicInfo
from k2ktui.replication.copying import writer as module
from k2ktui.replication.copying.outgoing import Outgoing
from k2ktui.replication.copying.writer import BatchRefused, SlotFailed, Writer

TARGET = ("t", 0)


class _Metadata:
    """A cluster that answers nothing but metadata: one answer, or silence."""

    def __init__(self, loop: Loop, answer: TopicInfo | None) -> None:
        self.loop = loop
        self._answer = answer

    async def metadata(self, topics: Any) -> dict[str, TopicInfo]:
        if self._answer is None:
            raise OutcomeUnknown("nobody answers")
        return {"t": self._answer}


def pump_until(answer: TopicInfo | None, rounds: int) -> None:
    loop = Loop()
    wire: Any = _Metadata(loop, answer)
    writer = Writer(wire, Producer(None, 1, 0), Signal(loop), lambda *_: None)

    async def run() -> None:
        writer.offer(TARGET, Outgoing(memoryview(bytearray(61)), 1))
        for _ in range(rounds):
            await loop.sleep(await writer.pump())

    try:
        loop.run(run)
    finally:
        loop.close()


class _Acknowledging(_Metadata):
    """A cluster that acknowledges every batch with one base offset."""

    def __init__(self, loop: Loop, base_offset: int) -> None:
        super().__init__(loop, TopicInfo(0, "", {0: PartitionLeader(1, 0)}))
        part = produced.Partition(0, 0, base_offset, "")
        self._response = produced.Response([produced.Topic("t", [part])], 0)

    def version_of(self, _: Any) -> int:
        return 11

    def post(self, *_: Any) -> Any:
        return Future().success(self._response)


@pytest.mark.parametrize("base_offset", [7, -1])
def test_an_acknowledgement_without_an_offset_is_no_mapping(base_offset: int) -> None:
    loop = Loop()
    wire: Any = _Acknowledging(loop, base_offset)
    landed: list[int] = []
    writer = Writer(wire, Producer(None, 1, 0), Signal(loop), lambda _, base: landed.append(base))
    writer.offer(TARGET, Outgoing(memoryview(bytearray(61)), 1))
    try:
        if base_offset < 0:
            with pytest.raises(SlotFailed, match="without an offset"):
                loop.run(writer.drain)
            assert landed == []
        else:
            loop.run(writer.drain)
            assert landed == [7]
    finally:
        loop.close()


UNKNOWN = TopicInfo(3)
LEADERLESS = TopicInfo(0, "", {0: PartitionLeader(-1, 7)})


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_GONE_AFTER_S", 0.1)


def test_unknown_to_the_brokers() -> None:
    with pytest.raises(BatchRefused):
        pump_until(UNKNOWN, 20)


@pytest.mark.parametrize("answer", [None, LEADERLESS], ids=["silent", "leaderless"])
def test_not_reachable_now(answer: TopicInfo | None, monkeypatch: pytest.MonkeyPatch) -> None:
    pump_until(answer, 6)
    monkeypatch.setattr(module, "_DELIVERY_TIMEOUT_S", 0.2)
    with pytest.raises(SlotFailed, match="no leader"):
        pump_until(answer, 20)
