"""Clients of several pipelines follow the name that they share, in site drills on real clusters."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from k2ktui.drill.operator import Question
from k2ktui.drill.runner import RUNS
from k2ktui.engine.drill.checks import DrillCheckOutcome, DrillKind, DrillPhase
from k2ktui.engine.drill.hooks import HookRole, HookStatus
from k2ktui.engine.drill.model import Drill, DrillStatus, PhaseStatus, ResumeOptions
from k2ktui.engine.drill.site import MemberStatus, SiteDrill
from k2ktui.runtime.ports import HeldPort
from k2ktui.site.operations import abort_site, list_sites, resume_site, verify_site
from k2ktui.site.report import name_rows
from tests.brokers.drill.test_redirect import CUT_OFF, Followed, read_committed
from tests.brokers.drill.test_resume import QUICKLY
from tests.brokers.drill.test_site import fail_for
from tests.support.clusters.haproxy import Front, FrontedNode, fronted
from tests.support.clusters.kafka import START_S, eventually, read_all
from tests.support.commands.cli import k2ktui
from tests.support.drill.runs import NOBODY_COMES, check_of, keep_commits, kill_at
from tests.support.drill.sites import Site, SiteYes

pytestmark = pytest.mark.slow
_OLD, _NEW = 40, 20
_BACK = {"name/east": "ready", "east-1/east": "ready", "name/west": "maint", "west-1/west": "maint"}
_MOVED = {
    "name/east": "maint",
    "east-1/east": "maint",
    "name/west": "ready",
    "west-1/west": "ready",
}


@pytest.fixture(scope="module")
def lab(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[FrontedNode, FrontedNode, Front]]:
    with fronted(tmp_path_factory.mktemp("fronted")) as running:
        yield running


class Shared:
    """Two pipelines from east to west whose clients have one name, or one each."""

    def __init__(
        self, directory: Path, east: FrontedNode, west: FrontedNode, *fronts: Front
    ) -> None:
        self.east, self.west, self.front = east, west, fronts[0]
        self.site = Site(directory)
        self.pairs: list[Followed] = []
        for front in fronts:
            front.reset()
            pair = Followed(directory, east, west, front=front)
            pair.copied.put_run()
            self.site.pairs.append(pair)
            self.pairs.append(pair)
        self.pairs.sort(key=lambda pair: pair.copied.name)

    @property
    def names(self) -> list[str]:
        """The names of the pipelines, in their order."""
        return [pair.copied.name for pair in self.pairs]

    def consume(self) -> None:
        """Let a group of each read and commit all on the source."""
        for pair in self.pairs:
            pair.clients.consume()
            eventually(
                partial(_has_committed, pair), "the group has read and committed all on the source"
            )

    def start(self, operator: SiteYes | None = None) -> SiteDrill:
        """Begin a planned site drill."""
        return self.site.start(DrillKind.PLANNED, self.east.cluster_id, operator, CUT_OFF)

    def read(self) -> SiteDrill:
        """Return the only site drill as its records are."""
        ((drill,), _) = list_sites(self.site.files)
        return drill

    def close(self) -> None:
        """End the clients."""
        for pair in self.pairs:
            pair.clients.close()


def _has_committed(pair: Followed) -> bool:
    return read_committed(pair).get((pair.topics[0], 0)) == _OLD


def _has_read_all(pair: Followed) -> bool:
    return len(pair.clients.read) == _OLD + _NEW


@pytest.fixture
def shared(tmp_path: Path, lab: tuple[FrontedNode, FrontedNode, Front]) -> Iterator[Shared]:
    east, west, front = lab
    made = Shared(tmp_path / "pipelines", east, west, front, front)
    yield made
    made.close()


_SECOND = "SECOND"


class TwoWays(FrontedNode):
    """A node whose clients can come by two names, each with addresses of its own."""

    def __init__(self, name: str, data_dir: Path) -> None:
        super().__init__(name, data_dir)
        self._protocols[_SECOND] = "PLAINTEXT"
        self.second = HeldPort()

    def _settings(self) -> dict[str, str]:
        settings = super()._settings()
        settings["advertised.listeners"] = settings["advertised.listeners"].replace(
            self.address(_SECOND), self.second.address
        )
        return settings

    @property
    def by_second(self) -> Any:
        """The node as a front takes it, by its second way."""
        return SimpleNamespace(way=self.second, address=lambda _: self.address(_SECOND))


@pytest.fixture
def apart(tmp_path: Path) -> Iterator[Shared]:
    """Two pipelines whose clients have a name each."""
    if shutil.which("haproxy") is None:
        pytest.skip("haproxy is not installed (Debian: haproxy)")
    with ExitStack() as stack:
        nodes = [TwoWays(name, tmp_path / name) for name in ("east", "west")]
        for node in nodes:
            for port in (node.way, node.second):
                stack.callback(port.close)
            stack.callback(node.close)
            node.start(START_S)
        east, west = nodes
        fronts = [
            Front(tmp_path / "first", east, west),
            Front(tmp_path / "second", east.by_second, west.by_second),
        ]
        for front in fronts:
            stack.callback(front.close)
        made = Shared(tmp_path / "pipelines", east, west, *fronts)
        stack.callback(made.close)
        yield made


def count_runs(site: SiteDrill, text: str) -> int:
    """Return how many journal entries of all members begin so."""
    return sum(event.text.startswith(text) for drill in site.drills for event in drill.events)


def parts(drill: Drill) -> list[tuple[HookRole, int, HookStatus]]:
    """Return what a member has recorded of its cut-off and its redirect."""
    return [(hook.role, hook.attempts, hook.status) for hook in drill.hooks]


@dataclass
class Writes(SiteYes):
    """An operator whose clients write while they are cut off."""

    pairs: Sequence[Followed] = ()

    def ask(self, question: Question) -> bool:
        """Write before the targets are opened."""
        if question.step == DrillPhase.OPEN_TARGET:
            for pair in self.pairs:
                pair.clients.write(range(_OLD, _OLD + _NEW))
        return super().ask(question)


def move_with_clients(shared: Shared, operator: Writes) -> SiteDrill:
    """Run a planned site drill, and prove what clients have written and read, without a restart."""
    shared.consume()
    drill = shared.start(operator)
    assert drill.status is DrillStatus.DONE, drill
    for pair in shared.pairs:
        pair.clients.flush()
        eventually(partial(_has_read_all, pair), "the group has read all")
    shared.close()
    for pair in shared.pairs:
        clients = pair.clients
        assert (clients.acknowledged, clients.failed, clients.fatal) == (_OLD + _NEW, [], [])
        assert set(clients.read.values()) == {1}, "nothing was read again"
        values = Counter(got.value for got in read_all(shared.west, pair.topics[0]))
        assert {value: values[value] for value in clients.read} == dict.fromkeys(clients.read, 1)
        assert pair.front.states == _MOVED
    # The topics and groups of the other member are no clients outside of the drill.
    for own in drill.drills:
        assert check_of(own, "D52").outcome is DrillCheckOutcome.PASS, check_of(own, "D52")
    assert verify_site(shared.site.files, drill.id) == []
    return drill


def test_each_name_of_its_own_moves_with_its_member(apart: Shared) -> None:
    drill = move_with_clients(apart, Writes(pairs=apart.pairs))
    for own in drill.drills:
        done = HookStatus.DONE
        assert parts(own) == [(HookRole.CUT_OFF, 1, done), (HookRole.REDIRECT, 1, done)]
    assert {row["name"]: row["pipelines"] for row in name_rows(drill)} == {
        pair.front.name.address: [pair.copied.name] for pair in apart.pairs
    }


def test_a_shared_name_moves_once_and_nobody_is_restarted(shared: Shared) -> None:
    name, operator = shared.front.name.address, Writes(pairs=shared.pairs)
    drill = move_with_clients(shared, operator)
    assert count_runs(drill, "about to run the cut-off") == 1
    assert count_runs(drill, "about to run the redirect") == 1
    first, second = drill.drills
    done = HookStatus.DONE
    assert parts(first) == [(HookRole.CUT_OFF, 1, done), (HookRole.REDIRECT, 1, done)]
    assert parts(second) == [(HookRole.CUT_OFF, 1, done), (HookRole.REDIRECT, 0, done)]
    assert first.hooks[0].addresses == second.hooks[0].addresses != ()
    for question in operator.questions:
        if question.step in (DrillPhase.FENCE_PRODUCERS, DrillPhase.OPEN_TARGET, "redirect"):
            assert any("Shared with" in line for line in question.lines), question
    assert name_rows(drill) == [
        {"name": name, "pipelines": shared.names, "place": "moved to the target"}
    ]


def test_a_name_stays_while_a_member_that_shares_it_is_held_or_left_out(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, failing = shared.names
    with monkeypatch.context() as patch:
        patch.setitem(RUNS, DrillPhase.LAG, fail_for(failing, RUNS[DrillPhase.LAG]))
        drill = shared.start()
        record = drill.drills[0].record(DrillPhase.FENCE_PRODUCERS)
        assert record.status is PhaseStatus.FAILED
        name = shared.front.name.address
        assert record.live == (
            f"clients are not cut off: the name {name} is shared with {failing} (held)"
        )
        assert shared.front.states == _BACK
    # Cut off, one fails before its target is open: the other one is not opened, too.
    with monkeypatch.context() as patch:
        patch.setitem(RUNS, DrillPhase.OPEN_TARGET, fail_for(failing, RUNS[DrillPhase.OPEN_TARGET]))
        drill = resume_site(shared.site.actor(), drill.id)
    assert [state.status for state in drill.members] == [MemberStatus.HELD, MemberStatus.HELD]
    record = drill.drills[0].record(DrillPhase.OPEN_TARGET)
    assert record.findings[0].startswith(f"the name {name} is shared with {failing} (held). ")
    assert all(own.figures.opened_ms is None for own in drill.drills)
    assert "not moved; held: " in name_rows(drill)[0]["place"]
    # Left out, its abort opens the way for all, and the name never moves.
    how = ResumeOptions(left_out=[failing])
    drill = resume_site(shared.site.actor(), drill.id, how)
    assert [state.status for state in drill.members] == [MemberStatus.HELD, MemberStatus.LEFT_OUT]
    record = drill.drills[0].record(DrillPhase.OPEN_TARGET)
    assert f"leave {kept} out, too" in record.findings[0]
    assert shared.front.states == _BACK
    drill = abort_site(shared.site.actor(), drill.id)
    assert drill.status is DrillStatus.ABORTED
    assert count_runs(drill, "about to undo the cut-off") == 1
    assert shared.front.states == _BACK


def test_killed_beside_its_commands_a_shared_name_moves_once(
    shared: Shared, tmp_path: Path
) -> None:
    action: tuple[str, ...] = "planned", "--from", shared.east.cluster_id, *QUICKLY
    action = *action, "--fence", "cutoff"
    states: list[dict[str, str]] = []
    for step in (
        "drill-hook-begun",
        "drill-hook-ended",
        "drill-open-target-ended",
        "drill-redirect-begun",
        "drill-hook-ended",
    ):
        arguments = "-d", shared.site.directory, "--yes-to", "all"
        kill_at(step, tmp_path / f"crash-{len(states)}", "drill", *action, *arguments)
        states.append(shared.front.states)
        drill = shared.read()
        action = "resume", drill.id
    cut = dict.fromkeys(_BACK, "maint")
    assert states == [_BACK, cut, cut, cut, _MOVED]
    drill = resume_site(shared.site.actor(), drill.id)
    assert drill.status is DrillStatus.DONE, drill
    assert shared.front.states == _MOVED
    # The end of the first redirect is not known: the name is looked at, and leads to the target.
    assert count_runs(drill, "about to run the redirect") == 1
    first, second = drill.drills
    assert first.hooks[1].result == "not run: the name leads to the target"
    assert second.hooks[1].attempts == 0


def test_a_shared_name_moves_once_from_a_source_that_is_lost_for_the_drill(
    shared: Shared,
) -> None:
    """Clients still reach it: they are cut off once, and moved once."""
    shared.close()
    for pair in shared.pairs:
        keep_commits(pair.flow.config)
    operator = SiteYes()
    with closing(HeldPort()) as closed:
        for pair in shared.pairs:
            text = pair.file.read_text().replace(shared.east.bootstrap, closed.address)
            pair.file.write_text(text)
        cluster = shared.east.cluster_id
        drill = shared.site.start(DrillKind.DISASTER, cluster, operator, NOBODY_COMES)
    assert drill.status is DrillStatus.DONE, drill
    assert shared.front.states == _MOVED
    assert count_runs(drill, "about to run the cut-off") == 1
    assert count_runs(drill, "about to run the redirect") == 1
    (question,) = (one for one in operator.questions if one.step == DrillPhase.SOURCE_LOST)
    assert sum("Shared with" in line for line in question.lines) == 2
    assert all(not own.record(DrillPhase.SOURCE_LOST).findings for own in drill.drills)


def test_what_the_files_must_say(
    shared: Shared, lab: tuple[FrontedNode, FrontedNode, Front]
) -> None:
    first, second = shared.names
    begin = "drill", "planned", "-d", shared.site.directory, "--from", shared.east.cluster_id
    done = k2ktui(*begin, "--fence", "cutoff", "--dry-run")
    name = shared.front.name.address
    assert (
        f"Name {name} of {first}, {second}: moves once the targets of all are open" in done.stderr
    )
    done = k2ktui(*begin, "--fence", "cutoff", "--only", first, code=5)
    assert f"{first} and {second} share the clients' name {name}" in done.stderr
    assert f"{second} is not moved" in done.stderr
    done = k2ktui(*begin, code=5)
    assert f"{first}: drill.redirect moves a name" in done.stderr
    file = shared.pairs[1].file
    text = file.read_text()
    file.write_text(text.replace("haproxy:", "timeout: 7 seconds\n    haproxy:"))
    done = k2ktui(*begin, "--fence", "cutoff", code=5)
    assert "and their drill.redirect differs" in done.stderr
    assert list_sites(shared.site.files)[0] == []
