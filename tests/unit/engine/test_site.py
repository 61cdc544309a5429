"""A site drill, from its members' records: who is in it, who may open, who needs the fence."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.format import drill_body, read_drill, report_digest
from k2ktui.engine.drill.model import (
    PHASES,
    Drill,
    DrillFigures,
    DrillStatus,
    PhaseStatus,
    new_phases,
)
from k2ktui.engine.drill.site import (
    BARRIER,
    MemberState,
    MemberStatus,
    SiteDrill,
    find_question,
    find_unverified,
    gather_site,
    list_fence_users,
)
from k2ktui.engine.drill.site_mark import SiteMark, SiteMember, member_drill_id, merge_marks
from k2ktui.engine.drill.site_selection import SiteFile, select_site
from k2ktui.errors import ConfigError, Refused

SITE = "20261127-150000-abcd"
KINDS = (DrillKind.PLANNED, DrillKind.DISASTER, DrillKind.FAILBACK)


def mark(count: int, left_out: frozenset[int] = frozenset()) -> SiteMark:
    """Return the mark of a site drill of some members."""
    members = tuple(
        SiteMember(f"p{n}", member_drill_id(SITE, n), f"t{n % 2}") for n in range(count)
    )
    gone = tuple(sorted(member_drill_id(SITE, n) for n in left_out))
    return SiteMark(SITE, "paris", "source-id", members, gone)


def drill(number: int, at: int, kind: DrillKind, site: SiteMark, **fields: object) -> Drill:
    """Return a member's drill of which some phases are done."""
    phases = tuple(
        replace(record, status=PhaseStatus.DONE) if n < at else record
        for n, record in enumerate(new_phases(kind))
    )
    opened = 5 if BARRIER in PHASES[kind][:at] else None
    made = Drill(
        id=member_drill_id(SITE, number),
        kind=kind,
        pipeline=f"p{number}",
        source_cluster="source-id",
        target_cluster=f"t{number % 2}",
        version="1",
        started_ms=1,
        started_by="ops@host",
        phases=phases,
        figures=DrillFigures(opened_ms=opened),
        site=site,
    )
    return replace(made, **fields)  # type: ignore[arg-type]


@st.composite
def sites(draw: st.DrawFn) -> SiteDrill:
    """Return a site drill whose members are anywhere; some cannot be read, some are left out."""
    kind = draw(st.sampled_from(KINDS))
    count = draw(st.integers(1, 6))
    left_out = draw(st.frozensets(st.integers(0, count - 1)))
    whole = mark(count, left_out)
    drills = []
    # The choice is in some records only: the process was killed while it wrote them.
    knows = draw(st.integers(0, count - 1))
    for number in range(count):
        if number and draw(st.integers(0, 5)) == 0:
            continue
        at = draw(st.integers(0, len(PHASES[kind])))
        status = draw(st.sampled_from(DrillStatus))
        site = whole if number <= knows else replace(whole, left_out=())
        drills.append(drill(number, at, kind, site, status=status))
    return gather_site(drills, {f"p{n}": "no answer" for n in range(count)})


@given(sites())
def test_nobody_opens_before_each_other_member_is_verified_or_left_out(site: SiteDrill) -> None:
    """By the records themselves, not by the status that is shown."""
    allowed = not find_unverified(site)
    for member in site.members:
        through = member.drill is not None and (
            member.drill.record(DrillPhase.VERIFY).status is PhaseStatus.DONE
            and member.drill.status not in (DrillStatus.ABORTED, DrillStatus.ABORTING)
        )
        if allowed:
            assert through or member.left_out


@given(sites(), st.data())
def test_a_member_that_is_left_out_never_holds_the_others(
    site: SiteDrill, data: st.DataObject
) -> None:
    """Leaving out those that are not verified opens the barrier; the choice is never lost."""
    after = site.leave_out(member.member.drill for member in find_unverified(site))
    assert not find_unverified(after)
    assert set(site.mark.left_out) <= set(after.mark.left_out)
    # What one record says of it is enough after a kill.
    carrier = data.draw(st.sampled_from(site.drills)) if site.drills else None
    if carrier is not None:
        drills = [
            replace(one, site=after.mark) if one.id == carrier.id else one for one in site.drills
        ]
        assert gather_site(drills, {}).mark.left_out == after.mark.left_out


