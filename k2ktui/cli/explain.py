"""``k2ktui explain``: each topic with its target, its path, and the reason."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from k2ktui.cli.terminal.notes import print_note
from k2ktui.cli.terminal.options import file_option, json_option, load_pipeline
from k2ktui.cli.terminal.tables import print_table
from k2ktui.log import core
from k2ktui.present.columns import Column, text_column
from k2ktui.replication.preflight.explain import Explanation, explain_pipeline
from k2ktui.text import safe_message, safe_text


@click.command(help="Show each topic's target and copy path (verbatim or record), with the reason.")
@file_option
@json_option
def command(files: tuple[str, ...], as_json: bool) -> None:
    """Read both clusters and print; nothing is changed."""
    config = load_pipeline(files)
    rows = explain_pipeline(config)
    if reason := core.why_not():
        print_note(f"plain Python merges small batches, slower: {reason}")
    if as_json:
        topics = [asdict(row) for row in rows]
        click.echo(json.dumps({"pipeline": config.name, "topics": topics}, indent=2))
        return
    if not rows:
        click.echo(f"No topic matches {safe_text(config.topics)} yet.")
        return
    print_table(safe_text(config.name), _COLUMNS, rows)


def _path(row: Explanation) -> str:
    if row.left_out:
        return "left out"
    if row.moved_by:
        return "moved"
    return safe_text(row.path or "refused")


_COLUMNS: tuple[Column[Explanation], ...] = (
    text_column("topic", lambda row: safe_text(row.topic), left=True),
    text_column("target", lambda row: safe_text(row.target), left=True),
    text_column("path", _path, left=True),
    text_column("reason", lambda row: safe_message(row.reason), left=True),
)
