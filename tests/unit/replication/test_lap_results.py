"""What a lap is given, and what it returns: positions that have moved, mappings that few read."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import pytest

from k2ktui import diagnostics
from k2ktui.engine.pickled import UnpickledOnUse
from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.engine.schemas.topics import SchemaTopics
from k2ktui.engine.topics import TopicMapping, TopicSelection
from k2ktui.engine.transforms.header_names import OriginHeader
from k2ktui.errors import LoginFailed
from k2ktui.kafka.producer_id import Producer
from k2ktui.registry.mapper import SchemaMapperSettings
from k2ktui.registry.settings import RegistrySettings
from k2ktui.replication.copying.slot_settings import CommitPolicy
from k2ktui.replication.copying.slot_task import (
    Assignment,
    CopyPath,
    LapOutcome,
    OppositePipeline,
    Route,
    SizeLimit,
    SlotResult,
    SlotTask,
    StateTopics,
)
from k2ktui.replication.copying.worker import Connections, open_connections
from k2ktui.replication.slots import SlotState


def test_a_task_arrives_at_its_worker_as_the_driver_has_made_it() -> None:
    def assignment(number: int) -> Assignment:
        position = Position(number, 0, -1, "", 1, 0, "t", number)
        route = Route(CopyPath.VERBATIM, "t", number, 1000)
        return Assignment(SourcePartition("t", number), position, route, number, SizeLimit(1, 2))

    sides = RegistrySettings("source", ("http://a",)), RegistrySettings("target", ("http://b",))
    topics = SchemaTopics(TopicSelection(".*"), TopicMapping())
    task = SlotTask(
        1,
        Producer("p.1", 7, 2),
        True,
        StateTopics("p", "p", 1, "commits", 0, "mappings", 3),
        CommitPolicy(1.0),
        tuple(map(assignment, range(3))),
        opposite=OppositePipeline("commits", "b", "a", ("c",)),
        origin=OriginHeader("origin", "here", ("there",), False),
        registries=SchemaMapperSettings(*sides, topics, frozenset({"AVRO"})),
        clusters=ClusterPair("a", "b"),
        recoveries=2,
    )
    assert pickle.loads(pickle.dumps(task)) == task


def test_connections_that_do_not_open_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[Connections] = []
    close = Connections.close

    async def refuse(self: Connections) -> None:
        raise LoginFailed("the login was refused")

    def note(self: Connections) -> None:
        closed.append(self)
        close(self)

    monkeypatch.setattr(diagnostics, "set_up", lambda: None)
    monkeypatch.setattr(Connections, "open", refuse)
    monkeypatch.setattr(Connections, "close", note)
    side = {"bootstrap_servers": ["localhost:1"]}
    for _ in range(2):
        open_connections((side, side))
    assert len({id(connections) for connections in closed}) == 2


def test_partitions_that_have_not_moved_keep_the_position_that_the_driver_knows() -> None:
    one, two, three = (SourcePartition("t", number) for number in range(3))
    known = {at: Position(0, 0, -1, "", 1, 0, "t", at.partition) for at in (one, two, three)}
    before, slot = dict(known), SlotState(0, 0)
    slot.copied, moved = (one, two), replace(known[one], offset=9)
    failed = SlotResult(0, LapOutcome.FAILED, {one: moved})
    assert slot.adopt(failed, known) is failed and known == before
    done = SlotResult(0, LapOutcome.DONE, {one: moved})
    positions = slot.adopt(done, known).positions
    assert known[one] is moved
    assert dict(positions.items()) == dict(positions) == {one: moved, two: before[two]}
    assert three not in positions and len(positions) == 2


def test_a_mapping_is_unpickled_when_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    received = pickle.loads(pickle.dumps(UnpickledOnUse({SourcePartition("t", 1): 5})))
    calls: list[bytes] = []
    load = pickle.loads

    def counted(data: bytes) -> Any:
        calls.append(data)
        return load(data)

    monkeypatch.setattr(pickle, "loads", counted)
    assert not calls
    assert received == {SourcePartition("t", 1): 5} and len(received) == 1
    assert received.get(SourcePartition("t", 2)) is None
    assert len(calls) == 1
