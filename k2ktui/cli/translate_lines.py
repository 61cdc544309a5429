"""``k2ktui translate --stdin``: a line of JSON for each line of JSON, for programs that wait."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from io import BufferedIOBase
from typing import TYPE_CHECKING, Any, cast

import click

from k2ktui.cli.terminal.notes import print_note, print_notes
from k2ktui.engine.mapping.translate import TranslatedOffset
from k2ktui.engine.strict_json import (
    MalformedRecord,
    field,
    integer,
    items,
    mapping,
    parse_object,
    text,
)
from k2ktui.errors import ConfigError, ExitCode, K2kError
from k2ktui.runtime.background import BackgroundRunner
from k2ktui.sync.moves.positions_text import check_positions
from k2ktui.text import safe_text

if TYPE_CHECKING:
    from k2ktui.engine.records.state import SourcePartition
    from k2ktui.pipeline import Pipeline

_LARGEST_LINE = 1 << 20
_READ_BYTES = 1 << 16
_REFRESH_S = 5.0
_POSITION = {"topic", "partition", "offset"}
_FORM = '{"topic": "orders", "partition": 0, "offset": 712}'

_Answer = tuple[dict[str, Any], bool]


class _MappingRefresher(BackgroundRunner):
    """Reads new mappings while no line comes, so that the next one has less to wait for."""

    failing = "mappings cannot be read"
    recovered = "mappings are read again"

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__("mappings", _REFRESH_S, print_note, immediately=True)
        self._pipeline = pipeline

    def work(self) -> None:
        """Read what is new."""
        self._pipeline.refresh()


def answer_lines(files: tuple[str, ...]) -> int:
    """Answer each line of standard input by one line, until it ends.

    Returns:
        Findings if a line had an error, or an offset that is not certain.

    Raises:
        ConfigError: the files cannot be used.
    """
    from k2ktui.pipeline import Pipeline

    is_good = True
    with Pipeline.open(*files) as pipeline:
        print_notes(pipeline.notes)
        with _MappingRefresher(pipeline):
            for lines in read_lines(cast(BufferedIOBase, sys.stdin.buffer)):
                for answer, is_certain in _answers(pipeline, lines):
                    is_good = is_good and is_certain
                    click.echo(json.dumps(answer))  # flushes
    return ExitCode.OK if is_good else ExitCode.FINDINGS


def read_lines(stream: BufferedIOBase) -> Iterator[list[bytes]]:
    """Yield the lines that have come; of one that is too long, a beginning that is too long, too.

    A program may wait for an answer before it writes the next line, so this waits for no more than
    a line. One that writes many gets many answers from one look at the mappings.
    """
    begun = b""
    while came := stream.read1(_READ_BYTES):
        *ended, rest = came.split(b"\n")
        if ended:
            yield [(begun + ended[0])[: _LARGEST_LINE + 1], *ended[1:]]
            begun = b""
        begun = (begun + rest)[: _LARGEST_LINE + 1]
    if begun:
        yield [begun]


def _answers(pipeline: Pipeline, lines: Iterable[bytes]) -> Iterator[_Answer]:
    """Yield what is printed for each line, and whether every offset in it is certain."""
    parsed = [_parsed(line) for line in lines]
    asked = [_by_topic(line[0]) for line in parsed if not isinstance(line, K2kError)]
    translated: Iterator[tuple[TranslatedOffset, ...]] | K2kError
    try:
        translated = iter(pipeline.translate_each(asked))
    except K2kError as error:
        translated = error
    for line in parsed:
        if isinstance(line, K2kError):
            yield _refusal(line)
        elif isinstance(translated, K2kError):
            yield _refusal(translated)
        else:
            yield _answer(next(translated), is_list=line[1])


def _parsed(line: bytes) -> tuple[dict[SourcePartition, int], bool] | K2kError:
    try:
        return parse_line(line)
    except K2kError as error:
        return error


def _answer(rows: tuple[TranslatedOffset, ...], *, is_list: bool) -> _Answer:
    try:
        answer = {"positions": [asdict(row) for row in rows]} if is_list else asdict(_only(rows))
        return answer, all(row.is_certain for row in rows)
    except K2kError as error:
        return _refusal(error)


def _refusal(error: K2kError) -> _Answer:
    return {"error": error.message, "hint": error.hint, "exit_code": error.exit_code}, False


def parse_line(line: bytes) -> tuple[dict[SourcePartition, int], bool]:
    """Return the offsets that a line asks for, and whether it has a list of them."""
    try:
        value = parse_object(line, "the line", largest=_LARGEST_LINE)
        is_list = "positions" in value
        if is_list:
            _require_fields(value, {"positions"})
        positions = [mapping(item) for item in items(value["positions"])] if is_list else [value]
        places = []
        for position in positions:
            _require_fields(position, _POSITION)
            partition, offset = field(position, "partition"), field(position, "offset")
            places.append((text(field(position, "topic")), integer(partition), integer(offset)))
    except MalformedRecord as error:
        raise ConfigError(
            f"the line cannot be used: {error}",
            hint=f'Write {_FORM}, or {{"positions": […]}} with several of them.',
        ) from error
    return check_positions(places), is_list


def _require_fields(value: dict[str, Any], names: set[str]) -> None:
    if unknown := value.keys() - names:
        known, other = ", ".join(sorted(names)), safe_text(min(unknown), 100)
        raise MalformedRecord(f"a field beside {known}: {other}")


def _by_topic(commits: dict[SourcePartition, int]) -> dict[str, dict[int, int]]:
    offsets: dict[str, dict[int, int]] = {}
    for source, offset in commits.items():
        offsets.setdefault(source.topic, {})[source.partition] = offset
    return offsets


def _only(rows: tuple[TranslatedOffset, ...]) -> TranslatedOffset:
    """Return the row of a single offset."""
    if len(rows) > 1:
        row = rows[0]
        raise ConfigError(
            f"{row.topic}-{row.partition} leads to {len(rows)} partitions of the target, and an "
            "answer without a list has one",
            hint=f'Write {{"positions": [{_FORM}]}}.',
        )
    return rows[0]
