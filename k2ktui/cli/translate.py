"""``k2ktui translate``: positions that are kept outside Kafka, such as Spark checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

import click

from k2ktui.cli.options import file_option, json_option, load_pipeline
from k2ktui.cli.tables import Column, number, print_table
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.state import SourcePartition
from k2ktui.engine.translate import Basis, Translation
from k2ktui.errors import ConfigError, ExitCode, Refused
from k2ktui.text import safe_text

_GOOD = (Basis.EXACT, Basis.END)


@click.command(help="Translate source offsets given as TOPIC:PARTITION:OFFSET, or a checkpoint's.")
@file_option
@json_option
@click.option(
    "--from-spark-checkpoint",
    "checkpoint",
    metavar="DIR",
    help="A Structured Streaming checkpoint, its offsets directory, or one file of it.",
)
@click.argument("positions", nargs=-1, metavar="[TOPIC:PARTITION:OFFSET]...")
def command(
    files: tuple[str, ...], as_json: bool, checkpoint: str | None, positions: tuple[str, ...]
) -> int:
    """Translate and print; findings when a position is not exact."""
    from k2ktui.sync.positions_text import parse_positions

    if bool(checkpoint) == bool(positions):
        raise ConfigError(
            "give positions as TOPIC:PARTITION:OFFSET, or --from-spark-checkpoint, one of them"
        )
    config = load_pipeline(files)
    if checkpoint:
        return _checkpoint(config, Path(checkpoint))
    commits = parse_positions(positions)
    found = _translated(config, commits)
    if as_json:
        click.echo(json.dumps({"pipeline": config.name, "positions": _objects(found, commits)}))
    else:
        print_table(f"{safe_text(config.name)}", _columns(commits), found)
    missing = commits.keys() - {source for row in found for source in row.sources}
    for source in sorted(missing):
        click.echo(f"note: {safe_text(str(source))} was never replicated", err=True)
    good = not missing and all(row.basis in _GOOD for row in found)
    return int(ExitCode.OK if good else ExitCode.FINDINGS)


def _translated(config: PipelineConfig, commits: dict[SourcePartition, int]) -> list[Translation]:
    from k2ktui.sync.snapshot import Snapshots

    snapshots = Snapshots(config)
    try:
        return snapshots.translate(commits)
    finally:
        snapshots.close()


def _checkpoint(config: PipelineConfig, path: Path) -> int:
    """Print the checkpoint's offsets file for the target; nothing unless every offset is exact."""
    from k2ktui.sync.checkpoints import read_checkpoint

    checkpoint = read_checkpoint(path)
    commits = checkpoint.positions
    by_source = {row.sources: row for row in _translated(config, commits)}
    doubtful = []
    for source, offset in sorted(commits.items()):
        row = by_source.get((source,))
        if row is None or row.offset is None or row.basis not in _GOOD:
            why = "it was never replicated" if row is None else f"{row.basis}; {row.reason}"
            doubtful.append(f"{safe_text(f'{source}@{offset}')}: {safe_text(why)}")
    if doubtful:
        raise Refused(
            "some positions cannot be translated exactly:\n    " + "\n    ".join(doubtful),
            unchanged="No checkpoint was printed.",
            mend="Wait until the pipeline has caught up, or give positions one by one.",
        )

    def translated(source: SourcePartition, offset: int) -> tuple[str, int, int]:
        row = by_source[(source,)]
        assert row.offset is not None
        return (*row.target, row.offset)

    click.echo(f"note: of {safe_text(str(checkpoint.path))}", err=True)
    click.echo(checkpoint.rendered(translated), nl=False)
    return int(ExitCode.OK)


def _objects(
    found: list[Translation], commits: dict[SourcePartition, int]
) -> list[dict[str, object]]:
    return [
        {
            "topic": source.topic,
            "partition": source.partition,
            "offset": commits[source],
            "target_topic": row.target[0],
            "target_partition": row.target[1],
            "translated_offset": row.offset,
            "basis": str(row.basis),
            "reread": row.reread,
            "skipped": row.skipped,
            "reason": row.reason,
        }
        for row in found
        for source in row.sources
    ]


def _columns(commits: dict[SourcePartition, int]) -> tuple[Column[Translation], ...]:
    return (
        Column(
            "source",
            lambda row: safe_text(", ".join(f"{s}@{commits[s]}" for s in row.sources)),
            left=True,
        ),
        Column(
            "target partition", lambda row: safe_text("-".join(map(str, row.target))), left=True
        ),
        Column("offset", lambda row: number(row.offset)),
        Column("basis", lambda row: str(row.basis), left=True),
        Column("reread", lambda row: number(row.reread)),
        Column("skipped", lambda row: number(row.skipped)),
        Column("note", lambda row: safe_text(row.reason), left=True),
    )
