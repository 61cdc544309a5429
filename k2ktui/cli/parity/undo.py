"""``k2ktui parity undo``: restore the values that a parity plan, or a sync, has changed."""

from __future__ import annotations

import click

from k2ktui.cli.parity.apply import exit_code, report
from k2ktui.cli.terminal.confirm import confirm
from k2ktui.cli.terminal.options import (
    access_to,
    json_option,
    load_pipeline,
    optional_file_option,
    unlock_option,
)
from k2ktui.cli.terminal.tables import MOST, print_table
from k2ktui.engine.access import require
from k2ktui.present.parity import write_columns
from k2ktui.text import counted, safe_text


@click.command(help="Undo a journal entry of parity: restore the values that were set before it.")
@click.argument("entry", metavar="ID")
@optional_file_option
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@click.option("--skip-moved", is_flag=True, help="Skip values that have changed since.")
@unlock_option
@json_option
def command(
    entry: str, files: tuple[str, ...], yes: bool, skip_moved: bool, unlock: bool, as_json: bool
) -> int:
    """Undo a journal entry; a partial result has its own exit code."""
    from k2ktui.parity.operations import read_undo, undo_entry
    from k2ktui.sync.moves.entry_files import files_of

    files = files or files_of(entry)
    config = load_pipeline(files)
    may = access_to(config, unlock=unlock)
    require(may, "undoing a change of parity")
    _, writes, undone_by = read_undo(config, entry)
    if not as_json:
        print_table(
            f"Changes that undo entry {safe_text(entry)}", write_columns(), writes, most=MOST
        )
    if undone_by:
        click.echo(f"note: entry {safe_text(undone_by)} has already undone it", err=True)
    confirm(config.name, f"restore {counted(len(writes), 'value')} on the target", yes=yes)
    applied = undo_entry(config, entry, files, may, skip_moved=skip_moved)
    report(config.name, applied, as_json=as_json)
    return exit_code(applied)
