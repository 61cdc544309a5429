"""Screen 5: what it shows of runs here and elsewhere, and that nothing is done by accident."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from k2ktui.console.widgets import start_dialog
from k2ktui.console.widgets.grid import Grid
from k2ktui.engine.moves.journal import Runner, RunnerState
from k2ktui.errors import ExitCode
from k2ktui.jobs import local_jobs, manager
from k2ktui.jobs.checks import start_checks
from k2ktui.jobs.job_directory import Phase, job_directory
from k2ktui.jobs.local_jobs import Job
from k2ktui.jobs.process import this_process
from k2ktui.replication.preflight.checks import Check
from tests.support.clusters.kafka import TIMEOUT, eventually
from tests.support.console.driver import ConsoleDriver, drive_session, file_session
from tests.support.console.views import runner
from tests.support.drill.made_drills import switched_over
from tests.support.jobs.jobs import (
    all_ended,
    begin,
    config_of,
    found,
    handles,
    silent_port,
    write_pipeline,
)

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
    record = manager.new_record(place, config, (str(file),), "", False)
    given = {"pid": me.pid, "birth": me.birth, "phase": Phase.RUNNING, "term": 3, "slots": 2}
    place.write(replace(record, **{**given, **values}))  # type: ignore[arg-type]
    place.log.write_text("".join(f"{line}\n" for line in log))
    job = local_jobs.read_job(place)
    assert job is not None
    return job


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (200, 60)])
def test_runs_here_and_elsewhere(file: Path, size: tuple[int, int]) -> None:
    job = kept(file, '{"event":"note","at":1,"text":"hello"}')
    own = runner(
        local_jobs.this_host(),
        pid=job.record.pid,
        lap=7,
        lag_records=12,
        started_ms=int(job.record.started_at * 1000),
    )
    elsewhere = runner("bastion2", at_ms=own.at_ms - 60_000, last_error=HOSTILE)

    async def steps(console: ConsoleDriver) -> None:
        await console.sees("running", "here", "silent", "bastion2", "note: hello", "00:00:01")
        assert f"running on this host, pid {os.getpid()}" in console.text
        if size[0] >= 80:
            assert "12" in console.text
        assert "\x1b" not in console.text and "\u202e" not in console.text
        await console.press("j")
        await console.sees("The log is on bastion2", "k2ktui jobs log -f FILE")
        await console.press("l")
        await console.sees("ann on bastion2, pid 4711")
        # What uses its memory is known on that host only.
        line = console.line("Processors")
        assert "—" in line and "█" not in line and "┄" not in line
        assert "\x1b" not in console.text and "\u202e" not in console.text

    drive_session(file_session(file, own, elsewhere), steps, size, screen="5")


def test_the_summary_counts_the_runs_that_share_the_pipeline_and_standbys(file: Path) -> None:
    """Two runs that do not share it are two that must not be."""
    shared = [runner(host, term=3, slots=1, generation=7, owned=(0,)) for host in ("b1", "b2")]
    waits = runner("b3", state=RunnerState.STANDBY)

    def shows(text: str, *beats: Runner) -> None:
        async def steps(console: ConsoleDriver) -> None:
            await console.sees(text)

        # A console may start after the heartbeats of the one before it are old.
        newest = [replace(beat, at_ms=int(time.time() * 1000)) for beat in beats]
        drive_session(file_session(file, *newest), steps, (120, 30), screen="5")

    shows("; shared by 2 runs, generation 7, 1 standby", *shared, waits)
    shows("; 1 standby", shared[0], waits)
    alone = [replace(runner, generation=0, owned=()) for runner in shared]
    shows("2 runs at the same time: the older one is being fenced", *alone, waits)


def test_the_overview_and_jobs_say_the_same_of_a_run(file: Path) -> None:
    """A job that has just been started has sent no heartbeat; the last one is of another run."""
    now = int(time.time() * 1000)
    over = runner(state=RunnerState.STOPPED, started_ms=now - 9_000_000)
    job = kept(file, phase=Phase.STARTING, term=0)

    async def steps(console: ConsoleDriver) -> None:
        await console.sees("starting", "stopped")
        await console.press("1")
        await console.sees("starting", "no heartbeat yet")
        (line,) = (line for line in console.text.splitlines() if line.startswith(" Job "))
        assert "starting" in line and "stopped" not in line
        assert "no job is running" not in console.text
        ended = replace(job.record, phase=Phase.ENDED, ended_at=time.time(), error="boo")
        job.place.write(ended)
        await console.sees("stopping")
        await console.press("5")
        await console.sees("stopping")
        job.place.write(replace(ended, pid=2**22 + 1))
        await console.press("1")
        await console.sees("failed", "no job is running")
        await console.press("5")
        await console.sees("failed")

    drive_session(file_session(file, over), steps, screen="5")


def test_a_hostile_log_and_a_hostile_name_are_only_text(tmp_path: Path) -> None:
    file = write_pipeline(tmp_path / "p.yaml", 1, name=HOSTILE)
    kept(file, HOSTILE, '{"event":"error","at":1,"message":"\\u001b[2J[red]x"}', "last line")

    async def steps(console: ConsoleDriver) -> None:
        await console.sees("last line", "\\x1b[2J[red]x")
        await console.press("enter")
        await console.sees("3 ", "a[/b]\\x1b]0;x")
        await console.press("g", "enter")
        assert "\x1b" not in console.text + console.notices
        await console.press("escape", "X")
        await console.sees("Stop a[/b]")
        await console.press("escape")

    drive_session(file_session(file), steps, screen="5")


def test_a_log_is_followed_and_filtered(file: Path) -> None:
    job = kept(file, *(f"line {number}" for number in range(100)))

    async def steps(console: ConsoleDriver) -> None:
        await console.sees("line 99")
        await console.press("enter")
        await console.sees("line 99", "100 lines of", "f Follow")
        with job.place.log.open("a") as log:
            log.write("one more\n")
        await console.sees("one more")
        await console.press("g")
        with job.place.log.open("a") as log:
            log.write("out of sight\n")
        await console.press("slash")
        await console.type("sight")
        await console.sees("out of sight")
        assert "line 1" not in console.text
        await console.press("escape", "escape", "q")
        await console.sees("Log of")

    drive_session(file_session(file), steps, screen="5")


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

    async def steps(console: ConsoleDriver) -> None:
        for key in ("J", "X", "R"):
            await console.press(key)
            assert not console.screen.is_modal
        await console.sees(reason)

    drive_session(file_session(file, runner(), **given), steps, screen="5")  # type: ignore[arg-type]


def test_a_fenced_pipeline_is_not_started_and_the_way_back_is_said_at_once(file: Path) -> None:
    drill = switched_over()
    session = file_session(file)
    session.feed.made.drills = (drill,)  # type: ignore[attr-defined]

    async def steps(console: ConsoleDriver) -> None:
        await console.sees(f"failed over to the target, drill {drill.id}", "fenced")
        await console.press("J")
        assert not console.screen.is_modal
        await console.until(lambda: "was fenced by drill" in console.notices, "refused")
        for text in (drill.id, "2026-11-21", "k2ktui drill failback -f", "orders-reverse.yaml"):
            assert text in console.notices, console.notices

    drive_session(session, steps, screen="5")


def test_what_runs_elsewhere_is_stopped_there(file: Path) -> None:
    async def steps(console: ConsoleDriver) -> None:
        await console.sees("bastion2")
        await console.press("X")
        await console.sees("Stop: it runs on bastion2")

    drive_session(file_session(file, runner()), steps, screen="5")


@pytest.mark.parametrize("before", ["on the ended run", "on a run elsewhere"])
def test_the_cursor_goes_to_the_run_that_is_started(
    file: Path, before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    began = time.time() - 600
    gone = {"pid": 2**22 + 1, "birth": "0", "started_at": began, "phase": Phase.ENDED}
    ended = kept(file, **gone, ended_at=began + 60, code=0)
    hosts = {"pid": 2**22 + 1, "started_ms": int(began * 1000), "at_ms": int(began * 1000) + 50_000}
    last = runner(local_jobs.this_host(), state=RunnerState.STOPPED, **hosts)
    elsewhere = runner("bastion2", pid=4712)
    begun: list[Job] = []

    def start(*_: object, **__: object) -> Job:
        begun.append(kept(file))
        return begun[0]

    async def agree(_: object) -> bool:
        return True

    async def steps(console: ConsoleDriver) -> None:
        await console.sees("bastion2", "stopped")
        grid = console.screen.query_one(Grid)
        place = ended.place.id if before == "on the ended run" else elsewhere.runner
        # The runs of this host are read by a worker: its row may come after the heartbeats.
        await console.until(lambda: grid.select(place), "the run in the table")
        monkeypatch.setattr(manager, "start_job", start)
        monkeypatch.setattr(manager, "await_running", lambda job: job)
        monkeypatch.setattr(console.app, "push_screen_wait", agree)
        await console.press("J")

        def is_there() -> bool:
            job = grid.current.job if grid.current else None
            return bool(begun and job and job.record.start == begun[0].record.start)

        await console.until(is_there, "on the new run")
        # It was moved once; the console moves it away.
        await console.press("G")
        await console.until(lambda: not is_there(), "on another run")
        console.app.session.feed.refresh()
        await console.pilot.pause()
        assert not is_there()

    drive_session(file_session(file, last, elsewhere), steps, screen="5")


def test_nothing_is_stopped_without_the_name_or_by_a_pasted_one(file: Path) -> None:
    job = kept(file)  # its process is this one: a stop would end the test

    async def steps(console: ConsoleDriver) -> None:
        await console.sees("running")
        for keys in (
            ("enter", "enter", "space"),
            ("o", "r", "d", "enter", "space"),
            ("o", "r", "d", "e", "r", "tab", "enter", "space", "escape"),
            (*"orders", "enter"),
        ):
            await console.press("X")
            await console.sees("Stop orders")
            await (console.press_at_once(*keys) if "s" in keys else console.press(*keys))
            await console.press("escape")
            await console.until(lambda: not console.screen.is_modal, "closed")
        assert set(console.notices.splitlines()) == {"Nothing was changed."}

    drive_session(file_session(file), steps, screen="5")
    assert found(job).alive


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Path]:
    """A pipeline whose clusters take connections and say nothing."""
    with silent_port() as port, all_ended():
        yield write_pipeline(tmp_path / "waiting.yaml", port)


@pytest.mark.slow
def test_a_job_is_found_stopped_and_its_death_is_reported(
    waiting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may need more than the ten seconds after which an operator is told to go on.
    monkeypatch.setattr(manager, "stop_job", partial(manager.stop_job, timeout=TIMEOUT))
    ended: list[Job] = []

    async def steps(console: ConsoleDriver) -> None:
        # Not before the console is open: the job gives its clusters up after some seconds.
        job = begin(waiting)
        ended.append(job)
        await console.sees("starting", f"pid {job.record.pid}")
        await console.until(lambda: handles(job, signal.SIGTERM), "stopped, not killed, by it")
        await console.press("X")
        await console.sees("Stop orders")
        await console.type("orders")
        await console.press("tab", "space")
        await console.sees("orders has stopped", "no run is alive")
        again = begin(waiting)
        await console.sees("starting", f"{again.record.pid}")
        again.record.identity.signal(signal.SIGKILL)
        await console.sees("died")

    drive_session(file_session(waiting), steps, screen="5")
    assert not ended[0].record.identity.alive


@pytest.mark.slow
def test_where_a_cluster_does_not_answer_it_cannot_be_started(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = threading.Event()

    def checks(*given: Any, **how: Any) -> Iterator[Check]:
        for check in start_checks(*given, **how):
            yield check
            # Those that follow move it out of sight, and then nothing is checked any more.
            assert check.name != "Java" or seen.wait(TIMEOUT)

    monkeypatch.setattr(start_dialog, "start_checks", checks)

    async def steps(console: ConsoleDriver) -> None:
        await console.press("J")
        await console.sees("Start orders", "checking", "pass Java")
        seen.set()
        await console.sees("cannot be started", "FAIL source cluster")
        await console.type("orders")
        await console.press("tab", "space", "escape")
        await console.until(lambda: not console.screen.is_modal, "closed")

    drive_session(file_session(file), steps, screen="5")
    assert local_jobs.list_jobs() == []


@pytest.mark.slow
def test_a_console_that_is_closed_leaves_the_job(waiting: Path) -> None:
    begun: list[Job] = []

    async def steps(console: ConsoleDriver) -> None:
        begun.append(begin(waiting))
        await console.sees("starting")
        await console.press("q")

    drive_session(file_session(waiting), steps, screen="5")
    # The job gives up on its own when the silent clusters have not answered. A job that the console
    # had ended would have been interrupted.
    (job,) = begun
    eventually(lambda: not found(job).alive, "it ends")
    assert found(job).code == ExitCode.TIMEOUT


def test_a_runner_that_says_goodbye_is_stopped_and_the_latest_is_first(file: Path) -> None:
    gone = runner("old", state=RunnerState.STOPPED, started_ms=1)

    async def steps(console: ConsoleDriver) -> None:
        await console.sees("stopped", "running")
        lines = console.text.splitlines()
        order = [next(n for n, line in enumerate(lines) if host in line) for host in ("new", "old")]
        assert order == sorted(order)

    drive_session(file_session(file, gone, runner("new")), steps, screen="5")


def test_sync_is_checked_and_asked_for_as_the_pipeline_is(file: Path) -> None:
    """Also where nothing is copied: a file without ``replication`` has no other job."""

    async def steps(console: ConsoleDriver) -> None:
        await console.press("Y")
        await console.sees("Start k2ktui sync for", "FAIL source cluster")
        await console.sees("k2ktui sync cannot be started")
        assert "Java" not in console.text
        await console.press("escape")

    drive_session(file_session(file), steps, screen="5")
