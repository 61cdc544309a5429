"""docs/reference/options.md: every command with its arguments and options, from the program."""

from __future__ import annotations

from collections.abc import Iterator

import click

from k2ktui.cli.main import cli
from tests.support.documents.markdown import code, first_paragraph, table

INTRODUCTION = """\
Every command, as `k2ktui COMMAND --help` prints it. These options belong to each of them:
"""
_HEAD = ("option", "value", "meaning")
_NUMBERS = ("FLOAT", "FLOAT RANGE", "INTEGER", "INTEGER RANGE")


def body() -> str:
    """Return the page without its heading."""
    every = dict(commands(cli, "k2ktui"))
    common = set.intersection(*({*_rows(command)} for command in every.values()))
    first = [row for row in _rows(cli) if row in common]
    parts = [INTRODUCTION, table(_HEAD, first)]
    for name, command in every.items():
        lines = [f"## {name}", *_usage(name, command), first_paragraph(command.help)]
        parts.append("\n\n".join(lines) + "\n")
        if rows := [row for row in _rows(command) if row not in common]:
            parts.append(table(_HEAD, rows))
    return "\n".join(parts)


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Yield a command and those below it, with their names; not what is hidden."""
    yield name, command
    if isinstance(command, click.Group):
        for key in command.list_commands(click.Context(command)):
            below = command.get_command(click.Context(command), key)
            if below is not None and not below.hidden:
                yield from commands(below, f"{name} {key}")


def visible_options(command: click.Command) -> list[click.Option]:
    """Return the options of a command that its help names."""
    options = (option for option in command.params if isinstance(option, click.Option))
    return [option for option in options if not option.hidden]


def _rows(command: click.Command) -> list[tuple[str, str, str]]:
    return [(_names(o), _value(o), _meaning(o)) for o in visible_options(command)]


def _usage(name: str, command: click.Command) -> list[str]:
    """Return the line with a command's arguments; none if it has none."""
    arguments = [_argument(one) for one in command.params if isinstance(one, click.Argument)]
    return [code(" ".join([name, *arguments]))] if arguments else []


def _argument(argument: click.Argument) -> str:
    shown = argument.metavar or (argument.name or "").upper()
    repeated = "…" if argument.nargs == -1 and not shown.endswith("…") else ""
    return f"{shown}{repeated}" if argument.required else f"[{shown}{repeated}]"


def _names(option: click.Option) -> str:
    return ", ".join(map(code, option.opts + option.secondary_opts))


def _value(option: click.Option) -> str:
    if option.is_flag or option.count:
        return ""
    if isinstance(option.type, click.Choice):
        return ", ".join(code(str(choice)) for choice in option.type.choices)
    kind = option.type.name.upper()
    return code(option.metavar or ("NUMBER" if kind in _NUMBERS else kind))


def _meaning(option: click.Option) -> str:
    text = " ".join((option.help or "").split())
    if option.show_default is True and option.default is not None:
        default = option.default
        text += (
            f" [default: {default:g}]" if isinstance(default, float) else f" [default: {default}]"
        )
    return text.replace("<", "&lt;").replace("*", "\\*")
