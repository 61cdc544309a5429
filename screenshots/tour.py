"""Every screen of the console, one after the other, by name."""

from __future__ import annotations

from collections.abc import AsyncIterator

import invented
import kept
import scenes
import svg
from stage import Stage

from k2ktui.console.screens.positions_plan import MovesScreen
from k2ktui.console.screens.records import RecordsScreen
from k2ktui.engine.drill.checks import DrillPhase

Pictures = AsyncIterator[tuple[str, svg.Screen]]


async def of_the_demo(stage: Stage) -> Pictures:
    """Yield a picture of each screen, by name."""
    marks = kept.moments().marks
    await stage.see(marks["steady"])
    await stage.press("8")
    yield "drills-none", await stage.look()
    await stage.press("1")
    for mark in ("stopped", "rising", "high"):
        await stage.see(marks[mark])
    yield "overview-stopped", await stage.look()
    for mark in ("caught", "planned"):
        await stage.see(marks[mark])
    yield "overview", await stage.look()
    await stage.press("2")
    yield "replication", await stage.look()
    await stage.press("enter")
    yield "partition", await stage.look()
    await stage.press("q", "question_mark")
    yield "help", await stage.look()
    await stage.press("escape", "colon", "g")
    yield "command", await stage.look()
    await stage.press("escape", "escape")
    async for picture in _of_groups(stage):
        yield picture
    async for picture in _of_what_was_done(stage):
        yield picture
    async for picture in _of_jobs_and_drills(stage):
        yield picture


async def _of_groups(stage: Stage) -> Pictures:
    """Yield the groups, and the plan of one of them until it is verified."""
    await stage.press("3")
    yield "groups", await stage.look()
    await stage.press("v")
    yield "groups-by-partition", await stage.look()
    await stage.press("v", "enter")
    yield "group", await stage.look()
    await stage.app.push_screen(RecordsScreen(*invented.records()))
    yield "records", await stage.look()
    await stage.press("q", "q", "4")
    yield "translate-groups", await stage.look()
    await stage.press("a", "enter")
    yield "translate", await stage.look()
    await stage.press("q", "3", "T")
    await stage.look()
    await stage.press("enter")
    yield "row", await stage.look()
    await stage.press("q", "A")
    yield "confirm", await stage.look()
    await stage.press(*scenes.NAME, "tab", "space")
    yield "applied", await stage.look()
    await stage.press("v")
    yield "verified", await stage.look()


async def _of_what_was_done(stage: Stage) -> Pictures:
    """Yield the positions, a plan for them, the journal and the log of the session."""
    await stage.see(kept.moments().marks["applied"])
    await stage.press("6")
    await stage.look()
    # The cursor follows the row that was first in the view before, if the screen still saw that.
    await stage.press("home")
    yield "positions", await stage.look()
    await stage.app.push_screen(MovesScreen(lambda _: invented.moves(stage.app.view)))
    yield "moves", await stage.look()
    await stage.press("q", "7")
    yield "journal", await stage.look()
    await stage.press("enter")
    yield "entry", await stage.look()
    await stage.press("q", "L")
    yield "events", await stage.look()
    await stage.press("q")


async def _of_jobs_and_drills(stage: Stage) -> Pictures:
    """Yield the jobs, and a switchover until its report."""
    await stage.see(kept.moments().marks["jobs"])
    await stage.press("5")
    yield "jobs", await stage.look()
    await stage.press("l")
    yield "log", await stage.look()
    await stage.press("q", "R")
    yield "restart", await stage.look()
    await stage.press("escape", "8")
    yield "drills", await scenes.rehearsed(stage)
    await stage.press("N", "down")
    yield "new-drill", await stage.look()
    await stage.press("escape")
    yield "drill", await scenes.drill_at(stage, DrillPhase.FENCE_PRODUCERS, asks=False)
    yield "question", await scenes.drill_at(stage, DrillPhase.APPLY, asks=True)
    yield "drill-over", await scenes.drill_at(stage, None, asks=False)
    await stage.press("v")
    yield "report", await stage.look()
    await stage.press("q", "c")
    yield "drill-checks", await stage.look()


async def of_mirrormaker(stage: Stage) -> Pictures:
    """Yield pictures of a demo with MirrorMaker 2."""
    await stage.press("3")
    yield "compared", await stage.look()
    await stage.press("m")
    yield "audit", await stage.look()
