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

from k2ktui.demo import running
from k2ktui.demo.app import Demo, DemoOptions, OpenConsole
from k2ktui.demo.running import DemoEnded, watchdog_beside
from k2ktui.demo.screen import Screen
from k2ktui.errors import ExitCode
from tests.support.clusters.kafka import TIMEOUT, eventually

_DEMO = """
import os
import sys
import time
from k2ktui.demo.pipeline import write_yaml
from k2ktui.demo.running import DemoEnded, announce, demo_place, ending_signals, stay

config = demo_place().directory / "pipeline.yaml"
write_yaml(config, "source:1", "target:1")
try:
    with ending_signals():
        with announce(config):
            print("runs", flush=True)
            sys.stdin.readline()
            stay(float(sys.argv[1]))
        while sys.argv[2] and not os.path.exists(sys.argv[2]):
            time.sleep(0.05)
except DemoEnded as ended:
    sys.exit(100 + ended.number)
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of the demo."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return running.demo_place().directory


def begin(seconds: float, may_end: Path | str = "") -> subprocess.Popen[bytes]:
    """Begin a demo that waits so long; once it ends, it needs as long as there is no such file."""
    command = [sys.executable, "-c", _DEMO, str(seconds), str(may_end)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"runs\n"
    return process


@pytest.fixture
def waiting() -> Iterator[subprocess.Popen[bytes]]:
    """A demo that waits for its operator."""
    with begin(600) as process:
        assert running.find_demo() is not None and not running.is_waiting()
        assert process.stdin is not None
        process.stdin.close()
        eventually(running.is_waiting, "it waits")
        yield process
        process.kill()


def test_it_is_found_and_ended(waiting: subprocess.Popen[bytes], home: Path) -> None:
    found = running.find_demo()
    assert found is not None
    assert (found.pid, found.files) == (waiting.pid, (str(home / "pipeline.yaml"),))
    waiting.send_signal(1)  # a terminal's end may be signaled more than once
    running.keep_waiting()
    assert running.end() and not running.end()
    assert waiting.wait(TIMEOUT) == 115, "SIGTERM, and nothing before"
    assert running.find_demo() is None and not running.is_waiting()


def test_it_waits_for_as_long_as_a_console_is_open(
    waiting: subprocess.Popen[bytes], home: Path
) -> None:
    # Within the 600 s that the demo waits: it may look between the two steps of the console below.
    file, old = home / "waiting", time.time() - 300
    ages: list[float] = []

    def shown(*given: Any) -> int:
        os.utime(file, (old, old))  # opened 5 minutes ago
        assert given[2]() == ""  # polled every second
        ages.append(time.time() - file.stat().st_mtime)
        os.utime(file, (old, old))
        assert watchdog_beside([str(home / "pipeline-reverse.yaml")])() == ""
        ages.append(time.time() - file.stat().st_mtime)
        return int(DemoEnded.HANG_UP)

    assert attach(shown) is ExitCode.OK
    assert max(ages) < 60
    assert waiting.poll() is None


def test_a_console_that_fails_does_not_end_it(
    waiting: subprocess.Popen[bytes], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown(*given: Any) -> int:
        raise KeyError("boom")

    assert attach(shown) is ExitCode.INTERNAL
    assert "internal error in k2ktui (KeyError)" in capsys.readouterr().out
    assert waiting.poll() is None
    assert running.find_demo() is not None
    # Nor does the one that the demo itself has opened.
    opened = Demo(DemoOptions(), Screen(), shown).open_console(home, None, str)
    assert opened == (DemoEnded.HANG_UP, ExitCode.INTERNAL)


def attach(open_console: OpenConsole) -> ExitCode:
    """Open a console on a demo that runs without one."""
    found = running.find_demo()
    assert found is not None
    return Demo(DemoOptions(), Screen(), open_console).reattach(found)


def test_it_ends_by_itself_when_no_one_comes() -> None:
    with begin(0.1) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(TIMEOUT) == 0
    assert running.find_demo() is None


def test_one_that_is_ending_is_not_running_and_only_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end = tmp_path / "may-end"

    def look_again(seconds: float) -> None:
        may_end.touch()  # not before it is waited for
        sleep(seconds)

    sleep = time.sleep
    with begin(0.1, may_end) as process:
        assert process.stdin is not None
        process.stdin.close()
        eventually(lambda: running.find_demo() is None, "it ends")
        assert process.poll() is None
        monkeypatch.setattr(time, "sleep", look_again)
        running.end()
        assert process.poll() is not None, "it was waited for"
        assert process.wait(TIMEOUT) == 0, "no signal"
        assert not running.is_waiting()


@pytest.mark.parametrize("text", ["", "[]", '{"pid":1}', '{"pid":"x","birth":"b"}'])
def test_a_damaged_file_is_no_demo(home: Path, text: str) -> None:
    home.mkdir(parents=True)
    (home / "job.json").write_text(text)
    assert running.find_demo() is None
    running.keep_waiting()
