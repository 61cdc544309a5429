"""Owners of slots: balanced, sticky, moved in two generations."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.ownership.slot_owners import SlotOwners, rebalance, shared_slot_of
from k2ktui.engine.records.state import SourcePartition

RUNNERS = st.sets(st.sampled_from("abcdefghij"), min_size=1)
SLOTS = st.integers(0, 40)
NONE = SlotOwners(0, "")


def settled(before: SlotOwners, slots: int, runners: set[str]) -> SlotOwners:
    """Repeat until nothing changes; each run releases what it should."""
    for _ in range(4):
        after = rebalance(before, slots, runners, min(runners), released=before.releasing)
        if after is before:
            return after
        before = after
    raise AssertionError("it never settles")


@given(SLOTS, st.lists(RUNNERS, min_size=1, max_size=8))
def test_after_any_rounds_it_ends_balanced(slots: int, rounds: list[set[str]]) -> None:
    owners = NONE
    for runners in rounds:
        owners = settled(owners, slots, runners)
        assert set(owners.owners) == set(range(slots)) and not owners.releasing
        counts = Counter(owners.owners.values())
        assert counts.keys() <= runners
        loads = [counts[runner] for runner in runners]
        assert max(loads) - min(loads) <= 1


@given(SLOTS, st.lists(st.tuples(RUNNERS, st.sets(st.integers(0, 40))), max_size=12))
def test_a_slot_of_a_live_run_is_released_before_it_moves(
    slots: int, rounds: list[tuple[set[str], set[int]]]
) -> None:
    """In any generation, whatever was released so far; no slot is ever forgotten."""
    owners = NONE
    for runners, released in rounds:
        before, owners = owners, rebalance(owners, slots, runners, min(runners), released)
        assert owners.owners.keys().isdisjoint(owners.releasing)
        assert owners.owners.keys() | owners.releasing.keys() == set(range(slots))
        assert owners.generation == before.generation + (owners is not before)
        for slot, owner in owners.owners.items():
            was = before.owners.get(slot) or before.releasing.get(slot)
            moved = was is not None and owner != was and was in runners
            assert not moved or (slot in before.releasing and slot in released)


@given(SLOTS, RUNNERS)
def test_nothing_moves_without_need(slots: int, runners: set[str]) -> None:
    owners = settled(NONE, slots, runners)
    assert rebalance(owners, slots, runners, "another leader") is owners
    joined = rebalance(owners, slots, runners | {"z"}, "a")
    assert len(joined.releasing) == slots // (len(runners) + 1)
    kept = {s: r for s, r in owners.owners.items() if s not in joined.releasing}
    assert {s: r for s, r in joined.owners.items() if s in kept} == kept


@given(SLOTS, st.sets(st.sampled_from("abcdefghij"), min_size=2))
def test_slots_of_a_run_that_is_gone_move_at_once_and_no_others(
    slots: int, runners: set[str]
) -> None:
    owners = settled(NONE, slots, runners)
    left = runners - {min(runners)}
    after = rebalance(owners, slots, left, max(left))
    for slot, owner in owners.owners.items():
        assert after.owners[slot] in left
        assert owner not in left or after.owners[slot] == owner
    assert not after.releasing


@pytest.mark.parametrize(
    ("topic", "partition", "slots", "slot"),
    [
        ("orders", 0, 6, 2),
        ("orders", 3, 6, 5),
        ("orders", 4, 6, 0),
        ("payments", 0, 6, 0),
        ("zahlungen-ä", 7, 5, 2),
        ("orders", 9, 1, 0),
    ],
)
def test_the_slot_of_a_partition_is_the_same_in_every_release(
    topic: str, partition: int, slots: int, slot: int
) -> None:
    """Runs of different releases share a pipeline while hosts are upgraded one after the other."""
    assert shared_slot_of(SourcePartition(topic, partition), slots) == slot
