"""``k2ktui groups``: consumer groups on both clusters, with their translated offsets."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import Any

import click

from k2ktui.cli import groups_reset
from k2ktui.cli.terminal.notes import print_notes
from k2ktui.cli.terminal.options import json_option, load_flow, optional_file_option
from k2ktui.cli.terminal.pair_line import print_pair, read_beside
from k2ktui.cli.terminal.tables import MOST, print_table
from k2ktui.engine.drill.pair_state import PairState
from k2ktui.engine.moves.failover import GroupEstimate, count_gone, count_waiting
from k2ktui.engine.moves.group_sums import GroupsOnBoth, estimate_moves, summarize_groups
from k2ktui.engine.moves.groups import (
    GroupRow,
    Snapshot,
    after_failover,
    make_group_rows,
    outcome,
    reading_notes,
    snapshot_notes,
)
from k2ktui.present.columns import pick
from k2ktui.present.failover import group_lines
from k2ktui.present.formatting import WORDS, moment
from k2ktui.present.groups import outcome_text, row_columns
from k2ktui.text import safe_text


@click.group(
    invoke_without_command=True,
    help="Show consumer groups on both clusters with translated offsets and divergence.",
)
@optional_file_option
@json_option
@click.pass_context
def command(context: click.Context, files: tuple[str, ...], as_json: bool) -> None:
    """Read both clusters once and print, if no subcommand is given."""
    name = context.invoked_subcommand
    if name is not None and (files or as_json):
        raise click.UsageError(f"options of {name} go after it: k2ktui groups {name} -f FILE")
    if name is None and not files:
        raise click.UsageError("Missing option '-f' / '--file'.")
    if name is None:
        _show(files, as_json=as_json)


command.add_command(groups_reset.command)


def _show(files: tuple[str, ...], *, as_json: bool) -> None:
    from k2ktui.sync.moves.snapshot import take_snapshot

    flow = load_flow(files)
    reading = read_beside(flow.config)
    snapshot = take_snapshot(flow, for_plans=False, with_choices=True)
    pair = reading()
    rows = make_group_rows(snapshot)
    if pair.moved:
        rows = after_failover(rows)
    if as_json:
        click.echo(json.dumps(as_object(snapshot, rows, pair)))
        return
    print_pair(flow.config, pair)
    print_notes(snapshot_notes(snapshot))
    title = f"{safe_text(snapshot.pipeline)} at {moment(snapshot.taken_at)}"
    print_table(title, COLUMNS, rows, most=MOST)
    click.echo(outcome_text(outcome(rows)))
    for line in group_lines(_estimate(snapshot, rows), failed_over=pair.moved):
        click.echo(line)


def _estimate(snapshot: Snapshot, rows: list[GroupRow]) -> GroupEstimate:
    """Count and name the groups of a snapshot by what a move now would do to them."""
    both = GroupsOnBoth(snapshot.source, snapshot.target, rows)
    copies = {(at.topic, at.partition): replica for at, replica in snapshot.replicas.items()}
    new = {at for at, replica in copies.items() if replica.position is None}
    gone = count_gone(rows, {at: replica.source_start for at, replica in copies.items()})
    return estimate_moves(summarize_groups(both, {}, {}), count_waiting(rows, new), gone)


def as_object(snapshot: Snapshot, rows: list[GroupRow], pair: PairState) -> dict[str, Any]:
    """Return what ``--json`` prints."""
    return {
        "pipeline": snapshot.pipeline,
        "taken_at": snapshot.taken_at,
        "commits_at": snapshot.commits_at,
        "pair_state": pair.as_json(),
        "source_down": snapshot.source_down,
        # The source is in a field of its own.
        "notes": reading_notes(replace(snapshot, source_down="")),
        "groups": [row.as_json() for row in rows],
        "failover": {"groups": asdict(_estimate(snapshot, rows))},
    }


COLUMNS = pick(
    row_columns(WORDS),
    *("group", "partition", "states", "source", "target", "translated", "basis", "divergence"),
    *("skipped-now", "reread-now", "skipped", "reread", "why"),
)
