"""``k2ktui mm2 audit``: MirrorMaker 2's offsets of every group compared with the exact ones."""

from __future__ import annotations

import json

import click

from k2ktui.cli.options import file_option, json_option, load_flow
from k2ktui.cli.tables import UNKNOWN, Column, moment, number, print_table
from k2ktui.engine.audit import AuditRow
from k2ktui.errors import ExitCode
from k2ktui.mm2.audit import audit
from k2ktui.text import counted, safe_text


@click.command(help="Show what groups would re-read or skip with MirrorMaker 2's checkpoints.")
@file_option
@json_option
def command(files: tuple[str, ...], as_json: bool) -> int:
    """Read both clusters once and print; findings if a group would not resume where it was."""
    flow = load_flow(files)
    found = audit(flow)
    if as_json:
        click.echo(json.dumps(found.as_json()))
    else:
        for note in found.notes:
            click.echo(f"note: {safe_text(note)}", err=True)
        title = f"MirrorMaker 2 {safe_text(found.flow)} at {moment(found.taken_at)}"
        print_table(title, COLUMNS, found.rows)
        totals = found.totals()
        click.echo(
            f"{totals['wrong']:,} of {totals['rows']:,} would not continue at the same "
            f"record: with checkpoints {counted(totals['checkpoint_reread'], 'record')} re-read, "
            f"{totals['checkpoint_skipped']:,} skipped, {totals['without_checkpoint']:,} "
            f"without one; with synced commits {totals['synced_reread']:,} re-read, "
            f"{totals['synced_skipped']:,} skipped; {totals['unknown']:,} unknown"
        )
    return ExitCode.FINDINGS if any(row.wrong for row in found.rows) else ExitCode.OK


def _age(row: AuditRow) -> str:
    return UNKNOWN if row.checkpoint_age_s is None else f"{row.checkpoint_age_s:.0f} s"


COLUMNS: tuple[Column[AuditRow], ...] = (
    Column("group", lambda row: safe_text(row.group), left=True),
    Column("topic-partition", lambda row: safe_text(f"{row.topic}-{row.partition}"), left=True),
    Column("source", lambda row: number(row.source_offset)),
    Column("checkpoint", lambda row: number(row.checkpoint_offset)),
    Column("age", _age, wide=True),
    Column("re-read", lambda row: number(row.checkpoint_reread)),
    Column("skipped", lambda row: number(row.checkpoint_skipped)),
    Column("synced", lambda row: number(row.synced_offset)),
    Column("re-read", lambda row: number(row.synced_reread)),
    Column("skipped", lambda row: number(row.synced_skipped)),
    Column("correct", lambda row: number(row.right_offset)),
    Column("basis", lambda row: row.basis, left=True),
    Column("note", lambda row: safe_text(row.note), left=True, wide=True),
)
