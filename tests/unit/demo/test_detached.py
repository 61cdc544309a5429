"""A demo without its terminal waits, is found again, and ends on request or when no one comes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from k2ktui.demo import app, console, running
from k2ktui.demo.console import watchdog_beside
from k2ktui.demo.running import DemoEnded
from k2ktui.demo.screen import Screen
from k2ktui.errors import ExitCode
from tests.support.clusters.kafka import TIMEOUT, eventually

_DEMO = """
import sys
from pathlib import Path
from k2ktui.demo.running import DemoEnded, announce, ending_signals, stay

home = Path(sys.argv[1])
try:
    with ending_signals(), announce(home, home / "pipeline.yaml"):
        print("runs", flush=True)
        sys.stdin.readline()
        stay(home, home / "pipeline.yaml", float(sys.argv[2]))
except DemoEnded as ended:
    sys.exit(100 + ended.number)
"""


def begin(home: Path, seconds: float) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", _DEMO, str(home), str(seconds)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"runs\n"
    return process


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A demo that waits for its operator."""
    with begin(tmp_path, 600) as process:
        hosted = running.host(tmp_path)
        assert hosted is not None and not hosted.waiting
        assert process.stdin is not None
        process.stdin.close()
        eventually(lambda: (h := running.host(tmp_path)) and h.waiting, "it waits")
        yield process
        process.kill()


def test_it_is_found_and_ended(waiting: subprocess.Popen[bytes], tmp_path: Path) -> None:
    hosted = running.host(tmp_path)
    assert hosted is not None
    assert (hosted.identity.pid, hosted.config) == (waiting.pid, tmp_path / "pipeline.yaml")
    assert hosted.compare is None
    waiting.send_signal(1)  # a terminal's end may be signaled more than once
    running.keep_waiting(tmp_path)
    running.end(hosted)
    assert waiting.wait(TIMEOUT) == 115, "SIGTERM, and nothing before"
    assert running.host(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_it_waits_for_as_long_as_a_console_is_open(
    waiting: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Within the 600 s that the demo waits: it may look between the two steps of the console below.
    file, old = tmp_path / "demo.json", time.time() - 300
    ages: list[float] = []

    def shown(*given: Any) -> int:
        os.utime(file, (old, old))  # opened 5 minutes ago
        assert given[2]() == ""  # polled every second
        ages.append(time.time() - file.stat().st_mtime)
        os.utime(file, (old, old))
        monkeypatch.setattr(console, "state_path", lambda _: tmp_path)
        assert watchdog_beside([str(tmp_path / "pipeline-reverse.yaml")])() == ""
        ages.append(time.time() - file.stat().st_mtime)
        return int(DemoEnded.HANG_UP)

    monkeypatch.setattr(console, "open_console", shown)
    assert attach(tmp_path) is ExitCode.OK
    assert max(ages) < 60
    assert waiting.poll() is None


def test_a_console_that_fails_does_not_end_it(
    waiting: subprocess.Popen[bytes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def shown(*given: Any) -> int:
        raise KeyError("boom")

    monkeypatch.setattr(console, "open_console", shown)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert attach(tmp_path) is ExitCode.INTERNAL
    assert "internal error in k2ktui (KeyError)" in capsys.readouterr().out
    assert waiting.poll() is None
    assert running.host(tmp_path) is not None
    # Nor does the one that the demo itself has opened.
    number, code = app._open_console(tmp_path, tmp_path, str, None, Screen())  # noqa: SLF001
    assert (number, code) == (DemoEnded.HANG_UP, ExitCode.INTERNAL)


def attach(home: Path) -> ExitCode:
    """Open a console on a demo that runs without one."""
    host = running.host(home)
    assert host is not None
    return app._reattach(home, host, Screen())  # noqa: SLF001


def test_it_ends_by_itself_when_no_one_comes(tmp_path: Path) -> None:
    with begin(tmp_path, 0.1) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(TIMEOUT) == 0
    assert running.host(tmp_path) is None


@pytest.mark.parametrize("text", ["", "[]", '{"pid":1}', '{"pid":"x","birth":"b"}'])
def test_a_damaged_file_is_no_demo(tmp_path: Path, text: str) -> None:
    (tmp_path / "demo.json").write_text(text)
    assert running.host(tmp_path) is None
    running.keep_waiting(tmp_path / "none")
