"""Objectives of a failover in Overview: the tile, the pair, and the list of problems."""

from __future__ import annotations

from dataclasses import replace

import pytest

from k2ktui.console.widgets.text_dialog import TextDialog
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.objectives import Objectives
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.views import Made, usual
from tests.support.drill.made_drills import rehearsed

SIZES = [(80, 24), (120, 35), (200, 60)]


def made(objectives: Objectives) -> Made:
    pair = replace(usual(), objectives=objectives)
    pair.drills = (rehearsed(),)
    return pair


@pytest.mark.parametrize("size", SIZES)
def test_what_a_failover_would_miss_is_marked_and_a_problem(size: tuple[int, int]) -> None:
    async def flow(console: ConsoleDriver) -> None:
        assert "RPO ▲ 1,200 records" in console.text
        assert "not copied, oldest 3.0 s  RPO above 0 records" in console.text
        assert "RTO 7.5 s, RPO 0  RTO above 1 s" in console.text
        assert size == (80, 24) or "RTO ▲ 7.5 s" in console.text
        await console.press("end")
        assert "RTO above 1 s: the last rehearsal took 7.5 s of the tool" in console.text
        await console.press("enter")
        assert isinstance(console.screen, TextDialog)

    drive(flow, made(Objectives(0, None, 1.0)), size=size)


@pytest.mark.parametrize("size", SIZES)
def test_nothing_is_marked_within_the_objectives(size: tuple[int, int]) -> None:
    async def flow(console: ConsoleDriver) -> None:
        assert "RPO 1,200 records" in console.text and "above" not in console.text
        await console.press("end")
        assert "objective" not in console.text

    drive(flow, made(Objectives(10**9, 1e6, 1e6)), size=size)


def test_a_rehearsal_that_only_missed_an_objective_was_not_stopped() -> None:
    finding = "D46 measured RTO and RPO: RPO 7 records; RPO above 5 records"
    drill = rehearsed()
    report = replace(drill.record(DrillPhase.REPORT), findings=(finding,), failed_checks=("D46",))
    drill = replace(drill.with_phase(report), blockers=(f"report: {finding}",))

    async def flow(console: ConsoleDriver) -> None:
        assert "▲ missed an objective" in console.text

    pair = usual()
    pair.drills = (drill,)
    drive(flow, pair)
