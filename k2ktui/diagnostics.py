"""Logging of this process: the last lines in memory, a file for ``--debug``, stderr for ``-v``.

Every module logs to ``logging.getLogger(__name__)``. One handler, on the root logger, takes the
records of k2ktui and of the libraries, and removes secrets. Lines are written by a thread of its
own: a full disk, or a reader of stderr that waits, never stops a run.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import logging
import os
import re
import socket
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType

from k2ktui.errors import ConfigError, K2kError
from k2ktui.private_files import FILE_MODE, private_directory, user_path
from k2ktui.secret_values import redact
from k2ktui.text import counted, safe_message, safe_text

VARIABLE = "K2KTUI_LOG"
LEVELS = ("debug", "info", "warning", "error")
LIBRARIES = (
    "confluent_kafka",
    "httpcore",
    "httpcore2",
    "httpx",
    "httpx2",
    "jgo",
    "kafka",
    "librdkafka",
    "opentelemetry",
    "py4j",
    "requests",
    "urllib3",
)
MOST_BYTES = 5 << 20
KEPT_FILES = 4

# At the level info they write a dozen lines for each connection: only if they are asked for.
_CHATTY = ("kafka", "py4j")
_OURS = "k2ktui"
_LINES_IN_MEMORY = 300
_REPEAT_S = 10.0
_MOST_REPEATED = 1_000
_MOST_WAITING = 10_000
_CLOSE_S = 2.0
_LONGEST = 16_000
_CLEAR = b"\r\x1b[K"
# To print an error of these calls Java, which may be dead or suspended.
_JAVA_ERRORS = ("py4j", "pyspark.errors.exceptions.captured")

_configured: Diagnostics | None = None


@dataclass(frozen=True, slots=True)
class Levels:
    """From which level on records of k2ktui, of libraries and of single loggers are written."""

    ours: int = logging.WARNING
    libraries: int = logging.WARNING
    single: tuple[tuple[str, int], ...] = ()

    def of(self, logger: str) -> int:
        """Return the level of a logger; the longest name that it begins with counts."""
        for name, level in sorted(self.single, key=lambda item: len(item[0]), reverse=True):
            if _is_below(logger, name):
                return level
        if any(_is_below(logger, name) for name in _CHATTY):
            return max(self.libraries, logging.WARNING)
        return self.ours if _is_below(logger, _OURS) else self.libraries


# The exporters take OpenTelemetry's warnings: its only report of why an export failed.
_IN_MEMORY = Levels(logging.INFO, logging.CRITICAL, (("opentelemetry", logging.WARNING),))
_VERBOSE = (Levels(logging.INFO), Levels(logging.DEBUG, logging.INFO))
# The libraries' own debug lines quote whole requests, with the records in them.
_DEBUG = Levels(logging.DEBUG, logging.INFO)


def set_up() -> Diagnostics:
    """Begin to log in this process, as ``K2KTUI_LOG`` says; a second call changes nothing."""
    global _configured
    if _configured is None:
        _configured = Diagnostics()
        logging.getLogger().addHandler(_configured)
        with contextlib.suppress(ConfigError):  # the command line reports it
            if (text := os.environ.get(VARIABLE, "")) and (levels := read_levels(text)):
                _configured.write_file(levels)
    return _configured


def read_levels(text: str) -> Levels | None:
    """Return the levels that ``K2KTUI_LOG`` asks for; None if it is empty.

    Raises:
        ConfigError: it is neither a level nor a list such as ``debug,kafka=warning``.
    """
    levels: Levels | None = None
    for part in filter(None, map(str.strip, text.split(","))):
        name, equals, level = part.rpartition("=")
        if level.lower() not in LEVELS or (equals and not name):
            raise ConfigError(
                f"{VARIABLE}: expected a level ({', '.join(LEVELS)}), or LOGGER=LEVEL, separated "
                f"by commas; found {safe_text(part, 80)}",
                unchanged="Nothing was done.",
            )
        number = logging.getLevelNamesMapping()[level.upper()]
        levels = levels or Levels()
        if name:
            levels = replace(levels, single=(*levels.single, (name, number)))
        else:
            levels = replace(levels, ours=number, libraries=max(number, logging.INFO))
    return levels


def debug_to_file() -> None:
    """Log everything to the file, also in the processes that this one starts."""
    os.environ[VARIABLE] = os.environ.get(VARIABLE) or "debug"
    configured = set_up()
    configured.write_file(read_levels(os.environ[VARIABLE]) or _DEBUG)
    configured.asked_for = True


def log_path() -> Path:
    """Return the file of this host's processes; hosts may share the user's home directory."""
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:60] or "host"
    return user_path("state") / "log" / f"{host}.log"


def log_files() -> list[Path]:
    """Return the file and those before it that exist, the newest first."""
    path = log_path()
    names = [path, *(Path(f"{path}.{number}") for number in range(1, KEPT_FILES))]
    return [name for name in names if name.is_file()]


def _is_below(logger: str, name: str) -> bool:
    return logger == name or logger.startswith(f"{name}.")


class Diagnostics(logging.Handler):
    """Takes every record, without secrets, to memory, to the file and to stderr.

    Attributes:
        has_screen: whether lines on stderr disturb nobody; a console draws over them.
        asked_for: the file was asked for by ``--debug``, and is named at the end.
    """

    has_screen = True
    asked_for = False

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(LineFormat())
        # What is kept in memory goes to files of crashes, which are sent to others.
        self._brief = LineFormat(brief=True)
        self._recent: deque[str] = deque(maxlen=_LINES_IN_MEMORY)
        self._file: SharedFile | None = None
        self._file_levels = self._terminal_levels = Levels()
        self._verbosity = 0
        self._thread: threading.Thread | None = None
        self._waiting: SimpleQueue[tuple[str, bool, bool] | None] = SimpleQueue()
        self._starting = threading.Lock()
        self._repeats = _Repeats()
        self._lost = 0
        self._set_levels()
        os.register_at_fork(after_in_child=self._forked)
        atexit.register(self.flush_lines)

    @property
    def file(self) -> Path | None:
        """The file that is written; None without ``--debug``."""
        return self._file.path if self._file is not None else None

    def write_file(self, levels: Levels) -> None:
        """Write records from these levels on to the file, after the lines so far."""
        earlier = self.recent() if self._file is None else []
        self._file, self._file_levels = self._file or SharedFile(log_path()), levels
        self._set_levels()
        for line in earlier:
            self._put(line, to_file=True, to_terminal=False)

    def be_verbose(self, steps: int) -> None:
        """Print messages to stderr: one step for headlines, two for details."""
        self._verbosity = min(self._verbosity + steps, len(_VERBOSE))
        self._terminal_levels = _VERBOSE[self._verbosity - 1]
        self._set_levels()

    def leave_terminal(self) -> None:
        """Write what ``-v`` asks for to the file from now on: a console draws the screen."""
        self.has_screen = False
        if self._verbosity:
            self._verbosity = 0
            if self._file is None:
                self.write_file(self._terminal_levels)
        self._set_levels()

    def recent(self) -> list[str]:
        """Return the last lines of this process."""
        return list(self._recent)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record and hand it to the thread that writes; safe on every thread."""
        # Not all that is in the file: it may have the libraries' lines, which quote records.
        if record.levelno >= _IN_MEMORY.of(record.name):
            self._recent.append(_line(self._brief, record))
        to_file = self._file is not None and record.levelno >= self._file_levels.of(record.name)
        to_terminal = self._verbosity > 0 and record.levelno >= self._terminal_levels.of(
            record.name
        )
        if to_file or to_terminal:
            repeated = self._repeats.count(record)
            if repeated is None:
                return
            line = _line(self.formatter or self._brief, record)
            if repeated:
                line += f" ({counted(repeated, 'similar line')} left out before)"
            self._put(line, to_file=to_file, to_terminal=to_terminal)

    def flush_lines(self, seconds: float = _CLOSE_S) -> None:
        """Write what is waiting; give up after some seconds."""
        thread = self._thread
        if thread is not None and thread.is_alive():
            self._waiting.put(None)
            thread.join(seconds)
            self._thread = None

    def _put(self, line: str, *, to_file: bool, to_terminal: bool) -> None:
        if self._waiting.qsize() >= _MOST_WAITING:
            self._lost += 1
            return
        self._waiting.put((line, to_file, to_terminal))
        if self._thread is None:
            self._start_thread()

    def _set_levels(self) -> None:
        """Let loggers make only the records that something takes: others cost nothing."""
        taken = [_IN_MEMORY]
        taken += [self._file_levels] if self._file is not None else []
        taken += [self._terminal_levels] if self._verbosity else []
        names = {_OURS, *LIBRARIES, *(name for levels in taken for name, _ in levels.single)}
        for name in names:
            logging.getLogger(name).setLevel(min(levels.of(name) for levels in taken))

    def _start_thread(self) -> None:
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._write, name="log", daemon=True)
                self._thread.start()

    def _forked(self) -> None:
        # A fork copies only the thread that forks, and locks as they are.
        self._thread, self._waiting, self._starting = None, SimpleQueue(), threading.Lock()

    def _write(self) -> None:
        while (item := self._waiting.get()) is not None:
            line, to_file, to_terminal = item
            if self._lost:
                number, self._lost = self._lost, 0
                line = f"{counted(number, 'line')} lost: writing was too slow\n{line}"
            if to_file and self._file is not None:
                self._file.write(line)
            if to_terminal:
                _print_line(line)


