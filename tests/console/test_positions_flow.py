"""Positions are moved from the console, on real clusters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from k2ktui.console.app import ConsoleApp
from k2ktui.console.screens.positions_plan import MovesScreen
from k2ktui.console.widgets.grid import Grid
from k2ktui.engine.state import Position, SourcePartition
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.positions import PositionPlanner
from tests.console.acting import confirm, drive, session_of, shows, until
from tests.support.copied import Copied
from tests.support.kafka import Out, create_topic, produce, unique_name

pytestmark = pytest.mark.slow
App, Driver = ConsoleApp, Pilot[Any]


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
        found = {row.source: row.position for row in positions.rows()}
    finally:
        positions.close()
    return found[SourcePartition(topic, 0)]


async def planned(app: App, pilot: Driver, topic: str, *keys: str) -> None:
    """Plan what the keys ask for, for the topic's partition."""
    await pilot.press("6")
    await until(app, pilot, lambda: app.screen.query_one(Grid).select((topic, 0)), "shown")
    await pilot.press(*keys)
    await until(app, pilot, lambda: isinstance(app.screen, MovesScreen), "opened")
    screen = app.screen
    assert isinstance(screen, MovesScreen)
    await until(app, pilot, lambda: screen.change and not screen.busy, "planned")


def test_a_position_is_moved_back_and_cleared(copied: Copied, topic: str) -> None:
    before = position_of(copied, topic)
    assert before is not None and before.offset == 40

    async def steps(app: App, pilot: Driver) -> None:
        await planned(app, pilot, topic, "enter", "minus", "1", "0", "enter")
        await shows(app, pilot, "10 copied again")
        await pilot.press("A")
        await confirm(app, pilot, copied.name)
        await shows(app, pilot, "positions written: 1, in term 2")
        moved = position_of(copied, topic)
        assert moved is not None and (moved.offset, moved.start) == (30, before.start)
        await pilot.press("7")
        await shows(app, pilot, "offsets set")
        await pilot.press("U")
        await shows(app, pilot, "1 forward")
        await pilot.press("escape", "6", "escape")
        await planned(app, pilot, topic, "c")
        await pilot.press("A")
        await confirm(app, pilot, copied.name)
        await shows(app, pilot, "positions written: 1, in term 3")

    drive(session_of(copied), steps, (110, 30))
    assert position_of(copied, topic) is None
