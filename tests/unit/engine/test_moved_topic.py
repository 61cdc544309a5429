"""Moved topics: what is written beside the positions is read back, and what is damaged is known."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.records.moved_topic import (
    NO_MOVED_TOPICS,
    MovedTopic,
    MovedTopics,
    ReleasedTopic,
    moved_topic_key,
    moved_topic_value,
)
from k2ktui.engine.records.state import (
    MalformedRecord,
    Position,
    SourcePartition,
    position_key,
    position_value,
    read_commit_record,
)
from k2ktui.kafka.control.reader import ControlRecord
from k2ktui.replication.ownership.commit_state import CommitState, CommitStateFold

names = st.text(min_size=1, max_size=60)
topics = st.sampled_from(["orders", "payments", "stock"])
MOVED = MovedTopic("orders", "dc1.orders", "20261121-101500-3f2a", 1_795_252_312_786, "ann@bastion")
PARTITIONS = [SourcePartition(topic, n) for topic in ("orders", "payments") for n in range(3)]


@given(st.builds(MovedTopic, names, names, names, st.integers(0, 2**41), names), names)
def test_what_is_written_is_read(moved: MovedTopic, group: str) -> None:
    key = moved_topic_key(group, moved.topic)
    value = moved_topic_value(moved)
    assert read_commit_record(key, value) == (group, None, moved)
    assert read_commit_record(key, None) == (group, None, ReleasedTopic(moved.topic))
    assert read_commit_record(key, value, group + "x") == (group, None, None)
    assert read_commit_record(key, None, group + "x") == (group, None, None)


def test_a_topic_moves_with_all_its_partitions() -> None:
    moved = MovedTopics([MOVED])
    assert moved.of(PARTITIONS) == frozenset(PARTITIONS[:3])
    assert moved.of([SourcePartition("orders", 99)])
    assert "orders" in moved and "payments" not in moved and len(moved) == 1
    assert moved.get("orders") is MOVED and moved.get("payments") is None
    assert moved == MovedTopics([MOVED]) != NO_MOVED_TOPICS and not NO_MOVED_TOPICS
    assert hash(moved) == hash(MovedTopics([MOVED])) and moved.all == (MOVED,)
    assert MOVED.describe() == (
        "moved by drill 20261121-101500-3f2a (ann@bastion) at 2026-11-21 09:11:52 UTC"
    )


def fold(*entries: tuple[int, bytes | None, bytes | None], group: str = "g") -> CommitState:
    state = CommitStateFold(group)
    for offset, (partition, key, value) in enumerate(entries):
        state.take(ControlRecord(partition, offset, key, value))
    return state.state()


ENTRY = moved_topic_key("g", "orders"), moved_topic_value(MOVED)


@given(st.lists(st.tuples(st.integers(0, 2), topics, st.booleans()), max_size=12))
def test_a_tombstone_releases_a_topic_in_its_partition_only(
    happened: list[tuple[int, str, bool]],
) -> None:
    """An added partition of the commit topic has no order relative to the others."""
    expected: dict[tuple[int, str], bool] = {}
    entries = []
    for partition, topic, moves in happened:
        expected[partition, topic] = moves
        value = moved_topic_value(MOVED) if moves else None
        entries.append((partition, moved_topic_key("g", topic), value))
    state = fold(*entries)
    assert {moved.topic for moved in state.moved.all} == {
        t for (_, t), on in expected.items() if on
    }
    assert not state.malformed and not state.unreadable_moves and not state.positions


def test_the_last_move_of_a_topic_counts_in_whatever_partition_it_is() -> None:
    later = MovedTopic("orders", "orders", "b", MOVED.at_ms + 1, "bob@bastion")
    entry = ENTRY[0], moved_topic_value(later)
    assert fold((0, *entry), (1, *ENTRY)).moved.all == (later,)
    assert fold((0, *ENTRY), (1, *entry)).moved.all == (later,)
    assert fold((0, *ENTRY), group="other").moved is not None
    assert not fold((0, *ENTRY), group="other").moved


@pytest.mark.parametrize(
    "change",
    [{"v": 2}, {"who": 1}, {"at": -1}, {"at": "now"}, {"drill": None}, {"target": ["orders"]}],
)
def test_a_move_that_cannot_be_read_is_known_until_it_is_replaced(
    change: dict[str, object],
) -> None:
    damaged = json.dumps({**json.loads(ENTRY[1]), **change}).encode()
    with pytest.raises(MalformedRecord):
        read_commit_record(ENTRY[0], damaged)
    state = fold((0, ENTRY[0], damaged))
    assert (state.unreadable_moves, state.damaged) == (1, 1) and not state.moved
    assert fold((0, ENTRY[0], damaged), (0, *ENTRY)).unreadable_moves == 0
    assert fold((0, ENTRY[0], damaged), (1, *ENTRY)).unreadable_moves == 1
    assert fold((0, ENTRY[0], damaged), (0, ENTRY[0], None)).unreadable_moves == 0
    assert fold((0, b'{"group":"g","kind":"moved"}', ENTRY[1])).unreadable_moves == 1
    source = SourcePartition("orders", 0)
    position = position_key("g", source), position_value(Position(5, 0, -1, "", 1, 0, "t", 0))
    assert fold((0, position[0], b"x"), (0, *ENTRY)).unreadable_moves == 0


def test_a_release_without_moves_finds_malformed_records_of_the_pipeline() -> None:
    """It takes the key of a kind that it does not know for that of a position, which has more."""
    unknown = ENTRY[0].replace(b'"kind":"moved"', b'"kind":"other"')
    for value in (ENTRY[1], None):
        state = fold((0, unknown, value))
        assert (state.damaged, state.malformed) == (1, 1)
