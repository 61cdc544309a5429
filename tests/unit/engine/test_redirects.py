"""What a name's answers prove, and which drills may move one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.format import drill_body, read_drill
from k2ktui.engine.drill.hooks import Hook, HookRole, new_record
from k2ktui.engine.drill.model import Fence, PhaseRecord, PhaseStatus, new_phases, phases_of
from k2ktui.engine.drill.redirects import (
    NameAnswer,
    describe_fenced,
    describe_transactional,
    explain_no_cluster,
    explain_refusal,
)
from k2ktui.engine.drill.steps import describe_phase, needs_confirmation, turn_into_disaster
from k2ktui.present.drills import NO_TASKS, describe_task
from tests.support.drill.made_drills import new_drill

BOTH = "cut-off", "redirect"
PLANNED, DISASTER, REHEARSE = DrillKind.PLANNED, DrillKind.DISASTER, DrillKind.REHEARSE


def test_every_address_has_to_answer_as_the_cluster() -> None:
    good = [NameAnswer("a:1", "T"), NameAnswer("b:1", "T")]
    assert explain_no_cluster(good, "T") == ""
    text = explain_no_cluster([*good, NameAnswer("c:1", "S"), NameAnswer("d:1", problem="no")], "T")
    assert text.startswith("2 of 4 addresses of the name do not answer as cluster T: ")
    assert "c:1: cluster S" in text and "d:1: no" in text
    assert "no address" in explain_no_cluster([], "T")


def test_transactional_producers_are_named() -> None:
    assert describe_transactional([]) == ""
    text = describe_transactional([f"id-{number}" for number in range(7)] + ["a\x1b"])
    assert "id-0, id-1" in text and "id-6" not in text and "\x1b" not in text
    assert "InvalidPidMappingException" in text
    assert "which ones is not known" in describe_transactional(None)


def test_producers_are_named_whose_transactions_end_at_a_cut_off() -> None:
    assert describe_fenced([]) == ""
    text = describe_fenced([f"id-{number}" for number in range(7)] + ["a\x1b"])
    assert "id-0, id-1" in text and "id-6" not in text and "\x1b" not in text
    assert "also if the drill is aborted" in text
    assert "which ones is not known" in describe_fenced(None)


@pytest.mark.parametrize(
    ("kind", "fence", "some", "roles", "why"),
    [
        (PLANNED, Fence.HAND, "", (), ""),
        (PLANNED, Fence.CUT_OFF, "", BOTH, ""),
        (DISASTER, Fence.HAND, "", BOTH, ""),
        (DISASTER, Fence.HAND, "", ("redirect",), ""),
        (REHEARSE, Fence.HAND, "", BOTH, ""),
        (PLANNED, Fence.HAND, "a", BOTH, ""),
        (PLANNED, Fence.CUT_OFF, "", (), "has no drill.redirect"),
        (PLANNED, Fence.CUT_OFF, "a", BOTH, "cuts no clients off"),
        (PLANNED, Fence.HAND, "", BOTH, "no running client follows it"),
        (DrillKind.FAILBACK, Fence.ACL, "", BOTH, "no running client follows it"),
        (PLANNED, Fence.CUT_OFF, "", ("redirect",), "cannot cut clients off"),
    ],
)
def test_which_drills_may_move_a_name(
    kind: DrillKind, fence: Fence, some: str, roles: tuple[str, ...], why: str
) -> None:
    said, hint = explain_refusal(kind, fence, some, roles)
    assert why in said and bool(said) is bool(why) is bool(hint)


def test_the_name_moves_right_after_the_target_is_open() -> None:
    for kind in (PLANNED, DISASTER, DrillKind.FAILBACK):
        phases = phases_of(kind, redirects=True)
        at = phases.index(DrillPhase.REDIRECT)
        assert phases[at - 1] is DrillPhase.OPEN_TARGET
        assert tuple(phase for phase in phases if phase is not DrillPhase.REDIRECT) == phases_of(
            kind
        )
        assert DrillPhase.REDIRECT not in phases_of(kind, ("a",), redirects=True)
    assert phases_of(REHEARSE, redirects=True) == phases_of(REHEARSE)
    assert needs_confirmation(DrillPhase.REDIRECT, Fence.CUT_OFF)
    assert needs_confirmation(DrillPhase.FENCE_PRODUCERS, Fence.CUT_OFF)
    assert "by hand" not in describe_phase(DrillPhase.STOP_CONSUMERS, Fence.CUT_OFF)


def test_an_operator_has_no_client_to_stop_or_start() -> None:
    drill = new_drill(PLANNED, fence=Fence.CUT_OFF)
    for phase in (DrillPhase.STOP_CONSUMERS, DrillPhase.WATCH_CLIENTS):
        waiting = replace(drill, phases=(PhaseRecord(phase),))
        assert describe_task(waiting) in NO_TASKS
        by_hand = replace(waiting, options=replace(drill.options, fence=Fence.HAND))
        assert describe_task(by_hand) not in NO_TASKS


def test_a_drill_whose_source_is_lost_still_moves_the_name() -> None:
    drill = replace(new_drill(PLANNED), phases=new_phases(PLANNED, redirects=True))
    turned = turn_into_disaster(drill)
    assert turned.redirects and turned.record(DrillPhase.REDIRECT).status is PhaseStatus.WAITING


def test_records_of_hooks_are_as_before_and_parts_keep_their_role() -> None:
    hook = Hook(DrillPhase.APPLY, False, "a", ("x",), 60.0)
    part = Hook(DrillPhase.REDIRECT, False, "a", ("x",), 60.0, (), HookRole.REDIRECT)
    assert hook.digest != part.digest and part.step == "redirect"
    drill = replace(new_drill(PLANNED), hooks=(new_record(hook), new_record(part)))
    body = drill_body(drill)
    assert "role" not in body["drill"]["hooks"][0]
    assert body["drill"]["hooks"][1]["role"] == "redirect"
    assert read_drill(drill.id, body).hooks == drill.hooks
