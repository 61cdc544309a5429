"""``k2ktui status``: positions, lag and coverage, from the current state of both clusters."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from k2ktui.cli.groups import COLUMNS as GROUP_COLUMNS
from k2ktui.cli.terminal.notes import print_notes
from k2ktui.cli.terminal.options import file_option, json_option, load_flow
from k2ktui.cli.terminal.tables import print_pair, print_table
from k2ktui.engine.status import PartitionStatus
from k2ktui.present.columns import Column, pick, text_column
from k2ktui.present.failover import failover_lines, objectives_line
from k2ktui.present.formatting import NOT_AVAILABLE, WORDS, age, moment
from k2ktui.present.groups import mappings_lines
from k2ktui.present.pair_state import moved_lines
from k2ktui.present.partitions import partition_columns
from k2ktui.text import safe_text

if TYPE_CHECKING:
    from k2ktui.watch.model import PartitionRow
    from k2ktui.watch.once import Reading


@click.command(help="Show positions, lag and coverage; works while no job is running.")
@file_option
@json_option
@click.option("--groups", "with_groups", is_flag=True, help="Include consumer groups.")
def command(files: tuple[str, ...], as_json: bool, with_groups: bool) -> None:
    """Read both clusters once and print; if the source is down, the target's data alone."""
    from k2ktui.watch.once import read_once

    flow = load_flow(files)
    reading = read_once(flow, groups=with_groups, drills=True)
    view, error = reading.view, reading.source_error or reading.groups_error
    if as_json:
        click.echo(json.dumps(status_object(reading, with_groups=with_groups)))
    else:
        print_pair(flow.config, view.pair_state)
        notes = reading.status().notes
        print_notes(note for note in notes if error is None or note != error.message)
        title = f"{safe_text(view.pair.pipeline)} at {moment(view.taken_at)}"
        print_table(title, columns(reading), view.partitions)
        for row in view.partitions:
            if row.status.held is not None:
                subject = f"{safe_text(row.status.topic)}-{row.status.partition}"
                click.echo(f"{subject}: {row.status.held.text()}")
            if row.status.hold:
                subject = f"{safe_text(row.status.topic)}-{row.status.partition}"
                click.echo(f"{subject}: {safe_text(row.status.hold)}")
        for line in (*moved_lines(view), *mappings_lines(view)):
            click.echo(f"{line[0].upper()}{line[1:]}")
        if view.groups:
            print_table("Consumer groups", GROUP_COLUMNS, view.groups)
        if view.objectives and not view.is_left:
            line = objectives_line(view)
            click.echo(f"{line[0].upper()}{line[1:]}")
        if view.last_comparison is not None:
            line = view.last_comparison.describe()
            click.echo(f"{line[0].upper()}{line[1:]}")
        if with_groups:
            for line in failover_lines(view, view.taken_at):
                click.echo(line)
    if error is not None:
        raise error


def status_object(reading: Reading, *, with_groups: bool = False) -> dict[str, Any]:
    """Return what ``--json`` prints."""
    view, printed = reading.view, reading.status().as_json()
    if with_groups:
        printed["groups"] = [row.as_json() for row in view.groups]
        printed["failover"] = view.failover.as_json()
    return printed


def columns(reading: Reading) -> tuple[Column[PartitionRow], ...]:
    shown = pick(
        partition_columns(WORDS),
        *("partition", "state", "path", "position", "end", "lag", "behind", "held-back"),
        *("target", "target-end", "mapped", "coverage", "unmapped"),
    )
    if reading.source_error is None:
        return shown
    now = reading.view.taken_at
    return (*shown, text_column("copied", lambda row: _age(row.status, now)))


def _age(row: PartitionStatus, now: float) -> str:
    return NOT_AVAILABLE if row.copied_at is None else f"{age(now - row.copied_at)} ago"
