"""``k2ktui status``: positions, lag and coverage, from what both clusters say now."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import click
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from k2ktui.cli.options import file_option, json_option, load_pipeline
from k2ktui.engine.status import PartitionStatus
from k2ktui.replication.status import Status, StatusReader
from k2ktui.text import safe_text

_UNKNOWN = "—"
_WIDE = 130


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
    console = Console()
    console.print(_table(status, wide=console.width >= _WIDE))


def _table(status: Status, *, wide: bool) -> Table:
    taken = datetime.fromtimestamp(status.taken_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    table = Table(
        title=f"{safe_text(status.pipeline)} at {taken}",
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    shown = [column for column in _COLUMNS if wide or not column.wide]
    for column in shown:
        table.add_column(
            column.heading, justify="left" if column.left else "right", no_wrap=not column.left
        )
    for row in status.partitions:
        table.add_row(*(Text(column.cell(row)) for column in shown))
    return table


@dataclass(frozen=True, slots=True)
class _Column:
    heading: str
    cell: Callable[[PartitionStatus], str]
    left: bool = False
    wide: bool = False


def _number(value: int | None) -> str:
    return _UNKNOWN if value is None else f"{value:,}"


def _target(row: PartitionStatus) -> str:
    partition = "*" if row.target_partition is None else str(row.target_partition)
    return safe_text(f"{row.target_topic}-{partition}")


_COLUMNS = (
    _Column("topic-partition", lambda row: safe_text(f"{row.topic}-{row.partition}"), left=True),
    _Column("state", lambda row: str(row.state), left=True),
    _Column("path", lambda row: row.path, left=True, wide=True),
    _Column("position", lambda row: _number(row.position)),
    _Column("end", lambda row: _number(row.source_end)),
    _Column("lag", lambda row: _number(row.lag_records)),
    _Column(
        "behind", lambda row: _UNKNOWN if row.lag_seconds is None else f"{row.lag_seconds:.1f} s"
    ),
    _Column("target", _target, left=True, wide=True),
    _Column("target end", lambda row: _number(row.target_end), wide=True),
    _Column("mapped", lambda row: _number(row.mapped_records), wide=True),
    _Column("coverage", lambda row: _UNKNOWN if row.coverage is None else f"{row.coverage:.1%}"),
)
