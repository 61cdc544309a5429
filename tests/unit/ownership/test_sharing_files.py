"""Runs whose pipeline files differ share no slot, and those with the newest file copy everything.

The runs find the layout by run records and heartbeats, as in ``test_sharing_layouts.py``.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k2ktui.engine.records.editions import Editions, edition_of_layout
from k2ktui.engine.records.run_record import SharedLayout
from tests.support.model.coordinator import Fault, Version
from tests.support.model.sharing import ClusterRegister, SharedCluster, WholeDriver
from tests.support.model.sharing_layouts import LayoutRuns
from tests.support.model.sharing_runs import GRACE_S, SharingRun, SharingRuns
from tests.support.schedule.examples import examples
from tests.unit.ownership.test_sharing_layouts import act
from tests.unit.ownership.test_sharing_runs import COPYING, RUNS, Sharing

FILES = [f"{number:016x}" for number in range(1, 4)]
OLD, NEW, NEWEST = FILES
NO_FILE = ""  # of a run of an earlier release

KINDS = (
    ["seconds"] * 6
    + ["step"] * 4
    + ["join", "join", "join", "kill", "leave", "suspend", "compact", "alone", "time out", "slots"]
    + ["file", "file", "take over"]
)
ACTIONS = st.tuples(st.sampled_from(KINDS), st.integers(0, 40), st.integers(1, 12))


def do(runs: LayoutRuns, action: tuple[str, int, int], files: list[str]) -> None:
    kind, one, _ = action
    if kind == "file":
        runs.file = files[one % len(files)]
    elif kind == "take over":
        runs.takes_over = True
        act(runs, ("join", *action[1:]))
        runs.takes_over = False
    else:
        act(runs, action)


def pass_seconds(runs: LayoutRuns, seconds: float) -> None:
    for _ in range(int(seconds)):
        runs.pass_second()


def settle(runs: LayoutRuns) -> None:
    """Nothing more happens: one file counts, and the runs that have it copy everything."""
    pass_seconds(runs, 60)
    runs.settle()
    runs.settle()
    before = runs.records.divisions, runs.shared.takeovers
    pass_seconds(runs, 60)
    assert (runs.records.divisions, runs.shared.takeovers) == before, "all keep what they have"
    check(runs)


def check(runs: LayoutRuns) -> None:
    live, shared = runs.live, runs.shared
    assert set(shared.owners) == set(range(shared.layout.slots)), "each slot is copied"
    loads = Counter(shared.owners.values())
    copying = [run.name for run in live if counts(runs, run)]
    assert copying and loads.keys() <= set(copying)
    assert max(loads[n] for n in copying) - min(loads[n] for n in copying) <= 1
    for run in live:
        assert run.holds == {s for s, name in shared.owners.items() if name == run.name}


def counts(runs: LayoutRuns, run: SharingRun) -> bool:
    """Whether a run has the newest file of the live runs; each has, if one of them is not known."""
    digests = {member.digest for member in runs.live}
    if NO_FILE in digests:
        return True
    known, forgotten = runs.records.committed.editions, runs.records.forgotten
    assert all(known.find(digest) or digest in forgotten for digest in digests), (
        "each new file was rolled out"
    )
    newest = max(
        digests, key=lambda edition: ((found := known.find(edition)) and found.number) or 0
    )
    return run.digest == newest


@pytest.mark.parametrize("files", [FILES, [*FILES, NO_FILE]], ids=["known", "earlier-release"])
@settings(max_examples=examples(300), deadline=None)
@given(happening=st.lists(ACTIONS, max_size=40))
def test_whatever_happens_the_newest_file_counts(happening: list[Any], files: list[str]) -> None:
    """Runs start with any file, end, die and are suspended; others copy alone meanwhile.

    Files of an earlier release's runs are not known: as long as one lives, all runs share the slots
    as before.
    """
    runs = LayoutRuns()
    runs.file = OLD
    runs.join(5)
    for action in happening:
        do(runs, action, files)
    settle(runs)


def test_an_edition_may_be_forgotten_while_its_run_lives() -> None:
    """A run of an earlier release copies alone, and its run record is all that is kept."""
    runs = LayoutRuns()
    old = start(runs, 5, OLD)
    pass_seconds(runs, 9)
    runs.start_alone()
    runs.file = NEW
    pass_seconds(runs, 4)
    new = runs.join(0)
    runs.records.compact()
    assert runs.records.forgotten == {OLD}
    settle(runs)
    assert len(new.holds) == 3 and not old.holds


def start(runs: LayoutRuns, number: int, file: str) -> SharingRun:
    runs.file = file
    return runs.join(number)


@pytest.mark.parametrize("number", [1, 9])
def test_a_new_file_is_rolled_out_host_by_host(number: int) -> None:
    """Whichever has the lowest id: the first run with it copies everything, then they share."""
    runs = LayoutRuns()
    one, two = start(runs, 5, OLD), start(runs, 6, OLD)
    runs.settle()
    assert one.holds and two.holds
    new = start(runs, number, NEW)
    pass_seconds(runs, 20)
    assert len(new.holds) == 3 and not (one.holds or two.holds)
    assert not one.is_dead and not two.is_dead
    one.is_leaving = True
    pass_seconds(runs, 5)
    again = start(runs, 4, NEW)
    pass_seconds(runs, 10)
    assert new.holds and again.holds and not two.holds
    settle(runs)
    assert runs.records.divisions == 2


@pytest.mark.parametrize("number", [1, 9])
def test_a_host_with_an_older_file_waits_and_never_leads(number: int) -> None:
    runs = LayoutRuns()
    start(runs, 5, OLD)
    runs.settle()
    new = start(runs, 6, NEW)
    runs.settle()
    runs.runs[0].is_dead = True
    pass_seconds(runs, 2 * GRACE_S)
    divisions = runs.records.divisions
    stale = start(runs, number, OLD)
    settle(runs)
    assert len(new.holds) == 3 and not stale.holds
    assert runs.records.divisions == divisions, "nothing was interrupted"


def test_without_a_newer_run_an_older_file_is_copied_by_until_one_comes_back() -> None:
    runs = LayoutRuns()
    start(runs, 5, OLD)
    runs.settle()
    new = start(runs, 6, NEW)
    runs.settle()
    stale = runs.runs[0]
    new.is_leaving = True
    pass_seconds(runs, GRACE_S - 5)
    assert not stale.holds, "a newer one may be about to come back"
    pass_seconds(runs, 2 * GRACE_S)
    assert len(stale.holds) == 3
    assert edition_of_layout(runs.shared.layout.id).number == 1
    back = start(runs, 7, NEW)
    settle(runs)
    assert len(back.holds) == 3 and not stale.holds
    assert edition_of_layout(runs.shared.layout.id).number == 2


def test_a_roll_back_takes_over_and_later_starts_follow_it() -> None:
    runs = LayoutRuns()
    start(runs, 5, OLD)
    runs.settle()
    new = start(runs, 1, NEW)
    runs.settle()
    runs.takes_over = True
    back = start(runs, 9, OLD)
    runs.takes_over = False
    pass_seconds(runs, 10)
    assert not new.holds and not new.is_dead
    again = start(runs, 0, NEW)
    settle(runs)
    assert back.holds and runs.runs[0].holds, "both have the file that was gone back to"
    assert not new.holds and not again.holds


def test_two_new_files_at_once_are_rolled_out_one_after_the_other() -> None:
    runs = LayoutRuns()
    start(runs, 5, OLD)
    runs.settle()
    start(runs, 6, NEW)
    start(runs, 7, NEWEST)
    settle(runs)
    assert runs.records.divisions <= 4


def test_a_layout_of_an_earlier_release_is_made_again_once() -> None:
    """Once no run of it lives; the file that copied is not known."""
    runs = LayoutRuns()
    before = start(runs, 5, NO_FILE)
    runs.settle()
    run = start(runs, 1, OLD)
    runs.settle()
    assert run.holds and before.holds and runs.records.divisions == 1, "they share it"
    before.is_leaving = True
    settle(runs)
    assert len(run.holds) == 3 and runs.records.divisions == 2


class _Runs(SharingRuns):
    """Runs with files, which let a driver divide the pipeline in their place."""

    def __init__(self, register: ClusterRegister, cluster: SharedCluster) -> None:
        super().__init__(register)
        self._cluster, self._layouts = cluster, register
        self.file = OLD
        self.dividing: dict[str, WholeDriver] = {}

    def _make(self, name: str, began: float) -> SharingRun:
        def find() -> SharedLayout | None:
            layout, edition = self._layouts.layout, run.edition
            if edition.digest == layout.edition.digest:
                return layout
            driver = self.dividing.get(name)
            if (driver is None or not driver.running) and len(self._cluster.drivers) < 80:
                self.dividing[name] = self._cluster.start_whole(1, shared=2, edition=edition)
            return None

        run = SharingRun(
            name,
            self.topic,
            self.register,
            began,
            find,
            digest=self.file,
            editions=self._layouts.editions,
        )
        return run


class FileSharing(Sharing):
    """A model cluster, and runs that share its slots by different files."""

    def __init__(self, version: Version, first_epoch: int) -> None:
        super().__init__(version, first_epoch, 2)
        self.files = _Runs(self.register, self.cluster)
        self.runs = self.files

    def act(self, happening: tuple[Any, ...]) -> None:
        if happening[0] == "file":
            self.files.file = FILES[happening[1] % len(FILES)]
        else:
            super().act(happening)
        self.check_files()

    def check_files(self) -> None:
        """No run copies for a layout that is not of its own file."""
        layouts = {run.name: run.digest for run in self.runs.runs}
        for (name, _), copies in self.register.runners.items():
            assert copies.layout.edition.digest == layouts[name]

    def pass_seconds(self, seconds: int, *, dead_continue: bool = False) -> None:
        for _ in range(seconds):
            for driver in self.files.dividing.values():
                for _ in range(40):
                    if driver.running:
                        driver.step(Fault.NONE)
            super().pass_seconds(1, dead_continue=dead_continue)
            self.check_files()

    def settle(self) -> None:
        target = self.cluster.target
        target.blocked.clear()
        for run in self.runs.runs:
            run.awake_in = 0
        if all(run.is_leaving for run in self.runs.live):
            self.runs.join(0)
        target.complete()
        for name in target.open():
            target.time_out(name)
        dividing = self.files.dividing.values()
        for driver in self.cluster.drivers:  # those that copy alone have died
            driver.killed |= driver.group == "g" and driver not in dividing
        self.pass_seconds(120)
        before = self.cluster.counts()
        self.pass_seconds(30, dead_continue=True)
        assert all(now > was for now, was in zip(self.cluster.counts(), before, strict=True))
        holders = [run for run in self.runs.live for _ in run.holds]
        known = self.register.editions
        newest = max(
            {run.digest for run in self.runs.live}, key=lambda digest: number(known, digest)
        )
        assert {run.digest for run in holders} == {newest}
        assert sorted(slot for run in self.runs.live for slot in run.holds) == [0, 1]


def number(known: Editions, digest: str) -> int:
    edition = known.find(digest)
    assert edition is not None, "each new file was rolled out"
    return edition.number


@settings(max_examples=examples(200), deadline=None)
@given(
    version=st.sampled_from(Version),
    first_epoch=st.sampled_from([-1, 32758, 32764]),
    happening=st.lists(
        st.one_of(RUNS, COPYING, st.tuples(st.just("file"), st.integers(0, 2), st.just(0))),
        max_size=60,
    ),
)
def test_no_record_is_doubled_or_lost_when_files_change(
    version: Version, first_epoch: int, happening: list[Any]
) -> None:
    """Against the model of the coordinator: requests are lost or late while layouts change."""
    sharing = FileSharing(version, first_epoch)
    sharing.runs.join(5)
    sharing.runs.join(6)
    for happened in happening:
        sharing.act(happened)
    sharing.settle()
