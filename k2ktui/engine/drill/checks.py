"""Kinds and phases of drills, and the result of a check.

The checks are in ``k2ktui.drill.checks``: they read figures of both clusters and decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from k2ktui.engine.bounded import Millis


class DrillKind(StrEnum):
    """What a drill does.

    ``rehearse`` stops nothing and touches no production group. ``planned`` is a switchover.
    ``disaster`` moves the groups without the source. ``failback`` returns to the old source.
    """

    REHEARSE = "rehearse"
    PLANNED = "planned"
    DISASTER = "disaster"
    FAILBACK = "failback"

    @property
    def is_switchover(self) -> bool:
        """Whether it moves the groups while both clusters are up."""
        return self in (DrillKind.PLANNED, DrillKind.FAILBACK)

    @property
    def noun(self) -> str:
        """The kind in a sentence."""
        return "rehearsal" if self is DrillKind.REHEARSE else f"{self} drill"


class DrillPhase(StrEnum):
    """The phases of all kinds of drills, in their order; a kind may leave some out."""

    SOURCE_BACK = "source-back"
    TAIL = "tail"
    PREFLIGHT = "preflight"
    SOURCE_LOST = "source-lost"
    LAG = "lag"
    FENCE_PRODUCERS = "fence-producers"
    DRAIN = "drain"
    STOP_CONSUMERS = "stop-consumers"
    PLAN = "plan"
    CONTENT = "content"
    APPLY = "apply"
    VERIFY = "verify"
    SHADOW = "shadow-groups"
    FENCE_REPLICATOR = "fence-replicator"
    MOVE_TOPICS = "move-topics"
    OPEN_TARGET = "open-target"
    REDIRECT = "redirect"
    WATCH_CLIENTS = "watch-clients"
    REVERSE = "reverse"
    REPORT = "report"


class DrillCheckOutcome(StrEnum):
    """Outcome of a check; what could not be checked is neither a failure nor a pass."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    UNKNOWN = "could-not-check"


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """What a check found: its outcome, the figures that decided it, and how to fix a failure."""

    outcome: DrillCheckOutcome
    evidence: str
    hint: str = ""


def passes(evidence: str) -> CheckFinding:
    """Return a pass."""
    return CheckFinding(DrillCheckOutcome.PASS, evidence)


def fails(evidence: str, hint: str) -> CheckFinding:
    """Return a failure with its fix."""
    return CheckFinding(DrillCheckOutcome.FAIL, evidence, hint)


def could_not_check(reason: str, hint: str = "") -> CheckFinding:
    """Return a finding without a decision, and why there is none."""
    return CheckFinding(DrillCheckOutcome.UNKNOWN, reason, hint)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check of a drill.

    Attributes:
        id: ``D01``, ``D02`` and so on.
        title: what was checked.
        outcome: outcome of the check.
        evidence: the figures that decided it, or why it could not be checked; safe to print.
        hint: how to fix a failure; empty for a pass.
        seconds: duration of the check.
        at_ms: when it was decided, epoch milliseconds; 0 in records that do not have it.
    """

    id: str
    title: str
    outcome: DrillCheckOutcome
    evidence: str
    hint: str = ""
    seconds: float = 0.0
    at_ms: Millis = 0

    @property
    def failed(self) -> bool:
        """Whether the check failed."""
        return self.outcome is DrillCheckOutcome.FAIL

    def as_json(self) -> dict[str, Any]:
        """Return the object for the JSON output."""
        return {
            "id": self.id,
            "title": self.title,
            "outcome": str(self.outcome),
            "evidence": self.evidence,
            "hint": self.hint,
            "took_s": round(self.seconds, 3),
        }