@given(sites(), st.data())
def test_the_fence_stays_while_any_member_may_need_it(site: SiteDrill, data: st.DataObject) -> None:
    """One that cannot be read may need it; those that are left out or aborted do not."""
    own = data.draw(st.sampled_from(site.members)).member.drill
    users = {member.member.drill for member in list_fence_users(site, but=own)}
    for member in site.members:
        gone = member.left_out or (
            member.drill is not None
            and member.drill.status in (DrillStatus.ABORTED, DrillStatus.ABORTING)
        )
        assert (member.member.drill in users) == (member.member.drill != own and not gone)


@given(st.lists(st.frozensets(st.integers(0, 4)), min_size=1, max_size=5), st.randoms())
def test_marks_merge_in_any_order(choices: list[frozenset[int]], random: object) -> None:
    """Whatever was written last, and however often it is merged."""
    marks = [
        mark(5, gone).deny(member_drill_id(SITE, n % 2), [f"t{n}"])
        for n, gone in enumerate(choices)
    ]
    merged = merge_marks(marks)
    random.shuffle(marks)  # type: ignore[attr-defined]
    assert merge_marks(marks) == merged
    assert merge_marks([merged, *marks]) == merged
    denied = {topic for n in range(2) for topic in merged.find_denied(member_drill_id(SITE, n))}
    assert denied == {f"t{n}" for n in range(len(choices))}
    assert set(merged.left_out) == {member_drill_id(SITE, n) for gone in choices for n in gone}


def test_the_record_of_a_member_reads_back_and_that_of_another_drill_is_as_before() -> None:
    """A record without a site has the bytes, and the hash, of earlier releases."""
    member = drill(1, 3, DrillKind.PLANNED, mark(2))
    assert read_drill(member.id, json.loads(json.dumps(drill_body(member)))) == member
    alone = replace(member, site=None)
    assert "site" not in drill_body(alone)["drill"]
    assert report_digest(alone) != report_digest(member)
    assert read_drill(alone.id, json.loads(json.dumps(drill_body(alone)))) == alone


@given(sites())
def test_states_in_one_word(site: SiteDrill) -> None:
    """A site is over only if nothing moves any more."""
    words = {member.status for member in site.moving}
    assert site.is_over == (words <= {MemberStatus.DONE, MemberStatus.ABORTED})
    for member in site.members:
        if member.status is MemberStatus.READY:
            assert member.drill is not None


def test_a_question_waits_for_those_that_may_still_come_to_it() -> None:
    """All are asked at once; those that have failed or are further on are not waited for."""
    kind, phase = DrillKind.PLANNED, DrillPhase.APPLY
    assert find_question(kind, {"a": phase}, {}) is phase
    assert find_question(kind, {"a": phase}, {"b": DrillPhase.DRAIN}) is None
    assert find_question(kind, {"a": phase}, {"b": phase}) is None
    assert find_question(kind, {"a": phase}, {"b": None}) is None
    assert find_question(kind, {"a": phase}, {"b": DrillPhase.VERIFY}) is phase
    assert find_question(kind, {}, {"b": DrillPhase.VERIFY}) is None
    both = {"a": phase, "b": DrillPhase.FENCE_PRODUCERS}
    assert find_question(kind, both, {}) is DrillPhase.FENCE_PRODUCERS
    # Whoever asks to move a name that others share would wait for them, and they for the answer.
    name, opens = DrillPhase.REDIRECT, DrillPhase.OPEN_TARGET
    assert find_question(kind, {"a": name}, {"b": opens}) is None
    assert find_question(kind, {"a": name, "b": opens}, {}) is opens
    assert find_question(kind, {"a": name}, {"b": DrillPhase.WATCH_CLIENTS}) is name


def file(name: str, source: str, source_id: str, target_id: str, *topics: str) -> SiteFile:
    """Return a pipeline file."""
    why = "" if source_id else "it does not answer"
    return SiteFile(
        f"{name}.yaml",
        name,
        source,
        target_id.lower(),
        source_id,
        target_id,
        frozenset(topics),
        why,
    )


