"""Site drills on three real brokers: several pipelines leave one cluster together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from k2ktui.drill.operations import abort_drill, begun_drill, resume_drill
from k2ktui.drill.operator import Question, QuestionKind
from k2ktui.drill.ownership import Actor, new_token
from k2ktui.drill.runner import RUNS, Run
from k2ktui.drill.session import PhaseResult, Session
from k2ktui.drill.store import DrillStore
from k2ktui.engine.drill.changes import EVERYONE, read_quota_rates
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import ChangeKind, DrillStatus, Fence, ResumeOptions
from k2ktui.engine.drill.site import MemberStatus, SiteDrill
from k2ktui.engine.drill.steps import find_change_of
from k2ktui.errors import ConfigError, K2kError, Refused
from k2ktui.kafka.admin.acls import list_acls
from k2ktui.kafka.admin.quotas import Quota, producer_quotas
from k2ktui.kafka.clients import source_cluster
from k2ktui.runtime.node import KafkaNode
from k2ktui.site.operations import abort_site, list_sites, read_site, resume_site, verify_site
from k2ktui.site.report import site_json, site_markdown
from tests.support.clusters.kafka import START_S, eventually
from tests.support.clusters.secure import SecureNode
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.runs import (
    MAY,
    NOBODY_COMES,
    QUICK,
    Pair,
    Yes,
    fence_by_quota,
    keep_commits,
    kill_at,
    remove_quotas,
    set_quotas,
)
from tests.support.drill.sites import Site, SiteYes

pytestmark = pytest.mark.slow
ANN = (("user", "ann"),)


@pytest.fixture(scope="module")
def third(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaNode]:
    """Another target."""
    node = KafkaNode("third", tmp_path_factory.mktemp("third") / "node").start(START_S)
    yield node
    node.close()


@pytest.fixture
def site(tmp_path: Path, source: KafkaNode, target: KafkaNode, third: KafkaNode) -> Iterator[Site]:
    """Two pipelines that leave one cluster for two others."""
    site = Site(tmp_path / "pipelines")
    site.add(source, target)
    site.add(source, third)
    yield site
    remove_quotas(source)


def members(site: Site) -> list[Pair]:
    """Return the pipelines that leave the source, in the order of their names."""
    return sorted(site.pairs[:2], key=lambda pair: pair.copied.name)


def test_a_planned_site_drill_moves_all_and_asks_once(
    site: Site, source: KafkaNode, target: KafkaNode, third: KafkaNode, tmp_path: Path
) -> None:
    site.add(target, third)
    operator = SiteYes()
    drill = site.start(DrillKind.PLANNED, source.cluster_id, operator)
    assert drill.status is DrillStatus.DONE
    assert operator.phases == [
        DrillPhase.APPLY,
        DrillPhase.FENCE_REPLICATOR,
        DrillPhase.OPEN_TARGET,
    ]
    for question in operator.questions:
        assert question.answer == source.cluster_id
        assert question.pipelines == tuple(pair.copied.name for pair in members(site))
        assert all(any(name in line for line in question.lines) for name in question.pipelines)
    for pair in members(site):
        for number, group in enumerate(pair.groups):
            assert pair.target_offsets(group) == pair.expected_offsets(number)
    # No member had opened its target while another one was not verified.
    for shown in operator.seen:
        opened = [d for d in shown.drills if d.figures.opened_ms is not None]
        if opened:
            assert len(shown.drills) == 2
            assert all(d.record(DrillPhase.VERIFY).status == "done" for d in shown.drills)
    report = site_json(read_site(site.files, drill.id))
    assert report["rpo_records"] == 0 and len(report["reports"]) == 2
    assert "## Pipelines" in site_markdown(drill)
    page = tmp_path / "site.html"
    k2ktui("drill", "report", drill.id, "-d", site.directory, "--html", page)
    assert page.stat().st_mode & 0o777 == 0o600
    text = page.read_text()
    for pair in members(site):
        assert f"of {pair.copied.name}</h2>" in text
    assert [one.id for one in list_sites(site.files)[0]] == [drill.id]
    with pytest.raises(Refused, match=r"site drill .* is done"):
        resume_site(site.actor(), drill.id)


def quotas(pair: Pair) -> list[Quota]:
    return producer_quotas(source_cluster(pair.flow.config))


def test_quotas_that_were_lowered_are_restored_when_no_member_needs_it(
    site: Site, source: KafkaNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drills of 675e1d1f could fence by quotas, with the quotas before in each record."""
    pair = site.pairs[0]
    at = source_cluster(pair.flow.config)
    set_quotas(at, Quota(ANN, 5000.0))
    before = quotas(pair)
    monkeypatch.setitem(RUNS, DrillPhase.FENCE_PRODUCERS, fence_by_quota(before))
    operator = SiteYes(frozenset({DrillPhase.APPLY}))
    options = replace(QUICK, fence=Fence.QUOTA)
    with pytest.raises(Refused, match="apply was not confirmed"):
        site.start(DrillKind.PLANNED, source.cluster_id, operator, options)
    ((drill,), _) = list_sites(site.files)
    for own in drill.drills:
        change = find_change_of(own, None, ChangeKind.QUOTAS)
        assert change is not None and change.status == "made"
        assert read_quota_rates(change).before == {ANN: 5000.0}
    assert Quota(EVERYONE, 1.0) in quotas(pair)
    # One member alone is not aborted or resumed: the others need the fence.
    alone = Actor(pair.flow, [str(pair.file)], MAY, Yes())
    for act in (resume_drill, abort_drill):
        with pytest.raises(Refused, match=r"belongs to the site drill .* of 2 pipelines"):
            act(alone, drill.drills[0].id)
    # Left out: it is aborted, and the fence stays for the other one.
    first, second = drill.members
    operator = SiteYes(frozenset({DrillPhase.APPLY}))
    with pytest.raises(Refused, match="apply was not confirmed"):
        resume_site(site.actor(operator), drill.id, ResumeOptions(left_out=[first.pipeline]))
    assert Quota(EVERYONE, 1.0) in quotas(pair)
    now = read_site(site.files, drill.id)
    assert [state.status for state in now.members] == [MemberStatus.LEFT_OUT, MemberStatus.WAITING]
    assert now.drills[0].status is DrillStatus.ABORTED
    assert "may need them" in " ".join(now.drills[0].blockers)
    aborted = abort_site(site.actor(), drill.id)
    assert aborted.status is DrillStatus.ABORTED
    eventually(lambda: quotas(pair) == before, "the quotas are as before")
    set_quotas(at, Quota(ANN, None))
    assert second.pipeline == aborted.moving[0].pipeline


