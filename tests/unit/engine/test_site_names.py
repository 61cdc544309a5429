"""Names that members of a site drill share: who moves one, when, and who must not."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.format import drill_body, read_drill
from k2ktui.engine.drill.hooks import Hook, HookRecord, HookRole, HookStatus, new_record
from k2ktui.engine.drill.model import Drill, DrillFigures, DrillStatus, PhaseStatus
from k2ktui.engine.drill.site import MemberState, SiteDrill, gather_site
from k2ktui.engine.drill.site_mark import SiteMark, SiteName, member_drill_id, merge_marks
from k2ktui.engine.drill.site_names import (
    NameTurn,
    NameUse,
    Turn,
    advise_stay,
    describe_lost_names,
    describe_name,
    describe_sharing,
    explain_kept_cut,
    explain_no_opening,
    find_turn,
    list_covering,
    list_sharers,
    plan_names,
)
from k2ktui.errors import Refused
from tests.unit.engine.test_site import SITE, drill, mark

FENCE, REDIRECT = DrillPhase.FENCE_PRODUCERS, DrillPhase.REDIRECT
NAME = "kafka:1"


def part(role: HookRole, status: HookStatus, *addresses: str) -> HookRecord:
    phase = REDIRECT if role is HookRole.REDIRECT else FENCE
    hook = Hook(phase, False, "moves it", ("x",), 1.0, (), role)
    return replace(new_record(hook), status=status, addresses=addresses)


def named(count: int, *sharing: int) -> SiteMark:
    """Return the mark of members of which some share a name, and each other one has its own."""
    ids = [member_drill_id(SITE, number) for number in range(count)]
    own = [SiteName(f"own-{n}:1", (ids[n],)) for n in range(count) if n not in sharing]
    return mark(count).with_names([SiteName(NAME, tuple(ids[n] for n in sharing)), *own])


def member(
    number: int,
    whole: SiteMark,
    *,
    cut: HookStatus = HookStatus.WAITING,
    moved: HookStatus = HookStatus.WAITING,
    opened: bool = False,
    status: DrillStatus = DrillStatus.OPEN,
) -> Drill:
    """Return a member's drill of which something is recorded."""
    hooks = part(HookRole.CUT_OFF, cut, "east-1:1"), part(HookRole.REDIRECT, moved)
    figures = DrillFigures(opened_ms=5 if opened else None)
    fields = {"hooks": hooks, "figures": figures, "status": status}
    return drill(number, 0, DrillKind.PLANNED, whole, **fields)


def site_of(*drills: Drill, idle: Collection[int] = ()) -> SiteDrill:
    """Return the site drill of members on all of which a process acts, but on some."""
    acting = [one.id for n, one in enumerate(drills) if n not in idle and not one.is_over]
    return gather_site(drills, {}, acting)


def turn(site: SiteDrill, number: int, phase: DrillPhase = FENCE) -> NameTurn:
    return find_turn(site, member_drill_id(SITE, number), phase)


@st.composite
def sites(draw: st.DrawFn) -> SiteDrill:
    """Return a site drill whose members are anywhere, and some of which share a name."""
    count = draw(st.integers(1, 5))
    sharing = draw(st.sets(st.integers(0, count - 1), min_size=1))
    left_out = draw(st.frozensets(st.integers(0, count - 1), max_size=1))
    whole = named(count, *sorted(sharing)).leave_out(member_drill_id(SITE, n) for n in left_out)
    drills = [
        member(
            number,
            whole,
            cut=draw(st.sampled_from(HookStatus)),
            moved=draw(st.sampled_from(HookStatus)),
            opened=draw(st.booleans()),
            status=draw(st.sampled_from(DrillStatus)),
        )
        for number in range(count)
        if not number or draw(st.integers(0, 5))
    ]
    return site_of(*drills, idle=draw(st.sets(st.integers(0, count - 1))))


def sharing(site: SiteDrill) -> list[MemberState]:
    (name,) = (name for name in site.mark.names if name.name == NAME)
    return [state for state in site.members if state.member.drill in name.drills]


def goes_back(state: MemberState) -> bool:
    statuses = DrillStatus.ABORTED, DrillStatus.ABORTING
    return state.left_out or (state.drill is not None and state.drill.status in statuses)


