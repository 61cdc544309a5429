"""Read and rewrite the positions in a Spark Structured Streaming checkpoint.

``offsets/N`` is written before batch N runs and holds the offsets at which it *ends*;
``commits/N`` is written after it (``MicroBatchExecution.populateStartOffsets``,
``OffsetSeqLog.scala``). So a query continues at the end of the newest batch that has both: a batch
with ``offsets/N`` alone was planned, may have been written in part, and will be run again.

Format of ``offsets/N``: a line with the version, a line with the batch's metadata (JSON, may be
empty), and one line per source: in version 1 its offset, in the query's order; in version 2
(``spark.sql.streaming.offsetLog.formatVersion`` of newer Spark releases) ``ID:OFFSET``, in any
order. A source without an offset has ``-``. Kafka's offset is ``{"topic":{"0":123}}``
(``JsonUtils.scala``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from k2ktui.engine.moves.positions_text import LARGEST_OFFSET, LARGEST_PARTITION, is_topic_name
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.strict_json import MalformedRecord
from k2ktui.engine.strict_json import parse as parse_json
from k2ktui.errors import ConfigError
from k2ktui.text import safe_message, safe_text

_VERSION = re.compile(r"v([0-9]{1,9})")
_NUMBER = re.compile(r"0|[1-9][0-9]*")
_SOURCE_ID = re.compile(r"([^:{}\"]+):(.*)", re.DOTALL)
_KNOWN_VERSIONS = (1, 2)
_VOID = "-"
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/")
_LARGEST_FILE = 256 << 20
_FOREIGN = "Give the checkpointLocation of a query, or one of its files offsets/N."

Translate = Callable[[SourcePartition, int], tuple[str, int, int]]
"""Translates a source partition and its offset to target topic, partition and offset."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """The line of one source of the query.

    Attributes:
        text: its offset, verbatim.
        positions: next offset of each partition; None if the source is not Kafka, or has no
            offset.
        source_id: the source's id in a file of version 2, empty in version 1.
    """

    text: str
    positions: Mapping[SourcePartition, int] | None
    source_id: str = ""

    def render(self, translated: Translate) -> str:
        """Return the offset for the target in the format of Spark's Kafka source, sorted."""
        if self.positions is None:
            return self.text
        topics: dict[str, dict[str, int]] = {}
        for at, offset in sorted(self.positions.items()):
            topic, partition, to = translated(at, offset)
            topics.setdefault(topic, {})[str(partition)] = to
        return json.dumps(topics, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class SparkCheckpoint:
    """The offsets of one batch.

    Attributes:
        path: the file they were read from.
        batch: its number.
        version: version of the file's format.
        metadata: the line of the batch's metadata, verbatim.
        lines: the query's sources.
        unfinished: newer batches that were planned and not committed; they will be run again.
            Empty if a single file was given, because then the directory is not examined.
    """

    path: Path
    batch: int
    version: int
    metadata: str
    lines: tuple[SourceLine, ...]
    unfinished: tuple[int, ...] = ()

    @property
    def positions(self) -> dict[SourcePartition, int]:
        """Next offset of each Kafka partition; the lowest where several sources read one."""
        positions: dict[SourcePartition, int] = {}
        for line in self.lines:
            for at, offset in (line.positions or {}).items():
                positions[at] = min(positions.get(at, offset), offset)
        return positions

    def render(self, translated: Translate) -> str:
        """Return the file's text for the target; lines of other source types stay unchanged."""
        lines = [f"v{self.version}", self.metadata]
        for line in self.lines:
            prefix = f"{line.source_id}:" if self.version == 2 else ""
            lines.append(prefix + line.render(translated))
        return "\n".join(lines) + "\n"


def read_checkpoint(where: str | Path) -> SparkCheckpoint:
    """Read the position of a query.

    Args:
        where: a checkpoint directory (the query's ``checkpointLocation``) or its directory
            ``offsets``, to read the newest committed batch; or one file ``offsets/N``, which is
            read whether or not the batch is committed.

    Raises:
        ConfigError: it is missing, not on a local file system, not a checkpoint, or damaged; for a
            damaged file the message names the line.
    """
    scheme = _SCHEME.match(str(where))
    if scheme is not None and scheme[1] == "file":
        where = unquote(urlsplit(str(where)).path)
    elif scheme is not None:
        raise ConfigError(
            f"{safe_text(where)} is not a local directory",
            hint="Copy the directories offsets and commits of the checkpoint to a local one.",
        )
    path = Path(where)
    if path.is_file():
        return _read(path, _number_of(path))
    if not path.is_dir():
        raise ConfigError(f"{safe_text(path)}: no such file or directory", hint=_FOREIGN)
    return _newest(path.parent if path.name == "offsets" else path)


def _newest(directory: Path) -> SparkCheckpoint:
    planned = _batches(directory / "offsets")
    if not planned:
        raise ConfigError(
            f"{safe_text(directory)} is not the checkpoint of a streaming query: it has no batch "
            "in a directory offsets",
            hint=_FOREIGN,
        )
    committed = _batches(directory / "commits") & planned
    if not committed:
        raise ConfigError(
            f"{safe_text(directory)}: no batch with a file in offsets has one in commits, so "
            "no batch is known to be complete",
            hint="Copy the directory commits as well. If it was copied, the query has no "
            "position yet: it starts at its startingOffsets. To treat batch N as complete, "
            "give its file offsets/N.",
        )
    number = max(committed)
    unfinished = tuple(sorted(batch for batch in planned if batch > number))
    return _read(directory / "offsets" / str(number), number, unfinished)


def _batches(directory: Path) -> set[int]:
    """Return the batch numbers in a log directory; ignores checksums and temporary files."""
    try:
        return {int(p.name) for p in directory.iterdir() if _NUMBER.fullmatch(p.name)}
    except (FileNotFoundError, NotADirectoryError):
        return set()
    except OSError as error:
        raise _unreadable(directory, error) from error


def _number_of(path: Path) -> int:
    if _NUMBER.fullmatch(path.name) is None:
        raise ConfigError(f"{safe_text(path)}: its name is not a batch number", hint=_FOREIGN)
    return int(path.name)


def _read(path: Path, batch: int, unfinished: tuple[int, ...] = ()) -> SparkCheckpoint:
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise _damaged_error(path, 1, "larger than any offset log")
        data = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise _damaged_error(path, data.count(b"\n", 0, error.start) + 1, "not UTF-8") from error
    return parse_checkpoint(text, path, batch, unfinished)


def parse_checkpoint(
    text: str, path: Path, batch: int, unfinished: tuple[int, ...] = ()
) -> SparkCheckpoint:
    """Parse the text of a file ``offsets/N``.

    Args:
        text: the content of the file.
        path: its name, for messages.
        batch: N.
        unfinished: newer batches without a commit.

    Raises:
        ConfigError: it is damaged, of another kind, or has no Kafka offsets.
    """
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    version = _version(lines[0], path)
    if len(lines) < 3:
        raise _damaged_error(path, len(lines), "the file ends before the first source's offset")
    metadata = lines[1]
    if metadata.strip() and not isinstance(_json(metadata, path, 2), dict):
        raise _damaged_error(path, 2, "the batch's metadata is not a JSON object")
    sources = tuple(
        _source(line, version, path, number) for number, line in enumerate(lines[2:], start=3)
    )
    ids = [source.source_id for source in sources]
    for number, one in enumerate(ids):
        if one and one in ids[:number]:
            raise _damaged_error(path, number + 3, f"a second line of source {safe_text(one)}")
    if all(source.positions is None for source in sources):
        raise ConfigError(
            f"{safe_text(path)}: none of its {len(sources)} sources has Kafka offsets",
            hint=_FOREIGN,
        )
    return SparkCheckpoint(path, batch, version, metadata, sources, unfinished)


def _version(line: str, path: Path) -> int:
    match = _VERSION.fullmatch(line)
    if match is None:
        raise _damaged_error(path, 1, "an offset log begins with its version, such as v1")
    if match[1] not in map(str, _KNOWN_VERSIONS):
        raise _damaged_error(
            path, 1, f"version {match[1][:20]}; this release reads versions 1 and 2"
        )
    return int(match[1])


def _source(line: str, version: int, path: Path, number: int) -> SourceLine:
    source_id, text = "", line
    if version == 2:
        match = _SOURCE_ID.fullmatch(line)
        if match is None:
            raise _damaged_error(path, number, "a line of version 2 is ID:OFFSET")
        source_id, text = match[1], match[2]
    if text.strip() == _VOID:
        return SourceLine(text, None, source_id)
    value = _json(text, path, number)
    # Other source types have numbers or strings where Kafka has one object per topic.
    if not isinstance(value, dict) or not any(isinstance(inner, dict) for inner in value.values()):
        return SourceLine(text, {} if value == {} else None, source_id)
    return SourceLine(text, _positions(value, path, number), source_id)


def _positions(value: dict[str, Any], path: Path, number: int) -> dict[SourcePartition, int]:
    positions = {}
    for topic, partitions in value.items():
        if not is_topic_name(topic):
            raise _damaged_error(
                path, number, f"{safe_text(topic, 80)!r} is not a valid topic name"
            )
        if not isinstance(partitions, dict):
            raise _damaged_error(path, number, f"topic {topic} has no JSON object of partitions")
        for partition, offset in partitions.items():
            digits = _NUMBER.fullmatch(partition) is not None and len(partition) <= 10
            if not digits or int(partition) > LARGEST_PARTITION:
                what = f"{safe_text(partition, 40)!r} is not a partition of {topic}"
                raise _damaged_error(path, number, what)
            # bool is a subclass of int in Python, but true is not an offset.
            if type(offset) is not int or not 0 <= offset <= LARGEST_OFFSET:
                # A list or an object may be nested too deeply for json.dumps.
                plain = not isinstance(offset, list | dict)
                shown = safe_message(json.dumps(offset), 40) if plain else type(offset).__name__
                what = f"{shown} is not an offset of {topic}-{partition}"
                raise _damaged_error(path, number, what)
            positions[SourcePartition(topic, int(partition))] = offset
    return positions


def _json(text: str, path: Path, number: int) -> Any:
    try:
        return parse_json(text, largest=_LARGEST_FILE)
    except MalformedRecord as error:
        cause = error.__cause__
        if isinstance(cause, json.JSONDecodeError):
            what = f"not JSON: {cause.msg} at column {cause.colno}"
        else:
            what = str(error).removeprefix("it is ")
        raise _damaged_error(path, number, what) from error


def _damaged_error(path: Path, line: int, what: str) -> ConfigError:
    return ConfigError(
        f"{safe_text(path)}, line {line}: {what}",
        unchanged="Nothing was translated.",
        hint="Copy the file offsets/N of the Spark Structured Streaming checkpoint again, "
        "complete and unchanged.",
    )


def _unreadable(path: Path, error: OSError) -> ConfigError:
    return ConfigError(
        f"{safe_text(path)}: {safe_text(error.strerror or error)}",
        hint="Check the file permissions.",
    )
