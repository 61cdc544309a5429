"""What the leader does with the layout that it finds, on simulated heartbeats."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from k2ktui.engine.moves.journal import Runner, RunnerState
from k2ktui.engine.ownership.layout_choice import LayoutChoice
from k2ktui.engine.records.editions import UNKNOWN_EDITION, Edition, layout_id
from k2ktui.engine.records.run_record import Run, SharedLayout

BEAT_S, GRACE_S = 5.0, 15.0
OWN = "m"
READY, MAKING = SharedLayout("l", 4, ready=True), SharedLayout("l", 4)
SHARED, UNREADY, ALONE = Run(7, 1, layout=READY), Run(6, 1, layout=MAKING), Run(9, 4)


@dataclass
class Leader:
    """A leader that looks every second."""

    slots: int | None = None
    others: dict[str, Runner] = field(default_factory=dict)
    members: frozenset[str] = frozenset()
    now: float = 0.0
    beats: int = 0
    edition: Edition = UNKNOWN_EDITION

    def __post_init__(self) -> None:
        self.choice = LayoutChoice(OWN, self.slots, GRACE_S, BEAT_S)

    def look(self, newest: Run, committed: SharedLayout | None = None, outdated: str = "") -> str:
        """One second later; the heartbeats of all come every fifth second."""
        self.now += 1
        if self.now % BEAT_S == 0:
            self.beats += 1
            self.others = {n: replace(r, at_ms=self.beats) for n, r in self.others.items()}
        own = runner(OWN, RunnerState.RUNNING, at_ms=self.beats)
        self.choice.observe([own, *self.others.values()], self.members, self.now)
        return self.choice.choose(newest, committed, outdated, self.edition)

    def seconds_to_divide(self, newest: Run, committed: SharedLayout | None = None) -> int | None:
        """How long it waits; None for more than 100 s."""
        for passed in range(100):
            if self.look(newest, committed) == "divide":
                return passed
        return None


def runner(name: str, state: RunnerState, at_ms: int = 0) -> Runner:
    return Runner(name, "h", "u", 1, 0, at_ms, state)


@pytest.mark.parametrize("newest", [Run(0, 0), ALONE])
def test_a_pipeline_without_a_layout_is_divided_at_the_third_look(newest: Run) -> None:
    """After two looks at the heartbeats: no other run copies it alone."""
    assert Leader().seconds_to_divide(newest) == 2


@pytest.mark.parametrize("state", RunnerState)
def test_a_committed_layout_is_used_at_once(state: RunnerState) -> None:
    """Whatever heartbeats there are: a run that copies alone would have replaced it."""
    leader = Leader(others={"a": runner("a", state)})
    assert leader.look(SHARED, READY) == "use"


def test_a_layout_that_another_run_writes_is_awaited_for_the_grace_window() -> None:
    """It may be at work on it, and committed or ready only later."""
    for newest, committed in ((UNREADY, None), (UNREADY, MAKING), (SHARED, MAKING)):
        waited = Leader().seconds_to_divide(newest, committed)
        assert waited is not None and GRACE_S <= waited < 2 * GRACE_S
        leader = Leader()
        for _ in range(10):
            assert leader.look(newest, committed) == "wait"
        assert leader.look(SHARED, READY) == "use"


def test_each_new_record_of_another_run_is_awaited() -> None:
    leader = Leader()
    for number in range(5):
        newest = Run(number, 1, layout=SharedLayout(f"{number}", 4))
        for _ in range(int(GRACE_S) - 1):
            assert leader.look(newest) == "wait"
    assert leader.look(SHARED, READY) == "use"


def test_its_own_attempt_is_repeated_without_waiting() -> None:
    leader = Leader()
    assert leader.seconds_to_divide(Run(0, 0)) == 2
    leader.choice.begin(MAKING)
    assert leader.seconds_to_divide(UNREADY) == 2


@pytest.mark.parametrize("state", [RunnerState.STARTING, RunnerState.RUNNING, RunnerState.STOPPING])
def test_a_run_that_copies_alone_is_not_fenced(state: RunnerState) -> None:
    """The run records are not read until it has ended."""
    leader = Leader(others={"z": runner("z", state)})
    assert leader.seconds_to_divide(ALONE) is None
    assert [heartbeat.runner for heartbeat in leader.choice.ahead] == ["z"]
    assert not leader.choice.needs_runs
    leader.others["z"] = runner("z", RunnerState.STOPPED)
    assert leader.seconds_to_divide(ALONE) == 1


def test_it_waits_neither_for_runs_that_share_nor_for_standbys() -> None:
    """Standbys wait for it."""
    others = {"a": runner("a", RunnerState.RUNNING), "b": runner("b", RunnerState.STANDBY)}
    leader = Leader(others=others, members=frozenset({"a"}))
    assert leader.seconds_to_divide(Run(0, 0)) == 2


@pytest.mark.parametrize("has_divided", [True, False])
def test_what_has_fenced_the_runs_that_share_may_begin_to_copy(has_divided: bool) -> None:
    """A run without heartbeats so far, or a command that changes positions."""
    leader = Leader()
    if has_divided:
        assert leader.seconds_to_divide(Run(0, 0)) == 2
        leader.choice.begin(READY)
    else:
        assert leader.look(SHARED, READY) == "use"
    waited = leader.seconds_to_divide(ALONE)
    assert waited is not None and GRACE_S <= waited < 2 * GRACE_S


@pytest.mark.parametrize(("slots", "choice"), [(None, "use"), (4, "use"), (6, "divide")])
def test_the_leaders_file_decides_the_number_of_slots_if_it_has_one(
    slots: int | None, choice: str
) -> None:
    assert Leader(slots).look(SHARED, READY) == choice


def test_a_layout_that_runs_no_longer_use_is_made_again() -> None:
    """An aborted record after it may be gone; another run may have begun to divide it."""
    leader = Leader()
    for _ in range(int(GRACE_S) + 5):
        assert leader.look(SHARED, READY) == "use"
    waited = 0
    while leader.look(SHARED, READY, outdated=READY.id) == "wait":
        waited += 1
    assert GRACE_S <= waited < 2 * GRACE_S
    assert leader.look(SHARED, READY) == "use", "it was not outdated"


OLDER, OWN_EDITION, LATER = (Edition(n, f"{n}" * 16) for n in (1, 2, 3))


def made_for(edition: Edition) -> SharedLayout:
    return SharedLayout(layout_id("ab", edition), 4, ready=True)


@pytest.mark.parametrize("made_by", [OLDER, UNKNOWN_EDITION])
def test_a_layout_of_an_older_file_is_replaced_at_once(made_by: Edition) -> None:
    """Also one of an earlier release, whose file is not known."""
    layout = made_for(made_by)
    choice, run = LayoutChoice(OWN, None, GRACE_S, BEAT_S), Run(7, 1, layout=layout)
    assert choice.choose(run, layout, edition=OWN_EDITION) == "divide"
    assert choice.choose(run, layout, edition=UNKNOWN_EDITION) == "use", "it does not count"


def test_a_layout_of_a_newer_file_is_left_for_the_grace_window() -> None:
    """No run with it lives, as this one leads; it may be about to start again."""
    leader, layout = Leader(edition=OWN_EDITION), made_for(LATER)
    waited = leader.seconds_to_divide(Run(7, 1, layout=layout), layout)
    assert waited is not None and GRACE_S <= waited < 2 * GRACE_S
    own = made_for(OWN_EDITION)
    assert leader.look(Run(8, 1, layout=own), own) == "use"


def test_a_run_that_leads_again_does_not_wait_for_what_it_saw_when_it_led_before() -> None:
    """Another run has divided the pipeline since, and was killed: its heartbeats say it works."""
    leader = Leader(others={"a": runner("a", RunnerState.STANDBY)})
    assert leader.look(Run(0, 0)) == "wait"
    leader.others["a"] = runner("a", RunnerState.RUNNING)
    leader.choice.begin_to_lead()
    assert leader.choice.needs_runs and not leader.choice.ahead
    assert leader.look(SHARED, READY) == "use"
