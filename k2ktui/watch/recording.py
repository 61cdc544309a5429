"""Recordings: the views of a session in a SQLite file, for later replay; and directories of them.

Tables, for other readers: ``meta(key, value)`` with ``schema`` (1) and ``pipeline``;
``views(at REAL, body BLOB)``, epoch seconds and zlib-compressed JSON of :mod:`k2ktui.watch.codec`;
and ``changes(key TEXT, view INTEGER, body BLOB)``, what drills are from a view (by rowid) on:
``drill/ID`` is a record, ``beat/ID`` a later heartbeat, ``rehearsals`` a list; null where it is
gone. Recordings of earlier releases have no changes.
A recording holds names, offsets and error texts, but no client properties and no secrets.
"""

from __future__ import annotations

import logging
import math
import os
import re
import sqlite3
import stat
import threading
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from k2ktui.engine.drill.model import Drill
from k2ktui.engine.drill.rehearsals import Rehearsal
from k2ktui.engine.strict_json import LARGEST_MS, MalformedRecord, integer, number
from k2ktui.errors import ConfigError
from k2ktui.private_files import DIRECTORY_MODE
from k2ktui.text import file_part, safe_text
from k2ktui.watch.codec import (
    LARGEST_VIEW,
    MalformedView,
    dumps,
    dumps_drill,
    dumps_rehearsals,
    loads,
    loads_drill,
    loads_rehearsals,
)
from k2ktui.watch.model import View

log = logging.getLogger(__name__)

SCHEMA = "1"
# Of a file in a directory that is kept: the pipeline's name.
_KEPT_FOR = "kept_for"
_HOUR_S, _DAY_S = 3_600.0, 86_400.0
# What is kept for less has a file an hour, so that not much more is kept than was asked for.
_BY_DAY_S = 2 * _DAY_S
_LOOK_S, _AGAIN_S, _LONGEST_STEM = 600.0, 60.0, 80
_TABLES = """
create table meta(key text primary key, value text not null);
create table views(at real not null, body blob not null, view integer primary key);
create index views_at on views(at);
create table changes(key text not null, view integer not null, body blob);
create index changes_of on changes(key, view);
"""
_DRILL, _BEAT, _REHEARSALS = "drill/", "beat/", "rehearsals"
_LARGEST_CHANGE = 64 << 20


class Recorder:
    """Writes views to a new file; a failed write ends the recording, not the watched session.

    Args:
        path: a file that does not exist yet.
        kept_for: name of the pipeline in whose :class:`RecordingDirectory` it is.

    Attributes:
        error: why the recording ended, empty while it continues.

    Raises:
        ConfigError: the file exists, or cannot be created.
    """

    def __init__(self, path: Path, kept_for: str = "") -> None:
        self.path, self.error = path, ""
        self._lock = threading.Lock()
        self._drills: dict[str, Drill] = {}
        self._rehearsals: Sequence[Rehearsal] = ()
        try:
            # Group names and offsets are private to the user.
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError as error:
            raise ConfigError(
                f"{safe_text(path)} already exists",
                unchanged="It was not changed.",
                hint="Choose a new file to record to.",
            ) from error
        except OSError as error:
            raise _unwritable(path, error) from error
        try:
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            self._db.execute("pragma journal_mode=wal")
            self._db.execute("pragma synchronous=normal")
            self._db.executescript(_TABLES)
            self._db.execute("insert into meta values('schema', ?)", (SCHEMA,))
            if kept_for:
                self._db.execute("insert into meta values(?, ?)", (_KEPT_FOR, kept_for))
        except sqlite3.Error as error:
            self._discard()
            raise _unwritable(path, error) from error

    def add(self, view: View) -> None:
        """Record a view; thread-safe."""
        body = _pack(dumps(view))
        with self._lock:
            if self.error:
                return
            try:
                self._db.execute("begin")
                added = self._db.execute(
                    "insert into views(at, body) values(?, ?)", (view.taken_at, body)
                )
                changes = [(key, added.lastrowid, text) for key, text in self._changes(view)]
                self._db.executemany("insert into changes values(?, ?, ?)", changes)
                self._db.execute(
                    "insert or ignore into meta values('pipeline', ?)", (view.pair.pipeline,)
                )
                self._db.execute("commit")
            except sqlite3.Error as error:
                with suppress(sqlite3.Error):
                    self._db.execute("rollback")
                self.error = f"the recording ended: {_reason(error)}"
                log.warning("%s: %s", self.path, self.error)

    def _changes(self, view: View) -> Iterator[tuple[str, bytes | None]]:
        """Yield what has changed of drills since the last view: each is written once a change."""
        before, self._drills = self._drills, {drill.id: drill for drill in view.drills}
        for drill in view.drills:
            old = before.get(drill.id)
            if old is None or replace(old, beat_ms=drill.beat_ms) != drill:
                yield f"{_DRILL}{drill.id}", _pack(dumps_drill(drill))
            elif old.beat_ms != drill.beat_ms:
                yield f"{_BEAT}{drill.id}", str(drill.beat_ms).encode()
        for gone in before.keys() - self._drills.keys():
            yield f"{_DRILL}{gone}", None
        if view.rehearsals != self._rehearsals:
            self._rehearsals = view.rehearsals
            yield _REHEARSALS, _pack(dumps_rehearsals(view.rehearsals))

    def _discard(self) -> None:
        """Remove a file that could not be begun: nothing says what it is."""
        with suppress(AttributeError, sqlite3.Error):  # it may not have been opened
            self._db.close()
        for part in _parts(self.path):
            with suppress(OSError):
                part.unlink(missing_ok=True)

    def close(self) -> None:
        """Merge the SQLite journal into the file, so that read-only media can hold it."""
        with self._lock, suppress(sqlite3.Error):
            self._db.execute("pragma journal_mode=delete")
            self._db.close()
            self.error = self.error or "closed"


