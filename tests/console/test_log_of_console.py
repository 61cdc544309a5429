"""The console's screen gets no log line, and a crash of it leaves a file and one sentence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.support.clusters.kafka import TIMEOUT
from tests.support.commands.nameless import K2KTUI
from tests.support.console.terminal import Terminal
from tests.support.jobs.jobs import write_pipeline

pytestmark = pytest.mark.slow
_WITH_A_FAULT = """
from k2ktui.cli import main as command_line
from k2ktui.console.app import ConsoleApp

def fail(app, view=None): raise KeyError("hunter2-3cr3t")
ConsoleApp.show_latest = fail
command_line.main()
"""


def environment(tmp_path: Path) -> dict[str, str]:
    return {"LANG": "C.UTF-8", "XDG_STATE_HOME": str(tmp_path / "state")}


@pytest.mark.parametrize("options", [["-vv"], ["--debug"]])
def test_no_line_is_drawn(tmp_path: Path, options: list[str]) -> None:
    file = write_pipeline(tmp_path / "p.yaml", 1)  # a closed port
    command = [*K2KTUI, "-f", str(file), *options]
    with Terminal(command, size=(120, 40), env=environment(tmp_path)) as terminal:
        terminal.await_text("source cluster")
        terminal.send("q")
        assert terminal.wait(TIMEOUT) == 0
        printed = terminal.output
    (path,) = (tmp_path / "state" / "k2ktui" / "log").glob("*.log")
    assert "k2ktui.config.load: reading" in path.read_text() and "librdkafka" in path.read_text()
    assert b" INFO " not in printed and b"librdkafka" not in printed
    assert (str(path).encode() in printed) == (options == ["--debug"])


def test_a_crash_of_the_screen(tmp_path: Path) -> None:
    file = write_pipeline(tmp_path / "p.yaml", 1)
    command = [sys.executable, "-c", _WITH_A_FAULT, "-f", str(file)]
    with Terminal(command, size=(120, 40), env=environment(tmp_path)) as terminal:
        assert terminal.wait(TIMEOUT) == 70
        printed = terminal.output
    (path,) = (tmp_path / "state" / "k2ktui").glob("crash-*.txt")
    assert b"internal error in k2ktui (KeyError)" in printed and b"Traceback" not in printed
    assert path.name.encode() in printed.replace(b"\r\n", b"")
    text = path.read_text()
    assert "in fail" in text and "KeyError\n" in text and "hunter2" not in text
