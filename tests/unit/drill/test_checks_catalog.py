"""The catalog has every check that registers itself, and says who asks it and what it stops."""

from __future__ import annotations

import importlib
import pkgutil

import pytest

from k2ktui.drill import checks
from k2ktui.drill.checks.catalog import CATALOG, blocking, ids_asked
from k2ktui.drill.checks.registration import REGISTERED, check
from k2ktui.engine.drill.checks import CheckResult, DrillCheckOutcome, DrillKind, DrillPhase
from k2ktui.engine.drill.model import PHASES, phases_of


def test_no_id_is_left_out() -> None:
    assert list(CATALOG) == [f"D{number:02}" for number in range(1, len(CATALOG) + 1)]


def test_the_catalog_has_the_checks_of_all_modules() -> None:
    for module in pkgutil.iter_modules(checks.__path__, f"{checks.__name__}."):
        importlib.import_module(module.name)
    assert set(REGISTERED) == set(CATALOG)


def test_an_id_is_given_once() -> None:
    with pytest.raises(ValueError, match="D06"):
        check("D06", "another lag", {})(CATALOG["D06"].ask)


def test_each_check_is_asked_in_phases_that_the_drill_has() -> None:
    for entry in CATALOG.values():
        assert entry.phases, entry.id
        kinds = frozenset[DrillKind]().union(*entry.phases.values())
        assert entry.blocks <= kinds, f"{entry.id} stops a drill that never asks it"
        for kind in kinds:
            phases = set(entry.phases_of(kind))
            asked = {*PHASES[kind], *phases_of(kind, ("orders",))}
            assert phases <= asked, f"{kind} never asks {entry.id}"


def test_a_rehearsal_is_never_stopped() -> None:
    assert not [entry.id for entry in CATALOG.values() if DrillKind.REHEARSE in entry.blocks]


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
        result("D99", DrillCheckOutcome.FAIL),  # of a later release
    ]

    assert [check.id for check in blocking(results, DrillKind.PLANNED)] == ["D06"]
    assert blocking(results, DrillKind.DISASTER) == []
