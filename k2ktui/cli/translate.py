"""``k2ktui translate``: translate offsets stored outside Kafka, such as Spark checkpoints."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from k2ktui.cli.terminal.notes import print_note
from k2ktui.cli.terminal.options import file_option, json_option, load_flow
from k2ktui.cli.terminal.tables import print_table
from k2ktui.config.inputs import STDIN
from k2ktui.engine.mapping.translate import Basis, Translation, list_translated
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConfigError, ExitCode, Refused
from k2ktui.present.columns import Column, text_column
from k2ktui.present.formatting import number
from k2ktui.text import safe_message, safe_text

_GOOD = (Basis.EXACT, Basis.END)

if TYPE_CHECKING:
    from k2ktui.sync.flow import Flow


@click.command(
    help="Translate source offsets, given as arguments, as a Spark checkpoint, or line by line."
)
@file_option
@json_option
@click.option(
    "--from-spark-checkpoint",
    "checkpoint",
    metavar="DIR",
    help="Structured Streaming checkpoint: its directory, its offsets directory or one "
    "offsets file.",
)
@click.option(
    "--stdin",
    "from_lines",
    is_flag=True,
    help="Answer each line of JSON on standard input by one line, until it ends; with --json.",
)
@click.argument("positions", nargs=-1, metavar="[TOPIC:PARTITION:OFFSET]...")
def command(
    files: tuple[str, ...],
    as_json: bool,
    checkpoint: str | None,
    from_lines: bool,
    positions: tuple[str, ...],
) -> int:
    """Translate and print; findings if a position is not exact."""
    from k2ktui.sync.moves.positions_text import parse_positions

    if [bool(checkpoint), bool(positions), from_lines].count(True) != 1:
        raise ConfigError(
            "give either positions as TOPIC:PARTITION:OFFSET, --from-spark-checkpoint or --stdin"
        )
    if from_lines:
        return _answer_lines(files, as_json=as_json)
    flow = load_flow(files)
    if checkpoint:
        return _checkpoint(flow, Path(checkpoint), as_json=as_json)
    commits = parse_positions(positions)
    (translations,) = translate_all(flow, commits)
    rows = list_translated(commits, translations)
    if as_json:
        body = {"pipeline": flow.config.name, "positions": [asdict(row) for row in rows]}
        click.echo(json.dumps(body))
    else:
        print_table(f"{safe_text(flow.config.name)}", _columns(commits), translations)
    for row in rows:
        if row.target_partition is None:
            print_note(row.reason)
    good = all(row.is_certain for row in rows)
    return int(ExitCode.OK if good else ExitCode.FINDINGS)


def _answer_lines(files: tuple[str, ...], *, as_json: bool) -> int:
    from k2ktui.cli.translate_lines import answer_lines

    if not as_json:
        raise ConfigError("--stdin reads and prints JSON", hint="Add --json.")
    if any(name.strip() == STDIN for layer in files for name in layer.split(",")):
        raise ConfigError("--stdin reads positions: -f - cannot read the pipeline's file, too")
    return answer_lines(files)


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
    snapshots = SnapshotReader(flow, for_plans=False)
    try:
        return snapshots.translate_each(commits)
    finally:
        snapshots.close()


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
            why = _uncertainty(row)
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

    click.echo(f"note: read from {safe_text(str(checkpoint.path))}", err=True)
    if checkpoint.unfinished:
        batches = ", ".join(map(str, checkpoint.unfinished))
        click.echo(
            f"note: batch {batches} was started but not committed; Spark runs it again", err=True
        )
    content = checkpoint.render(translate_one)
    if as_json:
        rows = [
            asdict(shown)
            for (at, offset), row in sorted(translations.items())
            for shown in list_translated({at: offset}, [row])
        ]
        batch = {"batch": checkpoint.batch, "unfinished": checkpoint.unfinished}
        body = {"pipeline": flow.config.name, **batch, "positions": rows, "content": content}
        click.echo(json.dumps(body))
    else:
        click.echo(content, nl=False)
    return int(ExitCode.OK)


def _uncertainty(row: Translation | None) -> str:
    if row is None:
        return "it is not replicated, or has no single position on the target"
    return f"{row.basis}; {row.reason}" if row.reason else str(row.basis)


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