def opened(state: MemberState) -> bool:
    return state.drill is not None and state.drill.figures.opened_ms is not None


@given(sites())
def test_at_most_one_member_runs_a_command_and_only_if_no_sharer_is_held(site: SiteDrill) -> None:
    shared = sharing(site)
    for phase in (FENCE, REDIRECT):
        turns = {s.member.drill: find_turn(site, s.member.drill, phase) for s in site.members}
        acts = [s for s in shared if turns[s.member.drill].turn is Turn.ACT]
        assert len(acts) <= 1
        for state in acts:
            others = [other for other in shared if other is not state]
            assert not any(map(goes_back, others))
            if phase is REDIRECT:
                assert all(map(opened, others))
            else:
                assert all(other.acting for other in others)
        for state in site.members:
            if state not in shared:
                assert turns[state.member.drill] == NameTurn(Turn.ACT), "its name is its own"


@given(sites())
def test_a_member_opens_only_if_its_name_can_still_move(site: SiteDrill) -> None:
    for state in site.members:
        why = explain_no_opening(site, state.member.drill)
        others = [o for o in sharing(site) if state in sharing(site) and o is not state]
        ready = all((o.acting or opened(o)) and not goes_back(o) for o in others)
        assert bool(why) is not ready
        if why:
            assert NAME in why and advise_stay(site, state.member.drill)


@given(sites())
def test_clients_stay_cut_off_while_the_target_of_a_sharer_is_open(site: SiteDrill) -> None:
    for state in site.members:
        others = list_sharers(site, state.member.drill)
        assert bool(explain_kept_cut(site, state.member.drill)) is any(map(opened, others))


@given(sites())
def test_every_text_about_names_is_one_line(site: SiteDrill) -> None:
    for name in site.mark.names:
        assert describe_name(site, name).isprintable()
    for state in site.members:
        assert describe_sharing(site, state.member.drill).isprintable()


@given(sites())
def test_whoever_covers_topics_moves(site: SiteDrill) -> None:
    for state in site.members:
        for other in list_covering(site, state.member.drill):
            assert other is not state and not goes_back(other)


def test_the_first_one_cuts_off_when_all_have_recorded_it() -> None:
    whole = named(3, 0, 1, 2)
    waits, runs, done = HookStatus.WAITING, HookStatus.RUNNING, HookStatus.DONE
    site = site_of(*(member(n, whole, cut=waits if n == 2 else runs) for n in range(3)))
    assert turn(site, 0).turn is Turn.WAIT and "fence-producers of p2," in turn(site, 0).why
    assert turn(site, 1).turn is Turn.WAIT and not turn(site, 1).leads
    site = site_of(member(0, whole), *(member(n, whole, cut=runs) for n in (1, 2)))
    assert turn(site, 0) == NameTurn(Turn.ACT, "for p1, p2, too")
    # One that is held meanwhile, or whose record says so, keeps the name where it is.
    held = site_of(member(0, whole), *(member(n, whole, cut=runs) for n in (1, 2)), idle=[2])
    assert turn(held, 0).turn is turn(held, 1).turn is Turn.HOLD
    assert turn(held, 0).why == f"the name {NAME} is shared with p2 (held)"
    site = site_of(member(0, whole, cut=done), *(member(n, whole, cut=runs) for n in (1, 2)))
    assert turn(site, 1).turn is Turn.FOLLOW and turn(site, 1).addresses == ("east-1:1",)


def test_a_cut_off_that_failed_without_the_source_is_not_waited_for() -> None:
    """The others go on, too: the question before the target is opened says what is not proven."""
    whole, failed = named(2, 0, 1), HookStatus.FAILED
    first = member(0, whole, cut=failed)
    site = site_of(first, member(1, whole, cut=HookStatus.RUNNING))
    assert turn(site, 1).turn is Turn.WAIT
    went_on = first.with_phase(replace(first.record(FENCE), status=PhaseStatus.DONE))
    site = site_of(went_on, member(1, whole, cut=HookStatus.RUNNING))
    assert turn(site, 1).turn is Turn.HOLD


