"""Command groups that import a command's module only when it is called."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from keyword import iskeyword
from typing import Any

import click

from k2ktui import diagnostics

# What stands for a file or a directory in the help.
_FILES = ("FILE", "PLAN", "DIR")


def complete_files(command: click.Command) -> None:
    """Let a shell complete the names of files and directories where a command takes them.

    Click completes nothing for a text, so that a shell with its script completes no files at all.
    Nothing is checked here: each command says itself what is wrong with a file, and a directory's
    option may take a file, too (``translate --from-spark-checkpoint``).
    """
    for parameter in command.params:
        kind = (parameter.metavar or "").partition("[")[0]
        if kind in _FILES and isinstance(parameter.type, click.types.StringParamType):
            parameter.type = click.Path(readable=False)
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            complete_files(subcommand)


class LazyGroup(click.Group):
    """A group whose commands are modules of this package with a ``command`` attribute.

    Args:
        verbs: command names with one line of help each.
        package: the package that holds the modules.
    """

    def __init__(
        self, *args: Any, verbs: Mapping[str, str], package: str = "k2ktui.cli", **kw: Any
    ) -> None:
        super().__init__(*args, **kw)
        self._verbs = verbs
        self._package = package
        complete_files(self)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._verbs:
            return None
        name = cmd_name.replace("-", "_") + "_" * iskeyword(cmd_name)
        command: click.Command = importlib.import_module(f"{self._package}.{name}").command
        complete_files(command)
        add_log_options(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name commands that are spelled like an unknown one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], self._verbs, n=3)
            if not near:
                raise
            text = f"{error.message} Did you mean {' or '.join(near)}?"
            raise click.UsageError(text, ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(self._verbs.items()))


def log_options() -> list[click.Option]:
    """Return the options; commands do not get them as arguments."""
    return [
        click.Option(
            ["-v", "--verbose"],
            count=True,
            expose_value=False,
            is_eager=True,
            callback=_be_verbose,
            help="Print messages on standard error; -vv prints details, too.",
        ),
        click.Option(
            ["--debug"],
            is_flag=True,
            expose_value=False,
            is_eager=True,
            callback=_debug,
            help="Log details to a file in the state directory, named at the end.",
        ),
    ]


def add_log_options(command: click.Command) -> None:
    """Let a command and its subcommands also take the log options after their names."""
    if not any(parameter.name == "debug" for parameter in command.params):
        command.params.extend(log_options())
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            add_log_options(subcommand)


def _be_verbose(_: click.Context, __: click.Parameter, steps: int) -> None:
    if steps:
        diagnostics.set_up().be_verbose(steps)


def _debug(_: click.Context, __: click.Parameter, given: bool) -> None:
    if given:
        diagnostics.debug_to_file()
