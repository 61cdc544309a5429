"""A background runner repeats, reports, backs off and stops."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from k2ktui.errors import K2kError, Refused, TimedOut
from k2ktui.runtime import background
from k2ktui.runtime.background import BackgroundRunner, pause_after

WAIT_S = 120.0


class Sample(BackgroundRunner):
    """Runs what the test puts in; lets the test wait for a number of turns."""

    failing = "nothing is copied"
    recovered = "it is copied again"
    refusals = (Refused,)

    def __init__(self, work: Callable[[], None] = lambda: None, **options: Any) -> None:
        self.reports: list[str] = []
        self.reported_at: list[float] = []
        self.now = 0.0
        self.turns = 0
        self.closed = threading.Event()
        self.thread_name = ""
        self._changed = threading.Condition()
        self._do = work
        interval = options.pop("interval_s", 0.0)
        report = options.pop("report", self._take)
        super().__init__("sample", interval, report, clock=lambda: self.now, **options)

    def _take(self, text: str) -> None:
        self.reports.append(text)
        self.reported_at.append(self.now)

    def work(self) -> None:
        self.thread_name = threading.current_thread().name
        try:
            self._do()
        finally:
            with self._changed:
                self.turns += 1
                self._changed.notify_all()

    def close(self) -> None:
        self.closed.set()

    def await_turn(self, number: int) -> None:
        """Wait until this turn has ended, counted from 1."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.turns >= number, WAIT_S)

    def await_turns(self, more: int = 2) -> None:
        """Wait until so many more turns have ended; the reports of all but the last are there."""
        with self._changed:
            until = self.turns + more
            assert self._changed.wait_for(lambda: self.turns >= until, WAIT_S)


