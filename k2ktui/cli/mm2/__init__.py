"""``k2ktui mm2``: commands for MirrorMaker 2, each in a lazily imported module."""

from __future__ import annotations

import click

from k2ktui.cli.terminal.lazy import LazyGroup

_COMMANDS = {
    "apply-checkpoints": "Commit MirrorMaker 2's checkpoints once, after checking them.",
    "audit": "Show what groups would re-read or skip with MirrorMaker 2's checkpoints.",
    "publish": "Publish a pipeline's checkpoints and heartbeats in MirrorMaker 2's format.",
    "import": "Convert a file of MirrorMaker 2 to a pipeline file.",
    "offsets": "Show, set and clear MirrorMaker 2's source positions.",
    "takeover": "Take over from a stopped MirrorMaker 2 on its target topics.",
}


@click.group(cls=LazyGroup, verbs=_COMMANDS, package="k2ktui.cli.mm2")
def command() -> None:
    """Import, audit and correct MirrorMaker 2 flows."""
