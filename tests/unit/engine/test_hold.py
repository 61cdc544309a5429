"""Holds: what they cover, and what is written is read back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.moves.journal_format import (
    read_state_key,
    read_state_value,
    state_key,
    state_value,
)
from k2ktui.engine.records.hold import NO_HOLDS, Hold, HoldKey, Holds
from k2ktui.engine.records.state import MalformedRecord, SourcePartition

names = st.text(min_size=1, max_size=60)
topics = st.sampled_from(["orders", "payments"])
partitions = st.none() | st.integers(0, 3)
holds = st.builds(Hold, topics, partitions, names, st.integers(0, 2**41), st.text(max_size=60))
PARTITIONS = [SourcePartition(topic, n) for topic in ("orders", "payments") for n in range(4)]


@given(st.builds(Hold, names, st.none() | st.integers(0, 2**31 - 1), names, st.integers(0, 2**41)))
def test_what_is_written_is_read(hold: Hold) -> None:
    assert read_state_key(state_key("g", hold.key)) == ("g", hold.key)
    assert read_state_value(hold.key, state_value(hold)) == hold


@given(st.lists(holds, max_size=6))
def test_a_partition_is_held_by_its_topic_or_by_itself(every: list[Hold]) -> None:
    held = Holds(every)
    covered = {at for at in PARTITIONS if any(hold.key.covers(at) for hold in every)}
    assert held.held(PARTITIONS) == covered
    assert {at for at in PARTITIONS if held.of(at.topic, at.partition) is not None} == covered
    assert bool(held) == bool(every)
    assert {hold.key for hold in held.all} == {hold.key for hold in every}


def test_the_hold_of_the_topic_is_named_first() -> None:
    whole, own = Hold("orders", None, "a@h", 1000), Hold("orders", 3, "b@h", 2000)
    held = Holds([own, whole])
    assert held.of("orders", 3) == whole and held.get(own.key) == own
    assert held.all == (whole, own)
    assert held == Holds([whole, own]) and hash(held) == hash(Holds([whole, own]))
    assert held != Holds([whole]) != NO_HOLDS


def test_it_says_by_whom_since_when_and_why() -> None:
    hold = Hold("orders", None, "ann@bastion", 1_795_252_312_786, "it moves")
    assert hold.describe() == "held by ann@bastion since 2026-11-21 09:11:52 UTC (it moves)"
    assert Hold("orders", 3, "ann@bastion", 0).describe().endswith("UTC")
    assert HoldKey("orders", 3).name == "orders:3" and HoldKey("orders").name == "orders"


@pytest.mark.parametrize(
    "change",
    [{"who": 1}, {"at": -1}, {"at": "now"}, {"why": None}, {"v": 2}],
)
def test_a_damaged_value_is_refused(change: dict[str, object]) -> None:
    hold = Hold("orders", None, "ann@bastion", 1000)
    body = {**json.loads(state_value(hold)), **change}
    with pytest.raises(MalformedRecord):
        read_state_value(hold.key, json.dumps(body).encode())


@pytest.mark.parametrize("partition", [-1, 1.5, "3", 2**40])
def test_a_damaged_key_is_refused(partition: object) -> None:
    key = {"group": "g", "kind": "hold", "topic": "t", "partition": partition}
    with pytest.raises(MalformedRecord):
        read_state_key(json.dumps(key).encode())
