"""``k2ktui translate``: translate offsets stored outside Kafka, such as Spark checkpoints."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.files import load_flow
from k2ktui.cli.terminal.notes import print_note, print_notes
from k2ktui.cli.terminal.tables import print_json, print_table
from k2ktui.config.inputs import STDIN
from k2ktui.engine.mapping.translate import Basis, TranslatedOffset, Translation, list_translated
from k2ktui.engine.moves.positions_text import check_positions
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.strict_json import (
    MalformedRecord,
    field,
    integer,
    items,
    mapping,
    parse_object,
    text,
)
from k2ktui.errors import ConfigError, ExitCode, K2kError, Refused
from k2ktui.present.columns import Column, text_column
from k2ktui.present.formatting import number
from k2ktui.runtime.background import BackgroundRunner
from k2ktui.text import safe_message, safe_text

if TYPE_CHECKING:
    from k2ktui.pipeline import Pipeline
    from k2ktui.sync.flow import Flow

_GOOD = (Basis.EXACT, Basis.END)
# Of --stdin: the longest line, how much is read at once, and how often mappings are read.
_LARGEST_LINE = 1 << 20
_READ_BYTES = 1 << 16
_REFRESH_S = 5.0
_POSITION = {"topic", "partition", "offset"}
_FORM = '{"topic": "orders", "partition": 0, "offset": 712}'
# What is printed for a line, and whether every offset in it is certain.
_Answer = tuple[dict[str, Any], bool]


@click.command(
    help="Translate source offsets, given as arguments, as a Spark checkpoint, or line by line."
)
@options.reading
@options.value(
    "--from-spark-checkpoint checkpoint",
    "DIR",
    "Structured Streaming checkpoint: its directory, its offsets directory or one offsets file.",
)
@options.flag(
    "--stdin from_lines",
    "Answer each line of JSON on standard input by one line, until it ends; with --json.",
)
@click.argument("positions", nargs=-1, metavar="[TOPIC:PARTITION:OFFSET]...")
def translate(
    files: tuple[str, ...],
    as_json: bool,
    checkpoint: str | None,
    from_lines: bool,
    positions: tuple[str, ...],
) -> int:
    """Translate and print; findings if a position is not exact."""
    from k2ktui.engine.moves.positions_text import parse_positions

    if [bool(checkpoint), bool(positions), from_lines].count(True) != 1:
        raise ConfigError(
            "give either positions as TOPIC:PARTITION:OFFSET, --from-spark-checkpoint or --stdin"
        )
    if from_lines:
        if not as_json:
            raise ConfigError("--stdin reads and prints JSON", hint="Add --json.")
        if any(name.strip() == STDIN for layer in files for name in layer.split(",")):
            raise ConfigError("--stdin reads positions: -f - cannot read the pipeline's file, too")
        return answer_lines(files)
    flow = load_flow(files)
    if checkpoint:
        return _checkpoint(flow, Path(checkpoint), as_json=as_json)
    commits = parse_positions(positions)
    (translations,) = translate_all(flow, commits)
    rows = list_translated(commits, translations)
    if as_json:
        body = {"pipeline": flow.config.name, "positions": [asdict(row) for row in rows]}
        print_json(body)
    else:
        print_table(f"{safe_text(flow.config.name)}", _columns(commits), translations)
    for row in rows:
        if row.target_partition is None:
            print_note(row.reason)
    return ExitCode.OK if all(row.is_certain for row in rows) else ExitCode.FINDINGS


def translate_all(flow: Flow, *commits: dict[SourcePartition, int]) -> list[list[Translation]]:
    """Translate several sets of source offsets from one snapshot of both clusters.

    Raises:
        ConnectionFailed, TimedOut: the target does not answer.
        NothingCopied: nothing has been replicated yet.
    """
    from k2ktui.kafka.unreachable import await_open
    from k2ktui.sync.moves.snapshot import SnapshotReader

    # First: the source is not needed, and to find out that it does not answer takes a second.
    await_open("target", flow.config.target.bootstrap_servers)
    with closing(SnapshotReader(flow, for_plans=False)) as snapshots:
        return snapshots.translate_each(commits)


def _checkpoint(flow: Flow, path: Path, *, as_json: bool) -> int:
    """Print the checkpoint's offsets file for the target, only if every offset is exact."""
    from k2ktui.sync.moves.spark_checkpoints import read_checkpoint

    checkpoint = read_checkpoint(path)
    # Per line: two sources of a query may be at different offsets of one partition.
    positions_of_lines = [dict(line.positions) for line in checkpoint.lines if line.positions]
    translations = {
        (row.sources[0], commits[row.sources[0]]): row
        for commits, rows in zip(
            positions_of_lines, translate_all(flow, *positions_of_lines), strict=True
        )
        for row in rows
        if len(row.sources) == 1
    }
    doubtful = []
    for source, offset in sorted({at for commits in positions_of_lines for at in commits.items()}):
        row = translations.get((source, offset))
        if row is None or row.offset is None or row.basis not in _GOOD:
            why = "it is not replicated, or has no single position on the target"
            if row is not None:
                why = f"{row.basis}; {row.reason}" if row.reason else str(row.basis)
            doubtful.append(f"{safe_text(f'{source}@{offset}')}: {safe_message(why)}")
    if doubtful:
        raise Refused(
            "some positions cannot be translated exactly:\n    " + "\n    ".join(doubtful),
            unchanged="No checkpoint was printed.",
            hint="Wait until the pipeline has caught up, or translate positions one by one.",
        )

    def translate_one(source: SourcePartition, offset: int) -> tuple[str, int, int]:
        row = translations[source, offset]
        assert row.offset is not None
        return (*row.target, row.offset)

    print_note(f"read from {safe_text(str(checkpoint.path))}")
    if checkpoint.unfinished:
        batches = ", ".join(map(str, checkpoint.unfinished))
        print_note(f"batch {batches} was started but not committed; Spark runs it again")
    content = checkpoint.render(translate_one)
    if as_json:
        rows = [
            asdict(shown)
            for (at, offset), row in sorted(translations.items())
            for shown in list_translated({at: offset}, [row])
        ]
        batch = {"batch": checkpoint.batch, "unfinished": checkpoint.unfinished}
        body = {"pipeline": flow.config.name, **batch, "positions": rows, "content": content}
        print_json(body)
    else:
        click.echo(content, nl=False)
    return int(ExitCode.OK)


def _columns(commits: dict[SourcePartition, int]) -> tuple[Column[Translation], ...]:
    return (
        text_column(
            "source",
            lambda row: safe_text(", ".join(f"{s}@{commits[s]}" for s in row.sources)),
            left=True,
        ),
        text_column(
            "target partition", lambda row: safe_text("-".join(map(str, row.target))), left=True
        ),
        text_column("offset", lambda row: number(row.offset)),
        text_column("basis", lambda row: str(row.basis), left=True),
        text_column("reread", lambda row: number(row.reread)),
        text_column("skipped", lambda row: number(row.skipped)),
        text_column("note", lambda row: safe_message(row.reason), left=True),
    )


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
                    print_json(answer)  # flushes
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
