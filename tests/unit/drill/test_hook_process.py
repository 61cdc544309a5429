"""The command of a hook: what it gets, what is kept of its output, and when it is killed."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.drill.hook_process import CommandEnd, inherited_environment, run_command, show_output
from k2ktui.secret_values import forget_secrets, remember_secrets
from tests.support.clusters.kafka import TIMEOUT


def run(directory: Path, script: str, timeout_s: float = TIMEOUT) -> CommandEnd:
    return run_command(
        [sys.executable, "-I", "-c", script],
        {"ONLY": "this"},
        directory,
        timeout_s,
        lambda _: None,
        nullcontext,
    )


def test_its_environment_directory_and_exit_code(tmp_path: Path) -> None:
    end = run(tmp_path, "import os, sys; print(os.getcwd(), *sorted(os.environ)); sys.exit(7)")
    assert (end.code, end.result) == (7, "exit code 7")
    assert end.output.startswith(str(tmp_path)) and "ONLY" in end.output
    assert "K2KTUI" not in end.output and "HOME" not in end.output


def test_only_three_variables_are_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.delenv("HOME", raising=False)
    assert inherited_environment().keys() == {"PATH", "LANG"}


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    end = run_command(["/no/such"], {}, tmp_path, 60.0, lambda _: None, nullcontext)
    assert end.code == 127 and "/no/such" in end.output


def test_the_end_of_a_long_output_is_kept(tmp_path: Path) -> None:
    end = run(tmp_path, "print('x' * 79 + '\\n', end='') or print('y\\n' * 200_000 + 'the end')")
    assert end.code == 0 and end.output.endswith("y\nthe end")
    assert end.output.startswith("(the beginning was left out)") and len(end.output) < 4100


def test_it_is_killed_when_its_time_is_over(tmp_path: Path) -> None:
    script = "import time; print('begun', flush=True); time.sleep(600)"
    end = run(tmp_path, script, timeout_s=3.0)
    assert end.code is None and "killed with its process group after 3 s" in end.result


def test_it_is_killed_if_the_drill_stops(tmp_path: Path) -> None:
    def stop(seconds: float) -> None:
        if seconds > 0.4:
            raise KeyboardInterrupt

    command = ["/bin/sh", "-c", "sleep 600; touch ran"]
    with pytest.raises(KeyboardInterrupt):
        run_command(command, {"PATH": "/usr/bin:/bin"}, tmp_path, 600.0, stop, nullcontext)
    assert not (tmp_path / "ran").exists()


@given(st.text(max_size=200), st.text(max_size=6000))
def test_no_output_controls_a_terminal_or_shows_a_secret(before: str, after: str) -> None:
    secret = "hunter2-hunter2"
    remember_secrets([("password", secret)])
    try:
        shown = show_output(f"{before}{secret}{after}")
    finally:
        forget_secrets()
    assert secret not in shown and len(shown) < 4100
    assert all(line == "" or line.isprintable() for line in shown.split("\n"))
