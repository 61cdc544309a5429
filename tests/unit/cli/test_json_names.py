"""What ``--json`` prints follows the rules of docs/python.md; commands that need clusters are held
to them by every test that runs one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from k2ktui.cli.groups import result_object
from k2ktui.cli.offsets import acknowledged_object, holds_object, moves_object
from k2ktui.cli.views import status_object
from k2ktui.engine.compare.outcomes import Finding, Outcome, PartResult
from k2ktui.engine.compare.report import ComparisonReport
from k2ktui.engine.deleted_logs import DeletedLog
from k2ktui.engine.mapping.strange_records import OtherWriters, StrangeRecords
from k2ktui.engine.members import make_member
from k2ktui.engine.moves.apply import WriteOutcome, WriteResult
from k2ktui.engine.moves.failover import GroupPositions
from k2ktui.engine.moves.groups import GroupView, members_json
from k2ktui.engine.moves.journal import JournalHeader
from k2ktui.engine.moves.positions import PositionPlan
from k2ktui.engine.moves.written import OffsetWrite
from k2ktui.engine.producers import Producer, Writers, Written
from k2ktui.engine.records.hold import Hold
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.fleet.model import make_row
from k2ktui.sync.holds import HoldChange
from k2ktui.sync.moves.apply import Applied
from k2ktui.sync.operations import journal_json
from k2ktui.sync.positions.position_writer import PositionWriteResult
from k2ktui.watch.once import Reading
from tests.console.test_acting_pictures import READ
from tests.support.commands.json_names import check_names, find_broken
from tests.support.console.views import NOON, Made, compared, usual
from tests.unit.golden.test_public_interface import estimate

AT = SourcePartition("payments", 0)


def made() -> Made:
    pipeline = usual()
    pipeline.comparison = compared(pipeline, {AT: (7, 0)})
    return pipeline


def status() -> dict[str, Any]:
    return status_object(Reading(made().view()), with_groups=True)


def other_writers() -> dict[str, Any]:
    strange = (StrangeRecords("orders", 0, 5, 9, 4, (7,), 1),)
    return {"other_writers": OtherWriters(strange, "a cause", {"a cause": 1}, {"a": 2}).as_json()}


def members() -> dict[str, Any]:
    member = make_member("client", "/host", "instance", {"orders": [1]})
    named = {"billing": GroupView("Stable", 1, named=(member,))}
    return members_json(replace(READ, source=named, target={}))


def producers() -> dict[str, Any]:
    writers = Writers()
    writers.add([Written(("orders", 0), Producer(7, 0), 4, 9)], NOON)
    return {"producers": [writer.as_json() for writer in writers.list()]}


def groups() -> dict[str, Any]:
    view = made().view()
    parts = (view.pair_state, "", (), view.groups, estimate())
    return GroupPositions("orders", NOON, NOON, *parts).as_json()


def applied() -> dict[str, Any]:
    write = OffsetWrite("billing", "payments", 0, None, "", 5, "")
    return result_object("orders", Applied("1", (WriteResult(write, WriteOutcome.APPLIED),)))


def comparison() -> dict[str, Any]:
    finding = Finding(Outcome.DIFFERS, 5, ("payments", 0), 7, "value differs")
    part = PartResult(AT, 0, 9, {Outcome.DIFFERS: 1}, findings=(finding,))
    report = ComparisonReport(
        "orders", "s", "t", NOON - 9, NOON, None, 1.0, False, {AT: part}, {AT: "why"}, {}, 5
    )
    return report.as_json()


def held() -> dict[str, Any]:
    hold = Hold("payments", None, "ann@host", round(NOON * 1000), "a reason")
    position = Position(5, 0, 0, "", 1, 0, "payments", 0)
    return holds_object("orders", HoldChange("hold", (hold,), positions=((AT, position),)))


def fleet() -> dict[str, Any]:
    row = make_row(Path("orders.yaml"), made().view(), None)
    return {"pipelines": [row.as_json()]}


def acknowledged() -> dict[str, Any]:
    return acknowledged_object("orders", [DeletedLog("payments", 0, 5, 9)], PositionWriteResult())


def moved() -> dict[str, Any]:
    return moves_object(PositionPlan("orders", "offsets set", ()), None)


def journal() -> dict[str, Any]:
    return journal_json([JournalHeader("1", round(NOON * 1000), "me", "apply")])


@pytest.mark.parametrize(
    "print_one",
    [
        status,
        other_writers,
        members,
        producers,
        groups,
        applied,
        comparison,
        held,
        fleet,
        acknowledged,
        moved,
        journal,
    ],
    ids=lambda print_one: print_one.__name__,
)
def test_names_follow_the_rules(print_one: Callable[[], dict[str, Any]]) -> None:
    check_names(print_one(), (print_one.__name__,))


@pytest.mark.parametrize(
    ("printed", "complaint"),
    [
        ([], "a bare list"),
        ({"pipeline": {"name": "orders"}}, "pipeline is not a name"),
        ({"rows": [{"why": "moved"}]}, "rows.why is reason"),
        ({"targetId": 5}, "targetId is not in snake_case"),
        ({"lag_seconds": 5}, "lag_seconds ends in _s"),
        ({"lag_s": "5 s"}, "lag_s is no number"),
        ({"taken_at": 1_795_262_400_000}, "taken_at is not in seconds since 1970"),
        ({"at_ms": "2026-11-28"}, "at_ms is no number"),
        ({"notes": "a note"}, "notes is no list"),
        ({"rows": [{"partition": 0}]}, "rows.partition has no topic"),
    ],
)
def test_what_breaks_the_rules_is_named(printed: object, complaint: str) -> None:
    assert any(complaint in one for one in find_broken(printed)), list(find_broken(printed))


def test_keys_that_are_names_or_counted_are_free() -> None:
    check_names({"counts": {"not written": 3}, "moved_topics": {"20260101-x": ["Why"]}})