class _Repeats:
    """Leaves out lines of libraries that say the same: an outage makes hundreds a second.

    Without that, the file would be renamed away before anyone reads what happened before.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}

    def count(self, record: logging.LogRecord) -> int | None:
        """Return how many like this record were left out; None to leave this one out, too."""
        if record.levelno < logging.WARNING or _is_below(record.name, _OURS):
            return 0
        key = record.name, re.sub(r"\d+", "#", _message(record))
        now = time.monotonic()
        at, left_out = self._seen.get(key, (now - _REPEAT_S, 0))
        if now - at < _REPEAT_S:
            self._seen[key] = at, left_out + 1
            return None
        if len(self._seen) >= _MOST_REPEATED:
            self._seen.clear()
        self._seen[key] = now, 0
        return left_out


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        return str(record.msg)


def _line(form: logging.Formatter, record: logging.LogRecord) -> str:
    try:
        return form.format(record)
    except Exception:
        return f"{record.levelname} {record.name}: a record that cannot be formatted"


def _print_line(line: str) -> None:
    # Time, without the date, level and message: the rest is for the file.
    short = re.sub(r"^\S+T(\S+?)\.\d+Z \d+ (\w+) (?:k2ktui\.)?", r"\1 \2 ", line)
    with contextlib.suppress(OSError):
        data = short.encode(errors="replace") + b"\n"
        os.write(2, (_CLEAR if os.isatty(2) else b"") + data)


class SharedFile:
    """A file that several processes append lines to; it is renamed when it is full.

    Args:
        path: the file; older ones have the suffix ``.1``, ``.2`` ….
        most_bytes: its largest size.
        kept: how many files there are at most.
    """

    def __init__(self, path: Path, most_bytes: int = MOST_BYTES, kept: int = KEPT_FILES) -> None:
        self.path, self._most_bytes, self._kept = path, most_bytes, kept
        self._handle = -1

    def write(self, line: str) -> None:
        """Append a line; one that cannot be written is lost."""
        with contextlib.suppress(OSError):
            if not self._is_current():
                self._open()
            if os.fstat(self._handle).st_size > self._most_bytes:
                self._rotate()
            os.write(self._handle, line.encode(errors="replace") + b"\n")

    def close(self) -> None:
        """Close the file; the next line opens it."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _is_current(self) -> bool:
        """Return whether the open file still has the name: another process may have renamed it."""
        if self._handle < 0:
            return False
        try:
            return os.path.samestat(os.fstat(self._handle), os.stat(self.path))
        except FileNotFoundError:
            return False

    def _open(self) -> None:
        self.close()
        private_directory(private_directory(self.path.parent.parent) / self.path.parent.name)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._handle = os.open(self.path, flags, FILE_MODE)
        os.fchmod(self._handle, FILE_MODE)

    def _rotate(self) -> None:
        with open(f"{self.path}.lock", "ab") as lock:
            os.fchmod(lock.fileno(), FILE_MODE)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self._is_current():  # no other process has renamed it meanwhile
                for number in range(self._kept - 1, 0, -1):
                    before = f"{self.path}.{number - 1}" if number > 1 else str(self.path)
                    with contextlib.suppress(FileNotFoundError):
                        os.replace(before, f"{self.path}.{number}")
        self._open()


