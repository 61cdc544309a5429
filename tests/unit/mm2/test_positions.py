"""Positions of a MirrorSourceConnector: read, planned, and as Connect takes them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from k2ktui.engine.moves.positions import SET, MoveEffect, PositionMove, PositionPlan, SourceLog
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConfigError, K2kError, Refused
from k2ktui.mm2.flows.connect import SourceOffset
from k2ktui.mm2.offsets.positions import (
    Connector,
    connect_offset,
    connect_offsets,
    offsets_body,
    parse_offsets_body,
    plan,
    read_positions,
    refuse_other,
    refuse_overtaken,
    reset_of,
    source_alias,
    stored_move,
)
from k2ktui.mm2.offsets.positions_backup import back_up

A = SourcePartition("t", 0)
B = SourcePartition("t", 1)


def test_a_position_is_the_offset_after_the_last_copied_one() -> None:
    place = {"cluster": "a", "partition": 0, "topic": "t"}
    assert read_positions([SourceOffset(place, {"offset": 7})]) == {("a", A): 8}
    assert connect_offset("a", A, 8) == SourceOffset(place, {"offset": 7})
    assert list(connect_offset("a", A, 8).partition) == ["cluster", "partition", "topic"]
    assert connect_offset("a", A, None).offset is None


@pytest.mark.parametrize(
    ("place", "offset"),
    [
        ({"filename": "x"}, {"position": 1}),
        ({"cluster": "a", "partition": "0", "topic": "t"}, {"offset": 1}),
        ({"cluster": "a", "partition": True, "topic": "t"}, {"offset": 1}),
        ({"cluster": "a", "partition": 0, "topic": "t"}, {"offset": "1"}),
    ],
)
def test_offsets_of_other_connectors_are_reported(place: object, offset: object) -> None:
    with pytest.raises(K2kError, match="not a MirrorSourceConnector's"):
        read_positions([SourceOffset(place, offset)])  # type: ignore[arg-type]


def connector(now: dict[SourcePartition, int], reset: str = "earliest") -> Connector:
    return Connector("c", "a", "RUNNING", reset, now)


def stored_plan(*moves: PositionMove) -> PositionPlan:
    return PositionPlan("mm2 offsets", "c", moves, alias="a")


def test_effects() -> None:
    now = connector({A: 100})
    logs = {A: SourceLog(10, 200), B: SourceLog(0, 5)}
    change = plan(now, {A: 40, B: 5}, logs)
    assert [m.effect for m in change.moves] == [MoveEffect.BACK, MoveEffect.BEGIN]
    assert change.moves[0].again == 60
    forward = plan(now, {A: 140}, logs).moves[0]
    assert (forward.effect, forward.left_out, forward.again) == (MoveEffect.FORWARD, 40, 0)
    kept = plan(now, {A: 100}, logs)
    assert kept.changes == () and connect_offsets(kept) == []


def test_positions_that_would_not_be_read_from_are_refused_at_once() -> None:
    logs = {A: SourceLog(10, 200)}
    with pytest.raises(Refused) as reported:
        plan(connector({}), {A: 201, B: 1}, logs)
    assert "t-0 at 201: it is beyond the high watermark, 200" in reported.value.message
    assert "t-1 at 1: the source has no such partition" in reported.value.message
    with pytest.raises(Refused, match="below the log start offset, 10"):
        plan(connector({}), {A: 9}, logs)
    with pytest.raises(Refused, match="too large"):
        plan(connector({}), {A: (1 << 63) - 1}, None)


def test_position_0_is_none_stored_and_only_where_that_means_the_same() -> None:
    logs = {A: SourceLog(0, 200)}
    change = plan(connector({A: 5}), {A: 0}, logs)
    assert change.moves[0].effect is MoveEffect.CLEAR
    assert "to start at 0, store no position" in change.notes[0]
    with pytest.raises(Refused, match="skipped"):
        plan(connector({A: 5}, "latest"), {A: 0}, logs)


def test_a_source_that_was_not_asked_is_reported() -> None:
    assert "not read" in plan(connector({}), {A: 5}, None).notes[-1]


def test_clearing_says_where_partitions_begin() -> None:
    change = plan(connector({A: 5}, "latest"), {A: None, B: None}, None)
    assert [m.effect for m in change.moves] == [MoveEffect.CLEAR, MoveEffect.KEEP]
    assert "skipped" in change.notes[0]
    assert connect_offsets(change) == [connect_offset("a", A, None)]


def test_what_copying_overtook_is_reported() -> None:
    change = stored_plan(stored_move(A, 100, 140), stored_move(B, 100, 40))
    refuse_overtaken(change, {A: 130, B: 170})
    with pytest.raises(Refused, match="t-0: its position is 150 now") as reported:
        refuse_overtaken(change, {A: 150, B: 170})
    assert "t-1" not in reported.value.message
    with pytest.raises(Refused, match="t-0: its position is 1 now"):
        refuse_overtaken(stored_plan(stored_move(A, None, 140)), {A: 1})


def test_a_plan_of_anything_else_is_not_written() -> None:
    change = stored_plan(stored_move(A, 100, 140))
    refuse_other(change, "c", "a")
    for other in (
        replace(change, pipeline="d"),
        replace(change, alias="b"),
        replace(change, operation=SET),
    ):
        with pytest.raises(Refused, match="not of mm2 offsets for c with") as reported:
            back_up(other, "c", "a", {A: 100}, lambda _: None)
        assert reported.value.unchanged == "No offset was changed."


def test_a_body_of_connect_is_read_as_it_was_written() -> None:
    offsets = [connect_offset("a", A, 8), connect_offset("a", B, None)]
    assert parse_offsets_body(offsets_body(offsets)) == {("a", A): 8, ("a", B): None}


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"offsets":[{}]}', '{"offsets":[{"partition":{},"offset":null}]}']
)
def test_a_file_that_is_no_body_is_reported(text: str) -> None:
    with pytest.raises(ConfigError, match="not a request body of Connect's"):
        parse_offsets_body(text)


def test_where_new_partitions_begin() -> None:
    key = "auto.offset.reset"
    assert reset_of({}) == "earliest"
    assert reset_of({f"consumer.{key}": "none"}) == "none"
    assert reset_of({f"source.consumer.{key}": "Latest", f"consumer.{key}": "none"}) == "latest"


def test_only_a_source_connector_has_positions() -> None:
    package = "org.apache.kafka.connect.mirror."
    config = {"connector.class": package + "MirrorSourceConnector", "source.cluster.alias": "a"}
    assert source_alias(config, "c") == "a"
    with pytest.raises(Refused, match="it has no source positions"):
        source_alias({"connector.class": package + "MirrorCheckpointConnector"}, "c")
    with pytest.raises(Refused, match=r"not a MirrorSourceConnector \(x\)"):
        source_alias({"connector.class": "x"}, "c")


def test_an_empty_file_of_offsets_is_nothing() -> None:
    assert parse_offsets_body(json.dumps({"offsets": []})) == {}
