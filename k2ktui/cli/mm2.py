"""``k2ktui mm2``: commands for MirrorMaker 2, each in a lazily imported module."""

from __future__ import annotations

import click

from k2ktui.cli.lazy import LazyGroup

_COMMANDS = {
    "apply-checkpoints": "Commit what MirrorMaker 2's checkpoints say, checked, once.",
    "audit": "Show what MirrorMaker 2 would make of every group, beside what is right.",
    "publish": "Write checkpoints and heartbeats of our pipeline in MirrorMaker 2's format.",
    "import": "Turn mm2.properties into a pipeline file of ours.",
    "offsets": "Show, set and clear the positions that MirrorMaker 2 copies from.",
    "takeover": "Go on where a stopped MirrorMaker 2 has come to, with a pipeline of ours.",
}


@click.group(cls=LazyGroup, verbs=_COMMANDS, prefix="mm2_")
def command() -> None:
    """Import, audit and correct MirrorMaker 2."""
