"""Every command that prints data prints it as JSON, too; the README names those that do not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from k2ktui.cli.main import cli
from tests.support.commands.cli import k2ktui, k2ktui_json

README = Path(__file__).parents[3] / "README.md"


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, set[str]]]:
    """Yield each command that a user can call, with its options."""
    context = click.Context(cli)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            assert subcommand is not None
            if not subcommand.hidden:
                yield from leaves(subcommand, (*path, name))
    else:
        yield " ".join(path), {name for param in command.params for name in param.opts}


def test_every_command_has_it_or_the_readme_says_why() -> None:
    without = {name for name, options in leaves(cli) if "--json" not in options}
    sentence = README.read_text().partition("takes `--json`.")[2].partition("Data goes to")[0]
    named = set(re.findall(r"`(bug-report|[a-z ]+)`", sentence))
    groups = {name.partition(" ")[0] for name in without}
    assert without == {
        exempt for exempt in without if exempt in named or exempt.partition(" ")[0] in named
    }
    assert named <= without | groups


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yaml"
    path.write_text(
        """
name: there
source: {kafka: {common: {bootstrap.servers: "localhost:1"}}}
target: {kafka: {common: {bootstrap.servers: "localhost:2"}}}
replication:
- source: {topic: ".*"}
- sink: {topic: source, partition: source}
"""
    )
    return path


def test_the_reverse_pipeline(file: Path) -> None:
    text = k2ktui("config", "reverse", "-f", file)
    reversal = k2ktui_json("config", "reverse", "-f", file)
    assert reversal["text"] == text.stdout
    assert [f"note: {note}" for note in reversal["notes"]] == text.stderr.splitlines()
