"""What can be done now from the screen of a drill or a site drill, and why not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from k2ktui.engine.drill.model import DrillStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What decides which keys of a drill work; what takes long is read when a rule needs it.

    Attributes:
        noun: ``drill`` or ``site drill``.
        checked: what checks stop: ``the drill``, or ``a pipeline``.
        opened: what is opened: ``the target``, or ``a target``.
        status: None before it has begun.
        is_switchover: whether it moves groups while both clusters are up.
        other_acts: whether another process acts on it.
        other: who that is.
        runs_here: whether it runs here.
        stopping: whether it was told to stop here.
        can_abort: whether an abort has something to restore that can be.
        can_go_back: whether no target is open.
        is_fenced: whether its producers have been fenced.
        is_stopped_by_checks: whether failed checks have stopped it.
        waits_for_tail: whether records wait for a choice.
        why_not_left_out: why what is under the cursor cannot be left out; "" if it can.
    """

    noun: str
    checked: str
    opened: str
    status: DrillStatus | None
    is_switchover: bool
    other_acts: bool
    other: str
    runs_here: bool
    stopping: bool
    can_abort: Callable[[], bool]
    can_go_back: Callable[[], bool]
    is_fenced: Callable[[], bool]
    is_stopped_by_checks: Callable[[], bool]
    waits_for_tail: Callable[[], bool]
    why_not_left_out: Callable[[], str]


Rule = Callable[[Situation], str]


def _begun(now: Situation) -> str:
    return f"the {now.noun} has not begun" if now.status is None else ""


def _not_over(now: Situation) -> str:
    over = now.status in (DrillStatus.DONE, DrillStatus.ABORTED)
    return f"the {now.noun} is {now.status}" if over else ""


def _not_here(now: Situation) -> str:
    return "it runs here; H holds it" if now.runs_here else ""


def _not_elsewhere(now: Situation) -> str:
    return f"{now.other} acts on it; O takes it over" if now.other_acts else ""


def _not_aborting(now: Situation) -> str:
    aborting = now.status is DrillStatus.ABORTING
    return "it is being aborted; X completes that" if aborting else ""


def _abortable(now: Situation) -> str:
    if now.runs_here and now.status is DrillStatus.ABORTING:
        return "it is being aborted"
    return "" if now.can_abort() else f"{now.opened} is open; the report says what is left"


def _stoppable(now: Situation) -> str:
    if not now.runs_here:
        return "it does not run here"
    return "an abort is not left half-way" if now.status is DrillStatus.ABORTING else ""


def _not_stopping(now: Situation) -> str:
    return "it stops already" if now.stopping else ""


def _switchover(now: Situation) -> str:
    if now.is_switchover:
        return ""
    return "only a planned drill or a failback continues as a disaster drill"


def _taken_from(now: Situation) -> str:
    return "" if now.other_acts else "no other operator acts on it"


def _stopped_by_checks(now: Situation) -> str:
    return "" if now.is_stopped_by_checks() else f"no failed check has stopped {now.checked}"


def _with_tail(now: Situation) -> str:
    return "" if now.waits_for_tail() else "no records wait for a choice"


def _fenced(now: Situation) -> str:
    return "" if now.is_fenced() else "the producers have not been fenced"


def _closed(now: Situation) -> str:
    return "" if now.can_go_back() else f"{now.opened} is open"


def _can_be_left_out(now: Situation) -> str:
    return now.why_not_left_out()


_ACTS = (_begun, _not_over)
_RESUMES = (*_ACTS, _not_here, _not_elsewhere, _not_aborting)
RULES: Mapping[str, tuple[Rule, ...]] = {
    "report": (_begun,),
    "checks": (_begun,),
    "hold": (_stoppable, _not_stopping),
    "abort": (*_ACTS, _abortable),
    "resume": _RESUMES,
    "take_over": (*_ACTS, _not_here, _taken_from),
    "disaster": (*_ACTS, _not_elsewhere, _not_aborting, _switchover, _not_stopping),
    "accept": (*_RESUMES, _stopped_by_checks),
    "tail": (*_RESUMES, _with_tail),
    "fence_again": (*_RESUMES, _fenced, _closed),
    "leave_out": (*_ACTS, _not_elsewhere, _not_aborting, _can_be_left_out),
}
"""What has to hold for each action, in this order: the first rule with a text refuses it."""


def explain_refusal(action: str, now: Situation) -> str:
    """Return why an action is unavailable now; "" if it is available."""
    return next((why for rule in RULES[action] if (why := rule(now))), "")
