"""Results of preflight checks and their exit code."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from k2ktui.errors import ConnectionFailed, ExitCode, K2kError, Refused, TimedOut


class CheckOutcome(StrEnum):
    """Outcome of a check; what cannot be checked is neither a failure nor a pass."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    WARN = "warning"
    UNKNOWN = "could-not-check"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one preflight check.

    Attributes:
        name: what was checked.
        outcome: outcome of the check.
        detail: what was found, or why it could not be checked.
        hint: how to fix it; empty for a pass.
        unreachable: a cluster did not answer.
        timed_out: it did not refuse either, or a request took too long.
        fatal: the pipeline could copy nothing at all; other failures affect only some topics.
        cured_by_start: a failure that a start removes, so that it must not prevent one.
    """

    name: str
    outcome: CheckOutcome
    detail: str
    hint: str = ""
    unreachable: bool = False
    timed_out: bool = False
    fatal: bool = False
    cured_by_start: bool = False

    @classmethod
    def passes(cls, name: str, detail: str) -> Self:
        """Return a pass."""
        return cls(name, CheckOutcome.PASS, detail)

    @classmethod
    def fails(cls, name: str, detail: str, hint: str, *, fatal: bool = False) -> Self:
        """Return a failure."""
        return cls(name, CheckOutcome.FAIL, detail, hint, fatal=fatal)

    @classmethod
    def warns(cls, name: str, detail: str, hint: str) -> Self:
        """Return a warning: it works but should be changed."""
        return cls(name, CheckOutcome.WARN, detail, hint)

    @classmethod
    def unknown(cls, name: str, detail: str, hint: str = "") -> Self:
        """Return a could-not-check result."""
        return cls(name, CheckOutcome.UNKNOWN, detail, hint)

    @classmethod
    def error(cls, name: str, error: K2kError, *, fatal: bool = False) -> Self:
        """Return a failure explained by an error; an unreachable cluster is always fatal."""
        timed_out = isinstance(error, TimedOut)
        silent = timed_out or isinstance(error, ConnectionFailed)
        detail, hint = error.message, error.hint
        return cls(name, CheckOutcome.FAIL, detail, hint, silent, timed_out, fatal or silent)


def before_start(check: Check) -> Check:
    """Return a check as it counts for a start: a failure that the start removes is a warning."""
    if check.cured_by_start and check.outcome is CheckOutcome.FAIL:
        return replace(check, outcome=CheckOutcome.WARN)
    return check


def exit_code(checks: Iterable[Check]) -> ExitCode:
    """Return 0 if no check failed, else the code of the error that says why."""
    failed = [check for check in checks if check.outcome is CheckOutcome.FAIL or check.unreachable]
    return error_of(failed).exit_code if failed else ExitCode.OK


def error_of(failed: Collection[Check]) -> type[K2kError]:
    """Return the kind of error that failed checks are: a cluster that refuses counts first."""
    if any(check.unreachable and not check.timed_out for check in failed):
        return ConnectionFailed
    return TimedOut if any(check.timed_out for check in failed) else Refused
