"""A job's log: the job itself bounds its size, other processes read it from the end."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from k2ktui.engine.strict_json import (
    LARGEST_MS,
    MalformedRecord,
    is_deeper,
    parse_object,
)
from k2ktui.engine.strict_json import number as strict_number
from k2ktui.errors import K2kError, fix_text
from k2ktui.jobs.job_directory import JobDirectory
from k2ktui.replication.reports.events import Note, read_report, report_event, report_text
from k2ktui.runtime.background import BackgroundRunner
from k2ktui.runtime.log_lines import LogStream
from k2ktui.sync.loop.poll_text import poll_lines
from k2ktui.text import safe_message, safe_text

LIMIT_BYTES = 5 << 20
KEPT = 3
_CHECK_S = 1.0
_LONGEST_LINE = 64 << 10
# Events are three levels deep; json.dumps fails on very deep values.
_DEEPEST = 16
_BLOCK = 64 << 10


class BoundedLog(BackgroundRunner):
    """Keeps the log of standard output and error within ``limit * (kept + 1)`` bytes.

    The bound covers every writer, including C libraries: a full log is renamed, and both
    descriptors are moved to a new file. Nothing is lost in between.
    """

    failing = "the job's log is not limited in size"
    recovered = "the job's log is limited in size again"

    def __init__(self, place: JobDirectory, limit: int = LIMIT_BYTES, kept: int = KEPT) -> None:
        super().__init__("job-log", _CHECK_S, lambda text: write_object(report_event(Note(text))))
        self._place, self._limit, self._kept = place, limit, kept

    def start(self) -> None:
        """Redirect standard output and error to the log, and start checking its size."""
        self._open()
        super().start()

    def work(self) -> None:
        """Begin a new log if this one is full.

        Raises:
            K2kError: the directory cannot be written, for example because the disk is full.
        """
        try:
            self.turn()
        except OSError as error:
            raise K2kError(f"{safe_text(self._place.log)}: {error.strerror or error}") from error

    def turn(self) -> bool:
        """Begin a new log if this one is full; return whether it was."""
        if os.fstat(1).st_size < self._limit:
            return False
        log = self._place.log
        for number in range(self._kept, 0, -1):
            older = log.with_name(f"{log.name}.{number}")
            newer = log.with_name(f"{log.name}.{number - 1}") if number > 1 else log
            with contextlib.suppress(FileNotFoundError):
                os.replace(newer, older)
        self._open()
        return True

    def _open(self) -> None:
        handle = self._place.open_log()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        os.close(handle)


def write_event(kind: str, at: float, **values: object) -> None:
    """Write an event to the log; ``at`` is epoch seconds."""
    write_object({"event": kind, "at": round(at, 3), **values})


def write_object(value: Mapping[str, Any]) -> None:
    """Write a line of JSON to the log; only inside the job, safe in a signal handler.

    A line that cannot be written is dropped: a full disk must not end replication. Once lines can
    be written again, one says how many were not.
    """
    _LOG.write(json.dumps(value))


_LOG = LogStream(1, lambda text: json.dumps(report_event(Note(text))))


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One line of a log.

    Attributes:
        raw: the line as written; must be sanitized before display.
        event: its content, empty if it is not a JSON object.
    """

    raw: str
    event: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """The kind of event, empty for output of a library or of Python itself."""
        return str(self.event.get("event", ""))

    @property
    def object(self) -> Mapping[str, Any]:
        """The event; for a line that is not an event, one of kind ``text``."""
        return self.event or {"event": "text", "text": safe_message(self.raw)}

    @property
    def error(self) -> str:
        """The error it reports, safe to print; empty if none."""
        if self.kind == "error":
            return _get(self.event, "message")
        return self.text.partition("\n")[0] if self.kind == "stopped" else ""

    @property
    def text(self) -> str:
        """The line in readable form, without its time; safe to print."""
        report = read_report(self.event)
        if report is not None:
            # The types of the fields are not validated.
            with contextlib.suppress(ValueError, TypeError, AttributeError, OverflowError):
                return report_text(report)
        event = self.event
        match self.kind:
            case "job":
                return f"started: k2ktui {_get(event, 'version')}, pid {_get(event, 'pid')}"
            case "check":
                first = f"{_get(event, 'outcome')}: {_get(event, 'name')}: {_get(event, 'detail')}"
                return "\n  ".join([first, *_lines(_hint(event))])
            case "error":
                parts = [
                    _get(event, "message"),
                    _get(event, "unchanged"),
                    safe_message(_hint(event)),
                ]
                return "\n  ".join(["ERROR " + parts[0], *(part for part in parts[1:] if part)])
            case "turn":
                # As above.
                with contextlib.suppress(ValueError, TypeError, AttributeError, KeyError):
                    failed = [
                        f"NOT COMMITTED {safe_message(message)}" for message in event["failed"]
                    ]
                    return "\n  ".join([*poll_lines(event), *failed])
            case "ended":
                return f"ended with exit code {_get(event, 'code')}"
        return safe_message(self.raw)

    @property
    def at(self) -> float | None:
        """When it was written, epoch seconds; None if unknown."""
        at = self.event.get("at")
        try:
            return None if at is None else strict_number(at, high=LARGEST_MS / 1000)
        except MalformedRecord:
            return None

    @property
    def lines(self) -> list[str]:
        """The readable line with its time (UTC); several lines if it is long."""
        first, *more = self.text.split("\n")
        return [f"{_clock(self.at)}  {first}", *(f"{'':8}  {line}" for line in more)]


