"""Objectives in a view: what a failover now, or the last rehearsal, misses is a problem."""

from __future__ import annotations

from dataclasses import replace

from k2ktui.cli.views import status_object
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import Drill, DrillStatus
from k2ktui.engine.drill.objectives import Objectives
from k2ktui.engine.severity import Severity
from k2ktui.present.view_lines import view_lines
from k2ktui.watch.model import View
from k2ktui.watch.once import Reading
from tests.support.console.views import NOON, Made, problems_of
from tests.support.drill.made_drills import new_drill, switched_over, through


def rehearsed(**fields: object) -> Drill:
    """Return a rehearsal of 7.5 s."""
    drill = through(new_drill(DrillKind.REHEARSE), DrillPhase.REPORT)
    return replace(drill, status=DrillStatus.DONE, ended_ms=int(NOON * 1000) - 60_000, **fields)  # type: ignore[arg-type]


def view(objectives: Objectives, *drills: Drill, lag: int = 1200) -> View:
    made = Made(objectives=objectives)
    made.partition("orders", 0, end=90_000, lag=lag)
    made.drills = drills
    return made.view()


def missed(shown: View) -> dict[str, str]:
    problems = problems_of(shown, "objective")
    assert all(problem.severity is Severity.WARN for problem in problems)
    return {problem.subject: problem.message for problem in problems}


def test_nothing_is_a_problem_without_objectives_and_within_them() -> None:
    assert missed(view(Objectives(), rehearsed())) == {}
    assert missed(view(Objectives(1200, None, 7.5), rehearsed())) == {}
    assert "objectives" not in "\n".join(view_lines(view(Objectives(), rehearsed()), NOON))


def test_what_is_above_an_objective_is_a_problem() -> None:
    shown = view(Objectives(1199, None, 7.0), rehearsed())
    problems = missed(shown)
    assert problems["RPO"].startswith("RPO above 1,199 records: 1,200 not copied")
    assert problems["RTO"] == "RTO above 7 s: the last rehearsal took 7.5 s of the tool"
    line = "objectives: RPO at most 1,199 records; RTO at most 7 s; missed now: "
    assert f"  {line}RPO above 1,199 records, RTO above 7 s" in list(view_lines(shown, NOON))
    printed = status_object(Reading(shown))["objectives"]
    assert printed == {
        "rpo_records": 1199,
        "rpo_s": None,
        "rto_s": 7.0,
        "missed": ["RPO above 1,199 records", "RTO above 7 s"],
    }


def test_after_a_failover_the_lag_of_the_past_misses_nothing() -> None:
    assert missed(view(Objectives(0, 0.0, None), switched_over())) == {}


def test_without_a_rehearsal_no_rto_is_known() -> None:
    assert missed(view(Objectives(None, None, 0.0))) == {}
