"""When a standby takes over, on simulated heartbeats of runners whose clocks mean nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.moves.journal import RunKind, Runner, RunnerState
from k2ktui.engine.ownership.standby import StandbyTurn

BEAT_S, GRACE_S, LOOK_S = 5.0, 15.0, 1.0
OWN = "m"


def runner(name: str, state: RunnerState, at_ms: int = 0, **values: object) -> Runner:
    return replace(Runner(name, "h", "u", 1, 0, at_ms, state), **values)  # type: ignore[arg-type]


@dataclass
class Simulation:
    """A standby that looks every second; each runner's clock starts at its own ``at_ms``."""

    turn: StandbyTurn
    others: dict[str, Runner]
    now: float = 0.0
    own_at: int = 0

    def look(self, *beating: str, is_blind: bool = False, own: bool = True) -> bool:
        """Whether it waits, one second later; heartbeats are sent at each fifth second."""
        self.now += LOOK_S
        if not is_blind and self.now % BEAT_S < LOOK_S:
            self.own_at += 1 if own else 0
            for name in beating:
                self.others[name] = replace(self.others[name], at_ms=self.others[name].at_ms + 1)
        mine = runner(OWN, RunnerState.STANDBY, self.own_at)
        return not self.turn.observe([mine, *self.others.values()], self.now)

    def seconds_to_turn(self, *beating: str, most: int = 100) -> int | None:
        for passed in range(most):
            if not self.look(*beating):
                return passed
        return None


def simulate(*others: Runner, quiet_s: float = 0.0) -> Simulation:
    turn = StandbyTurn(OWN, GRACE_S, BEAT_S, quiet_s)
    return Simulation(turn, {other.runner: other for other in others})


WORKING = [RunnerState.STARTING, RunnerState.RUNNING, RunnerState.STOPPING]
HOURS = st.integers(-3_600_000, 3_600_000).map(lambda ms: 1_795_262_400_000 + ms)


def test_alone_it_takes_over_at_the_second_look() -> None:
    simulation = simulate()
    assert simulation.look() and not simulation.look()


@given(st.sampled_from(WORKING), HOURS)
def test_a_runner_that_works_is_waited_for(state: RunnerState, at_ms: int) -> None:
    simulation = simulate(runner("a", state, at_ms))
    assert simulation.seconds_to_turn("a", most=300) is None


@given(st.sampled_from(WORKING), HOURS, st.integers(0, 40))
def test_a_silent_runner_is_waited_for_as_long_as_the_grace_window(
    state: RunnerState, at_ms: int, beats_s: int
) -> None:
    """Whatever the clocks say, and however long it worked before."""
    simulation = simulate(runner("z", state, at_ms))
    for _ in range(beats_s):
        assert simulation.look("z")
    waited = simulation.seconds_to_turn()
    assert waited is not None and GRACE_S - BEAT_S <= waited <= GRACE_S + 2 * BEAT_S + LOOK_S


def test_what_stopped_is_not_waited_for() -> None:
    assert simulate(runner("a", RunnerState.STOPPED)).seconds_to_turn() == 1


def test_what_a_later_term_has_fenced_is_not_waited_for() -> None:
    old = runner("a", RunnerState.RUNNING, term=3)
    new = runner("b", RunnerState.STOPPED, term=4)
    assert simulate(old, new).seconds_to_turn() == 1
    assert simulate(replace(old, term=4), new).seconds_to_turn("a") is None


def test_a_process_that_has_ended_is_not_waited_for() -> None:
    """What it had fenced before it died is still fenced."""
    old, new = (runner(name, RunnerState.RUNNING, term=n) for n, name in enumerate("ab", 3))
    mine = runner(OWN, RunnerState.STANDBY)
    turn = StandbyTurn(OWN, GRACE_S, BEAT_S)
    looks = [turn.observe([mine, old, new], float(at), ended={"b"}) for at in range(3)]
    assert looks == [False, True, True] and turn.ahead == ()
    turn = StandbyTurn(OWN, GRACE_S, BEAT_S)
    assert not any(turn.observe([mine, old, new], float(at), ended={"a"}) for at in range(3))


def test_a_run_of_sync_is_not_waited_for() -> None:
    sync = runner("a", RunnerState.RUNNING, kind=RunKind.SYNC)
    assert simulate(sync).seconds_to_turn("a") == 1


@pytest.mark.parametrize(("name", "goes_first"), [("a", True), ("z", False)])
def test_of_two_standbys_the_one_with_the_lower_id_is_next(name: str, goes_first: bool) -> None:
    simulation = simulate(runner(name, RunnerState.STANDBY))
    assert (simulation.seconds_to_turn(name) is None) == goes_first
    assert simulate(runner(name, RunnerState.STANDBY)).seconds_to_turn() is not None, "it died"


@given(st.integers(0, 1000), st.integers(1, 4))
def test_no_silence_adds_up_while_nothing_can_be_seen(blind_s: int, beats: int) -> None:
    """The target is away, or the own heartbeat cannot be written: the other one is not blamed."""
    simulation = simulate(runner("a", RunnerState.RUNNING))
    for _ in range(int(beats * BEAT_S)):
        assert simulation.look("a")
    for _ in range(blind_s):
        assert simulation.look(is_blind=True)
    assert simulation.seconds_to_turn("a", most=60) is None


@given(st.floats(0, 1e6))
def test_a_standby_that_was_suspended_blames_no_one(seconds: float) -> None:
    simulation = simulate(runner("a", RunnerState.RUNNING))
    for _ in range(20):
        assert simulation.look("a")
    simulation.now += seconds
    assert simulation.seconds_to_turn("a", most=60) is None


def test_without_own_heartbeats_it_never_takes_over() -> None:
    simulation = simulate(runner("a", RunnerState.RUNNING))
    assert all(simulation.look(own=False) for _ in range(300))
    turn = StandbyTurn(OWN, GRACE_S, BEAT_S)
    stopped = runner("a", RunnerState.STOPPED)
    assert not any(turn.observe([stopped], float(at)) for at in range(50))
    turn = StandbyTurn(OWN, GRACE_S, BEAT_S)
    assert not any(turn.observe([], float(at)) for at in range(50)), "an empty topic"
    mine = runner(OWN, RunnerState.STANDBY)
    assert [turn.observe([mine], float(at)) for at in range(50, 53)] == [False, True, True]


def test_a_run_that_was_fenced_waits_before_it_takes_over_again() -> None:
    waited = simulate(quiet_s=GRACE_S).seconds_to_turn()
    assert waited is not None and waited >= GRACE_S - 1


@given(st.sets(st.sampled_from("abcdefghij"), min_size=1), st.data())
def test_of_standbys_that_see_the_same_exactly_one_is_next(
    names: set[str], data: st.DataObject
) -> None:
    """All look at the same heartbeats, in any order; a turn is visible to the next one."""
    turns = {name: StandbyTurn(name, GRACE_S, BEAT_S) for name in names}
    records = {name: runner(name, RunnerState.STANDBY) for name in names}
    began: list[str] = []
    for second in range(1, 40):
        if second % BEAT_S == 0:
            records = {name: replace(record, at_ms=second) for name, record in records.items()}
        for name in data.draw(st.permutations(sorted(names - set(began)))):
            if turns[name].observe(records.values(), float(second)):
                began.append(name)
                records[name] = replace(records[name], state=RunnerState.STARTING)
    assert began == [min(names)]