class RecordingDirectory:
    """Records to a new file an hour or a day, and removes old ones; so a recorder never ends.

    It removes only files of its pipeline that another one like it wrote: their names and what is in
    them say so. A file that cannot be written is given up, and another one begun a minute later.

    Args:
        path: the directory; it is made if it does not exist.
        pipeline: name of the pipeline.
        keep_s: for how long files are kept after their last view, in seconds.

    Attributes:
        error: why nothing is recorded now; empty while it is.

    Raises:
        ConfigError: the directory or the first file cannot be made.
    """

    def __init__(self, path: Path, pipeline: str, keep_s: float) -> None:
        self.path, self.error = path, ""
        self._pipeline, self._keep_s = pipeline, keep_s
        self._stem = file_part(pipeline)[:_LONGEST_STEM]
        self._period_s = _HOUR_S if keep_s < _BY_DAY_S else _DAY_S
        self._tried_at = self._looked_at = -math.inf
        self._newest = path
        try:
            path.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"{safe_text(path)} cannot be a directory of recordings: {_reason(error)}"
            ) from error
        self._recorder = self._begin(time.time())

    def add(self, view: View) -> None:
        """Record a view, in a new file when an hour or a day is over."""
        now = view.taken_at
        is_over = now // self._period_s != self._began_at // self._period_s
        if is_over or (self._recorder.error and abs(now - self._tried_at) >= _AGAIN_S):
            self._recorder.close()
            try:
                self._recorder = self._begin(now)
            except ConfigError as error:
                self.error = self._recorder.error = f"nothing is recorded: {error.message}"
                log.warning("%s", self.error)
                return
        self._recorder.add(view)
        self.error = self._recorder.error
        if abs(now - self._looked_at) >= _LOOK_S:
            self._remove_old(now)

    def close(self) -> None:
        """End the last file."""
        self._recorder.close()

    def _begin(self, now: float) -> Recorder:
        self._tried_at = self._began_at = now
        # First, as without it there may be no room for another file.
        self._remove_old(now)
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
        number, path = 1, self.path / f"{self._stem}-{stamp}.k2k"
        while path.exists():
            number, path = number + 1, self.path / f"{self._stem}-{stamp}-{number}.k2k"
        self._newest = path
        return Recorder(path, self._pipeline)

    def _remove_old(self, now: float) -> None:
        self._looked_at = now
        pattern = re.compile(re.escape(self._stem) + r"-\d{8}T\d{6}Z(-\d+)?\.k2k")
        with suppress(OSError):
            for path in sorted(self.path.iterdir()):
                if pattern.fullmatch(path.name) and path != self._newest:
                    self._remove_if_old(path, now)

    def _remove_if_old(self, path: Path, now: float) -> None:
        parts = _parts(path)
        try:
            status = path.lstat()
            written_at = max(part.lstat().st_mtime for part in parts if part.exists())
            is_own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
            if is_own and now - written_at > self._keep_s and _kept_for(path) == self._pipeline:
                for part in parts:
                    part.unlink(missing_ok=True)
                log.info("recording %s is removed", path)
        except (OSError, ValueError) as error:
            log.warning("recording %s is not removed: %s", path, _reason(error))