class Switch:
    """Work that fails while an error is set."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def __call__(self) -> None:
        error = self.error  # a test may clear it at any time
        if error is not None:
            raise error


def test_it_repeats_on_its_own_thread_until_the_context_ends() -> None:
    with Sample(stop_s=WAIT_S) as runner:
        runner.await_turns(5)
    assert runner.closed.is_set() and runner.thread_name == "sample"
    assert runner.reports == []
    turns = runner.turns
    assert runner.stop() and runner.turns == turns, "a second stop has no effect"


def test_the_first_turn_comes_at_once_if_asked_for() -> None:
    with Sample(interval_s=1e6, immediately=True, stop_s=WAIT_S) as runner:
        runner.await_turn(1)
    assert runner.turns == 1, "the next one would come after the interval"


def test_otherwise_it_comes_after_the_interval() -> None:
    with Sample(interval_s=1e6, stop_s=WAIT_S) as runner:
        pass
    assert runner.turns == 0 and runner.closed.is_set()


def test_an_urgent_turn_comes_before_its_time() -> None:
    urgent = threading.Event()

    def is_urgent() -> bool:
        return urgent.is_set()

    with Sample(urgent.clear, interval_s=1e6, is_urgent=is_urgent, stop_s=WAIT_S) as runner:
        for number in (1, 2):
            urgent.set()
            runner.await_turn(number)
    assert runner.turns == 2


def test_a_defect_in_what_is_urgent_is_reported_by_a_turn() -> None:
    switch, is_reported = Switch(), threading.Event()

    def is_urgent() -> bool:
        switch()
        return False

    def report(text: str) -> None:
        is_reported.set()

    with Sample(
        switch, interval_s=1e6, is_urgent=is_urgent, report=report, stop_s=WAIT_S
    ) as runner:
        switch.error = TimedOut("the target does not answer")
        assert is_reported.wait(WAIT_S) and not runner.has_ended
    assert runner.turns == 1, "it backs off"


def test_a_failure_is_reported_once_and_then_at_growing_intervals() -> None:
    switch = Switch(TimedOut("the target does not answer.", hint="Start it."))
    with Sample(switch, stop_s=WAIT_S) as runner:
        for now in range(0, 8 * 60, 10):
            runner.now = float(now)
            runner.await_turns(3)
        assert runner.reported_at == [0, 60, 180, 420]
        assert set(runner.reports) == {
            "nothing is copied: the target does not answer. Fix: Start it"
        }
        switch.error = None
        runner.await_turns(3)
        assert runner.reports[-1] == "it is copied again" and len(runner.reports) == 5
        switch.error = K2kError("again")
        runner.await_turns(3)
        assert runner.reports[5:] == ["nothing is copied: again"], "a new failure is not throttled"


def test_an_unexpected_exception_is_reported_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    switch = Switch(TimedOut("the target does not answer"))
    with Sample(switch, stop_s=WAIT_S) as runner:
        runner.await_turns(3)
        switch.error = KeyError("hunter2")
        runner.await_turns(5)
        assert len(runner.reports) == 2, "although another failure was reported just now; once"
        switch.error = None
        runner.await_turns(3)
    (kept,) = tmp_path.rglob("crash-*.txt")
    assert "KeyError" in runner.reports[1] and str(kept) in runner.reports[1]
    assert "in __call__" in kept.read_text() and "hunter2" not in kept.read_text()
    assert runner.reports[2:] == ["it is copied again"], "the thread has survived it"


def test_an_error_that_no_turn_can_cure_ends_the_thread() -> None:
    with Sample(Switch(Refused("no such topic")), last_turn=True, stop_s=WAIT_S) as runner:
        assert runner.closed.wait(WAIT_S)
    assert runner.turns == 1 and runner.reports == ["nothing is copied: no such topic"]


def test_a_refusal_after_turns_that_succeeded_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "_REFUSED_PAUSE_S", 0.01)
    failing = Switch(None)
    with Sample(failing) as runner:
        runner.await_turns(1)
        failing.error = Refused("not now")
        runner.await_turns(3)
        failing.error = None
        runner.await_turns(3)  # one may have begun before
    assert runner.reports == ["nothing is copied: not now", "it is copied again"]


def test_pauses_grow_with_failures_up_to_a_bound() -> None:
    assert [pause_after(n, 2.0, 60.0) for n in range(8)] == [2, 2, 4, 8, 16, 32, 60, 60]
    assert pause_after(100_000, 2.0, 60.0) == 60.0
    assert pause_after(5, 600.0, 60.0) == 600.0, "never shorter than the interval"


def test_the_thread_backs_off(monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    class Recorded(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout or 0.0)
            return super().wait(0 if len(pauses) < 6 else WAIT_S)

    with monkeypatch.context() as patch:
        recorded = SimpleNamespace(Event=Recorded, Thread=threading.Thread)
        patch.setattr(background, "threading", recorded)
        runner = Sample(Switch(TimedOut("no answer")), interval_s=20.0)
    with runner:
        runner.await_turn(5)
        assert runner.stop(WAIT_S)
    assert pauses[:6] == [20.0, 20.0, 40.0, 60.0, 60.0, 60.0]


def test_one_more_turn_is_done_at_the_end_if_asked_for() -> None:
    runner = Sample(Switch(TimedOut("no answer")), interval_s=1e6, last_turn=True)
    runner.start()
    assert runner.stop(WAIT_S)
    assert runner.turns == 1 and runner.reports == ["nothing is copied: no answer"]


def test_a_failure_during_the_end_is_not_reported() -> None:
    began, may_end = threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        assert may_end.wait(WAIT_S)
        raise TimedOut("the connection was closed")

    runner = Sample(work, immediately=True)
    runner.start()
    assert began.wait(WAIT_S)
    assert not runner.stop(), "the turn still runs: stop returns nevertheless"
    may_end.set()
    assert runner.stop(WAIT_S) and runner.closed.is_set()
    assert runner.reports == []


def test_a_runner_that_never_began_can_be_stopped() -> None:
    runner = Sample()
    assert runner.stop(WAIT_S) and runner.turns == 0


def test_a_report_that_fails_does_not_end_the_thread() -> None:
    switch = Switch(TimedOut("no answer"))
    report = Switch(OSError("the terminal is gone"))
    with Sample(switch, stop_s=WAIT_S, report=lambda _: report()) as runner:
        runner.await_turns(5)


def test_a_failed_close_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    class Clumsy(Sample):
        def close(self) -> None:
            raise ValueError

    with Clumsy(last_turn=True, stop_s=WAIT_S) as runner:
        pass
    assert "ValueError" in runner.reports[0]
