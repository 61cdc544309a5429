"""A command that a test forks from the server does what it does in an interpreter of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import psutil
import pytest

from tests.support.clusters.kafka import TIMEOUT, eventually
from tests.support.commands import commands
from tests.support.commands.commands import run_command


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["strat"],
        ["config", "validate", "-f", "pipeline.yaml"],
    ],
)
def test_output_and_exit_code_are_the_same(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pipeline.yaml").write_text("name: ${env:string:PIPELINE}\nreplication: 1\n")
    monkeypatch.setenv("PIPELINE", "a-\\e")
    forked = run_command(arguments, os.environ, TIMEOUT)
    command = [sys.executable, "-m", "k2ktui", *arguments]
    own = subprocess.run(command, capture_output=True, text=True)
    assert (forked.returncode, forked.stdout) == (own.returncode, own.stdout)
    assert forked.stderr == own.stderr


def test_what_python_reads_at_its_start_is_respected() -> None:
    plain = run_command(["--version"], os.environ, TIMEOUT)
    timed = run_command(["--version"], {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}, TIMEOUT)
    assert timed.stdout == plain.stdout
    assert "import time:" in timed.stderr and not plain.stderr


def hanging(tmp_path: Path) -> list[str]:
    """Return a command that does not end."""
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        """name: p
source: {kafka: {common: {bootstrap.servers: "127.0.0.1:1"}}}
target: {kafka: {common: {bootstrap.servers: "127.0.0.1:1"}}}
replication:
  - source: {topic: [t]}
  - sink: {topic: source, partition: source}
"""
    )
    return ["watch", "-f", str(file)]


def in_directory(directory: Path) -> list[psutil.Process]:
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.cwd() == str(directory) and process.pid != os.getpid():
                processes.append(process)
    return processes


@pytest.mark.parametrize("started", [True, False])
def test_a_command_that_hangs_is_killed(
    started: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the server is not started yet: the limit is of the command alone."""
    if not started:
        monkeypatch.setattr(commands, "_server", cache(commands.CommandServer))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(subprocess.TimeoutExpired):
        run_command(hanging(tmp_path), os.environ, 1)
    assert run_command(["--version"], os.environ, TIMEOUT).returncode == 0
    eventually(lambda: not in_directory(tmp_path), "the command has ended")


def test_a_command_ends_with_the_process_that_waits_for_it(tmp_path: Path) -> None:
    arguments = hanging(tmp_path)
    program = (
        "import os\nfrom tests.support.commands.commands import run_command\n"
        f"os.chdir({str(tmp_path)!r})\nrun_command({arguments!r}, os.environ, {TIMEOUT})"
    )
    root = Path(__file__).parents[3]
    with subprocess.Popen([sys.executable, "-c", program], cwd=root) as waiting:
        eventually(lambda: len(in_directory(tmp_path)) == 2, "both run")
        waiting.kill()
    eventually(lambda: not in_directory(tmp_path), "the command has ended")
