"""``k2ktui journal``: who changed what and when, with the values before and after."""

from __future__ import annotations

import json

import click

from k2ktui.cli.options import json_option, load_flow
from k2ktui.cli.tables import print_table
from k2ktui.engine.journal import JournalHeader, JournalRow
from k2ktui.present.columns import Column, text_column
from k2ktui.present.formatting import moment, number
from k2ktui.text import safe_text


@click.command(help="List applied and undone changes, or show one entry with its rows.")
@click.argument("entry", metavar="[ID]", required=False)
@click.option(
    "-f",
    "--file",
    "files",
    multiple=True,
    metavar="FILE",
    help="Pipeline file; may be repeated, later files override earlier ones.",
)
@json_option
def command(entry: str | None, files: tuple[str, ...], as_json: bool) -> None:
    """Read the journal on the target and print it."""
    from k2ktui.sync.entry_files import files_of, last_files
    from k2ktui.sync.operations import journal_json, read_entry, read_journal

    files = files or (files_of(entry) if entry else last_files())
    config = load_flow(files).config
    if entry is None:
        headers = read_journal(config)
        if as_json:
            click.echo(json.dumps(journal_json(headers)))
        else:
            print_table(f"Journal of {safe_text(config.name)}", _COLUMNS, headers)
        return
    found = read_entry(config, entry)
    if as_json:
        click.echo(json.dumps(found.as_json()))
    else:
        print_table(f"Entry {safe_text(entry)}", _ENTRY_COLUMNS, found.lines)


def _counts(header: JournalHeader) -> str:
    return ", ".join(f"{count:,} {result}" for result, count in header.counts.items())


def _operation_text(header: JournalHeader) -> str:
    return f"{header.operation} {header.undoes or header.plan}".strip()


_COLUMNS: tuple[Column[JournalHeader], ...] = (
    text_column("id", lambda each: safe_text(each.id), left=True),
    text_column("time", lambda each: moment(each.at_ms / 1000), left=True),
    text_column("user", lambda each: safe_text(each.who), left=True),
    text_column("operation", lambda each: safe_text(_operation_text(each)), left=True),
    text_column("rows", lambda each: safe_text(_counts(each)), left=True),
)
_ENTRY_COLUMNS: tuple[Column[tuple[str, JournalRow]], ...] = (
    text_column("group", lambda line: safe_text(line[0]), left=True),
    text_column(
        "partition", lambda line: safe_text(f"{line[1].topic}-{line[1].partition}"), left=True
    ),
    text_column("before", lambda line: number(line[1].before)),
    text_column("after", lambda line: number(line[1].after)),
    text_column("result", lambda line: safe_text(line[1].result), left=True),
)
