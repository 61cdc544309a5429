"""A job's log: bounded whatever writes to it, read from its end, safe to show."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from k2ktui.engine.records.state import SourcePartition
from k2ktui.jobs.job_directory import JobDirectory
from k2ktui.jobs.joblog import (
    KEPT,
    Follower,
    entries_since_start,
    last_error,
    parse_entry,
    read_tail,
)
from k2ktui.replication.copying.slot_task import Fault, FaultKind
from k2ktui.replication.reports.events import (
    Finished,
    FirstRecord,
    Note,
    Progress,
    Report,
    Resumed,
    Started,
    Stopped,
    Waiting,
    read_report,
    report_event,
    report_text,
)
from tests.support.clusters.kafka import TIMEOUT, eventually

HOSTILE = "a[/b]\x1b]0;x\x07\u202e" + "n" * 300
FAULT = Fault(SourcePartition(HOSTILE, 3), FaultKind.TRUNCATED, f"lost {HOSTILE}", "do this", 7)
REPORTS: tuple[Report, ...] = (
    Started(HOSTILE, 3, 2, 12, 4.5),
    Progress(4, 2.0, 1000, 5_000_000, 3, 20, 0.5, 1.2, 0.1, 12, 1, None),
    Progress(4, 0.0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 12, 0, 17),
    FirstRecord(5.2),
    Stopped(FAULT),
    Resumed(HOSTILE, 1),
    Waiting(HOSTILE),
    Note(HOSTILE),
    Finished(False, 12, 3.0, (FAULT,)),
)
_WRITER = """
import os, sys
from pathlib import Path
from k2ktui.jobs.joblog import BoundedLog
from k2ktui.jobs.job_directory import JobDirectory

bounded = BoundedLog(JobDirectory(Path(sys.argv[1])), limit=1000, kept=2)
bounded.start()
turned = 0
for number in range(400):
    if number % 3:
        print(f"python {number:04}", flush=True)
    else:
        os.write(2, b"library %04d\\n" % number)
    turned += bounded.turn()
os.write(int(sys.argv[2]), b"%d" % turned)
"""


@pytest.fixture
def place(tmp_path: Path) -> JobDirectory:
    made = JobDirectory(tmp_path / "host" / "job")
    made.make()
    return made


def write(place: JobDirectory, *lines: str) -> None:
    with place.log.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def test_a_log_of_a_release_that_did_not_tell_slots_apart() -> None:
    event = report_event(Started("p", 1, 2, 3, 4.5))
    del event["is_more"]
    assert read_report(event) == Started("p", 1, 2, 3, 4.5)


@pytest.mark.parametrize("report", REPORTS, ids=lambda report: type(report).__name__)
def test_reports_are_read_again_as_they_were(report: Report) -> None:
    text = json.dumps(report_event(report))
    assert read_report(json.loads(text)) == report
    shown = "\n".join(parse_entry(text.encode()).lines)
    assert report_text(report).splitlines()[0] in shown
    assert "\x1b" not in shown and "\u202e" not in shown


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        b"[1]",
        b"nul\x00l \xff\xfe",
        b'{"event":"progress"}',
        b'{"event":"stopped","fault":7}',
        b'{"event":"check","at":"soon"}',
        b'{"event":"ended","at":1e300,"code":"\\u001b[2J"}',
        b'{"event":{"a":1}}',
        b"[" * 100_000,
        b"\x1b[2Jcleared",
    ],
)
def test_whatever_stands_in_a_log_is_safe_to_show(raw: bytes) -> None:
    entry = parse_entry(raw)
    shown = "\n".join(entry.lines) + entry.error
    assert all(char.isprintable() or char == "\n" for char in shown)
    assert json.dumps(entry.object)


def test_a_log_is_bounded_and_loses_nothing_that_is_kept(place: JobDirectory) -> None:
    reads, writes = os.pipe()
    with os.fdopen(reads, "rb") as turned:
        try:
            command = [sys.executable, "-c", _WRITER, str(place.directory), str(writes)]
            subprocess.run(command, pass_fds=(writes,), check=True, timeout=TIMEOUT)
        finally:
            os.close(writes)
        assert int(turned.read()) > 3
    logs = sorted(place.directory.glob("log*"))
    assert [log.name for log in logs] == ["log.jsonl", "log.jsonl.1", "log.jsonl.2"]
    assert all(log.stat().st_size < 1100 for log in logs)
    assert all(stat.S_IMODE(log.stat().st_mode) == 0o600 for log in logs)
    numbers = [int(entry.raw.split()[1]) for entry in read_tail(place, 1000)]
    assert numbers == list(range(numbers[0], 400)), "in order, without a hole"
    assert len(numbers) > 100


def test_the_tail_reaches_into_older_logs(place: JobDirectory) -> None:
    write(place, *(f"old {n}" for n in range(5)))
    place.log.rename(place.log.with_name(f"{place.log.name}.1"))
    write(place, "new 0", "new 1")
    assert [entry.raw for entry in read_tail(place, 4)] == ["old 3", "old 4", "new 0", "new 1"]
    assert [entry.raw for entry in read_tail(place, 1)] == ["new 1"]
    assert len(read_tail(place, 100)) == 7
    assert read_tail(JobDirectory(place.directory / "none"), 5) == []
    assert KEPT >= 1


def test_a_follower_sees_each_line_once_and_new_logs_too(place: JobDirectory) -> None:
    write(place, "before 1", "before 2")
    follower = Follower(place, 1)
    assert [entry.raw for entry in follower.before] == ["before 2"]
    assert follower.read() == []
    with place.log.open("a") as file:
        file.write("one\ntw")
        file.flush()
        assert [entry.raw for entry in follower.read()] == ["one"]
        file.write("o\nlast")
    place.log.rename(place.log.with_name(f"{place.log.name}.1"))
    write(place, " words", "three")
    assert [entry.raw for entry in follower.read()] == ["two", "last words", "three"]
    follower.close()


def test_a_follower_waits_for_a_log_that_does_not_exist_yet(place: JobDirectory) -> None:
    follower = Follower(place, 10)
    assert follower.before == follower.read() == []
    write(place, "first")
    entries = eventually(follower.read, "the line")
    assert [entry.raw for entry in entries] == ["first"]
    follower.close()


def test_the_last_error_is_of_this_start_and_not_of_an_earlier_one(place: JobDirectory) -> None:
    stopped = json.dumps(report_event(Stopped(FAULT)))
    write(place, '{"event":"job","start":"a"}', '{"event":"error","message":"old"}')
    write(place, '{"event":"job","start":"b"}')
    entries = read_tail(place, 100)
    assert last_error(entries) == "old"
    assert last_error(entries_since_start(entries, "b")) == ""
    write(place, stopped, '{"event":"note","text":"x"}')
    assert "truncated" in last_error(entries_since_start(read_tail(place, 100), "b"))
    write(place, "Traceback (most recent call last):", "MemoryError")
    assert last_error(read_tail(place, 100)) == "MemoryError"
    write(place, '{"event":"error","message":"newest\\u001b[2J"}', '{"event":"ended","code":1}')
    assert last_error(read_tail(place, 100)) == "newest\\x1b[2J"
