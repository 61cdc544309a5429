"""What is bad decides before what is unknown; each is named."""

from __future__ import annotations

from k2ktui.drill.checks.evidence import decide
from k2ktui.engine.drill.checks import DrillCheckOutcome, could_not_check, fails, passes


def test_what_is_bad_decides_before_what_is_unknown() -> None:
    assert decide("1 of 2", ["b", "a"], "Repair it.", ["c"]) == fails("1 of 2; a, b", "Repair it.")
    assert decide("1 of 2", [], "Repair it.", ["c"]) == could_not_check("1 of 2; unknown: c")
    assert decide("2 of 2", [], "Repair it.") == passes("2 of 2")
    assert decide("1 of 2", [""], "", ["c"]).outcome is DrillCheckOutcome.FAIL, "a name"
    assert decide("1 of 2", [], "", [""]).outcome is DrillCheckOutcome.UNKNOWN
    named = decide("1", ["a"], "", bad_after=": "), decide("1", [], "", ["b"], unknown_after=" of ")
    assert [finding.evidence for finding in named] == ["1: a", "1 of b"]
