"""Records of other writers in the copies: where they are shown, and where they are no problem."""

from __future__ import annotations

from dataclasses import replace

import pytest

from k2ktui.engine.mapping.strange_records import NOT_MAPPED, OtherWriters, StrangeRecords
from k2ktui.engine.severity import Severity
from k2ktui.fleet.model import make_row
from k2ktui.watch.codec import dumps, loads
from k2ktui.watch.model import PartName
from k2ktui.watch.once import Reading
from tests.support.console.fleets import NAMES
from tests.support.console.views import Made, lines_of, problems_of
from tests.support.drill.made_drills import switched_over

STRANGE = OtherWriters(
    (
        StrangeRecords("orders", 0, 120, 124, 4, (4711,), 0),
        StrangeRecords("orders", 1, 90, 93, 3, (), 3),
    )
)


def made_with(writers: OtherWriters | None) -> Made:
    made = Made()
    made.partition("orders", 0, end=100)
    made.partition("orders", 1, end=90)
    made.changed[PartName.TARGET] = {"other_writers": writers}
    return made


def test_they_are_a_problem_of_each_target_partition() -> None:
    view = made_with(STRANGE).view()
    problems = problems_of(view, "copy")
    assert [(one.severity, one.subject, one.key) for one in problems] == [
        (Severity.BAD, "orders-0", ("orders", 0)),
        (Severity.BAD, "orders-1", ("orders", 1)),
    ]
    text = "4 records at offsets 120 to 123 that no registered pipeline wrote, by producer id 4711"
    assert problems[0].message == text
    assert f"problem (bad) copy orders-0: {text}" in lines_of(view)
    row = make_row(NAMES["orders"], view, None)
    assert (row.strange, row.severity, row.as_json()["strange_records"]) == (7, Severity.BAD, 7)


def test_without_read_it_is_said_that_it_cannot_be_told() -> None:
    view = made_with(OtherWriters(unread={"the principal may not read it": 2})).view()
    [problem] = problems_of(view, "copy")
    assert (problem.severity, problem.subject) == (Severity.WARN, "copies")
    assert problem.message.endswith("cannot be told: the principal may not read it")
    assert make_row(NAMES["orders"], view, None).strange is None


def test_an_old_reading_is_said_to_be_old() -> None:
    made = made_with(STRANGE)
    made.view()
    made.errors[PartName.TARGET] = "no route"
    old, _ = problems_of(made.view(), "copy")
    assert old.message.endswith("which is old)")


def test_status_has_them_with_offsets_and_producer_ids() -> None:
    written = Reading(made_with(STRANGE).view()).status().as_json()["other_writers"]
    assert written["strange"][0] == {
        "topic": "orders",
        "partition": 0,
        "first": 120,
        "end": 124,
        "records": 4,
        "producers": (4711,),
        "without_id": 0,
        "at_least": False,
    }
    assert (written["reason"], written["untold"], written["unread"]) == ("", [], [])
    assert Reading(made_with(None).view()).status().as_json()["other_writers"] is None


@pytest.mark.parametrize(
    "writers", [None, STRANGE, OtherWriters(untold={"why": 3}, unread={"x": 1})]
)
def test_a_recording_has_them(writers: OtherWriters | None) -> None:
    view = made_with(writers).view()
    assert loads(dumps(view)).other_writers == view.other_writers == writers


def test_a_view_that_has_the_mapping_since_is_not_the_last_word() -> None:
    made = made_with(OtherWriters(untold={NOT_MAPPED: 1}))
    made.unread = {PartName.GROUPS}
    assert not made.view().awaits_mapping, "nothing more will be told"
    made.unread = set()
    assert made.view().awaits_mapping
    made.changed[PartName.TARGET] = {"other_writers": OtherWriters()}
    assert not made.view().awaits_mapping


def test_other_writers_that_are_expected_are_a_note() -> None:
    view = made_with(replace(STRANGE, expected="target.writers: shared")).view()
    assert problems_of(view, "copy") == []
    assert view.notes == (
        "2 target partitions with records of other writers, which target.writers: shared expects: "
        "orders-0 from offset 120 on and others",
    )
    assert make_row(NAMES["orders"], view, None).strange == 0


def test_after_a_failover_they_are_what_the_clients_write() -> None:
    made = made_with(STRANGE)
    made.drills = (switched_over(),)
    view = made.view()
    assert (view.other_writers, view.notes, problems_of(view, "copy")) == (None, (), [])
    assert make_row(NAMES["orders"], view, None).strange is None
