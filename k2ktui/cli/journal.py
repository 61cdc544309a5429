"""``k2ktui journal``: who changed what, when, from where, with before and after."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from k2ktui.cli.options import json_option, load_pipeline
from k2ktui.cli.results import COLUMNS as ROW_COLUMNS
from k2ktui.cli.tables import Column, moment, print_table
from k2ktui.engine.journal import JournalHeader
from k2ktui.errors import ConfigError
from k2ktui.text import safe_text


@click.command(help="List what was applied and taken back, or one entry with its rows.")
@click.argument("entry", metavar="[ID]", required=False)
@click.option("-f", "--file", "files", multiple=True, metavar="FILE", help="Pipeline file.")
@json_option
def command(entry: str | None, files: tuple[str, ...], as_json: bool) -> None:
    """Read the journal on the target and print it."""
    from k2ktui.sync.apply import written_of
    from k2ktui.sync.index import files_of, last_files
    from k2ktui.sync.snapshot import Snapshots

    files = files or (files_of(entry) if entry else last_files())
    config = load_pipeline(files)
    snapshots = Snapshots(config)
    try:
        state = snapshots.store.read()
    finally:
        snapshots.close()
    if entry is None:
        headers = sorted(state.journal.values(), key=lambda each: each.id, reverse=True)
        if as_json:
            click.echo(json.dumps({"journal": [asdict(each) for each in headers]}))
        else:
            print_table(f"Journal of {safe_text(config.name)}", _COLUMNS, headers)
        return
    parts = state.entry(entry)
    if entry not in state.journal:
        raise ConfigError(f"there is no entry {safe_text(entry)} in the journal")
    if as_json:
        rows = [asdict(part) for part in parts]
        click.echo(json.dumps({**asdict(state.journal[entry]), "groups": rows}))
    else:
        print_table(f"Entry {safe_text(entry)}", ROW_COLUMNS, written_of(parts))


def _counts(header: JournalHeader) -> str:
    return ", ".join(f"{count:,} {result}" for result, count in header.counts.items())


def _what(header: JournalHeader) -> str:
    return f"{header.what} {header.undoes or header.plan}".strip()


_COLUMNS: tuple[Column[JournalHeader], ...] = (
    Column("id", lambda each: safe_text(each.id), left=True),
    Column("when", lambda each: moment(each.at_ms / 1000), left=True),
    Column("who", lambda each: safe_text(each.who), left=True),
    Column("what", lambda each: safe_text(_what(each)), left=True),
    Column("rows", lambda each: safe_text(_counts(each)), left=True),
)
