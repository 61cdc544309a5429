"""A command that a test forks from the server does what it does in an interpreter of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import run_command


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
    forked = run_command(arguments, os.environ, 60)
    command = [sys.executable, "-m", "k2ktui", *arguments]
    own = subprocess.run(command, capture_output=True, text=True)
    assert (forked.returncode, forked.stdout) == (own.returncode, own.stdout)
    assert forked.stderr == own.stderr


def test_what_python_reads_at_its_start_is_respected() -> None:
    plain = run_command(["--version"], os.environ, 60)
    timed = run_command(["--version"], {**os.environ, "PYTHONPROFILEIMPORTTIME": "1"}, 60)
    assert timed.stdout == plain.stdout
    assert "import time:" in timed.stderr and not plain.stderr


def test_a_command_that_hangs_is_killed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        file = tmp_path / "pipeline.yaml"
        file.write_text(
            f"""name: p
source: {{kafka: {{common: {{bootstrap.servers: "{address}"}}}}}}
target: {{kafka: {{common: {{bootstrap.servers: "{address}"}}}}}}
replication:
  - source: {{topic: [t]}}
  - sink: {{topic: source, partition: source}}
"""
        )
        with pytest.raises(subprocess.TimeoutExpired):
            run_command(["watch", "-f", str(file)], os.environ, 1)
    assert run_command(["--version"], os.environ, 60).returncode == 0
