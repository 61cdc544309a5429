"""A demo without its terminal waits, is found again, and ends on request or when no one comes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.demo import detached
from tests.support.kafka import eventually

_DEMO = """
import sys
from pathlib import Path
from k2ktui.demo.signals import DemoEnded, ending_signals
from k2ktui.demo.detached import announce, stay

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
        found = detached.host(tmp_path)
        assert found is not None and not found.waiting
        assert process.stdin is not None
        process.stdin.close()
        eventually(lambda: (h := detached.host(tmp_path)) and h.waiting, "it waits")
        yield process
        process.kill()


def test_it_is_found_and_ended(waiting: subprocess.Popen[bytes], tmp_path: Path) -> None:
    found = detached.host(tmp_path)
    assert found is not None
    assert (found.identity.pid, found.config) == (waiting.pid, tmp_path / "pipeline.yaml")
    waiting.send_signal(1)  # a terminal's end may be signaled more than once
    detached.reattach(tmp_path)
    detached.end(found)
    assert waiting.wait(10) == 115, "SIGTERM, and nothing before"
    assert detached.host(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_it_ends_by_itself_when_no_one_comes(tmp_path: Path) -> None:
    with begin(tmp_path, 0.1) as process:
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(20) == 0
    assert detached.host(tmp_path) is None


@pytest.mark.parametrize("text", ["", "[]", '{"pid":1}', '{"pid":"x","birth":"b"}'])
def test_a_damaged_file_is_no_demo(tmp_path: Path, text: str) -> None:
    (tmp_path / "demo.json").write_text(text)
    assert detached.host(tmp_path) is None
    detached.reattach(tmp_path / "none")
