"""What misses an objective."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.format import drill_body, read_drill, report_content
from k2ktui.engine.drill.objectives import NO_OBJECTIVES, Objectives
from tests.support.drill.made_drills import new_drill

counts = st.none() | st.integers(0, 1 << 40)
times = st.none() | st.floats(0, 1e9)
every = st.builds(Objectives, counts, times, times)


@given(every, counts, times, times)
def test_a_value_misses_is_unknown_or_meets_its_objective(
    objectives: Objectives, records: int | None, age: float | None, took: float | None
) -> None:
    values = {"rpo_records": records, "rpo_s": age, "rto_s": took}
    missed, unknown = objectives.list_missed(**values), objectives.list_unknown(**values)  # type: ignore[arg-type]
    limits = objectives.rpo_records, objectives.rpo_s, objectives.rto_s
    assert bool(objectives) == any(limit is not None for limit in limits)
    measured = [records, 0.0 if records == 0 else age, took]
    above = sum(
        limit is not None and value is not None and value > limit
        for limit, value in zip(limits, measured, strict=True)
    )
    not_known = sum(
        limit is not None and value is None for limit, value in zip(limits, measured, strict=True)
    )
    assert (len(missed), len(unknown)) == (above, not_known)


def test_without_objectives_nothing_is_missed() -> None:
    assert not NO_OBJECTIVES and NO_OBJECTIVES.describe() == ""
    assert NO_OBJECTIVES.list_missed(rpo_records=1 << 40, rpo_s=1e9, rto_s=1e9) == []


def test_they_are_described_as_configured() -> None:
    assert Objectives(1, 0.5, 900.0).describe() == (
        "RPO at most 1 record, 0.5 s; RTO at most 15 m 0 s"
    )
    assert Objectives(rpo_s=30.0).describe() == "RPO at most 30 s"
    missed = Objectives(0, 1.0, 2.5).list_missed(rpo_records=1, rpo_s=1.1, rto_s=2.6)
    assert missed == ["RTO above 2.5 s", "RPO above 0 records", "RPO above 1 s"]


@given(every)
def test_a_drill_keeps_them_and_one_without_is_written_as_before(objectives: Objectives) -> None:
    drill = replace(new_drill(DrillKind.REHEARSE), objectives=objectives or None)
    body = drill_body(drill)
    assert ("objectives" in body["drill"]) == bool(objectives)
    assert ("objectives" in report_content(drill)) == bool(objectives)
    assert read_drill(drill.id, body) == drill
