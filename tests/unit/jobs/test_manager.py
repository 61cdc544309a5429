"""Jobs as processes: they outlive who started them, one at a time, with true states."""

from __future__ import annotations

import json
import os
import pty
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from k2ktui.cli.jobs import jobs
from k2ktui.engine.access import access
from k2ktui.errors import K2kError, Refused
from k2ktui.jobs import joblog, local_jobs, manager
from k2ktui.jobs.job_directory import JobDirectory, Phase, job_directory, list_job_directories
from k2ktui.jobs.local_jobs import Job, JobState
from k2ktui.jobs.manager import StopMode
from k2ktui.jobs.process import this_process
from k2ktui.runtime.host import birth_of
from k2ktui.text import safe_text
from tests.support.clusters.kafka import TIMEOUT, eventually
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.commands.in_process import invoke
from tests.support.jobs.jobs import (
    MAY,
    all_ended,
    begin,
    config_of,
    found,
    handles,
    silent_port,
    write_pipeline,
)

_IN_A_TERMINAL = """
import os, sys
from k2ktui.config.load import load
from k2ktui.engine.access import access
from k2ktui.jobs import joblog, local_jobs, manager
job = manager.start_job(load([sys.argv[1]]).config, [sys.argv[1]], access())
os.write(1, b"pid %d.\\n" % job.record.pid)
sys.stdin.read()
"""


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    """A pipeline that waits for its clusters; its job is gone at the end."""
    with silent_port() as port, all_ended():
        yield write_pipeline(tmp_path / "orders.yaml", port)


def write_record(place: JobDirectory, job: Job, **values: object) -> None:
    place.write(replace(job.record, **values))  # type: ignore[arg-type]


@pytest.mark.slow
def test_a_job_is_detached_has_no_terminal_and_is_for_its_user_alone(file: Path) -> None:
    job = begin(file)
    process = psutil.Process(job.record.pid)
    assert os.getpid() not in [parent.pid for parent in process.parents()]
    assert os.getsid(process.pid) != os.getsid(0)
    assert os.getsid(process.pid) != process.pid, "it leads no session, so it gets no terminal"
    assert process.terminal() is None
    for path in (job.place.directory, *job.place.directory.iterdir()):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    process.send_signal(signal.SIGHUP)
    eventually(lambda: process.num_threads() > 1, "it continues")
    assert found(job).alive
    ended = manager.stop_job(found(job), MAY, timeout=TIMEOUT)
    assert ended.state is JobState.STOPPED
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


@pytest.mark.slow
def test_a_job_outlives_the_terminal_that_started_it(file: Path) -> None:
    master, terminal = pty.openpty()
    shell = subprocess.Popen(
        ["setsid", "--ctty", sys.executable, "-c", _IN_A_TERMINAL, str(file)],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    os.close(terminal)
    said = b""
    while b"." not in said:
        said += os.read(master, 1024)
    os.close(master)
    shell.wait(TIMEOUT)
    (job,) = local_jobs.list_jobs()
    assert f"pid {job.record.pid}." in said.decode()
    assert job.alive, "somebody else finds it"
    listed = k2ktui_json("jobs", "list")["jobs"]
    assert [(row["pid"], row["alive"], row["here"]) for row in listed] == [
        (job.record.pid, True, True)
    ]


@pytest.mark.slow
def test_of_two_starts_at_once_one_is_refused(file: Path) -> None:
    config = config_of(file)

    def attempt(_: int) -> Job | K2kError:
        try:
            return manager.start_job(config, [str(file)], MAY)
        except Refused as error:
            return error

    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(attempt, range(2)))
    (job,) = [end for end in ends if isinstance(end, Job)]
    (error,) = [end for end in ends if isinstance(end, Refused)]
    assert "already" in error.message
    assert found(job).alive
    with pytest.raises(Refused, match=f"pid {job.record.pid}"):
        begin(file)


@pytest.mark.slow
def test_a_killed_job_has_died_and_can_be_started_again(file: Path) -> None:
    job = begin(file)
    os.kill(job.record.pid, signal.SIGKILL)
    died = eventually(lambda: (j := found(job)).state is JobState.DIED and j, "it is seen")
    assert "without an exit code" in died.why
    again = begin(file)
    assert again.alive
    assert again.record.starts == 2
    killed = manager.stop_job(again, MAY, StopMode.KILL)
    assert killed.state is JobState.FAILED
    assert "killed by an operator" in killed.why


@pytest.mark.slow
def test_a_job_that_cannot_begin_shows_why(tmp_path: Path) -> None:
    file = write_pipeline(tmp_path / "dead.yaml", 1)
    with all_ended():
        ended = manager.await_running(begin(file), TIMEOUT)
    assert ended.state is JobState.FAILED
    assert ended.code == 3
    assert "source cluster" in ended.why
    shown = k2ktui("jobs", "log", "-f", file).stdout
    assert "no broker of the source cluster accepts connections" in shown
    assert "ended with exit code 3" in shown


@pytest.mark.slow
def test_start_checks_first_and_starts_nothing_that_cannot_work(tmp_path: Path) -> None:
    file = write_pipeline(tmp_path / "dead.yaml", 1)
    done = k2ktui("jobs", "start", "-f", file, "--force", code=3)
    assert "source cluster" in done.stderr
    assert "Nothing was started" in done.stderr
    assert local_jobs.list_jobs() == []


def test_without_a_variable_nothing_is_started(tmp_path: Path) -> None:
    file = write_pipeline(tmp_path / "o.yaml", 1, name="${env:string:K2KTUI_NOT_SET}")
    done = k2ktui("jobs", "start", "-f", file, code=2)
    assert "K2KTUI_NOT_SET" in done.stderr
    assert local_jobs.list_jobs() == []


