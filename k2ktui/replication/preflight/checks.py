"""What a preflight check says, and the exit code of several."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from k2ktui.errors import ConnectionFailed, ExitCode, K2kError, TimedOut
from k2ktui.text import safe_text

# How many names a line holds at most.
NAMED = 5


class CheckOutcome(StrEnum):
    """How a check came out. What cannot be checked is no failure, and never called a pass."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    WARN = "warning"
    UNKNOWN = "could-not-check"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the preflight.

    Attributes:
        name: what was checked.
        outcome: how it came out.
        detail: what was found, or why it could not be checked.
        mend: what to do; empty for a pass.
        unreachable: a cluster did not answer.
        fatal: a start can copy nothing at all; other failures stop some topics only.
    """

    name: str
    outcome: CheckOutcome
    detail: str
    mend: str = ""
    unreachable: bool = False
    fatal: bool = False


def passed(name: str, detail: str) -> Check:
    """Return a pass."""
    return Check(name, CheckOutcome.PASS, detail)


def failed(name: str, detail: str, mend: str, *, fatal: bool = False) -> Check:
    """Return a failure."""
    return Check(name, CheckOutcome.FAIL, detail, mend, fatal=fatal)


def warned(name: str, detail: str, mend: str) -> Check:
    """Return a line for what works, and is not as it should be."""
    return Check(name, CheckOutcome.WARN, detail, mend)


def unknown(name: str, detail: str, mend: str = "") -> Check:
    """Return a line for what could not be checked."""
    return Check(name, CheckOutcome.UNKNOWN, detail, mend)


def failed_by(name: str, error: K2kError, *, fatal: bool = False) -> Check:
    """Return a failure that an error explains; a cluster's silence is always fatal."""
    silent = isinstance(error, ConnectionFailed | TimedOut)
    return Check(name, CheckOutcome.FAIL, error.what, error.mend, silent, fatal or silent)


def exit_code(checks: Iterable[Check]) -> ExitCode:
    """Return 3 if a cluster did not answer, 5 if anything failed, else 0."""
    all_checks = list(checks)
    if any(check.unreachable for check in all_checks):
        return ExitCode.CONNECTION
    failures = any(check.outcome is CheckOutcome.FAIL for check in all_checks)
    return ExitCode.REFUSED if failures else ExitCode.OK


def first_names(names: Iterable[object]) -> str:
    """Return the first few names, safe to print, and how many more there are."""
    listed = sorted(str(name) for name in names)
    shown = ", ".join(safe_text(name) for name in listed[:NAMED])
    more = len(listed) - NAMED
    return f"{shown} and {more:,} more" if more > 0 else shown
