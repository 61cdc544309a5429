"""Findings from the checks before a start, which a drill asks too."""

from __future__ import annotations

from collections.abc import Iterable

from k2ktui.engine.drill.checks import CheckFinding, could_not_check, fails, passes
from k2ktui.replication.preflight.checks import Check, CheckOutcome


def join_preflight(checks: Iterable[Check], prefix: str = "") -> CheckFinding:
    """Return several checks as one finding: the failures, else the unknown ones, else all."""
    all_checks = list(checks)
    for outcome in (CheckOutcome.FAIL, CheckOutcome.UNKNOWN):
        some = [check for check in all_checks if check.outcome is outcome]
        if some:
            text = prefix + "; ".join(f"{check.name}: {check.detail}" for check in some)
            hint = "\n".join(dict.fromkeys(check.hint for check in some if check.hint))
            failed = outcome is CheckOutcome.FAIL
            return fails(text, hint) if failed else could_not_check(text, hint)
    return passes(prefix + "; ".join(f"{check.name}: {check.detail}" for check in all_checks))