def made(file: Path, **values: object) -> Job:
    """Keep a record of a job whose process is this one."""
    config = config_of(file)
    place = job_directory(config)
    place.make()
    me = this_process()
    record = replace(
        manager.new_record(place, config, (str(file),), "", False),
        **{"pid": me.pid, "birth": me.birth, **values},  # type: ignore[arg-type]
    )
    place.write(record)
    job = local_jobs.read_job(place)
    assert job is not None
    return job


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    return write_pipeline(tmp_path / "plain.yaml", 1)


def test_a_used_process_id_is_not_taken_for_the_job(plain: Path) -> None:
    assert made(plain).state is JobState.STARTING
    assert made(plain, phase=Phase.RUNNING).state is JobState.RUNNING
    stranger = made(plain, birth=this_process().birth + "1")
    assert stranger.state is JobState.DIED
    assert "without an exit code" in stranger.why
    assert "restarted" in made(plain, birth="another-boot/1").why
    # This process is alive, or no test would run on.
    assert manager.stop_job(stranger, MAY, StopMode.KILL).state is JobState.DIED


@pytest.mark.slow
def test_a_job_continues_where_its_directory_cannot_be_written(file: Path) -> None:
    job = begin(file)
    eventually(lambda: handles(job, signal.SIGTERM), "it is stopped, not killed, by the signal")
    # Stands for a full disk: a directory in place of the record cannot be replaced by a file.
    (job.place.directory / "job.json").unlink()
    (job.place.directory / "job.json").mkdir()
    job.record.identity.signal(signal.SIGTERM)
    eventually(lambda: not job.record.identity.alive, "it ends")
    events = [entry.kind for entry in joblog.read_tail(job.place, 100)]
    assert events[-1] == "ended"
    assert not any("Traceback" in entry.raw for entry in joblog.read_tail(job.place, 100))
    (job.place.directory / "job.json").rmdir()


def test_ends_are_distinguished(plain: Path) -> None:
    ended = {"birth": "b/1", "phase": Phase.ENDED, "ended_at": 1.0}
    assert made(plain, **ended, code=0).state is JobState.STOPPED
    assert made(plain, **ended, code=1).state is JobState.FAILED
    failed = made(plain, **ended, code=5, error="fenced")
    assert (failed.state, failed.why) == (JobState.FAILED, "fenced")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "7", '{"v":1}', '{"v":2}', '{"v":1,"files":7}', "null"],
)
def test_a_damaged_record_is_no_job(plain: Path, text: str) -> None:
    job = made(plain)
    (job.place.directory / "job.json").write_text(text)
    assert local_jobs.read_job(job.place) is None
    assert local_jobs.list_jobs() == []


def test_a_job_is_found_by_its_files_without_reading_them(plain: Path) -> None:
    job = made(plain)
    plain.unlink()

    def unread() -> None:
        raise AssertionError("the file was read")

    assert local_jobs.find_job([str(plain)], unread) == job  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["../../../etc/x", "a[/b]\x1b[2J", "\u202e" * 9, "n" * 249, ".."])
def test_hostile_names_stay_inside(tmp_path: Path, state: Path, name: str) -> None:
    job = made(write_pipeline(tmp_path / "p.yaml", 1, name=name))
    assert job.place.directory.parent.parent == state / "k2ktui" / "jobs"
    assert [place.id for place in list_job_directories()] == [job.place.id]
    shown = invoke(jobs, "list").output
    assert safe_text(name) in shown
    assert "\x1b" not in shown and "\u202e" not in shown
    (row,) = json.loads(invoke(jobs, "list", "--json").stdout)["jobs"]
    assert row["pipeline"] == name


@pytest.mark.parametrize("how", StopMode)
def test_a_job_that_was_read_before_it_had_a_pid_is_stopped(plain: Path, how: StopMode) -> None:
    """Between its start and its record, a job has no pid to signal."""
    read_before = made(plain, pid=0, birth="")
    assert read_before.state is JobState.STARTING
    process = subprocess.Popen(["sleep", "3600"])
    try:
        birth = birth_of(process.pid)
        write_record(read_before.place, read_before, pid=process.pid, birth=birth)
        ended = manager.stop_job(read_before, MAY, how, TIMEOUT)
    finally:
        process.kill()
    assert not ended.alive
    assert process.wait() == -(signal.SIGKILL if how is StopMode.KILL else signal.SIGTERM)


def test_what_may_not_be_written_is_neither_started_nor_stopped(plain: Path) -> None:
    locked = access(environment="production")
    with pytest.raises(Refused, match="production"):
        manager.start_job(config_of(plain), [str(plain)], locked)
    with pytest.raises(Refused, match="production"):
        manager.stop_job(made(plain), locked, StopMode.KILL)


def test_a_production_job_is_stopped_from_the_command_line_after_unlocking(tmp_path: Path) -> None:
    file = write_pipeline(tmp_path / "p.yaml", 1, environment="production")
    made(file, birth="b/1", phase=Phase.ENDED, ended_at=1_795_262_400.0, code=0)
    assert "production" in k2ktui("jobs", "stop", "-f", file, code=5).stderr
    assert k2ktui_json("jobs", "stop", "-f", file, "--unlock")["job"]["code"] == 0


def test_forgotten_jobs_leave_nothing(plain: Path) -> None:
    job = made(plain, birth="b/1")
    manager.forget_job(job)
    assert not job.place.directory.exists()