class LineFormat(logging.Formatter):
    """Formats a record as a line without secrets; traces follow, indented.

    Args:
        brief: as for ``trace_text``.
    """

    def __init__(self, *, brief: bool = False) -> None:
        super().__init__()
        self._brief = brief

    def format(self, record: logging.LogRecord) -> str:
        """Return the text; names in it cannot control a terminal."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        text = self._brief_copy(record).getMessage() if self._brief else record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += "\n" + trace_text(record.exc_info[1], brief=self._brief)
        lines = [safe_message(line) for line in redact(text[:_LONGEST]).splitlines()] or [""]
        head = f"{moment}.{int(record.msecs):03}Z {record.process} {record.levelname}"
        return "\n  ".join([f"{head} {record.name}: {lines[0]}", *lines[1:]])

    @staticmethod
    def _brief_copy(record: logging.LogRecord) -> logging.LogRecord:
        """Return a record whose arguments are no errors of others."""
        copy = logging.makeLogRecord(record.__dict__)
        if isinstance(record.args, tuple):
            copy.args = tuple(map(_without_text, record.args))
        elif record.args:
            copy.args = {name: _without_text(value) for name, value in record.args.items()}
        return copy


def _without_text(argument: object) -> object:
    is_foreign = isinstance(argument, BaseException) and not _is_ours(argument)
    return type(argument).__qualname__ if is_foreign else argument


def _is_ours(error: BaseException) -> bool:
    """Return whether k2ktui wrote an error's text, so it quotes no record."""
    return isinstance(error, K2kError) or _is_below(type(error).__module__, _OURS)


