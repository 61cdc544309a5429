"""``-v`` and ``--debug``: options of the program and of each command, with one meaning."""

from __future__ import annotations

import click

from k2ktui import diagnostics


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
