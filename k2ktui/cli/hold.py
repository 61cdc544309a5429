"""``k2ktui hold``: keep topics or partitions from being copied, until they are released."""

from __future__ import annotations

import click

from k2ktui.cli.terminal.changes import ChangeFlags
from k2ktui.cli.terminal.holds import carry_out, hold_options, parse_names, show_holds
from k2ktui.cli.terminal.options import load_pipeline


@click.command(
    name="hold",
    help="Stop copying topics or partitions until k2ktui release; their positions stay. "
    "The pipeline may run. Without names, list what is held.",
)
@hold_options
@click.argument("names", nargs=-1, metavar="[TOPIC[:PARTITION]]...")
def command(files: tuple[str, ...], names: tuple[str, ...], why: str, flags: ChangeFlags) -> None:
    """Show what is held, ask for confirmation and write it; or list what is held now."""
    from k2ktui.sync.holds import plan_hold, read_holds

    config, keys = load_pipeline(files), parse_names(names)
    if not keys:
        show_holds(config.name, read_holds(config), as_json=flags.as_json)
        return
    carry_out(config, plan_hold(config, keys, why), flags)