def test_a_name_moves_when_all_are_open_and_the_others_look() -> None:
    whole, done = named(2, 0, 1), HookStatus.DONE
    site = site_of(member(0, whole, opened=True), member(1, whole))
    assert turn(site, 0, REDIRECT).turn is Turn.WAIT
    assert "open-target of p1" in turn(site, 0, REDIRECT).why
    site = site_of(member(0, whole, opened=True), member(1, whole, opened=True))
    assert turn(site, 0, REDIRECT).turn is Turn.ACT
    assert turn(site, 1, REDIRECT).turn is Turn.WAIT
    # Its command has failed: the others do not wait for it in vain.
    site = site_of(member(0, whole, opened=True), member(1, whole, opened=True), idle=[0])
    assert turn(site, 1, REDIRECT).turn is Turn.HOLD
    assert turn(site, 1, REDIRECT).why.startswith("not done by p0, which runs it")
    site = site_of(member(0, whole, opened=True, moved=done), member(1, whole, opened=True))
    assert turn(site, 1, REDIRECT).turn is Turn.FOLLOW
    assert describe_name(site, whole.names[0]) == f"Name {NAME} of p0, p1: moved to the target"


def test_who_shares_a_name_with_one_that_is_left_out_is_told() -> None:
    whole = named(3, 0, 1)
    site = site_of(*(member(n, whole) for n in range(3)))
    gone = member_drill_id(SITE, 1)
    (line,) = describe_lost_names(site, [gone])
    assert line.startswith(f"p0 shares the name {NAME} with p1: ")
    left = site.leave_out([gone])
    assert "leave p0 out, too" in advise_stay(left, member_drill_id(SITE, 0))
    assert explain_no_opening(left, member_drill_id(SITE, 2)) == ""
    both = [member_drill_id(SITE, n) for n in (0, 1)]
    assert describe_lost_names(site, both) == []


def use(
    pipeline: str, *places: str, digest: str = "d", target: str = "t", name: str = ""
) -> NameUse:
    return NameUse(pipeline, pipeline, target, name or places[0], frozenset(places), digest)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=8))
def test_each_member_has_its_name_once(names: list[int]) -> None:
    uses = [use(f"p{n}", f"kafka-{name}:1", digest=str(name)) for n, name in enumerate(names)]
    planned = plan_names(uses)
    assert sorted(d for name in planned for d in name.drills) == sorted(u.drill for u in uses)
    for name in planned:
        assert {u.drill for u in uses if u.name == name.name} == set(name.drills)


@pytest.mark.parametrize(
    ("members", "others", "why"),
    [
        ([use("a", "k:1"), use("b", "k:1", digest="e")], [], "drill.redirect differs"),
        ([use("a", "k:1", "x/y"), use("b", "l:1", "x/y", digest="e")], [], "share x/y"),
        ([use("a", "k:1"), use("b", "k:1", target="u")], [], "two clusters"),
        ([use("a", "k:1")], [use("b", "l:1", "k:1", digest="e")], "b is not moved"),
    ],
)
def test_names_that_cannot_move_once_are_refused(
    members: list[NameUse], others: list[NameUse], why: str
) -> None:
    with pytest.raises(Refused, match=why) as refused:
        plan_names(members, others)
    assert "a and b share" in refused.value.message and refused.value.hint


@given(st.lists(st.sets(st.integers(0, 4), min_size=1), max_size=4), st.randoms())
def test_names_of_marks_merge_in_any_order(choices: list[set[int]], random: object) -> None:
    marks = [mark(5), *(named(5, *sorted(choice)) for choice in choices)]
    merged = merge_marks(marks)
    random.shuffle(marks)  # type: ignore[attr-defined]
    assert merge_marks(marks) == merged
    for one in marks:
        for name in one.names:
            (kept,) = (k for k in merged.names if k.name == name.name)
            assert set(name.drills) <= set(kept.drills)


def test_a_record_without_names_is_as_before() -> None:
    plain = member(0, mark(1))
    assert "names" not in drill_body(plain)["drill"]["site"]
    whole = member(0, named(1, 0))
    assert read_drill(whole.id, drill_body(whole)) == whole


def test_what_has_to_be_the_same_is_named() -> None:
    with pytest.raises(Refused) as raised:
        plan_names([use("a", "k:1"), use("b", "k:1", digest="e")])
    assert "the same name, commands, haproxy or dns, and time-out" in raised.value.hint
