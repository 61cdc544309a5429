"""``k2ktui release``: copy held topics or partitions again."""

from __future__ import annotations

import click

from k2ktui.cli.terminal.changes import ChangeFlags
from k2ktui.cli.terminal.holds import carry_out, hold_options, parse_names
from k2ktui.cli.terminal.options import load_pipeline


@click.command(
    name="release",
    help="Copy held topics or partitions again, from where they were held. Needs the target only.",
)
@hold_options
@click.argument("names", nargs=-1, required=True, metavar="TOPIC[:PARTITION]...")
def command(files: tuple[str, ...], names: tuple[str, ...], why: str, flags: ChangeFlags) -> None:
    """Show what is released, ask for confirmation and remove the holds."""
    from k2ktui.sync.holds import plan_release

    config = load_pipeline(files)
    carry_out(config, plan_release(config, parse_names(names), why), flags)
