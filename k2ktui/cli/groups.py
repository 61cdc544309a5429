"""``k2ktui groups``: consumer groups on both clusters, with their translated offsets."""

from __future__ import annotations

import json
from typing import Any

import click

from k2ktui.cli.options import file_option, json_option, load_flow
from k2ktui.cli.tables import MOST, Column, moment, number, print_table, signed
from k2ktui.engine.groups import GroupRow, Snapshot, make_group_rows, outcome, snapshot_notes
from k2ktui.text import counted, safe_text


@click.command(help="Show consumer groups on both clusters with translated offsets and divergence.")
@file_option
@json_option
def command(files: tuple[str, ...], as_json: bool) -> None:
    """Read both clusters once and print."""
    from k2ktui.sync.snapshot import take_snapshot

    snapshot = take_snapshot(load_flow(files))
    found = make_group_rows(snapshot)
    if as_json:
        click.echo(json.dumps(as_object(snapshot, found)))
        return
    for note in snapshot_notes(snapshot):
        click.echo(f"note: {note}", err=True)
    title = f"{safe_text(snapshot.pipeline)} at {moment(snapshot.taken_at)}"
    print_table(title, COLUMNS, found, most=MOST)
    click.echo(summary(found))


def summary(found: list[GroupRow]) -> str:
    """Return the effect of resuming on the target, as committed now and after a move."""
    sums = outcome(found)
    unknown = f"; unknown for {sums.unknown:,}" if sums.unknown else ""
    now = f"{counted(sums.skips, 'record')} skipped, {sums.rereads:,} re-read{unknown}"
    moved = f"{sums.moved_skips:,} skipped, {sums.moved_rereads:,} re-read"
    return f"as committed now {now}; after a move {moved}"


def as_object(snapshot: Snapshot, found: list[GroupRow]) -> dict[str, Any]:
    """Return what ``--json`` prints."""
    return {
        "pipeline": snapshot.pipeline,
        "taken_at": snapshot.taken_at,
        "commits_at": snapshot.commits_at,
        "source_down": snapshot.source_down,
        "notes": list(snapshot.notes),
        "groups": [row.as_json() for row in found],
    }


def _states(row: GroupRow) -> str:
    return f"{row.state_source or '—'} → {row.state_target or '—'}"


COLUMNS: tuple[Column[GroupRow], ...] = (
    Column("group", lambda row: safe_text(row.group), left=True),
    Column("topic-partition", lambda row: safe_text(f"{row.topic}-{row.partition}"), left=True),
    Column("source → target", _states, left=True, wide=True),
    Column("source", lambda row: number(row.source_offset)),
    Column("target", lambda row: number(row.target_offset)),
    Column("translated", lambda row: number(row.translated_offset)),
    Column("basis", lambda row: str(row.basis), left=True),
    Column("divergence", lambda row: signed(row.divergence)),
    Column("skips now", lambda row: number(row.skipped_now), wide=True),
    Column("re-reads now", lambda row: number(row.reread_now), wide=True),
    Column("skips moved", lambda row: number(row.skipped), wide=True),
    Column("re-reads moved", lambda row: number(row.reread), wide=True),
    Column("note", lambda row: safe_text(row.reason), left=True, wide=True),
)