def test_quotas_are_not_kept_for_a_member_that_has_not_recorded_them(
    site: Site, source: KafkaNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had failed before the fence was set: its abort could not restore what it never read."""
    first, second = members(site)
    before = quotas(first)
    options = replace(QUICK, fence=Fence.QUOTA)
    with monkeypatch.context() as patch:
        patch.setitem(RUNS, DrillPhase.LAG, fail_for(second.copied.name, RUNS[DrillPhase.LAG]))
        patch.setitem(RUNS, DrillPhase.FENCE_PRODUCERS, fence_by_quota(before))
        operator = SiteYes(frozenset({DrillPhase.APPLY}))
        with pytest.raises(Refused, match="apply was not confirmed"):
            site.start(DrillKind.PLANNED, source.cluster_id, operator, options)
        assert Quota(EVERYONE, 1.0) in quotas(first)
        ((drill,), _) = list_sites(site.files)
        resume_site(site.actor(operator), drill.id, ResumeOptions(left_out=[first.copied.name]))
    eventually(lambda: quotas(first) == before, "the quotas are as before")
    resumed = resume_site(site.actor(), drill.id)
    assert [state.status for state in resumed.members] == [MemberStatus.LEFT_OUT, MemberStatus.DONE]
    assert find_change_of(resumed.drills[1], None, ChangeKind.QUOTAS) is None
    assert quotas(first) == before, "quotas are not lowered any more"


def test_killed_again_and_again_and_resumed_elsewhere(
    site: Site, source: KafkaNode, tmp_path: Path
) -> None:
    """Whatever was done is found on the clusters."""
    quick = ("--frozen", "1", "--watch", "1")
    accepted = ("--accept", ",".join(QUICK.accepted))
    action: tuple[str, ...] = ("planned", "--from", source.cluster_id, *quick, *accepted)
    for step in (
        "drill-fence-producers-begun",
        "drill-apply-intended",
        "drill-open-target-begun",
    ):
        command = "drill", *action, "--yes-to", "all"
        kill_at(step, tmp_path / "crash", *command, "-d", site.directory)
        ((drill,), _) = list_sites(site.files)
        action = ("resume", drill.id)
    resumed = resume_site(site.actor(), drill.id)
    assert resumed.status is DrillStatus.DONE, site_markdown(resumed)
    for member in members(site):
        for number, group in enumerate(member.groups):
            assert member.target_offsets(group) == member.expected_offsets(number)
    assert verify_site(site.files, drill.id) == []


def fail_for(name: str, run: Run) -> Run:
    """Return a phase that fails for one pipeline."""

    def fail(session: Session) -> PhaseResult:
        if session.config.name == name:
            raise K2kError("the disk of the target is full")
        return run(session)

    return fail


def test_a_member_that_fails_is_held_and_holds_the_others_at_the_barrier(
    site: Site, source: KafkaNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until a person leaves it out; then the others go on, also on another host."""
    failing = members(site)[0]
    fail = fail_for(failing.copied.name, RUNS[DrillPhase.APPLY])
    monkeypatch.setitem(RUNS, DrillPhase.APPLY, fail)
    operator = SiteYes(frozenset({QuestionKind.LEAVE_OUT}))
    with pytest.raises(Refused, match="leaving pipelines out was not confirmed"):
        site.start(DrillKind.PLANNED, source.cluster_id, operator)
    (question,) = operator.asked(QuestionKind.LEAVE_OUT)
    assert question.lines == (f"{failing.copied.name}: the disk of the target is full",)
    ((drill,), _) = list_sites(site.files)
    assert all(own.figures.opened_ms is None for own in drill.drills)
    assert drill.drills[1].record(DrillPhase.VERIFY).status == "done"
    resumed = resume_site(site.actor(), drill.id)
    assert [state.status for state in resumed.members] == [MemberStatus.LEFT_OUT, MemberStatus.DONE]
    assert resumed.drills[0].status is DrillStatus.ABORTED
    left = [offset for group in failing.groups for offset in failing.target_offsets(group).values()]
    assert {*left} <= {None, -1001}
    # Without it, the drill of the site has ended.
    assert read_site(site.files, drill.id).is_over
    with pytest.raises(Refused, match="is done"):
        abort_site(site.actor(), drill.id)


def test_leaving_out_is_completed_after_a_kill(
    site: Site, source: KafkaNode, tmp_path: Path
) -> None:
    """The choice is recorded, and the drill that it is about still open: a resume ends it."""
    with pytest.raises(Refused, match="apply was not confirmed"):
        site.start(DrillKind.PLANNED, source.cluster_id, SiteYes(frozenset({DrillPhase.APPLY})))
    ((drill,), _) = list_sites(site.files)
    name = drill.members[0].pipeline
    resume = ["drill", "resume", drill.id, "-d", str(site.directory), "--yes-to", "all"]
    kill_at("site-left-out", tmp_path / "crash", *resume, "--leave-out", name)
    killed = read_site(site.files, drill.id)
    assert killed.members[0].left_out and not killed.drills[0].is_over
    resumed = resume_site(site.actor(), drill.id)
    statuses = [own.status for own in resumed.drills]
    assert statuses == [DrillStatus.ABORTED, DrillStatus.DONE]


@dataclass
class Interrupted(SiteYes):
    """An operator of changed files, in front of whom another one acts before the answer."""

    act: Callable[[], None] = lambda: None

    def ask(self, question: Question) -> bool:
        """Let the other one act."""
        if question.kind is QuestionKind.CHANGED_FILES:
            self.act()
        return super().ask(question)


def begin_and_change_a_file(site: Site, source: KafkaNode) -> SiteDrill:
    """Return a site drill that waits for apply; to act on it, a person is asked about its files."""
    with pytest.raises(Refused, match="apply was not confirmed"):
        site.start(DrillKind.PLANNED, source.cluster_id, SiteYes(frozenset({DrillPhase.APPLY})))
    ((drill,), _) = list_sites(site.files)
    changed = members(site)[0].file
    changed.write_text(changed.read_text() + "# another\n")
    return drill


def test_what_another_operator_chose_meanwhile_is_kept(site: Site, source: KafkaNode) -> None:
    """A choice is never taken back, also by one who had read the records before it was made."""
    drill = begin_and_change_a_file(site, source)

    def leave_out() -> None:
        operator = SiteYes(frozenset({DrillPhase.APPLY}))
        how = ResumeOptions(left_out=[drill.members[0].pipeline])
        with pytest.raises(Refused, match="apply was not confirmed"):
            resume_site(site.actor(operator), drill.id, how)

    operator = Interrupted(frozenset({QuestionKind.LEAVE_OUT}), act=leave_out)
    resumed = resume_site(site.actor(operator), drill.id)
    assert [state.status for state in resumed.members] == [MemberStatus.LEFT_OUT, MemberStatus.DONE]
    assert read_site(site.files, drill.id).mark.left_out == (drill.members[0].member.drill,)


def test_a_target_that_opens_while_an_abort_begins(
    site: Site, source: KafkaNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The members that are aborting already can be restored, and the opened one goes on."""
    drill = begin_and_change_a_file(site, source)
    first, second = (state.pipeline for state in drill.members)
    fails = {DrillPhase.WATCH_CLIENTS: first, DrillPhase.OPEN_TARGET: second}

    def resume() -> None:
        with monkeypatch.context() as patch:
            for phase, name in fails.items():
                patch.setitem(RUNS, phase, fail_for(name, RUNS[phase]))
            resume_site(site.actor(), drill.id)

    with pytest.raises(Refused, match="the target was opened"):
        abort_site(site.actor(Interrupted(act=resume)), drill.id)
    now = read_site(site.files, drill.id)
    assert [state.status for state in now.members] == [MemberStatus.OPENED, MemberStatus.ABORTING]
    with pytest.raises(Refused, match="is being aborted"):
        resume_site(site.actor(), drill.id)
    assert abort_site(site.actor(), drill.id).status is DrillStatus.OPEN
    with pytest.raises(Refused, match=f"the target of {first} was opened"):
        resume_site(site.actor(), drill.id, ResumeOptions(left_out=[first]))
    done = resume_site(site.actor(), drill.id)
    assert [state.status for state in done.members] == [MemberStatus.DONE, MemberStatus.ABORTED]


def test_a_member_that_has_ended_is_written_by_no_other(site: Site, source: KafkaNode) -> None:
    """Another one may be about to record the fence in it; that is no internal error."""
    pair = members(site)[0]
    kind, files = DrillKind.REHEARSE, [str(pair.file)]
    with begun_drill(Actor(pair.flow, files, MAY, Yes()), kind, QUICK) as session:
        pass
    with pytest.raises(Refused, match="no longer acts"):
        session.write("late")


def test_if_one_is_refused_none_begins(site: Site, source: KafkaNode) -> None:
    """Another drill of one pipeline is open."""
    pair = members(site)[1]
    with pytest.raises(Refused, match="not confirmed"):
        pair.start(DrillKind.PLANNED, operator=Yes(frozenset({DrillPhase.APPLY})))
    with pytest.raises(Refused, match=r"drill .* of this pipeline is open"):
        site.start(DrillKind.PLANNED, source.cluster_id)
    ((drill,), _) = list_sites(site.files)
    assert drill.drills[0].status is DrillStatus.ABORTED
    assert drill.drills[0].changes == ()


def test_other_files_are_asked_about_and_production_needs_unlock(
    site: Site, source: KafkaNode, third: KafkaNode
) -> None:
    with pytest.raises(Refused, match="apply was not confirmed"):
        site.start(DrillKind.PLANNED, source.cluster_id, SiteYes(frozenset({DrillPhase.APPLY})))
    ((drill,), _) = list_sites(site.files)
    changed = members(site)[0].file
    changed.write_text(changed.read_text() + "# another\n")
    operator = SiteYes(frozenset({QuestionKind.CHANGED_FILES}))
    with pytest.raises(Refused, match="continuing with other files was not confirmed"):
        resume_site(site.actor(operator), drill.id)
    (question,) = operator.questions
    assert len(question.lines) == 1 and str(changed) in question.lines[0]
    changed.write_text(changed.read_text().replace("# another\n", "environment: production\n"))
    with pytest.raises(Refused, match="the environment is production"):
        resume_site(site.actor(), drill.id)
    assert abort_site(site.actor(unlock=True), drill.id).status is DrillStatus.ABORTED


def test_an_abort_without_a_terminal_says_how_to_abort(site: Site, source: KafkaNode) -> None:
    """Not how to resume: pasted, that would continue the failover that was to be aborted."""
    with pytest.raises(Refused, match="apply was not confirmed"):
        site.start(DrillKind.PLANNED, source.cluster_id, SiteYes(frozenset({DrillPhase.APPLY})))
    ((drill,), _) = list_sites(site.files)
    pair, state = members(site)[0], drill.members[0]
    assert state.pipeline == pair.copied.name
    store = DrillStore(pair.copied.config, pair.copied.cluster)
    session = Session(pair.flow, store.read(state.member.drill), store, Yes(), MAY)
    session.open(new_token(), "acts")
    try:
        done = k2ktui("drill", "abort", drill.id, "-d", site.directory, code=5)
        assert f"Run k2ktui drill abort {drill.id} -d DIR --take-over." in done.stderr
        assert "resume" not in done.stderr
    finally:
        session.close()


def test_the_command_asks_a_person_and_names_what_is_missing(
    site: Site, source: KafkaNode, target: KafkaNode, third: KafkaNode
) -> None:
    """Files that are not valid are left out only by their names; several sources need --from."""
    site.add(target, third)
    (site.directory / "broken.yaml").write_text("name: [")
    done = k2ktui("drill", "planned", "-d", site.directory, "--from", source.cluster_id, code=5)
    assert "broken.yaml: it is not valid" in done.stderr
    assert "--leave-out broken" in done.stderr and "\\x0a" not in done.stderr
    done = k2ktui("drill", "planned", "-d", site.directory, code=2)
    assert "--from does not say" in done.stderr
    begin = ["drill", "rehearse", "-d", str(site.directory), "--from", source.cluster_id]
    report = k2ktui_json(*begin, "--leave-out", "broken", code=1)
    assert report["status"] == "done" and len(report["reports"]) == 2
    assert [Path(file).name for file in report["files_left_out"]] == ["broken.yaml"]
    shown = k2ktui("drill", "show", report["id"], "-d", site.directory)
    assert members(site)[0].copied.name in shown.stdout
    assert report["id"] in k2ktui("drill", "list", "-d", site.directory).stdout
    (site.directory / "broken.yaml").unlink()
    # Each pipeline of the site is rehearsed; one between the other clusters is none of them.
    drill = read_site(site.files, report["id"])
    assert drill.status is DrillStatus.DONE
    assert [state.pipeline for state in drill.members] == [p.copied.name for p in members(site)]
    for number, (pair, state) in enumerate(zip(members(site), drill.members, strict=True), 1):
        (own,) = pair.drills()
        assert own.id == state.member.drill == f"{drill.id}-{number:03}"
        assert own.site is not None and own.site.members == drill.mark.members
        assert sum(group.compared for group in own.groups) > 0
    assert site.pairs[2].drills() == []
    assert verify_site(site.files, drill.id) == []


def test_a_lost_site_is_failed_over_from_its_run_records(
    tmp_path: Path, lost: KafkaNode, target: KafkaNode, third: KafkaNode
) -> None:
    """The id of a dead cluster is in the records of what copied it."""
    site = Site(tmp_path / "pipelines")
    for node in (target, third):
        pair = site.add(lost, node)
        keep_commits(pair.flow.config)
    site.add(target, third)
    cluster = lost.cluster_id
    lost.close()
    operator = SiteYes()
    drill = site.start(DrillKind.DISASTER, cluster, operator, NOBODY_COMES)
    assert drill.status is DrillStatus.DONE, site_markdown(drill)
    assert [state.pipeline for state in drill.members] == [p.copied.name for p in members(site)]
    assert operator.phases == [
        DrillPhase.SOURCE_LOST,
        DrillPhase.FENCE_REPLICATOR,
        DrillPhase.APPLY,
        DrillPhase.OPEN_TARGET,
    ]
    for pair in members(site):
        for number, group in enumerate(pair.groups):
            assert pair.target_offsets(group) == pair.expected_offsets(number)
    assert site_json(drill)["rpo_is_lower_bound"]


def test_the_access_rules_of_a_lost_member_are_deleted(
    tmp_path: Path, secure: SecureNode, target: KafkaNode, lost: KafkaNode
) -> None:
    """Each record has the topics of all: its own record is lost with its target.

    It is left out by a typed choice, and holds no other pipeline.
    """
    site = Site(tmp_path / "pipelines")
    first, second = site.add(secure.node, target), site.add(secure.node, lost)
    at = source_cluster(first.flow.config)
    before = list_acls(at)
    options = replace(QUICK, fence=Fence.ACL)
    with pytest.raises(Refused, match="apply was not confirmed"):
        site.start(
            DrillKind.PLANNED,
            secure.node.cluster_id,
            SiteYes(frozenset({DrillPhase.APPLY})),
            options,
        )
    ((drill,), _) = list_sites(site.files)
    assert len(list_acls(at)) == len(before) + 4
    lost.close()
    operator = SiteYes(frozenset({QuestionKind.LEAVE_OUT}))
    with pytest.raises(Refused, match="not confirmed"):
        abort_site(site.actor(operator), drill.id)
    assert operator.asked(QuestionKind.LEAVE_OUT)[0].pipelines == (second.copied.name,)
    assert abort_site(site.actor(), drill.id).status is DrillStatus.ABORTED
    eventually(lambda: list_acls(at) == before, "the rules are as before")
    with pytest.raises(ConfigError, match="no drill nothing"):
        read_site(site.files, "nothing")
