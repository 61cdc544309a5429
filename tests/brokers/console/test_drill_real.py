"""Screen 8 on real clusters: a rehearsal by keyboard. Of a switchover, see test_drill_tmux.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.console.widgets.grid import Grid
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import DrillStatus
from k2ktui.runtime.node import KafkaNode
from tests.support.commands.cli import k2ktui
from tests.support.console.driver import ConsoleDriver, copied_session, drive_session
from tests.support.drill.runs import Pair

pytestmark = pytest.mark.slow


@pytest.fixture
def pair(tmp_path: Path, source: KafkaNode, target: KafkaNode) -> Pair:
    return Pair(tmp_path, source, target)


async def start(console: ConsoleDriver, pair: Pair, *keys: str) -> None:
    """Choose a drill, and type the pipeline's name."""
    await console.until(lambda: console.screen.query(Grid), "screen 8")
    await console.press("N")
    await console.sees("New drill")
    await console.press(*keys, "enter")
    await console.confirm(pair.copied.name)


def test_a_rehearsal_is_started_and_seen_to_finish(pair: Pair) -> None:
    async def steps(console: ConsoleDriver) -> None:
        await start(console, pair)
        await console.sees("It runs here: H holds it")
        await console.press("q")
        await console.sees("the drill runs here: H holds it")
        await console.until(lambda: pair.drills() and pair.drills()[0].is_over, "over")
        await console.sees("5 report", "done rehearse", "of the tool", "0 records")
        await console.press("v")
        await console.sees("Report of drill", "Checks:")
        await console.press("escape", "q")
        await console.sees("last rehearsed <")

    drive_session(copied_session(pair.copied), steps, (100, 30), screen="8")
    (drill,) = pair.drills()
    assert (drill.kind, drill.status) == (DrillKind.REHEARSE, DrillStatus.DONE)
    assert {group.group for group in drill.groups} == set(pair.groups)
    assert all(set(pair.target_offsets(group).values()) == {None} for group in pair.groups)
    k2ktui("drill", "report", drill.id, "-f", pair.file, "--verify")
