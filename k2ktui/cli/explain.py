"""``k2ktui explain``: each topic with its target, its path, and why."""

from __future__ import annotations

import json
from dataclasses import asdict

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from k2ktui.cli.options import file_option, json_option, load_pipeline
from k2ktui.replication.explain import explain_pipeline
from k2ktui.text import safe_text


@click.command(help="Show each topic with its target, its path, and why.")
@file_option
@json_option
def command(files: tuple[str, ...], as_json: bool) -> None:
    """Look at both clusters and print; nothing is changed."""
    config = load_pipeline(files)
    rows = explain_pipeline(config)
    if as_json:
        topics = [asdict(row) for row in rows]
        click.echo(json.dumps({"pipeline": config.name, "topics": topics}, indent=2))
        return
    if not rows:
        click.echo(f"No topic matches {safe_text(config.topics)} yet.")
        return
    table = Table(title=safe_text(config.name), title_justify="left")
    for heading in ("topic", "target", "path", "why"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        cells = (row.topic, row.target, row.path or "refused", row.reason)
        table.add_row(*(Text(safe_text(cell)) for cell in cells))
    Console().print(table)
