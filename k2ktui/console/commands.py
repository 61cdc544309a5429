"""Commands by name: what ``:`` and the palette offer, and how a typed name is completed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from k2ktui.text import safe_text

_NEAR, _ALIKE = 3, 0.5


@dataclass(frozen=True, slots=True)
class Command:
    """Something that can be done now, by name.

    Attributes:
        name: what is typed.
        title: what it does, for a list.
        run: does it; gets the argument, "" without one.
        also: other names.
        key: the key that does the same; "" if there is none.
        arguments: what may follow the name; without any, nothing may.
        refusal: why it is unavailable now; "" if it is available.
        takes: what its arguments are, as a noun; by default its name.
    """

    name: str
    title: str
    run: Callable[[str], Any]
    also: tuple[str, ...] = ()
    key: str = ""
    arguments: tuple[str, ...] = ()
    refusal: str = ""
    takes: str = ""


class NoCommand(ValueError):
    """What was typed is no command; the text says why, and what is near."""


def unique_names(commands: Iterable[tuple[str, Command]], taken: Iterable[str]) -> list[Command]:
    """Return commands by the last part of their ids, or by the whole id where that is taken.

    Args:
        commands: ids with the commands, whose names are not read.
        taken: names of other commands.
    """
    used, named = set(taken), []
    for name, command in commands:
        short = name.rpartition(".")[2]
        named.append(replace(command, name=name if short in used else short))
        used.add(named[-1].name)
    return named


def complete(text: str, commands: Sequence[Command]) -> list[tuple[str, str]]:
    """Return the lines that what was typed can become, each with what it does."""
    word, blank, rest = text.lstrip().partition(" ")
    if blank:
        command = _exact(word, commands)
        known = command.arguments if command is not None else ()
        begun = [
            argument for argument in known if argument.lower().startswith(rest.strip().lower())
        ]
        return [(f"{word} {argument}", "") for argument in begun]
    begun_with = [command for command in commands if command.name.startswith(word.lower())]
    exact = _exact(word, commands)
    if exact is not None and exact not in begun_with:
        begun_with = [exact, *begun_with]
    return [(command.name, command.title) for command in begun_with]


def shared_beginning(lines: Sequence[str]) -> str:
    """Return what all lines begin with."""
    first, last = min(lines), max(lines)
    same = next((n for n, letter in enumerate(first) if letter != last[n : n + 1]), len(first))
    return first[:same]


def find(text: str, commands: Sequence[Command]) -> tuple[Command, str]:
    """Return the command that was typed, whole or its unmistakable beginning, and its argument.

    Raises:
        NoCommand: there is none, or it takes another argument, or it is unavailable now.
    """
    word, _, rest = text.strip().partition(" ")
    command = _exact(word, commands)
    if command is None:
        begun = [command for command in commands if command.name.startswith(word.lower())]
        if len(begun) != 1:
            known = [name for command in commands for name in (command.name, *command.also)]
            raise NoCommand(_none("command", word, known, [other.name for other in begun]))
        command = begun[0]
    if command.refusal:
        raise NoCommand(f"{command.name}: {command.refusal}")
    argument = rest.strip()
    if argument and not command.arguments:
        raise NoCommand(f"{command.name} takes nothing behind it")
    if argument:
        argument = _argument(argument, command)
    return command, argument


def _argument(text: str, command: Command) -> str:
    if text in command.arguments:
        return text
    begun = [
        argument for argument in command.arguments if argument.lower().startswith(text.lower())
    ]
    if len(begun) != 1:
        kind = command.takes or command.name
        raise NoCommand(_none(kind, text, command.arguments, begun))
    return begun[0]


def _exact(word: str, commands: Sequence[Command]) -> Command | None:
    word = word.lower()
    return next((command for command in commands if word in (command.name, *command.also)), None)


def _none(kind: str, word: str, known: Sequence[str], begun: Sequence[str]) -> str:
    if begun:
        return f"{safe_text(word, 40)} may be {', '.join(begun[:_NEAR])}: type more"
    near = get_close_matches(word.lower(), known, _NEAR, _ALIKE)
    near += [name for name in known if len(word) > 1 and word.lower() in name and name not in near]
    hint = f"; near: {', '.join(near[:_NEAR])}" if near else "; tab lists what there is"
    return f"there is no {kind} {safe_text(word, 40)}{hint}"
