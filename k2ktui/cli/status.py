"""``k2ktui status``: positions, lag and coverage, from what both clusters say now."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from k2ktui.cli.options import file_option, json_option, load_pipeline
from k2ktui.engine.status import PartitionStatus
from k2ktui.replication.status import StatusReader
from k2ktui.text import safe_text

_UNKNOWN = "—"


@click.command(help="Show positions, lag and coverage; needs no running job.")
@file_option
@json_option
def command(files: tuple[str, ...], as_json: bool) -> None:
    """Read both clusters once and print."""
    reader = StatusReader(load_pipeline(files))
    try:
        status = reader.snapshot()
    finally:
        reader.close()
    if as_json:
        click.echo(json.dumps(status.as_json()))
        return
    taken = datetime.fromtimestamp(status.taken_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    table = Table(title=f"{safe_text(status.pipeline)} at {taken}", title_justify="left")
    for heading in ("topic-partition", "state", "path", "position", "end", "lag", "behind"):
        table.add_column(heading, justify="left" if heading in _LEFT else "right")
    for heading in ("target", "target end", "mapped", "coverage"):
        table.add_column(heading, justify="left" if heading in _LEFT else "right")
    for row in status.partitions:
        table.add_row(*(Text(cell) for cell in _cells(row)))
    Console().print(table)


_LEFT = frozenset({"topic-partition", "state", "path", "target"})


def _cells(row: PartitionStatus) -> list[str]:
    target = "*" if row.target_partition is None else str(row.target_partition)
    return [
        safe_text(f"{row.topic}-{row.partition}"),
        str(row.state),
        row.path,
        _number(row.position),
        _number(row.source_end),
        _number(row.lag_records),
        _UNKNOWN if row.lag_seconds is None else f"{row.lag_seconds:.1f} s",
        safe_text(f"{row.target_topic}-{target}"),
        _number(row.target_end),
        _number(row.mapped_records),
        _UNKNOWN if row.coverage is None else f"{row.coverage:.1%}",
    ]


def _number(value: int | None) -> str:
    return _UNKNOWN if value is None else f"{value:,}"
