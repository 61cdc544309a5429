"""What a drill records of hooks: its form, the order of an abort, and what is repeated."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.drill.report import report_markdown
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.format import drill_body, read_drill, report_digest
from k2ktui.engine.drill.hook_steps import (
    begin_hook,
    hooks_to_undo,
    keeps_effects,
    put_hook,
    repeat_hooks,
    steps_back,
    with_file_hooks,
)
from k2ktui.engine.drill.hooks import (
    Hook,
    HookRecord,
    HookStatus,
    digest_hooks,
    find_phase,
    hook_step,
    new_record,
)
from k2ktui.engine.drill.model import Change, ChangeKind, ChangeStatus, Drill, PhaseStatus
from k2ktui.engine.drill.site import find_question
from k2ktui.engine.drill.steps import end_phase, repeat_from
from k2ktui.engine.strict_json import MalformedRecord
from tests.support.drill.made_drills import new_drill

names = st.text(max_size=10)
commands = st.lists(names, min_size=1, max_size=3).map(tuple)
hooks = st.builds(
    Hook,
    st.sampled_from(DrillPhase),
    st.booleans(),
    names,
    commands,
    st.floats(0.1, 100),
    commands | st.just(()),
)
file_hooks = st.lists(hooks, max_size=5, unique_by=lambda hook: hook.digest)


def one(command: str = "x", phase: DrillPhase = DrillPhase.APPLY, *, after: bool = False) -> Hook:
    return Hook(phase, after, "for", (command,), 60.0)


def ran(drill: Drill, hook: Hook, status: HookStatus = HookStatus.DONE) -> Drill:
    record = begin_hook(drill, next(r for r in drill.hooks if r.digest == hook.digest), 5)
    return put_hook(drill, replace(record, status=status))


@given(file_hooks)
def test_a_record_is_read_as_it_was_written(listed: list[Hook]) -> None:
    drill = with_file_hooks(new_drill(DrillKind.PLANNED), listed)
    for hook in listed[::2]:
        drill = ran(drill, hook)
    body = json.loads(json.dumps(drill_body(drill)))
    assert read_drill(drill.id, body) == drill
    assert ("hooks" in body["drill"]) is bool(listed), "as earlier releases wrote it"


def test_a_hook_that_no_drill_recorded_is_malformed() -> None:
    drill = with_file_hooks(new_drill(DrillKind.PLANNED), [one()])
    for field, value in (("status", "maybe"), ("attempts", -1), ("command", ["x"]), ("after", 1)):
        body = json.loads(json.dumps(drill_body(drill)))
        body["drill"]["hooks"][0][field] = value
        with pytest.raises(MalformedRecord):
            read_drill(drill.id, body)


@given(st.lists(hooks, min_size=2, max_size=2, unique_by=lambda hook: hook.digest))
def test_any_difference_changes_the_digest(pair: list[Hook]) -> None:
    first, second = pair
    assert first != second
    assert digest_hooks(pair) != digest_hooks([second, first]) != digest_hooks([first])
    assert digest_hooks([]) == ""


@given(file_hooks, file_hooks)
def test_another_file_forgets_no_hook_that_may_have_run(old: list[Hook], new: list[Hook]) -> None:
    drill = with_file_hooks(new_drill(DrillKind.PLANNED), old)
    for hook in old[::2]:
        drill = ran(drill, hook)
    later = with_file_hooks(drill, new)
    assert later.hooks_digest == digest_hooks(new)
    assert hooks_to_undo(later) == hooks_to_undo(drill)
    assert {hook.digest for hook in new} <= {record.digest for record in later.hooks}
    assert with_file_hooks(later, new) == later


@given(st.lists(st.booleans(), max_size=10), st.integers(0, 3))
def test_an_abort_goes_back_in_the_order_in_which_it_was_done(
    order: list[bool], broken: int
) -> None:
    """Changes and hooks in any order; True is a hook."""
    listed = [one(str(number)) for number, is_hook in enumerate(order) if is_hook]
    drill = with_file_hooks(new_drill(DrillKind.PLANNED), listed)
    done: list[str] = []
    for number, is_hook in enumerate(order):
        if is_hook:
            drill = ran(drill, one(str(number)))
        else:
            change = Change(
                DrillPhase.APPLY, ChangeKind.ACLS, str(number), "", "", "", ChangeStatus.MADE
            )
            drill = replace(drill, changes=(*drill.changes, change))
        done.append(str(number))
    back = [
        step.command if isinstance(step, HookRecord) else step.what for step in steps_back(drill)
    ]
    assert back == done[::-1]
    # A record that others have written loses nothing, and ends.
    lied = replace(drill, hooks=tuple(replace(r, changes=10**6 * broken) for r in drill.hooks))
    assert len(steps_back(lied)) == len(done)


def test_what_was_undone_or_kept_is_not_undone_again() -> None:
    drill = with_file_hooks(new_drill(DrillKind.PLANNED), [one()])
    assert steps_back(drill) == [] and not keeps_effects(drill)
    for status in HookStatus:
        now = ran(drill, one(), status)
        over = status in (HookStatus.UNDONE, HookStatus.KEPT)
        assert bool(steps_back(now)) is not over
        assert keeps_effects(now) is (status is HookStatus.KEPT)


def test_hooks_of_repeated_phases_are_asked_for_again() -> None:
    early, late = one("early", DrillPhase.LAG), one("late", DrillPhase.APPLY)
    unknown = one("unknown", DrillPhase.DRAIN)
    drill = with_file_hooks(new_drill(DrillKind.PLANNED), [early, late, unknown])
    drill = ran(ran(ran(drill, early), late), unknown, HookStatus.RUNNING)
    for phase in (DrillPhase.LAG, DrillPhase.APPLY):
        drill = end_phase(drill, phase, PhaseStatus.DONE, 5, "")
    again = repeat_hooks(repeat_from(drill, DrillPhase.FENCE_PRODUCERS))
    assert [record.status for record in again.hooks] == [
        HookStatus.DONE,
        HookStatus.WAITING,
        HookStatus.RUNNING,
    ]
    assert len(hooks_to_undo(again)) == 3, "an abort still undoes what it did"


def test_what_is_typed_names_its_phase() -> None:
    for phase in DrillPhase:
        steps = (str(phase), hook_step(phase, after=False), hook_step(phase, after=True))
        assert {find_phase(step) for step in steps} == {phase}
    assert find_phase("") is None and find_phase("before-") is None and find_phase("all") is None


def test_a_site_asks_for_hooks_in_the_order_of_phases() -> None:
    kind, apply = DrillKind.PLANNED, DrillPhase.APPLY
    waiting = {"a": "after-apply", "b": "before-apply", "c": str(apply)}
    assert find_question(kind, waiting, {}) == "before-apply"
    assert find_question(kind, {"a": "before-apply"}, {"b": apply}) is None
    assert find_question(kind, {"a": "after-apply"}, {"b": apply}) is None
    assert find_question(kind, {"a": "after-apply"}, {"b": DrillPhase.VERIFY}) == "after-apply"


def test_a_report_shows_hooks_and_no_markup_of_theirs() -> None:
    drill = with_file_hooks(new_drill(DrillKind.PLANNED), [one("| # x\x1b")])
    record = replace(drill.hooks[0], output="# no heading\n\x1b[31m", attempts=1)
    text = report_markdown(put_hook(drill, record))
    assert "\n- # no heading\n" in text and "\x1b" not in text
    assert report_digest(put_hook(drill, record)) != report_digest(drill)
    assert new_record(one()).status is HookStatus.WAITING
