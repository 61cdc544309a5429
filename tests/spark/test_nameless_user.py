"""A user without a name, and one whose home directory is missing or cannot be written."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from k2ktui.errors import ExitCode, InternalError, Refused
from k2ktui.faults import fault
from k2ktui.jobs.job_directory import JobDirectory, jobs_home, list_job_directories
from k2ktui.private_files import user_path
from k2ktui.runtime.node import KafkaNode
from k2ktui.runtime.paths import cache_dir, no_state_note, state_dir
from tests.support.clusters.kafka import TIMEOUT, create_topic, produce
from tests.support.commands.nameless import K2KTUI, nameless, require_nameless
from tests.support.console.terminal import Terminal
from tests.support.jobs.jobs import write_pipeline
from tests.support.pipelines.pipeline import RUN_TIMEOUT, Pipeline
from tests.support.records.traffic import mixture

SET = "XDG_STATE_HOME"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_pipeline(tmp_path / "p.yaml", 1)  # a closed port


@pytest.fixture(params=["no HOME", "HOME of others", "HOME that is a file"])
def env(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Environments in which nothing can be written to the home directory."""
    home = tmp_path / "home"
    if request.param == "HOME of others":
        home.mkdir(mode=0o555)
        if os.geteuid() == 0 and os.access(home, os.W_OK):
            home = Path("/proc/self")  # root writes everywhere else
    elif request.param == "HOME that is a file":
        home.touch()
    return {} if request.param == "no HOME" else {"HOME": str(home)}


HOMES = ["no HOME", "a file", "of others", "closed"]


@pytest.fixture
def nameless_env(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The same for a process that has no privileges: root's, too, when it is nameless."""
    home = tmp_path / "nameless"
    if request.param == "no HOME":
        return {}
    if request.param == "a file":
        home.touch()
    else:
        home.mkdir(mode=0o555 if request.param == "of others" else 0)
    return {"HOME": str(home)}


def apply(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    if not env:
        monkeypatch.setattr("pwd.getpwuid", _no_entry)


def _no_entry(uid: int) -> None:
    raise KeyError(f"getpwuid(): uid not found: {uid}")


def test_reading_finds_nothing_and_writing_says_which_variable_to_set(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    apply(env, monkeypatch)
    assert list(list_job_directories()) == [] and user_path("config").is_absolute()
    assert SET in no_state_note()
    for write in (lambda: state_dir("demo"), JobDirectory(jobs_home() / "p").make):
        with pytest.raises(Refused, match=r"cannot be written: |HOME is not set") as caught:
            write()
        assert SET in caught.value.hint

    monkeypatch.setenv(SET, str(tmp_path / "state"))
    assert no_state_note() == "", "it can be made"
    assert state_dir("demo").is_dir() and no_state_note() == ""


def test_the_cache_is_in_the_temporary_directory_then(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    apply(env, monkeypatch)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    directory = cache_dir("java")
    assert directory == tmp_path / f"k2ktui-cache-{os.geteuid()}" / "java"
    assert directory.parent.stat().st_mode & 0o077 == 0


def test_a_cache_that_another_user_has_made_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    apply({}, monkeypatch)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "theirs").mkdir()
    (tmp_path / f"k2ktui-cache-{os.geteuid()}").symlink_to(tmp_path / "theirs")
    with pytest.raises(PermissionError):
        cache_dir("java")


def test_a_fault_is_reported_all_the_same(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(env, monkeypatch)
    error = fault(ValueError("x"))
    assert isinstance(error, InternalError)
    assert "The trace could not be saved" in error.hint and SET in error.hint


def is_noted(done: subprocess.CompletedProcess[str]) -> bool:
    notes = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    return len(notes) == 1 and SET in notes[0]


@pytest.mark.slow
@pytest.mark.parametrize("nameless_env", HOMES, indirect=True)
def test_commands_that_read(nameless_env: dict[str, str], file: Path) -> None:
    assert is_noted(nameless("jobs", "list", env=nameless_env))
    done = nameless("jobs", "log", "-f", file, env=nameless_env, code=ExitCode.REFUSED)
    assert is_noted(done) and "this host has no job of this pipeline" in done.stderr


@pytest.mark.slow
@pytest.mark.rotate("nameless_env", HOMES, indirect=True)
def test_a_pipeline_runs(
    nameless_env: dict[str, str], source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    topic = create_topic(source)
    produce(source, topic, mixture(1, 500, 1))
    pipe = Pipeline(tmp_path, source, target, [topic])
    start = ("start", "-f", pipe.write(), "--until-caught-up")
    nameless(*start, env=nameless_env, timeout=RUN_TIMEOUT)
    assert pipe.prove(500)


@pytest.mark.slow
@pytest.mark.rotate("nameless_env", HOMES, indirect=True)
def test_the_console_opens(nameless_env: dict[str, str], file: Path) -> None:
    require_nameless()
    terminal = Terminal(
        [
            "env",
            "-u",
            "HOME",
            *(f"{k}={v}" for k, v in nameless_env.items()),
            *K2KTUI,
            "-f",
            str(file),
        ],
        size=(120, 40),
        env={"LANG": "C.UTF-8", "PYTHONPATH": os.getcwd()},
    )
    with terminal:
        terminal.await_text("source cluster")
        terminal.send("q")
        assert terminal.wait(TIMEOUT) == 0
        assert b"Traceback" not in terminal.output
