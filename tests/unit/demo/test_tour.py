"""The tour of a failover, as a user runs it: a rehearsal, then a planned switchover."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from k2ktui.demo.tour import DrillTour, TourOperator, is_exact
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import (
    Drill,
    DrillFigures,
    DrillStatus,
    GroupResult,
    PhaseRecord,
    PhaseStatus,
    new_phases,
)
from k2ktui.errors import ExitCode
from tests.support.commands.verbs import k2ktui

BEGUN = Drill("id", DrillKind.PLANNED, "demo", "s", "t", "1", 0, "me")
EXACT = replace(
    BEGUN,
    status=DrillStatus.DONE,
    groups=(GroupResult("billing", partitions=3, reread=0, skipped=0),),
    figures=DrillFigures(rpo_records=0, content_compared=3),
)


def test_the_operator_announces_a_phase_pauses_and_acts_before_it_runs() -> None:
    said: list[str] = []
    acted = "The tour acts.", lambda: said.append("acted")
    operator = TourOperator(
        said.append,
        lambda: said.append("paused"),
        Path("/a file.yaml"),
        "k2ktui drill planned",
        {DrillPhase.LAG: acted},
    )
    drill = replace(BEGUN, phases=new_phases(DrillKind.PLANNED))
    operator.show(drill)
    operator.show(drill)
    assert [line.partition(":")[0] for line in said] == [
        "1 of 12, preflight",
        "  By hand",
        "paused",
    ]
    assert said[1] == "  By hand: k2ktui check -f '/a file.yaml'"
    said.clear()
    done = PhaseRecord(DrillPhase.PREFLIGHT, PhaseStatus.DONE, live="fine", findings=("but\x1b",))
    operator.show(drill.with_phase(done))
    assert said[:2] == ["  done: fine", "    but\\x1b"]
    assert said[2].startswith("2 of 12, lag: Waits until")
    assert said[4:] == ["paused", "  The tour acts.", "acted"]


@pytest.mark.parametrize(
    "other",
    [
        replace(EXACT, status=DrillStatus.OPEN),
        replace(EXACT, groups=()),
        replace(EXACT, groups=(replace(EXACT.groups[0], reread=1),)),
        replace(EXACT, groups=(replace(EXACT.groups[0], skipped=1),)),
        replace(EXACT, groups=(replace(EXACT.groups[0], unmapped=1),)),
        replace(EXACT, groups=(replace(EXACT.groups[0], was_active=True, note="not joined"),)),
        replace(EXACT, figures=replace(EXACT.figures, rpo_records=1)),
        replace(EXACT, figures=replace(EXACT.figures, content_different=1)),
    ],
)
def test_only_a_whole_switchover_is_exact(other: Drill) -> None:
    assert is_exact(EXACT)
    assert not is_exact(other)


@pytest.mark.parametrize("option", ["--keep", "--fresh", "--with-mirrormaker", "--with-schemas"])
def test_options_about_data_are_refused_with_the_tour(option: str) -> None:
    said = k2ktui("demo", "--drill", option)
    assert said.code == 2
    assert "--drill cannot be combined" in said.err


@pytest.mark.parametrize("worse", ["there", "back"])
def test_the_exit_code_is_the_worse_one_of_there_and_back(
    worse: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    codes = {"there": ExitCode.OK, "back": ExitCode.OK}
    monkeypatch.setattr(DrillTour, "switch_over", lambda *_: codes["there"])
    monkeypatch.setattr(DrillTour, "fail_back", lambda *_: codes["back"])
    nothing: Any = SimpleNamespace(say=None)
    tour = DrillTour(Path("x"), (nothing, nothing), nothing, nothing, nothing, 0.0)
    assert tour.run_planned() == ExitCode.OK
    codes[worse] = ExitCode.FINDINGS
    assert tour.run_planned() == ExitCode.FINDINGS


def test_a_pause_is_for_a_tour() -> None:
    said = k2ktui("demo", "--pause", "1")
    assert said.code == 2
    assert "--pause is only for the phases of --drill" in said.err
