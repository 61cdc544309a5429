"""Screen 5: what it shows of runs here and elsewhere, and that nothing is done by accident."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.console.widgets.grid import Grid
from k2ktui.engine.journal import RunnerState
from k2ktui.errors import ExitCode
from k2ktui.jobs import manager
from k2ktui.jobs.job_directory import Phase, job_directory
from k2ktui.jobs.manager import Job
from k2ktui.jobs.process import this_process
from tests.console.jobs_support import Operator, at_console, runner, session_of
from tests.jobs.support import all_ended, begin, config_of, found, silent_port, write_pipeline
from tests.support.kafka import eventually

HOSTILE = "a[/b]\x1b]0;x\x07\u202e[@click=app.quit]x[/]"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs and keys of this test alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_pipeline(tmp_path / "orders.yaml", 1)


def kept(file: Path, *log: str, **values: object) -> Job:
    """Keep a job whose process is this one, with a log."""
    config = config_of(file)
    place = job_directory(config)
    place.make()
    me = this_process()
    record = manager._new_record(place, config, (str(file),), "", False)
    given = {"pid": me.pid, "birth": me.birth, "phase": Phase.RUNNING, "term": 3, "slots": 2}
    place.write(replace(record, **{**given, **values}))  # type: ignore[arg-type]
    place.log.write_text("".join(f"{line}\n" for line in log))
    job = manager.read_job(place)
    assert job is not None
    return job


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (200, 60)])
def test_runs_here_and_elsewhere(file: Path, size: tuple[int, int]) -> None:
    job = kept(file, '{"event":"note","at":1,"text":"hello"}')
    own = runner(
        manager.this_host(),
        pid=job.record.pid,
        lap=7,
        lag_records=12,
        started_ms=int(job.record.started_at * 1000),
    )
    elsewhere = runner("bastion2", at_ms=own.at_ms - 60_000, last_error=HOSTILE)

    async def steps(operator: Operator) -> None:
        await operator.sees("running", "here", "silent", "bastion2", "note: hello", "00:00:01")
        assert f"running on this host, pid {os.getpid()}" in operator.screen
        if size[0] >= 80:
            assert "12" in operator.screen
        assert "\x1b" not in operator.screen and "\u202e" not in operator.screen
        await operator.press("j")
        await operator.sees("No log of this run on this host")
        await operator.press("l")
        await operator.sees("on the host where")

    at_console(session_of(file, own, elsewhere), steps, size)


def test_the_overview_and_jobs_say_the_same_of_a_run(file: Path) -> None:
    """A job that has just been started has sent no heartbeat; the last one is of another run."""
    now = int(time.time() * 1000)
    over = runner(state=RunnerState.STOPPED, started_ms=now - 9_000_000)
    job = kept(file, phase=Phase.STARTING, term=0)

    async def steps(operator: Operator) -> None:
        await operator.sees("starting", "stopped")
        await operator.press("1")
        await operator.sees("starting", "no heartbeat yet")
        (line,) = (each for each in operator.screen.splitlines() if each.startswith(" Job "))
        assert "starting" in line and "stopped" not in line
        assert "no job is running" not in operator.screen
        ended = replace(job.record, phase=Phase.ENDED, ended_at=time.time(), error="boo")
        job.place.write(ended)
        await operator.sees("stopping")
        await operator.press("5")
        await operator.sees("stopping")
        job.place.write(replace(ended, pid=2**22 + 1))
        await operator.press("1")
        await operator.sees("failed", "no job is running")
        await operator.press("5")
        await operator.sees("failed")

    at_console(session_of(file, over), steps)


def test_a_hostile_log_and_a_hostile_name_are_only_text(tmp_path: Path) -> None:
    file = write_pipeline(tmp_path / "p.yaml", 1, name=HOSTILE)
    kept(file, HOSTILE, '{"event":"error","at":1,"what":"\\u001b[2J[red]x"}', "last line")

    async def steps(operator: Operator) -> None:
        await operator.sees("last line", "\\x1b[2J[red]x")
        await operator.press("enter")
        await operator.sees("3 ", "a[/b]\\x1b]0;x")
        await operator.press("g", "enter")
        assert "\x1b" not in operator.screen + operator.notices
        await operator.press("escape", "X")
        await operator.sees("Stop a[/b]")
        await operator.press("escape")

    at_console(session_of(file), steps)


def test_a_log_is_followed_and_filtered(file: Path) -> None:
    job = kept(file, *(f"line {number}" for number in range(100)))

    async def steps(operator: Operator) -> None:
        await operator.sees("line 99")
        await operator.press("enter")
        await operator.sees("line 99", "Log of orders-", "f Follow")
        with job.place.log.open("a") as log:
            log.write("one more\n")
        await operator.sees("one more")
        await operator.press("g")
        with job.place.log.open("a") as log:
            log.write("out of sight\n")
        await operator.press("slash")
        await operator.type("sight")
        await operator.sees("out of sight")
        assert "line 1" not in operator.screen
        await operator.press("escape", "escape", "q")
        await operator.sees("Log of")

    at_console(session_of(file), steps)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"read_only": True}, "--read-only"),
        ({"environment": "production"}, "production"),
        ({"replay": True}, "recording"),
    ],
)
def test_what_may_not_be_written_is_greyed_with_the_reason(
    file: Path, given: dict[str, object], reason: str
) -> None:
    kept(file)

    async def steps(operator: Operator) -> None:
        for key in ("J", "X", "R"):
            await operator.press(key)
            assert not operator.app.screen.is_modal
        await operator.sees(reason)

    at_console(session_of(file, runner(), **given), steps)  # type: ignore[arg-type]


def test_what_runs_elsewhere_is_stopped_there(file: Path) -> None:
    async def steps(operator: Operator) -> None:
        await operator.sees("bastion2")
        await operator.press("X")
        await operator.sees("Stop: it runs on bastion2")

    at_console(session_of(file, runner()), steps)


@pytest.mark.parametrize("before", ["on the ended run", "on a run elsewhere"])
def test_the_cursor_goes_to_the_run_that_is_started(
    file: Path, before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time.time() - 600
    gone = {"pid": 2**22 + 1, "birth": "0", "started_at": began, "phase": Phase.ENDED}
    ended = kept(file, **gone, ended_at=began + 60, code=0)
    hosts = {"pid": 2**22 + 1, "started_ms": int(began * 1000), "at_ms": int(began * 1000) + 50_000}
    last = runner(manager.this_host(), state=RunnerState.STOPPED, **hosts)
    elsewhere = runner("bastion2", pid=4712)
    begun: list[Job] = []

    def start(*_: object, **__: object) -> Job:
        begun.append(kept(file))
        return begun[0]

    async def agree(_: object) -> bool:
        return True

    async def steps(operator: Operator) -> None:
        await operator.sees("bastion2", "stopped")
        grid = operator.app.screen.query_one(Grid)
        place = ended.place.id if before == "on the ended run" else elsewhere.runner
        # The runs of this host are read by a worker: its row may come after the heartbeats.
        await operator.until(lambda: grid.select(place), "the run in the table")
        monkeypatch.setattr(manager, "start_job", start)
        monkeypatch.setattr(manager, "await_running", lambda job: job)
        monkeypatch.setattr(operator.app, "push_screen_wait", agree)
        await operator.press("J")

        def is_there() -> bool:
            job = grid.current.job if grid.current else None
            return bool(begun and job and job.record.start == begun[0].record.start)

        await operator.until(is_there, "on the new run")
        # It was moved once; the operator moves it away.
        await operator.press("G")
        await operator.until(lambda: not is_there(), "on another run")
        operator.app.session.feed.refresh()
        await operator.pilot.pause()
        assert not is_there()

    at_console(session_of(file, last, elsewhere), steps)


def test_nothing_is_stopped_by_enter_or_by_a_wrong_name(file: Path) -> None:
    job = kept(file)  # its process is this one: a stop would end the test

    async def steps(operator: Operator) -> None:
        await operator.sees("running")
        for keys in (
            ("enter", "enter", "space"),
            ("o", "r", "d", "enter", "space"),
            ("o", "r", "d", "e", "r", "tab", "enter", "space", "escape"),
            (*"orders", "enter", "enter", "escape"),
        ):
            await operator.press("X")
            await operator.sees("Stop orders")
            await operator.press(*keys)
            await operator.press("escape")
            await operator.until(lambda: not operator.app.screen.is_modal, "closed")
        assert operator.notices == ""

    at_console(session_of(file), steps)
    assert found(job).alive


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Path]:
    """A pipeline whose clusters take connections and say nothing."""
    with silent_port() as port, all_ended():
        yield write_pipeline(tmp_path / "waiting.yaml", port)


@pytest.mark.slow
def test_a_job_is_found_stopped_and_its_death_is_told(waiting: Path) -> None:
    job = begin(waiting)

    async def steps(operator: Operator) -> None:
        await operator.sees("starting", f"pid {job.record.pid}")
        await operator.press("X")
        await operator.sees("Stop orders")
        await operator.type("orders")
        await operator.press("tab", "space")
        await operator.sees("orders has stopped", "no run is alive")
        again = begin(waiting)
        await operator.sees("starting", f"{again.record.pid}")
        again.record.identity.signal(signal.SIGKILL)
        await operator.sees("died")

    at_console(session_of(waiting), steps)
    assert not job.record.identity.alive


@pytest.mark.slow
def test_where_a_cluster_does_not_answer_it_cannot_be_started(file: Path) -> None:
    async def steps(operator: Operator) -> None:
        await operator.press("J")
        await operator.sees("Start orders", "checking", "pass Java")
        await operator.sees("cannot be started", "FAIL source cluster")
        await operator.type("orders")
        await operator.press("tab", "space", "escape")
        await operator.until(lambda: not operator.app.screen.is_modal, "closed")

    at_console(session_of(file), steps)
    assert manager.list_jobs() == []


@pytest.mark.slow
def test_a_console_that_is_closed_leaves_the_job(waiting: Path) -> None:
    job = begin(waiting)

    async def steps(operator: Operator) -> None:
        await operator.sees("starting")
        await operator.press("q")

    at_console(session_of(waiting), steps)
    # The job gives up on its own when the silent clusters have not answered. A job that the console
    # had ended would have been interrupted.
    eventually(lambda: not found(job).alive, "it ends")
    assert found(job).code == ExitCode.CONNECTION


def test_a_runner_that_says_goodbye_is_stopped_and_the_latest_is_first(file: Path) -> None:
    gone = runner("old", state=RunnerState.STOPPED, started_ms=1)

    async def steps(operator: Operator) -> None:
        await operator.sees("stopped", "running")
        lines = operator.screen.splitlines()
        order = [next(n for n, line in enumerate(lines) if host in line) for host in ("new", "old")]
        assert order == sorted(order)

    at_console(session_of(file, gone, runner("new")), steps)
