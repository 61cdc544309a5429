"""Positions in a checkpoint of Spark Structured Streaming.

``offsets/N`` holds where batch N ends (Spark's ``OffsetSeqLog``): a line with the format's version,
one with the batch's metadata, then one a source, ``-`` without an offset. ``commits/N`` exists once
batch N is done. A query that starts again repeats a batch that was planned and is not done; the
position after all that is done is therefore in the newest ``offsets/N`` with a ``commits/N``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from k2ktui.engine.state import SourcePartition
from k2ktui.errors import ConfigError
from k2ktui.text import safe_text

_VERSION = "v1"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Offsets of a checkpoint file; ``lines`` are the file's, ``kafka`` those that hold offsets."""

    path: Path
    lines: tuple[str, ...]
    kafka: Mapping[int, Mapping[str, Mapping[str, int]]]

    @property
    def positions(self) -> dict[SourcePartition, int]:
        """Offset of each source partition; that of the last line if several sources share one."""
        return {
            SourcePartition(topic, int(partition)): offset
            for offsets in self.kafka.values()
            for topic, each in offsets.items()
            for partition, offset in each.items()
        }

    def rendered(self, translated: Callable[[SourcePartition, int], tuple[str, int, int]]) -> str:
        """Return the file's text for the target; ``translated`` yields topic, partition, offset."""
        lines = list(self.lines)
        for number, offsets in self.kafka.items():
            made: dict[str, dict[str, int]] = {}
            for topic, each in offsets.items():
                for partition, offset in each.items():
                    name, at, to = translated(SourcePartition(topic, int(partition)), offset)
                    made.setdefault(name, {})[str(at)] = to
            lines[number] = json.dumps(made, separators=(",", ":"))
        return "\n".join(lines) + "\n"


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint directory, its ``offsets`` directory, or one file of it.

    Raises:
        ConfigError: it is no checkpoint of Structured Streaming with Kafka offsets, or damaged.
    """
    file = _file(path)
    try:
        lines = tuple(file.read_text().rstrip("\n").split("\n"))
    except (OSError, UnicodeDecodeError) as error:
        raise _unusable(file, 0, getattr(error, "strerror", "") or "it is not text") from None
    if lines[0].strip() != _VERSION:
        raise _unusable(file, 1, f"expected {_VERSION}, the format of Spark's offset log")
    found = {}
    for number, line in enumerate(lines[2:], 2):
        if line.strip() == "-":
            continue
        offsets = _offsets(line)
        if offsets is None:
            raise _unusable(file, number + 1, 'expected Kafka offsets: {"topic":{"0":123}}')
        found[number] = offsets
    if not found:
        raise _unusable(file, len(lines), "there are no Kafka offsets in it")
    return Checkpoint(file, lines, found)


def _file(path: Path) -> Path:
    if ":/" in str(path) and not path.exists():
        raise _unusable(path, 0, "only local directories are read; copy the checkpoint here")
    if path.is_file():
        return path
    directory = path / "offsets" if (path / "offsets").is_dir() else path
    commits = directory.parent / "commits"
    try:
        numbers = sorted(int(f.name) for f in directory.iterdir() if f.name.isdigit())
    except OSError as error:
        raise _unusable(path, 0, error.strerror or "it cannot be read") from None
    done = [n for n in numbers if not commits.is_dir() or (commits / str(n)).is_file()]
    if not done:
        raise _unusable(path, 0, "it holds no batch that was completed")
    return directory / str(done[-1])


def _offsets(line: str) -> dict[str, dict[str, int]] | None:
    try:
        found: Any = json.loads(line)
    except ValueError:
        return None
    if not isinstance(found, dict) or not found:
        return None
    for each in found.values():
        if not isinstance(each, dict):
            return None
        for partition, offset in each.items():
            whole = isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0
            if not partition.isdigit() or not whole:
                return None
    return found


def _unusable(path: Path, line: int, why: str) -> ConfigError:
    where = f"{safe_text(str(path))}{f', line {line}' if line else ''}"
    return ConfigError(f"{where}: {why}", unchanged="Nothing was translated.")
