"""Why a key of a drill does not work: the rules that the screens of both kinds share."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from k2ktui.console.drill_actions import Situation, explain_refusal
from k2ktui.console.screens.drill_phases import DrillScreen
from k2ktui.console.screens.drill_runs import DRILL_CHANGES
from k2ktui.console.screens.site import SiteScreen
from k2ktui.engine.drill.model import DrillStatus, ResumeOptions
from k2ktui.engine.drill.tail import TailChoice

NOW = Situation(
    noun="site drill",
    checked="a pipeline",
    opened="a target",
    status=DrillStatus.OPEN,
    is_switchover=True,
    other_acts=False,
    other="ann@bastion",
    runs_here=False,
    stopping=False,
    can_abort=lambda: True,
    can_go_back=lambda: True,
    is_fenced=lambda: True,
    is_stopped_by_checks=lambda: True,
    waits_for_tail=lambda: True,
    why_not_left_out=lambda: "",
)
ABORTING = "it is being aborted; X completes that"
CHANGES = DRILL_CHANGES | {"leave_out"}


@pytest.mark.parametrize("action", sorted(CHANGES - {"take_over"}))
def test_what_nobody_acts_on_can_be_changed_until_it_is_over(action: str) -> None:
    assert explain_refusal(action, NOW) == ""
    none, over = replace(NOW, status=None), replace(NOW, status=DrillStatus.DONE)
    assert explain_refusal(action, none) == "the site drill has not begun"
    assert explain_refusal(action, over) == "the site drill is done"
    assert explain_refusal("hold", NOW) == "it does not run here"


@pytest.mark.parametrize("action", sorted(CHANGES - {"abort", "take_over"}))
def test_what_is_aborted_and_what_others_act_on_is_not_continued(action: str) -> None:
    aborting = replace(NOW, status=DrillStatus.ABORTING)
    assert explain_refusal(action, aborting) == ABORTING
    acted = replace(NOW, other_acts=True)
    assert explain_refusal(action, acted) == "ann@bastion acts on it; O takes it over"
    assert explain_refusal("take_over", acted) == explain_refusal("abort", acted) == ""


@pytest.mark.parametrize(
    ("action", "changes", "why"),
    [
        ("take_over", {}, "no other operator acts on it"),
        ("take_over", {"runs_here": True}, "it runs here; H holds it"),
        ("resume", {"runs_here": True}, "it runs here; H holds it"),
        ("disaster", {"runs_here": True}, ""),
        ("disaster", {"runs_here": True, "stopping": True}, "it stops already"),
        ("disaster", {"runs_here": True, "status": DrillStatus.ABORTING}, ABORTING),
        (
            "disaster",
            {"is_switchover": False},
            "only a planned drill or a failback continues as a disaster drill",
        ),
        ("leave_out", {"runs_here": True}, ""),
        ("leave_out", {"why_not_left_out": lambda: "its target is open"}, "its target is open"),
        ("abort", {"runs_here": True}, ""),
        ("abort", {"runs_here": True, "status": DrillStatus.ABORTING}, "it is being aborted"),
        ("abort", {"can_abort": bool}, "a target is open; the report says what is left"),
        ("fence_again", {"is_fenced": bool}, "the producers have not been fenced"),
        ("fence_again", {"can_go_back": bool}, "a target is open"),
        ("accept", {"is_stopped_by_checks": bool}, "no failed check has stopped a pipeline"),
        ("tail", {"waits_for_tail": bool}, "no records wait for a choice"),
        ("hold", {"runs_here": True}, ""),
        ("hold", {"runs_here": True, "stopping": True}, "it stops already"),
        (
            "hold",
            {"runs_here": True, "status": DrillStatus.ABORTING},
            "an abort is not left half-way",
        ),
    ],
)
def test_the_first_rule_that_does_not_hold_is_said(
    action: str, changes: dict[str, Any], why: str
) -> None:
    assert explain_refusal(action, replace(NOW, **changes)) == why


def test_both_screens_say_what_each_of_their_changes_does() -> None:
    for screen in (DrillScreen, SiteScreen):
        assert set(screen.TEXTS) == DRILL_CHANGES - {"abort"}
        assert DRILL_CHANGES <= screen.CHANGES


GIVEN: dict[str, Any] = {
    "take_over": True,
    "as_disaster": True,
    "from_fence": True,
    "accept": ("D39",),
    "left_out": ("orders",),
    "chosen": {"tail": TailChoice.DISCARD},
}


@pytest.mark.parametrize("option", [field.name for field in fields(ResumeOptions)])
def test_what_an_abort_does_not_bring_back_is_final(option: str) -> None:
    final = {"take_over", "as_disaster", "left_out"}
    assert ResumeOptions(**{option: GIVEN[option]}).is_final == (option in final)
