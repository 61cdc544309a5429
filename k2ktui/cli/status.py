"""``k2ktui status``: positions, lag and coverage, from the current state of both clusters."""

from __future__ import annotations

import json

import click

from k2ktui.cli.groups import COLUMNS as GROUP_COLUMNS
from k2ktui.cli.options import file_option, json_option, load_pipeline
from k2ktui.cli.tables import UNKNOWN, Column, moment, number, print_table
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.groups import GroupRow, make_group_rows
from k2ktui.engine.status import PartitionStatus
from k2ktui.errors import ConnectionFailed, TimedOut
from k2ktui.replication.status import Status, StatusReader
from k2ktui.text import safe_text


@click.command(help="Show positions, lag and coverage; works while no job is running.")
@file_option
@json_option
@click.option("--groups", "with_groups", is_flag=True, help="Include consumer groups.")
def command(files: tuple[str, ...], as_json: bool, with_groups: bool) -> None:
    """Read both clusters once and print; if the source is down, the target's data alone."""
    config = load_pipeline(files, mirror=True)
    status = _status(config)
    error = status.source_error
    found: list[GroupRow] = []
    if with_groups:
        try:
            found = _groups(config)
        except (ConnectionFailed, TimedOut) as failed:
            error = failed
    if as_json:
        groups = {"groups": [row.as_json() for row in found]} if with_groups else {}
        click.echo(json.dumps({**status.as_json(), **groups}))
    else:
        title = f"{safe_text(status.pipeline)} at {moment(status.taken_at)}"
        print_table(title, _columns(status), status.partitions)
        for row in status.partitions:
            if row.held is not None:
                click.echo(f"{safe_text(row.topic)}-{row.partition}: {row.held.text()}")
        if with_groups and found:
            print_table("Consumer groups", GROUP_COLUMNS, found)
    if error is not None:
        raise error


def _status(config: PipelineConfig) -> Status:
    from k2ktui.mm2.pipeline import MirrorPipeline

    if isinstance(config, MirrorPipeline):
        from k2ktui.watch.mm2_readers import mirror_status

        status, notes = mirror_status(config)
        for note in notes:
            click.echo(f"note: {note}", err=True)
        return status
    reader = StatusReader(config)
    try:
        return reader.snapshot()
    finally:
        reader.close()


def _groups(config: PipelineConfig) -> list[GroupRow]:
    from k2ktui.sync.snapshot import take_snapshot

    return make_group_rows(take_snapshot(config))


def _target(row: PartitionStatus) -> str:
    partition = "*" if row.target_partition is None else str(row.target_partition)
    return safe_text(f"{row.target_topic}-{partition}")


def _age(row: PartitionStatus, now: float) -> str:
    return UNKNOWN if row.copied_at is None else f"{max(0.0, now - row.copied_at):,.0f} s ago"


def _columns(status: Status) -> tuple[Column[PartitionStatus], ...]:
    if status.source_error is None:
        return _COLUMNS
    copied: Column[PartitionStatus] = Column("copied", lambda row: _age(row, status.taken_at))
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
