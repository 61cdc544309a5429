"""Maps journal entries to pipeline files on this machine, for ``undo``.

The journal itself is on the target; this file holds only the paths and no secrets.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from k2ktui.config.inputs import absolute_files
from k2ktui.engine.strict_json import MalformedRecord, field, items, parse_object, text
from k2ktui.errors import ConfigError, TimedOut
from k2ktui.private_files import private_directory, user_path, write_private
from k2ktui.runtime.paths import locked
from k2ktui.text import safe_text

_KEPT = 1000
_WAIT_S = 10.0


def _path() -> Path:
    return user_path("state") / "applied.jsonl"


def remember(entry: str, pipeline: str, files: Sequence[str]) -> None:
    """Remember an entry's pipeline files; does nothing if the state directory is not writable."""
    paths = absolute_files(files)
    line = json.dumps({"id": entry, "pipeline": pipeline, "files": paths})
    path = _path()
    try:
        private_directory(path.parent)
        # Two that write at once would each keep only their own line.
        with locked(path.with_suffix(".lock"), _WAIT_S):
            lines = [*_lines(path)[-_KEPT:], line]
            write_private(path, "".join(f"{line}\n" for line in lines).encode())
    except (OSError, TimedOut):
        return


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(errors="replace").splitlines()
    except OSError:
        return []


def _files(entry: dict[str, Any]) -> tuple[str, ...]:
    return tuple(text(path) for path in items(field(entry, "files")))


def files_of(entry: str) -> tuple[str, ...]:
    """Return the pipeline files of an entry that was applied from this machine.

    Raises:
        ConfigError: the entry was not applied from this machine.
    """
    for line in reversed(_lines(_path())):
        try:
            remembered = parse_object(line)
            if field(remembered, "id") == entry:
                return _files(remembered)
        except MalformedRecord:
            continue
    raise ConfigError(
        f"entry {safe_text(entry)} was not applied from this machine",
        unchanged="Nothing was changed.",
        hint="Name the pipeline with -f FILE. List the ids with k2ktui journal -f FILE.",
    )


def last_files() -> tuple[str, ...]:
    """Return the pipeline files of the last entry applied from this machine.

    Raises:
        ConfigError: no entry was applied from this machine.
    """
    for line in reversed(_lines(_path())):
        try:
            return _files(parse_object(line))
        except MalformedRecord:
            continue
    raise ConfigError("no plan was applied from this machine", hint="Name the pipeline: -f FILE.")
