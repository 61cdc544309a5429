"""What the console remembers of its user: theme, charts, tables, and which calls are switched off.

One small file in the state directory. Whatever is wrong with it costs a note at most: a console
opens at 3 a.m. also with a damaged file, or a home directory that cannot be written.
"""

from __future__ import annotations

import contextlib
import errno
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from k2ktui.errors import TimedOut
from k2ktui.private_files import private_directory, user_path, write_private
from k2ktui.runtime.paths import locked
from k2ktui.text import safe_text

_LARGEST, _LONGEST = 64 << 10, 200
_WAIT_S = 2.0


@dataclass(frozen=True, slots=True)
class TableSettings:
    """How a table is shown.

    Attributes:
        sort: id of the column that it is sorted by; None for its own order.
        reverse: whether in reverse.
        left_out: ids of the columns that are left out.
    """

    sort: str | None = None
    reverse: bool = False
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """What is remembered; empty or 0 where nothing is.

    Attributes:
        theme: name of a theme.
        minutes: window of charts.
        tables: by their ids.
        silent: what of calls is switched off, by the names of ``:calls``.
    """

    theme: str = ""
    minutes: int = 0
    tables: Mapping[str, TableSettings] = field(default_factory=dict)
    silent: frozenset[str] = frozenset()


def settings_path() -> Path:
    """Return the path of the user's settings; the file may not exist."""
    return user_path("state") / "console.json"


class SettingsFile:
    """The settings of this user, in a file; thread-safe.

    Several consoles share it: each writes only what was changed in it, and replaces the file at
    once, so that a reader never sees a part.

    Args:
        path: the file; None remembers nothing.
    """

    def __init__(self, path: Path | None) -> None:
        self.path, self.note = path, ""
        self._lock = threading.Lock()
        self._changed: dict[str, Any] = {}
        self.settings = Settings()
        if path is not None:
            try:
                self.settings = _settings(_read(path))
            except _Unusable as error:
                self.note = f"settings {safe_text(path, 200)} {error}; the next change replaces it"

    def change(self, name: str, value: Any) -> None:
        """Remember a value; :meth:`write` writes it."""
        with self._lock:
            self._changed[name] = value

    def change_table(self, table: str, value: TableSettings) -> None:
        """Remember how a table is shown."""
        shown = {"sort": value.sort, "reverse": value.reverse, "hidden": list(value.left_out)}
        with self._lock:
            self._changed.setdefault("tables", {})[table] = shown

    def write(self) -> None:
        """Write what was changed; does nothing if nothing was.

        Raises:
            OSError: the file cannot be written.
        """
        with self._lock:
            changed, self._changed = self._changed, {}
            if not changed or self.path is None:
                return
            private_directory(self.path.parent)
            try:
                # Another console may write its own changes at the same moment.
                with locked(self.path.with_suffix(".lock"), _WAIT_S):
                    _write_changes(self.path, changed)
            except TimedOut as error:
                raise OSError(errno.EAGAIN, error.message) from error

    def forget(self) -> None:
        """Remove the file, and what is not written yet.

        Raises:
            OSError: the file cannot be removed.
        """
        with self._lock:
            self._changed, self.settings = {}, Settings()
            if self.path is not None:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    self.path.unlink()


def _write_changes(path: Path, changed: Mapping[str, Any]) -> None:
    whole: dict[str, Any] = {}
    with contextlib.suppress(_Unusable):
        whole = _read(path)
    tables = whole.get("tables")
    whole |= changed
    if "tables" in changed and isinstance(tables, dict):
        whole["tables"] = tables | changed["tables"]
    write_private(path, json.dumps(whole, indent=1, sort_keys=True).encode())


class _Unusable(ValueError):
    """The file cannot be read, or has something else in it."""


def _read(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise _Unusable(f"cannot be read: {error.strerror or error}") from error
    if len(text) > _LARGEST:
        raise _Unusable("is too large")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _Unusable("is damaged") from error
    if not isinstance(value, dict):
        raise _Unusable("is damaged")
    return value


def _settings(value: Mapping[str, Any]) -> Settings:
    theme, minutes, tables = value.get("theme"), value.get("minutes"), value.get("tables")
    tables = tables if isinstance(tables, dict) else {}
    return Settings(
        _name(theme) or "",
        minutes if isinstance(minutes, int) else 0,
        {name: _table(table) for name, table in tables.items() if isinstance(table, dict)},
        frozenset(_names(value.get("silent"))),
    )


def _table(value: Mapping[str, Any]) -> TableSettings:
    return TableSettings(
        _name(value.get("sort")), value.get("reverse") is True, _names(value.get("hidden"))
    )


def _names(value: object) -> tuple[str, ...]:
    return tuple(filter(None, map(_name, value if isinstance(value, list) else ())))


def _name(value: object) -> str | None:
    is_name = isinstance(value, str) and value.isprintable() and 0 < len(value) <= _LONGEST
    return str(value) if is_name else None
