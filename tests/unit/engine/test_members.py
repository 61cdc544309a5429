"""Members of groups by name: what clients call themselves is shown, safely and within bounds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.members import (
    describe_assigned,
    describe_member,
    describe_members,
    make_member,
    name_groups,
)
from k2ktui.engine.moves.groups import GroupView, Snapshot, list_members, members_json

BILLING = make_member("billing-7", "/10.0.0.7", "b7", {"orders": [3, 1, 2, 7], "payments": [0]})
PLAIN = make_member("rdkafka", "/10.0.0.8")


def test_a_member_is_named_with_what_it_reads() -> None:
    assert (
        describe_member(BILLING)
        == "billing-7 (instance b7) on 10.0.0.7 reads orders 1-3,7 + payments 0"
    )
    assert describe_member(PLAIN) == "rdkafka on 10.0.0.8", "its group rebalances"
    idle = make_member("rdkafka", "/10.0.0.8", "", {})
    assert describe_member(idle) == "rdkafka on 10.0.0.8 reads nothing"
    assert describe_member(make_member("", "")) == "a client without an id on an unknown host"


def test_of_many_members_and_groups_the_first_are_named() -> None:
    many = [make_member(f"c{n}", "/h") for n in range(9)]
    assert describe_members(many, 2) == "c0 on h, c1 on h and 7 more"
    assert name_groups({"b": (PLAIN,), "a": ()}) == "a; b: rdkafka on 10.0.0.8"
    assert name_groups({f"g{n}": () for n in range(5)}) == "g0; g1; g2 and 2 more"


@given(numbers=st.sets(st.integers(0, 40), min_size=1))
def test_spans_of_partitions_name_each_partition_once(numbers: set[int]) -> None:
    member = make_member("c", "h", "", {"t": numbers})
    assert member.assigned == (("t", tuple(sorted(numbers))),)
    text = describe_assigned(member.assigned).removeprefix("t ").partition(" and ")[0]
    read: list[int] = []
    for span in text.split(","):
        first, _, last = span.partition("-")
        read += range(int(first), int(last or first) + 1)
    assert read == sorted(numbers)[: len(read)]


def test_what_a_client_has_made_up_is_bounded_and_printable() -> None:
    member = make_member("x\x1b[2J" * 5000, "/h\n", "i" * 5000, {"t": [-1, 2, 2]})
    assert member.assigned == (("t", (2,)),)
    assert make_member("c", "h", "", {"t" * 250: [1], "u": [2]}).assigned is None
    text = describe_member(member)
    assert "\x1b" not in text and "\n" not in text and len(text) < 400


def test_members_of_both_clusters_are_listed_and_who_is_unknown_is_not_nobody() -> None:
    snapshot = Snapshot(
        *("p", "s", "t", 1.0, 1.0),
        source={"g": GroupView("Stable", 2, named=(PLAIN, BILLING)), "h": GroupView("Empty", 0)},
        target={"g": GroupView("", None, error="not authorized")},
    )
    rows = [(row.group, row.side, row.member) for row in list_members(snapshot)]
    assert rows == [("g", "source", BILLING), ("g", "source", PLAIN)]
    first, second = members_json(snapshot)["groups"]
    assert [member["instance_id"] for member in first["source"]["members"]] == ["b7", ""]
    assert first["target"] == {"state": "", "error": "not authorized", "members": None}
    assert second["source"]["members"] == [] and second["target"] is None
