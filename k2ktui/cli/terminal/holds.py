"""What ``hold`` and ``release`` share: their options, and how holds are shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from k2ktui.cli.terminal.changes import ChangeFlags, change_options
from k2ktui.cli.terminal.confirm import confirm
from k2ktui.cli.terminal.notes import print_notes
from k2ktui.cli.terminal.options import access_to
from k2ktui.engine.access import require
from k2ktui.engine.records.hold import Hold, HoldKey, Holds
from k2ktui.sync.moves.positions_text import parse_partitions
from k2ktui.text import counted, safe_text

if TYPE_CHECKING:
    from k2ktui.config.model import PipelineConfig
    from k2ktui.sync.holds import HoldChange


def hold_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of both commands."""
    why = click.option(
        "--why", metavar="TEXT", default="", help="Reason, for the journal and the views."
    )
    return change_options(why(function))


def parse_names(words: tuple[str, ...]) -> list[HoldKey]:
    """Parse ``TOPIC`` and ``TOPIC:PARTITION``.

    Raises:
        ConfigError: a word is neither.
    """
    return [HoldKey(topic, partition) for topic, partition in parse_partitions(words)]


def carry_out(config: PipelineConfig, change: HoldChange, flags: ChangeFlags) -> None:
    """Show a change, ask for confirmation, make it, and print the result."""
    from k2ktui.present.holds import change_text
    from k2ktui.sync.holds import write_change

    for hold in change.holds if flags.shows_plan else ():
        click.echo(f"{change.operation} {change_text(hold, change)}", err=flags.as_json)
    print_notes(change.notes)
    if change.holds and not flags.dry_run:
        may = access_to(config, unlock=flags.unlock)
        require(may, "holding a topic" if change.is_hold else "releasing a topic")
        what = f"{change.operation} {counted(len(change.holds), 'topic or partition')}"
        if len(change.holds) > 1:
            what = f"{change.operation} {len(change.holds):,} topics or partitions"
        confirm(config.name, what, yes=flags.yes)
        change = write_change(config, change, may)
    if flags.as_json:
        click.echo(json.dumps(change_object(config.name, change)))
    elif not change.holds:
        click.echo(f"Nothing to {change.operation}.", err=True)
    elif flags.dry_run:
        click.echo("Nothing was changed (--dry-run).", err=True)
    else:
        names = ", ".join(safe_text(hold.key.name) for hold in change.holds)
        done = "held" if change.is_hold else "released"
        click.echo(f"{names}: {done}, journal entry {change.entry}")


def change_object(pipeline: str, change: HoldChange) -> dict[str, Any]:
    """Return a change as ``--json`` prints it."""
    return {
        "pipeline": pipeline,
        "operation": change.operation,
        "applied": bool(change.entry),
        "id": change.entry or None,
        "notes": list(change.notes),
        "holds": [
            {
                **hold_object(hold),
                "positions": [
                    [at.partition, position.offset]
                    for at, position in change.positions
                    if hold.key.covers(at)
                ],
            }
            for hold in change.holds
        ],
    }


def hold_object(hold: Hold) -> dict[str, Any]:
    """Return a hold as ``--json`` prints it; the partition of a whole topic is null."""
    return {
        "topic": hold.topic,
        "partition": hold.partition,
        "who": hold.who,
        "held_at": hold.at_ms / 1000,
        "reason": hold.why,
    }


def show_holds(pipeline: str, holds: Holds, *, as_json: bool) -> None:
    """Print the holds of a pipeline."""
    if as_json:
        rows = [hold_object(hold) for hold in holds.all]
        click.echo(json.dumps({"pipeline": pipeline, "holds": rows}))
        return
    for hold in holds.all:
        click.echo(f"{safe_text(hold.key.name)}: {safe_text(hold.describe())}")
    if not holds:
        click.echo("Nothing is held.", err=True)
