"""The catalog of drill checks is complete, and says who asks each check and what it stops."""

from __future__ import annotations

from k2ktui.drill.checks.suite import CHECKS
from k2ktui.engine.drill import PHASES
from k2ktui.engine.drill_catalog import CATALOG, blocking, ids_asked
from k2ktui.engine.drill_checks import CheckResult, DrillCheckOutcome, DrillKind, DrillPhase


def test_all_ids_are_there_in_order() -> None:
    assert list(CATALOG) == [f"D{number:02}" for number in range(1, 49)]
    assert set(CHECKS) == set(CATALOG)


def test_every_check_is_asked_in_the_order_of_phases() -> None:
    order = list(DrillPhase)
    for check in CATALOG.values():
        assert check.phases, check.id
        assert check.blocks <= set(check.kinds), f"{check.id} stops a drill that never asks it"
        for kind, phases in check.phases.items():
            assert phases and list(phases) == sorted(phases, key=order.index)
            # A kind without phases cannot be run by this version.
            assert set(phases) <= set(PHASES.get(kind, phases)), f"{kind} never asks {check.id}"


def test_a_rehearsal_is_never_stopped() -> None:
    assert not [each.id for each in CATALOG.values() if DrillKind.REHEARSE in each.blocks]


def test_ids_of_a_phase() -> None:
    assert ids_asked(DrillKind.PLANNED, DrillPhase.DRAIN) == ("D40",)
    assert "D39" not in ids_asked(DrillKind.DISASTER)
    assert set(ids_asked(DrillKind.REHEARSE, DrillPhase.PREFLIGHT)) < set(CATALOG)


def test_only_failures_of_blocking_checks_stop_a_drill() -> None:
    def result(check_id: str, outcome: DrillCheckOutcome) -> CheckResult:
        return CheckResult(check_id, "", outcome, "")

    results = [
        result("D06", DrillCheckOutcome.FAIL),
        result("D04", DrillCheckOutcome.FAIL),
        result("D40", DrillCheckOutcome.UNKNOWN),
    ]

    assert [each.id for each in blocking(results, DrillKind.PLANNED)] == ["D06"]
    assert blocking(results, DrillKind.DISASTER) == []