def _get(event: Mapping[str, Any], name: str) -> str:
    return safe_message(event.get(name, ""))


def _hint(event: Mapping[str, Any]) -> str:
    return fix_text(str(event.get("hint") or ""))


def _lines(value: object) -> list[str]:
    return [safe_message(line) for line in str(value or "").splitlines()]


def _clock(at: float | None) -> str:
    try:
        return f"{datetime.fromtimestamp(at or 0, UTC):%H:%M:%S}" if at else " " * 8
    except (OverflowError, ValueError, OSError):
        return " " * 8


def parse_entry(raw: bytes) -> LogEntry:
    """Parse one line; accepts any content."""
    text = raw.decode(errors="replace").rstrip("\r\n")
    try:
        event = parse_object(text)
    except MalformedRecord:
        event = {}
    return LogEntry(text, {} if is_deeper(event, _DEEPEST) else event)


def read_tail(place: JobDirectory, count: int, end: int | None = None) -> list[LogEntry]:
    """Return the last entries of a job's log, the oldest first; reads older logs if necessary.

    Args:
        place: the job's directory.
        count: maximum number of entries.
        end: ignore bytes from this offset of the current log on.
    """
    lines: list[bytes] = []
    for number in range(KEPT + 1):
        path = place.log.with_name(f"{place.log.name}.{number}") if number else place.log
        try:
            lines = _last_lines(path, count - len(lines), None if number else end) + lines
        except FileNotFoundError:
            break
        if len(lines) >= count:
            break
    return [parse_entry(line) for line in lines]


def _last_lines(path: Path, count: int, end: int | None = None) -> list[bytes]:
    data = b""
    with path.open("rb") as file:
        left = file.seek(0, os.SEEK_END) if end is None else end
        while left and data.count(b"\n") <= count:
            size = min(_BLOCK, left)
            left -= size
            file.seek(left)
            data = file.read(size) + data
    lines = data.splitlines()
    return [line[:_LONGEST_LINE] for line in lines[max(0, len(lines) - count) :] if line]


def entries_since_start(entries: Sequence[LogEntry], start: str) -> list[LogEntry]:
    """Return the entries since this start of a job; all, if its first entry is not among them."""
    for number in range(len(entries) - 1, -1, -1):
        if entries[number].kind == "job" and entries[number].event.get("start") == start:
            return list(entries[number:])
    return list(entries)


def last_error(entries: Sequence[LogEntry]) -> str:
    """Return the last error, safe to print; empty if there was none.

    Lines that are not events count only at the end, as the last output of a crashed process.
    """
    broken = bool(entries) and not entries[-1].event
    return next(
        (entry.error or entry.text for entry in reversed(entries) if entry.error or broken), ""
    )


class Follower:
    """Reads what is appended to a log, across rotations.

    Args:
        place: the job's directory.
        count: number of earlier entries to return.

    Attributes:
        before: those entries.
    """

    def __init__(self, place: JobDirectory, count: int = 0) -> None:
        self._path = place.log
        self._file: Any = None
        self._rest = b""
        end = 0
        with contextlib.suppress(OSError):
            self._file = self._path.open("rb")
            end = self._file.seek(0, os.SEEK_END)
        self.before = read_tail(place, count, end) if count else []

    def read(self) -> list[LogEntry]:
        """Return the complete lines added since the last call."""
        data = self._more()
        if self._is_over():
            data += self._more()  # written before the log was renamed
            self.close()
            with contextlib.suppress(OSError):
                self._file = self._path.open("rb")
            data += self._more()
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-_LONGEST_LINE:]
        return [parse_entry(line[:_LONGEST_LINE]) for line in lines if line]

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _more(self) -> bytes:
        return bytes(self._file.read()) if self._file is not None else b""

    def _is_over(self) -> bool:
        if self._file is None:
            return True
        try:
            now, followed = os.stat(self._path), os.fstat(self._file.fileno())
        except OSError:
            return False
        return (now.st_dev, now.st_ino) != (followed.st_dev, followed.st_ino)
