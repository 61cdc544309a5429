"""What the demo prints disturbs nothing, whatever becomes of its terminal or its reader."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from k2ktui.demo.screen import Screen
from k2ktui.progress import ProgressStep
from tests.support.clusters.kafka import TIMEOUT


def test_each_step_is_a_line_and_how_far_it_is_stays_on_the_status_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status: list[str] = []
    screen = Screen(status.append)
    with screen.busy("Working [x]") as step:
        step(ProgressStep("Working [x]", 1234))
        step(ProgressStep("Writing"))
    screen.show(["a: 1", "b: 2"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" s  ")[2] for line in lines] == ["Working [x]", "Writing", "", ""]
    assert lines[2:] == ["a: 1", "b: 2"]
    assert [text for text in status if text] == ["Working [x]: 1,234"]
    assert status[-1] == "", "nothing is left of it"


def test_a_closed_terminal_disturbs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    class Gone:
        def write(self, text: str) -> None:
            tried.append(text)
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(sys, "stdout", Gone())
    screen = Screen()
    screen.say("hello")
    with screen.busy("Working"):
        screen.show(["a line"])
    assert len(tried) == 1, "nothing is tried again"


def test_what_cannot_be_encoded_is_escaped(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(sys.stdout.buffer, "ascii"))
    Screen().show(["first", "caf\u00e9", "last"])
    assert capsysbinary.readouterr().out == b"first\ncaf\\xe9\nlast\n"


def test_a_closed_pipe_disturbs_nothing(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "k2ktui", "demo", "--stop"],
            env={**os.environ, "XDG_STATE_HOME": str(tmp_path)},
            stdout=writing,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT,
            check=False,
            text=True,
        )
    finally:
        os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "")