def _parts(path: Path) -> list[Path]:
    """Return the files of a recording, itself last."""
    return [path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm", "")]


def _kept_for(path: Path) -> str | None:
    """Return the pipeline in whose directory a recording is kept; None if that is not said."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
            _require_tables(db, path)
            kept = db.execute("select value from meta where key = ?", (_KEPT_FOR,)).fetchone()
    except (sqlite3.Error, ConfigError):
        return None
    return None if kept is None else str(kept[0])


class Recording:
    """A recording, opened for reading; used by one thread at a time.

    Args:
        path: the file.

    Raises:
        ConfigError: it is missing, empty, damaged, or not a recording.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # What was read of changes last, each with the view that it is from.
        self._read: dict[str, tuple[int, Any]] = {}
        try:
            if not path.is_file():
                raise ConfigError(f"there is no recording {safe_text(path)}")
            uri = f"{path.resolve().as_uri()}?mode=ro"
            self._db = sqlite3.connect(uri, uri=True, check_same_thread=False)
            self._has_changes = "changes" in _require_tables(self._db, path)
            meta = dict(self._db.execute("select key, value from meta").fetchall())
            if meta.get("schema") != SCHEMA:
                raise ConfigError(
                    f"{safe_text(path)} has schema {safe_text(meta.get('schema'))}; this "
                    f"release reads schema {SCHEMA}"
                )
            listed = self._db.execute("select rowid, at from views order by at, rowid").fetchall()
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(
                f"{safe_text(path)} is not a recording: {_reason(error)}",
                hint="Make a recording with k2ktui -f FILE --record FILE.",
            ) from error
        try:
            self._rows = [integer(row) for row, _ in listed]
            self.times = tuple(number(at) for _, at in listed)
        except MalformedRecord as error:
            raise ConfigError(f"{safe_text(path)} is not a recording: {error}") from error
        if not self._rows:
            raise ConfigError(f"recording {safe_text(path)} is empty")

    def __len__(self) -> int:
        return len(self._rows)

    def view(self, number: int) -> View:
        """Return a view by its index, from 0.

        Raises:
            ConfigError: the view is damaged.
        """
        try:
            query = "select body from views where rowid = ?"
            (body,) = self._db.execute(query, (self._rows[number],)).fetchone()
            view = loads(_unpack(body, LARGEST_VIEW))
            return self._with_drills(view, self._rows[number]) if self._has_changes else view
        except (
            *(sqlite3.Error, zlib.error, MalformedView, MalformedRecord),
            *(TypeError, ValueError),
        ) as error:
            raise ConfigError(
                f"view {number + 1} of {safe_text(self.path)} is damaged: {_reason(error)}"
            ) from error

    def _with_drills(self, view: View, row: int) -> View:
        """Return a view with the drills as they were then."""
        query = "select key, max(view) from changes where view <= ? group by key"
        last = {str(key): integer(at) for key, at in self._db.execute(query, (row,)).fetchall()}
        self._read = {
            key: read
            for key, at in last.items()
            if (read := self._read.get(key, (-1, None)))[0] == at or (read := self._change(key, at))
        }
        drills = []
        for key, (at, drill) in self._read.items():
            if not key.startswith(_DRILL) or drill is None:
                continue
            beat_at, beat = self._read.get(f"{_BEAT}{drill.id}", (-1, 0))
            drills.append(replace(drill, beat_ms=beat) if beat_at > at else drill)
        drills.sort(key=lambda drill: drill.id, reverse=True)
        rehearsals = self._read.get(_REHEARSALS, (-1, ()))[1]
        return replace(view, drills=tuple(drills), rehearsals=rehearsals)

    def _change(self, key: str, at: int) -> tuple[int, Any]:
        query = "select body from changes where key = ? and view = ?"
        (body,) = self._db.execute(query, (key, at)).fetchone()
        if key.startswith(_BEAT):
            return at, integer(int(body), high=LARGEST_MS)
        if key == _REHEARSALS:
            return at, loads_rehearsals(_unpack(body, _LARGEST_CHANGE))
        if not key.startswith(_DRILL):
            return at, None  # of a later release
        drill_id = key.removeprefix(_DRILL)
        if body is None:
            return at, None
        return at, loads_drill(drill_id, _unpack(body, _LARGEST_CHANGE))

    def number_at(self, at: float) -> int:
        """Return the index of the last view at or before a time, 0 if there is none."""
        earlier = [number for number, taken in enumerate(self.times) if taken <= at]
        return earlier[-1] if earlier else 0

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _pack(text: str) -> bytes:
    return zlib.compress(text.encode(), 6)


def _unpack(body: bytes, largest: int) -> bytes:
    """Return a packed text.

    Raises:
        MalformedView: it is larger.
        zlib.error: it is damaged.
    """
    inflate = zlib.decompressobj()
    text = inflate.decompress(body, largest)
    if not inflate.eof:
        raise MalformedView("it is truncated, or larger than any view")
    return text


def _require_tables(db: sqlite3.Connection, path: Path) -> set[str]:
    """Require that what is read are plain tables, and return them: a view can compute without end.

    Raises:
        ConfigError: they are not.
        sqlite3.Error: the file is damaged.
    """
    # No value is larger than a compressed view may be.
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_VIEW)
    query = "select name, type, sql from sqlite_master where name in ('meta', 'views', 'changes')"
    tables = set()
    for name, kind, text in db.execute(query).fetchall():
        tables.add(name)
        is_plain = kind == "table" and str(text).upper().startswith("CREATE TABLE")
        columns = db.execute(f"pragma table_xinfo({name})").fetchall() if is_plain else []
        # The last field of a column is not 0 if it is hidden or generated.
        if not is_plain or any(column[-1] for column in columns):
            raise ConfigError(
                f"{safe_text(path)} is not a recording: {safe_text(name)} is not a table",
                hint="Make a recording with k2ktui -f FILE --record FILE.",
            )
    return tables


def _unwritable(path: Path, error: Exception) -> ConfigError:
    return ConfigError(f"{safe_text(path)} cannot be written to: {_reason(error)}")


def _reason(error: Exception) -> str:
    return safe_text(getattr(error, "strerror", None) or error)
