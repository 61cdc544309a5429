"""Which runs are alive, whatever their clocks say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from k2ktui.engine.moves.journal import SILENT_AFTER_MS, Runner, RunnerState
from k2ktui.sync.liveness import SETTLE_S, HeartbeatObserver

HOUR_MS = 3_600_000


class Clocks:
    """A reader's clocks, which a test moves."""

    def __init__(self) -> None:
        self.passed = 0.0

    def monotonic(self) -> float:
        return 7.0 + self.passed

    def wall(self) -> float:
        return 1_800_000_000.0 + self.passed

    @property
    def now_ms(self) -> int:
        return int(self.wall() * 1000)


def observer(clocks: Clocks) -> HeartbeatObserver:
    return HeartbeatObserver(clocks.monotonic, clocks.wall)


def runner(at_ms: int, name: str = "r", term: int = 0) -> Runner:
    return Runner(name, "h", "u", 1, at_ms, at_ms, RunnerState.RUNNING, term=term)


@pytest.mark.parametrize("skew_ms", [-HOUR_MS, 0, HOUR_MS])
def test_a_run_lives_as_long_as_it_beats(skew_ms: int) -> None:
    clocks = Clocks()
    watch = observer(clocks)
    for _ in range(5):
        (seen,) = watch.observe([runner(clocks.now_ms + skew_ms)])
        clocks.passed += 5.0
    assert not watch.unsure()
    assert seen.alive(clocks.now_ms), "five seconds ago"
    last = seen
    for _ in range(3):
        (seen,) = watch.observe([last])
        clocks.passed += 5.0
    assert seen.standing(clocks.now_ms) is RunnerState.SILENT
    assert clocks.now_ms - seen.last_ms == SILENT_AFTER_MS + 5000


@pytest.mark.parametrize("skew_ms", [-HOUR_MS, HOUR_MS])
def test_one_reading_of_a_strange_clock_proves_nothing(skew_ms: int) -> None:
    clocks = Clocks()
    watch = observer(clocks)
    record = runner(clocks.now_ms + skew_ms)
    watch.observe([record])
    assert watch.unsure() == ["r"]
    clocks.passed += SETTLE_S
    (seen,) = watch.observe([record])
    assert not watch.unsure()
    assert seen.standing(clocks.now_ms) is RunnerState.SILENT


def test_what_is_not_waited_for() -> None:
    clocks = Clocks()
    watch = observer(clocks)
    old = clocks.now_ms - HOUR_MS
    stopped = replace(runner(old, "stopped"), state=RunnerState.STOPPED)
    fenced, fresh = runner(old, "fenced", term=3), runner(clocks.now_ms - 900, "fresh", term=4)
    runners = watch.observe([stopped, fenced, fresh])
    assert not watch.unsure()
    assert [runner_.runner for runner_ in runners if runner_.alive(clocks.now_ms)] == ["fresh"]
    assert runners[0].runner == "fresh"
