"""The state of a drill: its record, its order of phases, its way back, its report."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.drill.report import (
    end_text,
    has_findings,
    misses_only_objectives,
    report_json,
    report_markdown,
    summarize,
    verify_report,
)
from k2ktui.drill.report_html import report_html
from k2ktui.engine.drill.checks import CheckResult, DrillCheckOutcome, DrillKind, DrillPhase
from k2ktui.engine.drill.format import chain_event, find_broken_event, report_digest
from k2ktui.engine.drill.model import (
    PHASES,
    Change,
    ChangeKind,
    ChangeStatus,
    CheckpointEffect,
    Drill,
    DrillEvent,
    DrillFigures,
    DrillStatus,
    Fence,
    GroupResult,
    PhaseStatus,
    new_phases,
)
from k2ktui.engine.drill.objectives import Objectives
from k2ktui.engine.drill.steps import (
    add_blockers,
    begin_phase,
    can_go_back,
    changes_to_restore,
    describe_next,
    describe_way_back,
    end_phase,
    explain_no_repeat,
    find_change,
    has_begun_tail,
    needs_confirmation,
    next_phase,
    put_change,
    repeat_from,
    turn_into_disaster,
)
from k2ktui.engine.drill.tail import TailPartition
from k2ktui.engine.moves.journal import DRILL, DrillKey, JournalHeader, find_outdated, record_key
from k2ktui.engine.moves.journal_format import (
    read_state_key,
    read_state_value,
    state_key,
    state_value,
)
from k2ktui.engine.records.state import MalformedRecord

texts = st.text(max_size=20)
counts = st.integers(0, 2**53)
figures = st.builds(
    DrillFigures,
    rpo_records=st.none() | counts,
    rpo_s=st.none() | st.floats(0, 1e9),
    opened_ms=st.none() | st.integers(0, 253_402_300_799_999),
)
changes = st.builds(
    Change,
    phase=st.sampled_from(DrillPhase),
    kind=st.sampled_from(ChangeKind),
    what=texts,
    before=texts,
    after=texts,
    undo=texts,
    status=st.sampled_from(ChangeStatus),
)
checks = st.builds(
    CheckResult,
    id=st.sampled_from(["D01", "D48"]),
    title=texts,
    outcome=st.sampled_from(DrillCheckOutcome),
    evidence=texts,
    hint=texts,
    seconds=st.floats(0, 1e6),
)
effects = st.builds(CheckpointEffect, reread=counts, without=st.integers(0, 9))
groups = st.builds(
    GroupResult,
    group=texts,
    reread=st.none() | counts,
    note=texts,
    checkpoints=st.none() | effects,
)
kinds = st.sampled_from(sorted(PHASES))


def make(kind: DrillKind = DrillKind.PLANNED, **fields: object) -> Drill:
    drill = Drill(
        id="20260101-000000-ab",
        kind=kind,
        pipeline="orders",
        source_cluster="s",
        target_cluster="t",
        version="1",
        started_ms=1_000,
        started_by="ann@bastion",
        phases=new_phases(kind),
    )
    return replace(drill, **fields)  # type: ignore[arg-type]


drills = st.builds(
    make,
    kind=kinds,
    changes=st.lists(changes, max_size=4).map(tuple),
    checks=st.lists(checks, max_size=3).map(tuple),
    groups=st.lists(groups, max_size=3).map(tuple),
    figures=figures,
    blockers=st.lists(texts, max_size=2).map(tuple),
    pipeline=texts,
    started_by=texts,
)


def done(drill: Drill, *phases: DrillPhase) -> Drill:
    for phase in phases:
        drill = end_phase(
            begin_phase(drill, phase, 2_000), phase, PhaseStatus.DONE, 3_000, f"{phase} ok"
        )
    return drill


def chained(drill: Drill, *said: str) -> Drill:
    for number, text in enumerate(said):
        drill = chain_event(drill, DrillEvent(number, "ann@bastion", "lag", text))
    return drill


@given(drill=drills, said=st.lists(texts, max_size=3))
def test_a_record_is_read_as_it_was_written(drill: Drill, said: list[str]) -> None:
    drill = chained(drill, *said)
    key = record_key(drill)
    group, read_key = read_state_key(state_key("g", key))
    assert (group, read_key) == ("g", DrillKey(drill.id))
    again = read_state_value(key, state_value(drill))
    assert again == drill
    assert isinstance(again, Drill)
    assert report_digest(again) == report_digest(drill)
    assert find_broken_event(again) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda body: body.pop("kind"),
        lambda body: body.update(kind="holiday"),
        lambda body: body.update(started_ms="now"),
        lambda body: body.update(started_ms=True),
        lambda body: body.update(started_ms=1 << 60),
        lambda body: body["phases"].append(body["phases"][0]),
        lambda body: body["phases"][0].update(status="perhaps"),
        lambda body: body.update(changes=7),
    ],
)
def test_a_damaged_record_is_refused(damage: object) -> None:
    drill = make()
    value = json.loads(state_value(drill))
    damage(value["drill"])  # type: ignore[operator]
    with pytest.raises(MalformedRecord):
        read_state_value(record_key(drill), json.dumps(value).encode())


@given(kind=kinds)
def test_phases_run_in_order_and_each_once(kind: DrillKind) -> None:
    drill, ran = make(kind), []
    while (phase := next_phase(drill)) is not None:
        ran.append(phase)
        assert str(phase) in describe_next(drill)
        drill = done(drill, phase)
    assert tuple(ran) == PHASES[kind]
    assert describe_next(drill) == "Nothing is left to do."


def test_a_failed_or_running_phase_is_next() -> None:
    drill = done(make(), DrillPhase.PREFLIGHT)
    failed = end_phase(drill, DrillPhase.LAG, PhaseStatus.FAILED, 1, "too far behind")
    assert next_phase(failed) is DrillPhase.LAG
    assert next_phase(begin_phase(drill, DrillPhase.LAG, 5)) is DrillPhase.LAG
    skipped = end_phase(drill, DrillPhase.LAG, PhaseStatus.SKIPPED, 1, "")
    assert next_phase(skipped) is DrillPhase.FENCE_PRODUCERS


def test_a_resumed_phase_keeps_its_beginning() -> None:
    drill = begin_phase(begin_phase(make(), DrillPhase.LAG, 5), DrillPhase.LAG, 9)
    assert drill.record(DrillPhase.LAG).began_ms == 5


@pytest.mark.parametrize("kind", [DrillKind.PLANNED, DrillKind.DISASTER])
def test_one_can_go_back_until_the_target_is_opened(kind: DrillKind) -> None:
    drill = make(kind)
    for phase in PHASES[kind]:
        opened = drill.figures.opened_ms is not None
        assert can_go_back(drill) is not opened
        assert ("You can still go back" in describe_way_back(drill)) is not opened
        # Asked and not confirmed yet: nothing is open.
        assert can_go_back(begin_phase(drill, phase, 1)) is not opened
        drill = done(drill, phase)
        if phase is DrillPhase.OPEN_TARGET:
            drill = replace(drill, figures=DrillFigures(opened_ms=5))
    assert not can_go_back(drill)


def test_a_rehearsal_can_always_go_back() -> None:
    assert can_go_back(done(make(DrillKind.REHEARSE), *PHASES[DrillKind.REHEARSE]))


@given(recorded=st.lists(changes, max_size=6))
def test_an_abort_restores_the_last_change_first(recorded: list[Change]) -> None:
    drill = make(changes=tuple(recorded))
    open_ = {ChangeStatus.INTENDED, ChangeStatus.MADE}
    assert list(changes_to_restore(drill)) == [c for c in recorded[::-1] if c.status in open_]


@given(recorded=st.lists(changes, max_size=6), change=changes)
def test_a_change_replaces_the_one_of_its_phase_and_kind(
    recorded: list[Change], change: Change
) -> None:
    drill = make()
    for made in [*recorded, change]:
        drill = put_change(drill, made)
    assert change in drill.changes
    places = [(item.phase, item.kind) for item in drill.changes]
    assert len(places) == len(set(places))


def test_the_change_of_a_phase_is_found_until_it_is_undone() -> None:
    change = Change(DrillPhase.FENCE_PRODUCERS, ChangeKind.ACLS, "deny", "", "", "allow")
    drill = put_change(make(), change)
    assert find_change(drill, ChangeKind.ACLS) == change
    assert find_change(drill, ChangeKind.OFFSETS) is None
    drill = put_change(drill, replace(change, status=ChangeStatus.UNDONE))
    assert find_change(drill, ChangeKind.ACLS) is None


def test_a_tail_that_was_begun_is_not_taken_back() -> None:
    drill = make(DrillKind.DISASTER)
    assert not has_begun_tail(drill)
    change = Change(DrillPhase.TAIL, ChangeKind.TAIL, "replay", "", "", "")
    assert has_begun_tail(put_change(drill, change))


def test_what_no_longer_holds_is_repeated_with_all_that_follows() -> None:
    order = PHASES[DrillKind.PLANNED]
    drill = repeat_from(done(make(), *order[:7]), DrillPhase.FENCE_PRODUCERS)
    assert next_phase(drill) is DrillPhase.FENCE_PRODUCERS
    assert [phase.status for phase in drill.phases[:2]] == [PhaseStatus.DONE] * 2
    assert {phase.status for phase in drill.phases[2:]} == {PhaseStatus.WAITING}


def test_what_cannot_be_repeated_says_why() -> None:
    fence = DrillPhase.FENCE_PRODUCERS
    assert explain_no_repeat(make(), fence) == ""
    for kind in (DrillKind.REHEARSE, DrillKind.DISASTER):
        assert explain_no_repeat(make(kind), fence).endswith(f"({kind}) has no phase {fence}")
    opened = make(figures=DrillFigures(opened_ms=1))
    assert explain_no_repeat(opened, fence).endswith("has opened the target")


def test_producers_fenced_by_hand_need_no_confirmation() -> None:
    assert not needs_confirmation(DrillPhase.FENCE_PRODUCERS, Fence.HAND)
    assert needs_confirmation(DrillPhase.FENCE_PRODUCERS, Fence.ACL)
    assert needs_confirmation(DrillPhase.OPEN_TARGET, Fence.HAND)
    assert not needs_confirmation(DrillPhase.DRAIN, Fence.ACL)


def test_a_planned_drill_becomes_a_disaster_and_keeps_what_is_done() -> None:
    order = PHASES[DrillKind.PLANNED]
    drill = done(make(), *order[: order.index(DrillPhase.OPEN_TARGET)])
    change = Change(DrillPhase.FENCE_PRODUCERS, ChangeKind.ACLS, "deny", "", "", "allow")
    drill = turn_into_disaster(put_change(drill, change))
    assert drill.kind is DrillKind.DISASTER
    assert tuple(phase.phase for phase in drill.phases) == PHASES[DrillKind.DISASTER]
    assert drill.record(DrillPhase.FENCE_REPLICATOR).status is PhaseStatus.DONE
    assert drill.record(DrillPhase.APPLY).status is PhaseStatus.WAITING
    assert changes_to_restore(drill) == (change,)


@given(drill=drills, said=st.lists(texts, min_size=1, max_size=4), data=st.data())
def test_a_changed_event_breaks_the_chain(
    drill: Drill, said: list[str], data: st.DataObject
) -> None:
    drill = chained(drill, *said)
    number = data.draw(st.integers(0, len(said) - 1))
    changed = replace(drill.events[number], text=drill.events[number].text + "x")
    events = (*drill.events[:number], changed, *drill.events[number + 1 :])
    assert find_broken_event(replace(drill, events=events)) == number + 1


def ended(drill: Drill) -> Drill:
    drill = replace(drill, status=DrillStatus.DONE, ended_ms=9_000)
    return chained(drill, "begun", end_text(drill))


def test_a_report_is_verified_against_the_journal() -> None:
    drill = ended(done(make(DrillKind.REHEARSE), *PHASES[DrillKind.REHEARSE]))
    digests = [event.digest for event in drill.events]
    assert verify_report(drill, digests) == []
    (missing,) = verify_report(drill, digests[:1])
    assert "events 2" in missing
    (changed,) = verify_report(
        replace(drill, figures=replace(drill.figures, rpo_records=0)), digests
    )
    assert "changed after the drill ended" in changed


def test_the_summary_is_in_the_first_ten_lines() -> None:
    drill = ended(
        make(
            DrillKind.REHEARSE,
            figures=DrillFigures(rpo_records=7, rpo_s=3.0, content_compared=12),
            groups=(GroupResult("payments", partitions=3, reread=0, skipped=0),),
            checks=(CheckResult("D01", "Clusters", DrillCheckOutcome.PASS, "both answer"),),
        )
    )
    top = report_markdown(drill).splitlines()[:10]
    for word in ("RPO: 7 records", "RTO:", "Groups: 1", "Content: 12", "Checks: 1 pass", "Begun"):
        assert any(word in line for line in top), (word, top)


def test_the_report_says_whether_objectives_were_met() -> None:
    objectives = Objectives(5, 2.0, None)
    for outcome, word in (
        (DrillCheckOutcome.FAIL, "missed"),
        (DrillCheckOutcome.PASS, "met"),
        (DrillCheckOutcome.UNKNOWN, "not all could be compared"),
    ):
        result = CheckResult("D46", "measured RTO and RPO", outcome, "RPO 7 records")
        drill = ended(make(DrillKind.REHEARSE, objectives=objectives, checks=(result,)))
        lines = report_markdown(drill).splitlines()[:10]
        assert f"- Objectives: {word}: RPO at most 5 records, 2 s" in lines
    assert "Objectives" not in report_markdown(ended(make(DrillKind.REHEARSE)))


def test_a_rehearsal_that_only_misses_an_objective_would_still_move_every_group() -> None:
    drill = done(make(DrillKind.REHEARSE), *PHASES[DrillKind.REHEARSE])
    finding = "D46 measured RTO and RPO: RPO 7 records; RPO above 5 records"
    missed = end_phase(
        drill, DrillPhase.REPORT, PhaseStatus.DONE, 3_000, "summed", (finding,), ("D46",)
    )
    missed = ended(add_blockers(missed, DrillPhase.REPORT))
    assert summarize(missed)[0] == (
        "A failover now would move every group to its exact position, but would miss an objective."
    )
    assert has_findings(missed) and misses_only_objectives(missed)
    both = end_phase(
        missed, DrillPhase.PLAN, PhaseStatus.DONE, 3_000, "", ("orders-0: unmapped",), ()
    )
    both = add_blockers(both, DrillPhase.PLAN)
    assert summarize(both)[0].startswith("A failover now would not be safe")
    assert not misses_only_objectives(both)


LOST = DrillFigures(rpo_records=1_200)
HARMS: dict[str, dict[str, object]] = {
    "missing": {"figures": LOST},
    "missing at least": {"figures": DrillFigures(rpo_at_least=3)},
    "different": {"figures": DrillFigures(content_different=1)},
    "not moved completely": {"groups": (GroupResult("payments", unmapped=1),)},
    "not on the target": {"groups": (GroupResult("payments", was_active=True, joined=False),)},
}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("kind", [kind for kind in DrillKind if kind is not DrillKind.REHEARSE])
def test_harm_is_a_finding(kind: DrillKind, harm: str) -> None:
    """Scripts see the exit code only."""
    harmed = ended(done(make(kind, **HARMS[harm]), *PHASES[kind]))
    assert " ended: " in summarize(harmed)[0]
    assert has_findings(harmed)
    assert '<ul class="summary bad">' in report_html(harmed)
    unharmed = ended(done(make(kind), *PHASES[kind]))
    assert " succeeded." in summarize(unharmed)[0]
    assert not has_findings(unharmed)
    assert '<ul class="summary ok">' in report_html(unharmed)


@pytest.mark.parametrize("effect", ["reread", "skipped"])
def test_what_an_operator_chose_is_no_finding(effect: str) -> None:
    """Where nobody has chosen the position, the check D22 finds it."""
    group = GroupResult("payments", **{effect: 2})  # type: ignore[arg-type]
    moved = ended(done(make(groups=(group,)), *PHASES[DrillKind.PLANNED]))
    assert " ended: 2 records " in summarize(moved)[0]
    assert not has_findings(moved)
    texts = ("D22 re-reads, skips and next records: at most 2 read again",)
    checked = end_phase(moved, DrillPhase.APPLY, PhaseStatus.DONE, 3_000, "", texts, ("D22",))
    assert has_findings(checked)


@pytest.mark.parametrize(
    "spared",
    [
        ended(done(make(DrillKind.REHEARSE, figures=LOST), *PHASES[DrillKind.REHEARSE])),
        make(status=DrillStatus.ABORTED, ended_ms=9_000, figures=LOST),
    ],
    ids=["rehearsal", "aborted"],
)
def test_a_drill_that_moved_nothing_did_no_harm(spared: Drill) -> None:
    assert not has_findings(spared)


def test_the_report_compares_checkpoints_with_exact_positions() -> None:
    effects = {"payments": CheckpointEffect(4_075, 1), "search": CheckpointEffect(0, 0, 1, 2)}
    results = [GroupResult(g, 3, reread=0, skipped=0, checkpoints=e) for g, e in effects.items()]
    drill = ended(make(DrillKind.REHEARSE, groups=tuple(results)))
    text = report_markdown(drill)
    assert (
        "- With MirrorMaker 2's checkpoints instead: 4,075 records read again, 1 skipped, "
        "2 partitions without a checkpoint, 1 of unknown effect"
    ) in text.splitlines()[:10]
    assert "| payments | 4075 | 0 | 1 | 0 | 0 | 0 |" in text.splitlines()
    assert "| search | 0 | 0 | 0 | 0 | 2 | 1 |" in text.splitlines()
    by_group = {group["group"]: group["checkpoints"] for group in report_json(drill)["groups"]}
    assert by_group["payments"] == {"reread": 4_075, "skipped": 1, "unknown": 0, "without": 0}
    copied = report_markdown(ended(make(DrillKind.REHEARSE, groups=(GroupResult("payments"),))))
    assert "checkpoint" not in copied


def test_the_report_is_markdown_without_broken_paragraphs() -> None:
    drill = ended(make(DrillKind.REHEARSE))
    lines = report_markdown(drill).splitlines()
    (clusters,) = [line for line in lines if line.startswith("Source cluster ")]
    assert "target cluster" in clusters and clusters.endswith("The drill is done.")
    assert lines[-1].endswith(f"`k2ktui drill report {drill.id} -f FILE --verify`.")
    marked = [line for line in lines if line and line[0] not in "#|-"]
    assert all(line.endswith(".") for line in marked)


@given(drill=drills, said=st.lists(texts, max_size=2))
def test_names_break_no_table_and_start_no_markup(drill: Drill, said: list[str]) -> None:
    drill = chained(drill, *said)
    rows = [line for line in report_markdown(drill).splitlines() if line.startswith("|")]
    plain = [row.replace("\\\\", "").replace("\\|", "") for row in rows]
    header = 0
    for row in plain:
        bars = row.count("|")
        if set(row) <= set("|-"):
            assert bars == header
        header = bars
    json.dumps(report_json(drill))


def test_drills_displace_no_entries_of_operators() -> None:
    apply = {f"a{n}": JournalHeader(f"a{n}", n, "", "apply", sequence=n) for n in range(3)}
    drilled = {
        f"d{n}": JournalHeader(f"d{n}", n, "", f"{DRILL}rehearse", sequence=10 + n)
        for n in range(5)
    }
    assert find_outdated({**apply, **drilled}, keep=3) == ["d0", "d1"]


def test_a_report_lists_the_tail_of_a_failback() -> None:
    tail = (TailPartition("a|b", 0, 5, 9, 3, 1_000, 61_000, ("k\x1b",)),)
    drill = make(DrillKind.FAILBACK, tail=tail)
    assert "3 records, offsets 5 to 8" in report_markdown(drill)
    assert r"a\|b-0" in report_markdown(drill) and "\x1b" not in report_markdown(drill)
    assert report_json(drill)["tail"][0]["records"] == 3
    assert read_state_value(record_key(drill), state_value(drill)) == drill


def test_the_rpo_is_in_records_bytes_and_seconds_or_a_lower_bound() -> None:
    known = replace(make(), figures=DrillFigures(rpo_records=7, rpo_bytes=1_400, rpo_s=3.0))
    assert "RPO: 7 records on the source only, 1,400 bytes, the oldest 3 s old" in summarize(known)
    lost = replace(make(), figures=DrillFigures(rpo_at_least=2, silent_s=90.0))
    assert (
        "RPO: at least 2 records on the source only; nothing was read from the source for 1 m 30 s"
        in summarize(lost)
    )
