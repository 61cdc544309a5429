"""What the phases of a drill have found: by their last run, and with the check that failed."""

from __future__ import annotations

from dataclasses import replace

from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.format import report_digest
from k2ktui.engine.drill.model import Drill, PhaseRecord, PhaseStatus
from k2ktui.engine.drill.steps import add_blockers, begin_phase, end_phase, repeat_from
from k2ktui.engine.moves.journal import DrillKey
from k2ktui.engine.moves.journal_format import read_state_value, state_value
from tests.unit.engine.test_drill import make


def test_findings_are_of_the_last_run_of_a_phase_and_name_their_checks() -> None:
    lag, fence = DrillPhase.LAG, DrillPhase.FENCE_PRODUCERS
    other = "lag: not of a phase"  # whatever it begins with

    def ended(drill: Drill, phase: DrillPhase, *findings: str) -> Drill:
        begun = begin_phase(drill, phase, 1)
        failed = end_phase(begun, phase, PhaseStatus.FAILED, 2, "", findings, ("D06",))
        return add_blockers(failed, phase)

    drill = ended(make(blockers=(other,)), lag, "it waits", "D06 lag: 3 records")
    assert drill.record(lag).list_findings() == (("it waits", ""), ("D06 lag: 3 records", "D06"))
    assert drill.blockers == (other, "lag: it waits", "lag: D06 lag: 3 records")
    again = ended(drill, lag, "D06 lag: 1 record")
    assert again.blockers == (other, "lag: D06 lag: 1 record")
    fenced = ended(again, fence, "D39 written")
    assert fenced.blockers == (*again.blockers, "fence-producers: D39 written")
    assert repeat_from(fenced, fence).blockers == again.blockers


def test_records_of_releases_without_the_checks_of_findings_are_read_and_have_their_hash() -> None:
    drill = make(phases=(PhaseRecord(DrillPhase.LAG, PhaseStatus.DONE, findings=("D06 lag",)),))
    body = state_value(drill)
    assert b"failed_checks" not in body
    assert read_state_value(DrillKey(drill.id), body) == drill
    assert drill.phases[0].list_findings() == (("D06 lag", ""),)
    named = replace(drill, phases=(replace(drill.phases[0], failed_checks=("D06",)),))
    assert read_state_value(DrillKey(named.id), state_value(named)) == named
    assert report_digest(named) != report_digest(drill)
