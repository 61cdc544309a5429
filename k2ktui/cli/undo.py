"""``k2ktui undo``: restore the offsets that an apply or a sync changed."""

from __future__ import annotations

import json

import click

from k2ktui.cli.terminal.confirm import confirm
from k2ktui.cli.terminal.options import (
    access_to,
    json_option,
    load_flow,
    optional_file_option,
    unlock_option,
)
from k2ktui.cli.terminal.results import exit_code, result_object, show_results, show_writes
from k2ktui.engine.access import require
from k2ktui.text import counted, safe_text


@click.command(help="Undo a journal entry: restore the offsets that were committed before it.")
@click.argument("entry", metavar="ID")
@optional_file_option
@click.option("--yes", is_flag=True, help="Skip the confirmation.")
@click.option("--skip-moved", is_flag=True, help="Skip groups whose offsets have changed since.")
@unlock_option
@json_option
def command(
    entry: str, files: tuple[str, ...], yes: bool, skip_moved: bool, unlock: bool, as_json: bool
) -> int:
    """Undo a journal entry; a partial result has its own exit code."""
    from k2ktui.sync.moves.entry_files import files_of
    from k2ktui.sync.operations import read_entry, undo_entry

    files = files or files_of(entry)
    config = load_flow(files).config
    may = access_to(config, unlock=unlock)
    require(may, "undoing a journal entry")
    journal_entry = read_entry(config, entry)
    writes = journal_entry.reversal()
    if not as_json:
        show_writes(f"Changes that undo entry {safe_text(entry)}", writes)
    if journal_entry.taken_back_by:
        click.echo(
            f"note: entry {safe_text(journal_entry.taken_back_by)} has already undone it", err=True
        )
    side = journal_entry.header.side
    what = f"restore {counted(len(writes), 'offset')} on the {side}"
    confirm(config.name, what, yes=yes, side=side)
    applied = undo_entry(config, journal_entry, files, may, skip_moved=skip_moved)
    if as_json:
        click.echo(json.dumps(result_object(config.name, applied)))
    else:
        show_results(applied)
    return exit_code(applied)