FILES = (
    file("orders", "paris", "A", "B", "orders"),
    file("payments", "paris-old", "A", "C", "payments"),
    file("back", "berlin", "B", "A", "orders"),
    file("other", "berlin", "B", "C", "stock"),
)


def test_every_file_with_the_source_is_a_member_whatever_its_label() -> None:
    """By name or by id."""
    for wanted in ("paris", "paris-old", "A"):
        found = select_site(FILES, wanted)
        assert [member.pipeline for member in found.members] == ["orders", "payments"]
        assert (found.cluster, found.name, found.unknown) == ("A", wanted, ())
    only = select_site(FILES, "A", lambda name: name == "payments")
    assert [member.pipeline for member in only.members] == ["payments"]


def test_a_label_of_two_ids_is_refused() -> None:
    """The name does not say which cluster is left; its id does."""
    files = (*FILES, file("late", "paris", "Z", "B", "late"))
    with pytest.raises(Refused, match="paris is the name of two clusters: A, Z"):
        select_site(files, "paris")
    assert [member.pipeline for member in select_site(files, "Z").members] == ["late"]


def test_both_directions_need_from() -> None:
    """So do several sources; a directory with one source needs none."""
    with pytest.raises(ConfigError, match="both directions, and --from does not say"):
        select_site(FILES, "")
    with pytest.raises(ConfigError, match="several sources, and --from"):
        select_site((FILES[0], file("x", "rome", "Y", "C")), "")
    assert select_site(FILES[:2], "").cluster == "A"
    with pytest.raises(ConfigError, match="no pipeline has the source rome"):
        select_site(FILES, "rome")


def test_files_of_an_unknown_source_are_listed() -> None:
    """Also those whose label is another one; --only keeps out what is not in the selection."""
    files = (*FILES, file("broken", "", "", ""), file("dead", "paris", "", "B"))
    found = select_site(files, "paris")
    assert [unknown.pipeline for unknown in found.unknown] == ["broken", "dead"]
    assert select_site(files, "paris", lambda name: name == "orders").unknown == ()
    with pytest.raises(ConfigError, match=r"selects no pipeline of paris; .* dead\.yaml"):
        select_site(files, "paris", lambda name: name == "dead")


def test_a_topic_with_two_targets_is_refused_until_only_names_one() -> None:
    """Its producers can go to one cluster only."""
    files = (*FILES, file("orders-c", "paris", "A", "C", "orders", "more"))
    with pytest.raises(Refused, match=r"topic orders is copied to b .*orders\) and c .*orders-c\)"):
        select_site(files, "paris")
    found = select_site(files, "paris", lambda name: name != "orders-c")
    assert [member.pipeline for member in found.members] == ["orders", "payments"]


def test_two_files_of_one_pipeline_are_refused() -> None:
    """Their drills would fence each other."""
    twice = replace(FILES[0], file="copy-of-orders.yaml")
    with pytest.raises(Refused, match="files of the same pipeline, orders"):
        select_site((*FILES, twice), "paris")


@given(
    st.lists(
        st.tuples(st.sampled_from(["", "A", "B", "C"]), st.sampled_from(["A", "B", "C"])),
        max_size=8,
    ),
    st.sampled_from(["A", "B", "C"]),
)
def test_no_file_disappears(pairs: list[tuple[str, str]], wanted: str) -> None:
    """Each is a member, of another source, or listed as unknown."""
    files = [
        file(f"p{n}", "s" + source, source, target) for n, (source, target) in enumerate(pairs)
    ]
    try:
        found = select_site(files, wanted)
    except ConfigError:
        assert wanted not in {source for source, _ in pairs}
        return
    others = [one for one in files if one.source_id not in ("", wanted)]
    assert sorted((*found.members, *found.unknown, *others), key=lambda one: one.file) == files
    assert {one.source_id for one in found.members} == {wanted}


def test_member_states() -> None:
    """A state that was put is found again."""
    site = gather_site([drill(n, 0, DrillKind.PLANNED, mark(2)) for n in range(2)], {})
    state = replace(site.members[1], error="the target does not answer")
    assert site.put(state).find(state.member.drill).status is MemberStatus.HELD
    assert site.members[0].status is MemberStatus.WAITING
    assert isinstance(site.members[0], MemberState)