def trace_text(error: BaseException, *, brief: bool = False) -> str:
    """Return an error's trace and those of its causes, the first cause first, without locals.

    Args:
        error: the error.
        brief: leave out the text of an error that is not ours: it may quote records, and secrets
            that have no name, whole or in parts.
    """
    parts: list[str] = []
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and not any(current is known for known in seen):
        seen.append(current)
        parts.append("\n".join([*_frames(current.__traceback__), _words(current, brief)]))
        if current.__cause__ is not None:
            current = current.__cause__
        else:
            current = None if current.__suppress_context__ else current.__context__
    return "\nwhich led to:\n".join(reversed(parts))


def _frames(trace: TracebackType | None) -> list[str]:
    import traceback  # most processes print none

    return "".join(traceback.format_tb(trace)).splitlines()


def _words(error: BaseException, brief: bool) -> str:
    kind = type(error)
    name = kind.__qualname__
    if kind.__module__.startswith(_JAVA_ERRORS):
        return f"{name} (its text is Java's)"
    if brief and not _is_ours(error):
        # The system's number says why without the text.
        number = getattr(error, "errno", None) if kind.__module__ == "builtins" else None
        return f"{name}: {os.strerror(number)}" if isinstance(number, int) else name
    try:
        text = str(error)
    except Exception:
        text = "its text cannot be read"
    return f"{name}: {redact(text)}" if text else name
