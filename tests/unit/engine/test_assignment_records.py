"""The records of the assignment topic, and what they say together."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.ownership.assignment_records import (
    NO_OWNERS,
    AssignmentFold,
    Member,
    member_key,
    member_value,
    owners_key,
    owners_value,
    read_member,
    read_owners,
)
from k2ktui.engine.ownership.slot_owners import SlotOwners, rebalance
from k2ktui.engine.records.editions import UNKNOWN_EDITION, Edition
from k2ktui.engine.records.run_record import LARGEST_SHARED_SLOTS
from k2ktui.engine.records.state import MalformedRecord, read_commit_record

RUNNERS = st.sets(st.sampled_from("abcdefghij"), min_size=1)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
SLOTS = st.integers(0, LARGEST_SHARED_SLOTS - 1)


@given(st.integers(0, 40), RUNNERS, RUNNERS, NAMES)
def test_owners(slots: int, first: set[str], second: set[str], layout: str) -> None:
    owners = rebalance(SlotOwners(3, "", layout), slots, first, "a")
    owners = rebalance(owners, slots, second | {"a"}, "läder")
    assert read_owners(owners_value(owners)) == owners and owners.layout == layout


@given(NAMES, st.integers(0, 1 << 50), st.frozensets(SLOTS), NAMES)
def test_members(name: str, beat: int, holds: frozenset[int], outdated: str) -> None:
    member = Member(name, beat, beat, holds, outdated, beat, outdated)
    assert read_member(name, member_value(member)) == member
    for edition in (UNKNOWN_EDITION, Edition(1 + beat % 9, "0123456789abcdef")):
        filed = replace(member, edition=edition, pipeline=outdated)
        assert read_member(name, member_value(filed)) == filed


def test_a_member_of_a_release_that_did_not_write_its_process() -> None:
    value = b'{"beat":1,"generation":2,"holds":[3],"outdated":"","v":1}'
    assert read_member("a", value) == Member("a", 1, 2, frozenset({3}))


OWNERS = owners_value(SlotOwners(1, "a", "l", {0: "a"}, {1: "b"}))
MEMBER = member_value(Member("a", 1, 2, frozenset({3})))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"v":1', b'"v":2'),
        (b'"0"', b'"-1"'),
        (b'"0"', b'"00"'),
        (b'"0"', b'"1000"'),
        (b'"0"', b'"\xd9\xa3"'),
        (b'"0"', b'"2"'),
        (b'"0"', b'"1"'),
        (b'"generation":1', b'"generation":-1'),
        (b'"generation":1', b'"generation":1e9'),
    ],
)
def test_damaged_owners(before: bytes, after: bytes) -> None:
    assert before in OWNERS
    with pytest.raises(MalformedRecord):
        read_owners(OWNERS.replace(before, after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"v":1', b'"v":2'),
        (b"[3]", b"[-3]"),
        (b"[3]", b"[10000]"),
        (b"[3]", b'["3"]'),
        (b"[3]", b"3"),
        (b'"beat":1', b'"beat":null'),
        (b'"pid":0', b'"pid":"1"'),
        (b'"pidSpace":""', b'"pidSpace":1'),
        (b'"birth":""', b'"birth":1'),
    ],
)
def test_a_damaged_member(before: bytes, after: bytes) -> None:
    assert before in MEMBER
    with pytest.raises(MalformedRecord):
        read_member("a", MEMBER.replace(before, after))


def test_a_member_of_an_earlier_release_has_no_birth() -> None:
    member = Member("a", 3, pid=7, pid_space="s", birth="b/1")
    value = member_value(member)
    assert read_member("a", value) == member
    assert read_member("a", value.replace(b'"birth":"b/1",', b"")) == replace(member, birth="")


def test_the_last_owners_count_whatever_their_generation() -> None:
    """Compaction keeps only the last record: a run that joins later must not follow another one."""
    fold = AssignmentFold("g")
    assert fold.owners is NO_OWNERS
    for generation in (2, 3, 2):
        slot_owners = SlotOwners(generation, "a", "l", {0: "a"})
        fold.take(owners_key("g"), owners_value(slot_owners))
        assert fold.owners == slot_owners


def test_members_come_and_go() -> None:
    fold = AssignmentFold("g")
    for name in "ab":
        fold.take(member_key("g", name), member_value(Member(name)))
    fold.take(member_key("g", "b"), member_value(Member("b", 2)))
    fold.take(member_key("g", "a"), None)
    assert fold.members == {"b": Member("b", 2)}


def test_a_commit_topic_that_holds_these_records_too_is_readable() -> None:
    for key, value in [
        (owners_key("g"), OWNERS),
        (member_key("g", "x"), MEMBER),
        (member_key("g", "x"), None),
    ]:
        assert read_commit_record(key, value) == ("g", None, None)


def test_records_of_others_and_damaged_ones_change_nothing() -> None:
    """The topic may be shared, also with positions (coordination.commit.topic)."""
    fold = AssignmentFold("g")
    for key, value in [
        (owners_key("other"), OWNERS),
        (member_key("other", "x"), MEMBER),
        (b'{"group":"g","partition":0,"topic":"t"}', b"{}"),
        (b'{"group":"g","kind":"other"}', b"{}"),
        (None, OWNERS),
        (b"x", None),
        (owners_key("g"), None),
    ]:
        fold.take(key, value)
    assert fold.malformed == 0
    damaged = AssignmentFold("g")
    damaged.take(owners_key("g"), b"[]")
    damaged.take(member_key("g", "x"), b"{")
    assert damaged.malformed == 2
    assert fold.owners is NO_OWNERS and not fold.members
