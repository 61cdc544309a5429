"""Clients of a drill: each member counts once, and who has not come is named as on the source."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from k2ktui.drill.report import make_report, render_text
from k2ktui.engine.drill.clients import (
    MOST_OF_GROUP,
    Clients,
    describe_come,
    find_missing,
    see_on_source,
    see_on_target,
)
from k2ktui.engine.drill.format import drill_body, read_drill, report_content, report_digest
from k2ktui.engine.drill.model import GroupResult
from k2ktui.engine.members import GroupMember, make_member
from tests.support.drill.made_drills import switched_over

STATIC = make_member("app", "/10.0.0.1", "s1", {"orders": [0, 1]})
FIRST, SECOND = make_member("rdkafka", "/10.0.0.2"), make_member("rdkafka", "/10.0.0.3")
members = st.lists(
    st.builds(
        make_member, st.sampled_from(["a", "b"]), st.sampled_from(["h", "i"]), st.sampled_from("xy")
    ),
    max_size=6,
)


def names(clients: Clients) -> list[str]:
    return [client.name for client in clients]


def test_a_gap_begins_when_a_client_was_last_seen_and_ends_when_it_was_first_seen() -> None:
    known = see_on_source((), [STATIC, FIRST, SECOND], 1_000)
    known = see_on_source(known, [STATIC], 5_000)
    known = see_on_source(known, [], 9_000)
    assert [client.left_ms for client in known] == [5_000, 1_000, 1_000]
    # Elsewhere a static member has its instance id, whatever else has changed.
    moved = make_member("new-app", "/10.9.9.9", "s1")
    known = see_on_target(known, [moved, SECOND], 12_500)
    known = see_on_target(known, [moved], 20_000)
    assert [client.gap_s for client in known] == [7.5, None, 11.5]
    assert names(find_missing(known, 1)) == ["rdkafka on 10.0.0.2"]
    assert describe_come({"g": known}, {"g": find_missing(known, 1)}) == (
        "2 of 3 clients came, gap at most 11.5 s; not yet: g: rdkafka on 10.0.0.2"
    )


def test_a_client_on_another_host_is_known_by_its_client_id() -> None:
    known = see_on_source((), [FIRST, make_member("other", "/h")], 0)
    known = see_on_target(known, [make_member("rdkafka", "/10.7.7.7")], 1_000)
    assert names(find_missing(known, 1)) == ["other on h"]


def test_a_group_that_is_complete_under_other_names_misses_nobody() -> None:
    known = see_on_source((), [FIRST, SECOND], 0)
    known = see_on_target(known, [make_member("x-17", "/h"), make_member("x-18", "/h")], 1)
    assert find_missing(known, 2) == ()
    assert describe_come({"g": known}, {"g": ()}) == "0 of 2 clients came"
    assert describe_come({"g": ()}, {}) == ""


@given(before=members, now=members)
def test_a_member_is_one_client_at_most(before: list[GroupMember], now: list[GroupMember]) -> None:
    known = see_on_source((), before, 0)
    assert len(known) == len(before)
    assert see_on_source(known, before, 0) == known
    assert len(see_on_source(known, now, 1)) <= len(before) + len(now)
    came = sum(client.came_ms is not None for client in see_on_target(known, now, 1))
    assert came <= min(len(before), len(now))
    again = see_on_target(known, before, 1)
    assert all(client.came_ms == 1 for client in again)


def test_what_is_recorded_is_bounded() -> None:
    many = [make_member(f"c{n:03}", "h") for n in range(50)]
    known = see_on_source((), many, 0)
    assert len(known) == MOST_OF_GROUP
    assert len(see_on_source(known, many, 1)) == MOST_OF_GROUP
    assert len(see_on_source((), many, 0, room=3)) == 3


def test_clients_that_were_replaced_before_the_group_has_stopped_are_not_missed() -> None:
    many = [make_member(f"c{n:03}", "h") for n in range(MOST_OF_GROUP)]
    known = see_on_source((), many, 0)
    restarted = [make_member(f"d{n:03}", "h") for n in range(MOST_OF_GROUP)]
    known = see_on_source(known, restarted, 5, room=0)
    assert [client.member for client in known] == restarted
    assert see_on_source(known, restarted[:3], 9)[3:] == known[3:]


def test_they_are_in_the_record_and_the_report_of_a_drill() -> None:
    clients = see_on_target(see_on_source((), [STATIC, FIRST], 1_000), [STATIC], 3_000)
    drill = replace(switched_over(), groups=(GroupResult("g", clients=clients),))
    assert read_drill(drill.id, json.loads(json.dumps(drill_body(drill)))) == drill
    shown = "\n".join(render_text(make_report(drill)))
    assert "app (instance s1) on 10.0.0.1, read there orders 0-1" in shown
    assert "at most 2.0 s" in shown and "not seen there by one of its names" in shown


def test_a_drill_without_them_has_the_digest_of_an_earlier_release() -> None:
    drill = replace(switched_over(), groups=(GroupResult("g"),))
    assert "clients" not in report_content(drill)["groups"][0]
    named = GroupResult("g", clients=see_on_source((), [STATIC], 0))
    assert report_digest(drill) != report_digest(replace(drill, groups=(named,)))
