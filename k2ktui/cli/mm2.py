"""``k2ktui mm2``: what MirrorMaker 2 needs; a module a subcommand, loaded when it is called."""

from __future__ import annotations

import importlib

import click

_COMMANDS = {
    "apply-checkpoints": "Commit what MirrorMaker 2's checkpoints say, checked, once.",
    "audit": "Show what MirrorMaker 2 would make of every group, beside what is right.",
    "publish": "Write checkpoints and heartbeats of our pipeline in MirrorMaker 2's format.",
    "import": "Turn mm2.properties into a pipeline file of ours.",
    "offsets": "Show, set and clear the positions that MirrorMaker 2 copies from.",
    "takeover": "Go on where a stopped MirrorMaker 2 has come to, with a pipeline of ours.",
}


class _Commands(click.Group):
    """Loads a subcommand's module only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"k2ktui.cli.mm2_{cmd_name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))


@click.group(cls=_Commands)
def command() -> None:
    """Import, audit and correct MirrorMaker 2."""
