"""MirrorMaker 2 beside a pipeline, or alone, in the console; without clusters."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from k2ktui.console.screens.audit import AuditScreen
from k2ktui.watch.model import PartName, PipelinePair
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.pictures import compare_screen, each_screen
from tests.support.console.views import Made, StubFeed, beside_mirrormaker, usual

DRAWN = {"compared": "3", "audit": "3m"}


def test_both_columns_of_re_reads_are_in_groups() -> None:
    made = beside_mirrormaker()

    async def flow(console: ConsoleDriver) -> None:
        await console.press("3")
        heading = console.panel("Groups").splitlines()[0]
        ends = [heading.index(name) + len(name) for name in ("by k2ktui", "by MM2")]

        def cells(group: str) -> list[str]:
            (line,) = (row for row in console.panel("Groups").splitlines() if group in row)
            return [line[: end + 1].split()[-1] for end in ends]

        assert cells("billing") == ["0", "4,075"]
        assert cells("fulfilment") == ["0", "0"]
        assert cells("reports") == ["0", "—"]
        assert cells("archive") == ["—", "—"]
        assert "MM2 <10 s ago" in console.text
        # More than that, for there is a partition without a checkpoint.
        made.audited.pop(0)
        await console.show()
        assert cells("billing") == ["0", "≥0"]

    # Wide enough for the age of the comparison in the title.
    drive(flow, made, size=(160, 30))


def test_the_overview_sums_them_up() -> None:
    made = beside_mirrormaker()
    made.unread = {PartName.COMPARISON}

    async def flow(console: ConsoleDriver) -> None:
        assert "…" in console.line("Re-reads")
        made.unread = set()
        await console.show()
        line = console.line("Re-reads")
        assert "k2ktui 0 (partitions: 1 unknown)" in line
        assert "MirrorMaker 2 4,075 (partitions: 2 not translated)" in line
        made.errors = {PartName.COMPARISON: "the flow has no checkpoints topic"}
        await console.show()
        assert "≈4,075" in console.line("Re-reads")
        assert "MirrorMaker 2 cannot be compared" in console.text

    drive(flow, made, size=(120, 30))


def test_nothing_of_it_is_shown_where_nothing_is_compared() -> None:
    async def flow(console: ConsoleDriver) -> None:
        assert "Re-reads" not in console.text
        await console.press("3", "m")
        assert "by MM2" not in console.text and "by k2ktui" not in console.text
        assert not isinstance(console.app.screen, AuditScreen)

    drive(flow, usual(), size=(120, 30))


def test_the_audit_is_of_all_groups_or_of_one() -> None:
    made = beside_mirrormaker()

    async def flow(console: ConsoleDriver) -> None:
        await console.press("3", "m")
        assert "2 of 4 would not continue" in console.text and "4,075 re-read" in console.text
        screen = console.app.screen
        assert isinstance(screen, AuditScreen)
        assert json.loads(screen.document() or "")["totals"]["checkpoint_reread"] == 4075
        assert "from source offset" in console.text
        # Views continue while it is open.
        made.checkpoint("tardy\x1b[31m", next(iter(made.ends)), 40)
        await console.show()
        assert "tardy\\x1b[31m" in console.text and "4,115 re-read" in console.text
        await console.press("q")
        await console.press("slash", *"billing", "enter", "enter", "m")
        assert "1 of 2 would not continue" in console.text and "tardy" not in console.text

    drive(flow, made, size=(120, 30))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_both_pairs_of_effects_say_where_the_group_would_continue(width: int) -> None:
    async def flow(console: ConsoleDriver) -> None:
        await console.press("3", "m")
        heading = console.line("MM2 re-read")
        assert "MM2 skipped" in heading
        if width < 120:
            return
        # Beside the table are those of the row under the cursor.
        shown = " ".join(console.panel("billing payments-0").split())
        assert "MM2 35,927 0 skipped 4,075 re-read" in shown
        assert "Synced 35,927 0 skipped 4,075 re-read" in shown

    drive(flow, beside_mirrormaker(), size=(width, 24))


def test_a_flow_without_a_checkpoint_is_waited_for() -> None:
    made = beside_mirrormaker()
    made.audited = [
        replace(row, checkpoint_offset=None, checkpoint_reread=None, checkpoint_skipped=None)
        for row in made.audited
    ]

    async def flow(console: ConsoleDriver) -> None:
        await console.press("3", "m")
        assert "no group has a checkpoint of MirrorMaker 2 yet" in console.text
        assert "would not continue" not in console.text

    drive(flow, made)


def test_a_checkpoint_of_this_moment_says_what_it_was_made_of() -> None:
    made = beside_mirrormaker()
    made.audited = [replace(row, checkpoint_age_s=0.0) for row in made.audited[:1]]

    async def flow(console: ConsoleDriver) -> None:
        await console.press("3", "m")
        assert "checkpoint 0 s old, from source offset" in console.text

    drive(flow, made, size=(120, 30))


def test_a_flow_of_mirrormaker_says_how_it_does_and_what_is_done_elsewhere() -> None:
    made = usual(PipelinePair("A->B", mirror=True))
    made.heartbeat_at = made.now - 1

    async def flow(console: ConsoleDriver) -> None:
        assert "running  MirrorMaker 2 copies" in console.line("Job  ")
        assert "no job is running" not in console.text
        feed.clock = made.now + 100
        await console.show()
        assert "silent" in console.line("Job  ")
        assert "no heartbeat for 1 m 41 s" in console.text
        await console.press("6")
        assert "MirrorMaker 2 keeps the positions" in console.text
        await console.press("5", "J")
        assert "outside k2ktui" in console.notices and "mm2 takeover" in console.notices

    feed = StubFeed(made)
    drive(flow, made, size=(120, 30), feed=feed)


@each_screen(DRAWN)
def test_they_look_as_they_did(screen: str) -> None:
    async def opens(console: ConsoleDriver) -> None:
        await console.press(*DRAWN[screen])

    compare_screen(opens, lived(), screen)


def lived() -> Made:
    """MirrorMaker 2's checkpoints are as old as they were, while the copy continues."""
    made = beside_mirrormaker()
    made.view()
    made.now += 5
    made.copy(100)
    return made
