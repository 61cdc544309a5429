"""``k2ktui parity``: commands for what both clusters have besides records and groups."""

from __future__ import annotations

import click

from k2ktui.cli.terminal.lazy import LazyGroup

_COMMANDS = {
    "plan": "Compare topic settings, quotas and ACLs, without changing anything.",
    "apply": "Apply a parity plan to the target.",
    "undo": "Undo an applied parity plan: restore the previous values.",
}


@click.group(cls=LazyGroup, verbs=_COMMANDS, package="k2ktui.cli.parity")
def command() -> None:
    """Keep topic settings, client quotas and ACLs of the target in step with the source."""
