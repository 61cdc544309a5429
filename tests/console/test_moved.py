"""Topics that a drill moved to the target: Overview, Replication and Groups say so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from k2ktui.engine.moves.groups import Finding
from k2ktui.engine.records.moved_topic import MovedTopic, MovedTopics
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.views import NOON, Made, usual

DRILL = "20261121-101500-3f2a"
MOVE = MovedTopic("clicks", "clicks", DRILL, int(NOON * 1000) - 3_600_000, "ann@bastion")
LATER = "20261122-080000-77aa"


def moved(*topics: str) -> Made:
    made = usual()
    made.moved = MovedTopics(
        replace(MOVE, topic=topic, drill=LATER if topic == "payments" else DRILL)
        for topic in topics
    )
    return made


@pytest.mark.parametrize("size", [(80, 24), (120, 35)])
def test_overview_has_a_line_of_them(size: tuple[int, int]) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("i")
        assert f"Moved       2 topics by drill {DRILL}: clicks, invoices" in console.text

    drive(flow, moved("clicks", "invoices"), size=size)


def test_overview_says_when_the_pipeline_can_be_retired() -> None:
    async def flow(console: ConsoleDriver) -> None:
        assert "every topic was moved" in console.text
        await console.press("i")
        said = " ".join(console.text.replace("│", " ").split())
        assert (
            "Moved every topic was moved to the target: if no failback is planned, retire" in said
        )

    drive(flow, moved("clicks", "invoices", "payments"), size=(120, 35))


def test_replication_lists_them_last_and_without_a_lag() -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("2")
        assert "4 moved" not in console.text and "1 topic moved" in console.text
        lines = [line for line in console.text.splitlines() if "-0 " in line or "-2 " in line]
        assert "moved" in next(line for line in lines if "clicks-2" in line)
        assert "1,200" not in console.text
        first = console.text.index("invoices-0")
        assert console.text.index("clicks-0") > first, "after what is copied"
        await console.press("slash", *"clicks-2", "enter")
        await console.settle()
        (line,) = (line for line in console.text.splitlines() if "to the target by" in line)
        assert "Moved" in line and DRILL in line

    drive(flow, moved("clicks"), size=(200, 60))


def test_groups_call_their_positions_moved() -> None:
    made = usual()
    made.moved = MovedTopics([replace(MOVE, topic="payments")])
    made.rows = [
        replace(
            row,
            finding=Finding.MOVED,
            divergence=None,
            reread=None,
            skipped=None,
            reread_now=None,
            skipped_now=None,
            moved_by=DRILL,
        )
        for row in made.rows
    ]

    async def flow(console: ConsoleDriver) -> None:
        await console.press("3")
        for group in ("billing", "reports", "fulfilment"):
            assert " moved " in console.line(f" {group} ")
        await console.press("slash", *"billing", "enter", "enter")
        await console.settle()
        assert f"moved by {DRILL[:12]}" in console.text

    drive(flow, made, size=(160, 40))
