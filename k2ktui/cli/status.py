"""``k2ktui status``: positions, lag and coverage, from the current state of both clusters."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from k2ktui.cli.groups import COLUMNS as GROUP_COLUMNS
from k2ktui.cli.options import file_option, json_option, load_flow
from k2ktui.cli.tables import UNKNOWN, Column, moment, number, print_table
from k2ktui.engine.status import PartitionStatus
from k2ktui.text import safe_text

if TYPE_CHECKING:
    from k2ktui.watch.once import Reading


@click.command(help="Show positions, lag and coverage; works while no job is running.")
@file_option
@json_option
@click.option("--groups", "with_groups", is_flag=True, help="Include consumer groups.")
def command(files: tuple[str, ...], as_json: bool, with_groups: bool) -> None:
    """Read both clusters once and print; if the source is down, the target's data alone."""
    from k2ktui.watch.once import read_once

    reading = read_once(load_flow(files), groups=with_groups)
    view, error = reading.view, reading.source_error or reading.groups_error
    if as_json:
        click.echo(json.dumps(status_object(reading, with_groups=with_groups)))
    else:
        for note in view.notes:
            click.echo(f"note: {safe_text(note)}", err=True)
        title = f"{safe_text(view.pair.pipeline)} at {moment(view.taken_at)}"
        rows = [row.status for row in view.partitions]
        print_table(title, _columns(reading), rows)
        for row in rows:
            if row.held is not None:
                click.echo(f"{safe_text(row.topic)}-{row.partition}: {row.held.text()}")
        if view.groups:
            print_table("Consumer groups", GROUP_COLUMNS, view.groups)
    if error is not None:
        raise error


def status_object(reading: Reading, *, with_groups: bool = False) -> dict[str, Any]:
    """Return what ``--json`` prints."""
    view, error = reading.view, reading.source_error
    return {
        "pipeline": view.pair.pipeline,
        "taken_at": view.taken_at,
        "source_down": error.message if error else "",
        "partitions": [asdict(row.status) for row in view.partitions],
        **({"groups": [row.as_json() for row in view.groups]} if with_groups else {}),
    }


def _target(row: PartitionStatus) -> str:
    partition = "*" if row.target_partition is None else str(row.target_partition)
    return safe_text(f"{row.target_topic}-{partition}")


def _age(row: PartitionStatus, now: float) -> str:
    return UNKNOWN if row.copied_at is None else f"{max(0.0, now - row.copied_at):,.0f} s ago"


def _columns(reading: Reading) -> tuple[Column[PartitionStatus], ...]:
    if reading.source_error is None:
        return _COLUMNS
    now = reading.view.taken_at
    copied: Column[PartitionStatus] = Column("copied", lambda row: _age(row, now))
    return (*_COLUMNS, copied)


_COLUMNS: tuple[Column[PartitionStatus], ...] = (
    Column("topic-partition", lambda row: safe_text(f"{row.topic}-{row.partition}"), left=True),
    Column("state", lambda row: str(row.state), left=True),
    Column("path", lambda row: row.path, left=True, wide=True),
    Column("position", lambda row: number(row.position)),
    Column("end", lambda row: number(row.source_end)),
    Column("lag", lambda row: number(row.lag_records)),
    Column(
        "behind", lambda row: UNKNOWN if row.lag_seconds is None else f"{row.lag_seconds:.1f} s"
    ),
    Column("held back", lambda row: number(row.held_back), wide=True),
    Column("target", _target, left=True, wide=True),
    Column("target end", lambda row: number(row.target_end), wide=True),
    Column("mapped", lambda row: number(row.mapped_records), wide=True),
    Column("coverage", lambda row: UNKNOWN if row.coverage is None else f"{row.coverage:.1%}"),
)
