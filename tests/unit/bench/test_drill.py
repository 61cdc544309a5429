"""The report of the benchmark of drills, without running it."""

from __future__ import annotations

from dataclasses import replace

from bench.drill import read_report, report_demo, report_rehearsal, report_ways
from bench.drill_runbook import DRILL, RUNBOOK, Runbook
from bench.failover import LAGS, Found
from k2ktui.drill.report import report_json
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import DrillFigures
from tests.support.drill.made_drills import new_drill, rehearsed, through


def test_the_report_has_times_by_phase_and_both_ways() -> None:
    drill = through(new_drill(DrillKind.PLANNED), DrillPhase.REPORT)
    waited = replace(drill.record(DrillPhase.DRAIN), waited_ms=1_000)
    drill = replace(
        drill.with_phase(waited),
        figures=DrillFigures(first_record_ms=drill.started_ms + 20_000),
    )
    planned = read_report(report_json(drill))
    assert planned.phases["drain"] == (1.5, 0.5)
    assert planned.tool_s == 17.0 and planned.rto_s == 20.0
    rehearsal = read_report(report_json(rehearsed()))
    assert rehearsal.rto_s is None
    ways = [
        Runbook(name, {"step": 2.0}, tuple(Found(lag, name, lag, 7, 0) for lag in LAGS))
        for name in (RUNBOOK, DRILL)
    ]
    text = report_demo(rehearsal, planned)
    assert "| drain | 1.5 | 0.5 |" in text and "| all (target ≤ 30) | 18.0 | 17.0 |" in text
    assert "first record read after 20.0 s" in text
    assert "1,000 groups of 10 partitions" in report_rehearsal(rehearsal, 1_000, 10, 3_000)
    text = report_ways(ways)
    assert f"| 100,000 | {DRILL} | 100,000 | 7 | 0 |" in text
    assert text.count(f"| {RUNBOOK} | 2.0 | step 2.0 |") == 1
