"""Options of every command: named in the README or in docs, and ``--json`` for all that print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from k2ktui.cli.main import cli
from k2ktui.replication.copying.slot_task import FaultKind

ROOT = Path(__file__).parents[3]
PAGES = "\n".join(
    page.read_text(encoding="utf-8")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
)

OPTION = r"(?<![\w-])-{1,2}[A-Za-z][\w-]*"
LONG = {name for name in re.findall(OPTION, PAGES) if name.startswith("--")}
CODES = {n for code in re.findall(r"`[^`\n]+`", PAGES) for n in re.findall(OPTION, code)}
LINES = [re.sub(" +", " ", line) for line in PAGES.splitlines()]


def options(command: click.Command, name: str) -> Iterator[tuple[str, click.Option]]:
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            yield name, parameter
    if isinstance(command, click.Group):
        for subcommand in command.list_commands(click.Context(command)):
            below = command.get_command(click.Context(command), subcommand)
            if below is not None and not below.hidden:
                yield from options(below, f"{name} {subcommand}")


def test_every_option_is_named() -> None:
    named_options = list(options(cli, "k2ktui"))
    assert len(named_options) > 200
    assert [f"{name} {o.opts[-1]}" for name, o in named_options if not is_named(name, o)] == []


def is_named(command: str, option: click.Option) -> bool:
    """Whether a page has the long name, the short one on a line with the command, or as code."""
    if option.opts[0] == "-f" or any(name in LONG or name in CODES for name in option.opts):
        return True
    return any(
        command in line and re.search(rf"(?<![\w-]){name}(?![\w-])", line)
        for name in option.opts
        for line in LINES
    )


def test_every_command_has_json_or_the_readme_says_why() -> None:
    """Each that prints data prints it as JSON, too."""
    taken: dict[str, set[str]] = {}
    for name, option in options(cli, ""):
        taken.setdefault(name.strip(), set()).update(option.opts)
    without = {name for name, names in taken.items() if "--json" not in names}
    # Groups of commands, and the program itself.
    without -= {name for name in taken if any(other.startswith(f"{name} ") for other in taken)}
    without -= {""}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    sentence = readme.partition("takes `--json`.")[2].partition("Data goes to")[0]
    named = set(re.findall(r"`(bug-report|[a-z ]+)`", sentence))
    groups = {name.partition(" ")[0] for name in without}
    assert without == {
        exempt for exempt in without if exempt in named or exempt.partition(" ")[0] in named
    }
    assert named <= without | groups


def test_every_kind_of_fault_is_named() -> None:
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    listed = text.partition("Kinds of faults: ")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w[\w-]*)`", listed)) == {*FaultKind}
