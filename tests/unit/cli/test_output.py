"""Standard output and error that cannot be written: commands name the cause, and nothing more."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FULL = "/dev/full"


def run(command: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    line = command.replace("k2ktui", f"{sys.executable} -m k2ktui")
    return subprocess.run(
        ["/bin/sh", "-c", line], check=False, capture_output=True, text=True, cwd=tmp_path
    )


@pytest.mark.parametrize("command", ["config schema", "completion bash", "--help"])
def test_a_full_disk_is_named(command: str, tmp_path: Path) -> None:
    done = run(f"k2ktui {command} > {FULL}", tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "k2ktui: standard output cannot be written: No space left on device",
        "  Fix: Free space where it leads to, or redirect it elsewhere.",
    ]


def test_the_exit_code_is_that_of_the_error(tmp_path: Path) -> None:
    """Also if nobody can be told: Python would end with 120."""
    assert run(f"k2ktui config show -f none.yaml 2> {FULL}", tmp_path).returncode == 2
    assert run(f"k2ktui config schema > {FULL} 2> {FULL}", tmp_path).returncode == 2
    assert run(f"k2ktui nothing 2> {FULL}", tmp_path).returncode == 2
