"""``k2ktui journal``: who changed what and when, with the values before and after."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from k2ktui.cli.terminal.options import json_option, load_flow, optional_file_option
from k2ktui.cli.terminal.tables import print_table
from k2ktui.engine.moves.journal import JournalHeader
from k2ktui.present.columns import Column, pick
from k2ktui.present.formatting import WORDS
from k2ktui.present.journal import entry_columns, entry_row_columns
from k2ktui.text import safe_text


@click.command(help="List applied and undone changes, or show one entry with its rows.")
@click.argument("entry", metavar="[ID]", required=False)
@optional_file_option
@json_option
def command(entry: str | None, files: tuple[str, ...], as_json: bool) -> None:
    """Read the journal on the target and print it."""
    from k2ktui.sync.moves.entry_files import files_of, last_files
    from k2ktui.sync.operations import journal_json, read_entry, read_journal

    files = files or (files_of(entry) if entry else last_files())
    config = load_flow(files).config
    if entry is None:
        headers = read_journal(config)
        if as_json:
            click.echo(json.dumps(journal_json(headers)))
        else:
            print_table(f"Journal of {safe_text(config.name)}", columns(headers), headers)
        return
    journal_entry = read_entry(config, entry)
    if as_json:
        click.echo(json.dumps(journal_entry.as_json()))
    else:
        print_table(f"Entry {safe_text(entry)}", entry_row_columns(), journal_entry.lines)


def columns(headers: Sequence[JournalHeader]) -> tuple[Column[JournalHeader], ...]:
    """Return the columns of a table of these entries."""
    undone = {header.undoes for header in headers}
    every = entry_columns(WORDS, undone)
    return pick(every, "id", "when", "who", "operation", "state", "rows")
