"""A run's log: what cannot be written disturbs nobody, and is counted."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.runtime import log_lines
from k2ktui.runtime.log_lines import LogStream, RunLog
from tests.support.clusters.kafka import TIMEOUT, eventually


@pytest.fixture
def target(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """A descriptor that leads to a full disk, and the file to which it leads once there is room."""
    full = os.open("/dev/full", os.O_WRONLY)
    yield full, tmp_path / "log"
    os.close(full)


def make_room(fd: int, path: Path) -> None:
    handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    os.dup2(handle, fd)
    os.close(handle)


def test_a_full_disk_is_said_once(target: tuple[int, Path]) -> None:
    fd, path = target
    stream = LogStream(fd)
    for number in range(3):
        stream.write(f"lost {number}")
    make_room(fd, path)
    stream.write("one")
    stream.write("two")
    said = "note: 3 lines of this log could not be written: No space left on device"
    assert path.read_text().splitlines() == [said, "one", "two"]


def test_a_line_that_was_cut_off_does_not_run_into_the_next_one(
    target: tuple[int, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    fd, path = target
    make_room(fd, path)
    write, room = os.write, [3]

    def short(fd: int, data: bytes) -> int:
        if not room[0]:
            raise OSError(28, "No space left on device")
        written = write(fd, data[: room[0]])
        room[0] -= written
        return written

    stream = LogStream(fd, "said: {}".format)
    monkeypatch.setattr("k2ktui.runtime.log_lines.os.write", short)
    stream.write("abcdef")
    room[0] = 1000
    stream.write("next")
    first, note, last = path.read_text().splitlines()
    assert (first, last) == ("abc", "next") and note.startswith("said: 1 line of this log")


def test_a_reader_that_waits_delays_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even a reader that never reads again delays the end."""
    monkeypatch.setattr(log_lines, "_MOST_WAITING", 10)
    monkeypatch.setattr(log_lines, "_CLOSE_S", 0.1)
    written, begun, may_write = list[str](), threading.Event(), threading.Event()

    class Blocked(LogStream):
        def _write(self, line: str) -> bool:
            begun.set()
            assert may_write.wait(TIMEOUT)
            written.append(line)
            return True

    monkeypatch.setattr(log_lines, "LogStream", Blocked)
    with RunLog() as log:
        for number in range(100):
            log.print(f"line {number}")
            # Otherwise the thread may begin when some lines are lost, and note these alone.
            assert begun.wait(TIMEOUT)
    assert not written
    may_write.set()
    eventually(lambda: len(written) > 10, "what waited is written")
    (note,) = [line for line in written if line.startswith("note: ")]
    assert "of this log could not be written: nobody has read the lines before them" in note
