"""Positions are moved from the console, on real clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.console.screens.positions_plan import MovesScreen
from k2ktui.console.widgets.grid import Grid
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.positions.position_planner import PositionPlanner
from tests.support.clusters.kafka import (
    Out,
    create_topic,
    delete_topic,
    produce,
    unique_name,
)
from tests.support.console.driver import ConsoleDriver, copied_session, drive_session
from tests.support.pipelines.copied import Copied, only

pytestmark = pytest.mark.slow


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Copied:
    return Copied(tmp_path, source, target, name=unique_name("c"))


@pytest.fixture
def topic(source: KafkaNode, copied: Copied) -> str:
    name = create_topic(source, unique_name("t"), 1)
    produce(source, name, [Out(b"%d" % n) for n in range(40)])
    copied.copy(name)
    return name


def position_of(copied: Copied, topic: str) -> Position | None:
    positions = PositionPlanner(copied.config)
    try:
        positions_shown = {row.source: row.position for row in positions.rows()}
    finally:
        positions.close()
    return positions_shown[SourcePartition(topic, 0)]


async def planned(console: ConsoleDriver, topic: str, *keys: str) -> None:
    """Plan what the keys ask for, for the topic's partition."""
    await console.press("6")
    await console.until(lambda: console.screen.query_one(Grid).select((topic, 0)), "shown")
    await console.press(*keys)
    await console.until(lambda: isinstance(console.screen, MovesScreen), "opened")
    screen = console.screen
    assert isinstance(screen, MovesScreen)
    await console.until(lambda: screen.shown and not screen.busy, "planned")


def test_a_position_is_moved_back_and_cleared(copied: Copied, topic: str) -> None:
    before = position_of(copied, topic)
    assert before is not None and before.offset == 40

    async def steps(console: ConsoleDriver) -> None:
        await planned(console, topic, "enter", "minus", "1", "0", "enter")
        await console.sees("10 copied again")
        await console.press("A")
        await console.confirm(copied.name)
        await console.sees("positions written: 1, in term 2")
        moved = position_of(copied, topic)
        assert moved is not None and (moved.offset, moved.start) == (30, before.start)
        await console.press("7", "enter")  # the table has no room for all of the operation
        await console.sees("offsets set")
        await console.press("escape", "U")
        await console.sees("1 forward")
        await console.press("escape", "6", "escape")
        await planned(console, topic, "c")
        await console.press("A")
        await console.confirm(copied.name)
        await console.sees("positions written: 1, in term 3")

    drive_session(copied_session(copied), steps, (110, 30))
    assert position_of(copied, topic) is None


def test_lost_positions_are_recovered(copied: Copied, topic: str) -> None:
    copied.settings = only(topic)
    delete_topic(copied.target, copied.commits)

    async def steps(console: ConsoleDriver) -> None:
        await console.press("6", "o")
        await console.until(lambda: isinstance(console.screen, MovesScreen), "opened")
        screen = console.screen
        assert isinstance(screen, MovesScreen)
        await console.until(lambda: screen.shown and not screen.busy, "planned")
        await console.sees("recover")
        await console.press("A")
        await console.confirm(copied.name)
        await console.sees("positions written: 1")

    drive_session(copied_session(copied), steps, (110, 30))
    position = position_of(copied, topic)
    assert position is not None and (position.offset, position.stopped) == (40, "")
