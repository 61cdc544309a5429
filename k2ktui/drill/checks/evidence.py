"""How the figures of a check, and the names behind them, become its finding."""

from __future__ import annotations

from collections.abc import Iterable

from k2ktui.engine.drill.checks import CheckFinding, could_not_check, fails, passes
from k2ktui.replication.preflight.checks import Check, CheckOutcome
from k2ktui.text import first_names


def decide(
    text: str,
    bad: Iterable[object],
    fix: str,
    unknown: Iterable[object] = (),
    *,
    bad_after: str = "; ",
    unknown_after: str = "; unknown: ",
) -> CheckFinding:
    """Return a failure if anything is bad, could-not-check if anything is unknown, else a pass.

    Args:
        text: the figures.
        bad: what is wrong, by name; the first ones are named.
        fix: how to fix it.
        unknown: what could not be told, by name.
        bad_after, unknown_after: what stands between the figures and the names.
    """
    if bad := list(bad):
        return fails(f"{text}{bad_after}{first_names(bad)}", fix)
    if unknown := list(unknown):
        return could_not_check(f"{text}{unknown_after}{first_names(unknown)}")
    return passes(text)


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
