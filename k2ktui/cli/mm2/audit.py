"""``k2ktui mm2 audit``: MirrorMaker 2's offsets of every group compared with the exact ones."""

from __future__ import annotations

import json

import click

from k2ktui.cli.terminal.notes import print_notes
from k2ktui.cli.terminal.options import file_option, json_option, load_flow
from k2ktui.cli.terminal.tables import print_table
from k2ktui.errors import ExitCode
from k2ktui.mm2.audit import audit
from k2ktui.present.audits import audit_columns
from k2ktui.present.formatting import moment
from k2ktui.text import counted, safe_text


@click.command(help="Show what groups would re-read or skip with MirrorMaker 2's checkpoints.")
@file_option
@json_option
def command(files: tuple[str, ...], as_json: bool) -> int:
    """Read both clusters once and print; findings if a group would not resume where it was."""
    flow = load_flow(files)
    result = audit(flow)
    if as_json:
        click.echo(json.dumps(result.as_json()))
    else:
        print_notes(result.notes)
        title = f"MirrorMaker 2 {safe_text(result.flow)} at {moment(result.taken_at)}"
        print_table(title, COLUMNS, result.rows)
        totals = result.totals()
        click.echo(
            f"{totals['wrong']:,} of {totals['rows']:,} would not continue at the same "
            f"record: with checkpoints {counted(totals['checkpoint_reread'], 'record')} re-read, "
            f"{totals['checkpoint_skipped']:,} skipped, {totals['without_checkpoint']:,} "
            f"without one; with synced commits {totals['synced_reread']:,} re-read, "
            f"{totals['synced_skipped']:,} skipped; {totals['unknown']:,} unknown"
        )
    return ExitCode.FINDINGS if any(row.wrong for row in result.rows) else ExitCode.OK


COLUMNS = audit_columns()
