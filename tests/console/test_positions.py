"""The screen of positions without clusters: where to, what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.console.screens import positions_plan
from k2ktui.console.screens.positions import plan_of
from k2ktui.console.screens.positions_plan import MovesScreen
from k2ktui.console.session import Session
from k2ktui.console.widgets.selectable_grid import SelectableGrid
from k2ktui.engine.moves.positions import SET, MoveEffect, PositionMove, PositionPlan
from k2ktui.engine.records.state import SourcePartition
from k2ktui.sync.flow import Flow, FlowKind
from k2ktui.sync.positions.position_planner import PositionPlanner
from tests.support.console.driver import ConsoleDriver, drive_session, made_session
from tests.support.console.views import Made

A0, A1 = SourcePartition("a", 0), SourcePartition("a", 1)


class Planner:
    """Returns what it was asked for; the real one is asked on real clusters."""

    def plan_set(self, wanted: Mapping[SourcePartition, int]) -> PositionPlan:
        return self._change(
            {source: PositionMove(source, MoveEffect.BACK, None) for source in wanted}, wanted
        )

    def plan_to(
        self, topic: Callable[[str], bool], kind: str, timestamp_ms: int | None = None
    ) -> PositionPlan:
        moves = {s: PositionMove(s, MoveEffect.BACK, None) for s in (A0, A1) if topic(s.topic)}
        return self._change(moves, (kind, timestamp_ms))

    def close(self) -> None:
        return

    def _change(self, moves: Mapping[SourcePartition, PositionMove], asked: object) -> PositionPlan:
        return PositionPlan(SET, repr(asked), tuple(moves.values()))


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("earliest", ("earliest", None)),
        (" latest ", ("latest", None)),
        ("1,200", {A0: 1200}),
        ("+10", {A0: 60}),
        ("-10", {A0: 40}),
        ("-60", {A0: 0}),
        ("1970-01-01T00:00:01Z", ("timestamp", 1000)),
    ],
)
def test_where_to(text: str, asked: object) -> None:
    change = plan_of(text, {A0: 50})(Planner())  # type: ignore[arg-type]
    assert change.pipeline == repr(asked)
    # The other partitions of the topic are not moved.
    assert [move.source for move in change.moves] == [A0]


@pytest.mark.parametrize("text", ["soon", "+", "1.5", "9" * 30, "2026-13-01", ""])
def test_where_nothing_is(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        plan_of(text, {A0: 50})


def test_nothing_is_counted_from_where_there_is_no_position() -> None:
    with pytest.raises(ValueError, match="a-1 has no position"):
        plan_of("+5", {A0: 50, A1: None})


def session(*, config: bool = True) -> Session:
    made = Made()
    for partition in (0, 1):
        made.partition("a", partition, end=50)
    return made_session(made, config=config)


def test_a_running_pipeline_is_named_and_a_wrong_place_asked_again() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("6", "a")
        await console.until(lambda: "2 marked" in console.text, "marked")
        assert "runs on bastion1, pid 4711: stop it first" in console.text
        screen = console.screen
        await console.press("enter")
        await console.until(lambda: console.screen is not screen, "asked")
        await console.press(*"soon", "enter")
        await console.until(lambda: "ISO-8601" in console.notices, "reported")
        assert console.screen is screen
        assert screen.query_one(SelectableGrid).marked == {("a", 0), ("a", 1)}

    drive_session(session(), steps)


def test_a_recording_moves_nothing() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("6")
        screen = console.screen
        await console.press("enter", "c")
        await console.until(lambda: "recording" in console.notices, "reported")
        assert console.screen is screen

    drive_session(session(config=False), steps)


def test_the_mapping_application_moves_no_position_and_starts_no_job() -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.press("6")
        screen = console.screen
        await console.press("enter")
        await console.until(lambda: "no replication section" in console.notices, "reported")
        assert console.screen is screen
        console.app.clear_notifications()
        await console.press("5", "J")
        await console.until(lambda: "no replication section" in console.notices, "reported")

    flow = Flow(PipelineConfig.model_construct(name="orders"), kind=FlowKind.ALL_PIPELINES)
    drive_session(replace(session(), flow=flow), steps)


def test_a_fault_of_ours_is_reported_and_kept_without_what_may_be_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    def fail(known: PositionPlanner) -> PositionPlan:
        secret = "hunter" + str(2)
        raise ZeroDivisionError(secret)

    async def steps(console: ConsoleDriver) -> None:
        monkeypatch.setattr(positions_plan, "PositionPlanner", lambda config: Planner())
        console.app.push_screen(MovesScreen(fail))
        await console.until(lambda: "internal error in k2ktui" in console.text, "reported")
        # The console continues.
        await console.press("escape")
        assert not isinstance(console.screen, MovesScreen)

    drive_session(session(), steps)
    (report,) = tmp_path.rglob("crash*.txt")
    assert "in fail" in report.read_text()
    assert "hunter2" not in report.read_text()
