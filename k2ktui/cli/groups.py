"""``k2ktui groups``: consumer groups on both clusters, with their translated offsets."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import click

from k2ktui.cli.notes import print_notes
from k2ktui.cli.options import file_option, json_option, load_flow
from k2ktui.cli.pair_line import print_pair, read_beside
from k2ktui.cli.tables import MOST, print_table
from k2ktui.engine.groups import (
    GroupRow,
    Snapshot,
    after_failover,
    make_group_rows,
    outcome,
    reading_notes,
    snapshot_notes,
)
from k2ktui.engine.pair_state import PairState
from k2ktui.present.columns import pick
from k2ktui.present.formatting import WORDS, moment
from k2ktui.present.groups import outcome_text, row_columns
from k2ktui.text import safe_text


@click.command(help="Show consumer groups on both clusters with translated offsets and divergence.")
@file_option
@json_option
def command(files: tuple[str, ...], as_json: bool) -> None:
    """Read both clusters once and print."""
    from k2ktui.sync.snapshot import take_snapshot

    flow = load_flow(files)
    reading = read_beside(flow.config)
    snapshot = take_snapshot(flow, for_plans=False)
    pair = reading()
    found = make_group_rows(snapshot)
    if pair.moved:
        found = after_failover(found)
    if as_json:
        click.echo(json.dumps(as_object(snapshot, found, pair)))
        return
    print_pair(flow.config, pair)
    print_notes(snapshot_notes(snapshot))
    title = f"{safe_text(snapshot.pipeline)} at {moment(snapshot.taken_at)}"
    print_table(title, COLUMNS, found, most=MOST)
    click.echo(outcome_text(outcome(found)))


def as_object(snapshot: Snapshot, found: list[GroupRow], pair: PairState) -> dict[str, Any]:
    """Return what ``--json`` prints."""
    return {
        "pipeline": snapshot.pipeline,
        "taken_at": snapshot.taken_at,
        "commits_at": snapshot.commits_at,
        "pair_state": pair.as_json(),
        "source_down": snapshot.source_down,
        # The source is in a field of its own.
        "notes": reading_notes(replace(snapshot, source_down="")),
        "groups": [row.as_json() for row in found],
    }


COLUMNS = pick(
    row_columns(WORDS),
    *("group", "partition", "states", "source", "target", "translated", "basis", "divergence"),
    *("skipped-now", "reread-now", "skipped", "reread", "why"),
)
