"""What a drill says of itself: its result, its findings, its times, and its questions."""

from __future__ import annotations

from dataclasses import replace

from k2ktui.drill.progress import (
    CHOOSE,
    describe_state,
    elapsed_ms,
    list_phases,
    rto_ms,
    stopped_for,
)
from k2ktui.drill.report import list_harm, stopped_ms, summarize
from k2ktui.engine.drill.checks import CheckResult, DrillCheckOutcome, DrillKind, DrillPhase
from k2ktui.engine.drill.model import Drill, DrillFigures, GroupResult, PhaseStatus
from k2ktui.engine.drill.steps import add_blockers, end_phase, list_remarks
from k2ktui.engine.severity import Severity
from k2ktui.present.drills import judge_drill, judge_phase
from tests.support.drill.made_drills import (
    NOON_MS,
    fencing,
    listed,
    new_drill,
    rehearsed,
    switched_over,
    through,
)


def with_findings(drill: Drill) -> Drill:
    """Two phases ask the same check, which fails; another one has passed since; one is no check."""
    by_phase = {
        DrillPhase.PREFLIGHT: (("D07 lag: 3", "D20 members: 1", "stop it"), ("D07", "D20")),
        DrillPhase.REPORT: (("D07 lag: 3",), ("D07",)),
    }
    for phase, (findings, checks) in by_phase.items():
        record = drill.record(phase)
        findings = (findings[-1], *findings[:-1]) if len(findings) > len(checks) else findings
        drill = drill.with_phase(replace(record, findings=findings, failed_checks=checks))
    results = (
        CheckResult("D07", "lag", DrillCheckOutcome.FAIL, "3"),
        CheckResult("D20", "members", DrillCheckOutcome.PASS, "none"),
    )
    blockers = ("preflight: stop it", "preflight: D07", "preflight: D20", "report: D07")
    return replace(drill, checks=results, blockers=blockers)


def test_a_switchover_without_any_harm_has_succeeded() -> None:
    drill = with_findings(switched_over())
    assert list_harm(drill) == []
    assert summarize(drill)[0] == (
        "The planned drill of orders succeeded; 1 check failed, 1 other finding."
    )
    assert judge_drill(drill).severity is Severity.OK


def test_what_harms_is_said_first() -> None:
    groups = (
        GroupResult("billing", 2, 0, 5, 7_379, was_active=True, joined=True),
        GroupResult("search", 2, 1, 0, 0, was_active=True, joined=False),
    )
    drill = replace(switched_over(), groups=groups)
    assert summarize(drill)[0] == (
        "The planned drill of orders ended: 5 records read again, 7,379 records skipped, "
        "1 group not moved completely, 1 group not on the target yet."
    )
    assert judge_drill(drill).severity is Severity.WARN
    lost = replace(switched_over(), figures=DrillFigures(rpo_at_least=10, opened_ms=NOON_MS))
    assert "ended: at least 10 records missing." in summarize(lost)[0]


def test_the_findings_of_a_rehearsal_are_as_many_as_its_failed_checks() -> None:
    drill = with_findings(rehearsed())
    first, *rest = summarize(drill)
    assert first == "A failover now would not be safe: 1 check failed, 1 other finding."
    assert "Checks: 1 pass, 1 fail, 0 could-not-check" in rest


def test_a_rehearsal_with_a_finding_that_nothing_else_names_says_how_many() -> None:
    drill = replace(rehearsed(), blockers=("content: x", "plan: y"))
    assert summarize(drill)[0] == "A failover now would not be safe: 2 findings."


def test_a_question_is_no_failure() -> None:
    drill = listed()
    [row] = [phase for phase in list_phases(drill, acting=False) if phase.record.phase == "tail"]
    assert (judge_phase(row).word, judge_phase(row).severity) == (CHOOSE, Severity.WARN)
    assert describe_state(drill).startswith("tail waits for your choice: 13,128 records")
    assert judge_drill(drill).severity is Severity.WARN


def test_the_time_counts_from_the_stop_of_the_applications() -> None:
    begun = fencing()
    assert stopped_for(begun, NOON_MS) == (None, None)  # producers still write
    drill = through(replace(begun, phases=begun.phases), DrillPhase.STOP_CONSUMERS)
    record = drill.record(DrillPhase.FENCE_PRODUCERS)
    drill = drill.with_phase(replace(record, ended_ms=NOON_MS - 50_000))
    consumers = drill.record(DrillPhase.STOP_CONSUMERS)
    drill = drill.with_phase(replace(consumers, ended_ms=NOON_MS - 20_000))
    # Nothing was written for 30 s when the fence was proven.
    assert stopped_ms(drill) == NOON_MS - 80_000
    assert stopped_for(drill, NOON_MS) == (80_000, 20_000)
    read = replace(drill, figures=DrillFigures(first_record_ms=NOON_MS))
    assert rto_ms(read) == 80_000
    assert stopped_for(read, NOON_MS) == (None, None)
    assert rto_ms(drill) is None


def test_a_drill_that_has_ended_took_what_it_took() -> None:
    assert elapsed_ms(switched_over(), NOON_MS + 3_600_000) == 9 * 60_000


def test_every_remark_is_known_before_the_point_of_no_return() -> None:
    groups = (GroupResult("legacy", 2, 0, 0, 7_379), GroupResult("billing", 2, 0, 0, 0))
    drill = replace(with_findings(fencing()), groups=groups)
    remarks = list_remarks(drill)
    assert remarks[0] == "legacy: 7,379 skipped, 0 read again"
    assert remarks[1:] == list(drill.blockers)


def test_a_check_that_several_phases_have_asked_is_one_remark() -> None:
    drill = fencing()
    for phase, number in ((DrillPhase.PREFLIGHT, 2), (DrillPhase.APPLY, 3)):
        failed = tuple(f"{check} of billing: {number} offsets" for check in ("D19", "D24"))
        drill = end_phase(
            drill,
            phase,
            PhaseStatus.DONE,
            NOON_MS,
            "",
            (f"{phase} was slow", *failed),
            ("D19", "D24"),
        )
        drill = add_blockers(drill, phase)
    assert list_remarks(drill) == [
        "preflight: preflight was slow",
        "apply: D19 of billing: 3 offsets",
        "apply: D24 of billing: 3 offsets",
        "apply: apply was slow",
    ]


def test_a_disaster_counts_from_its_beginning() -> None:
    drill = through(new_drill(DrillKind.DISASTER), DrillPhase.OPEN_TARGET)
    assert stopped_ms(drill) == drill.started_ms
