"""What each command prints is what the transcript has (``tests/support/commands/transcript.py``).

A file has the command's help, what it says without arguments, and cases with made answers of
clusters: text and ``--json``, notes, refusals, errors with their hints.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from k2ktui.cli.main import cli
from tests.support.commands.transcript import TRANSCRIPTS, compare_transcript, typed
from tests.unit.golden.cases import CASES, typed_cases

FILE = """
name: orders
source: {kafka: {common: {bootstrap.servers: "src:9092"}}}
target: {kafka: {common: {bootstrap.servers: "dst:9092"}}}
replication:
  - source: {topic: [clicks, invoices, payments]}
  - sink: {topic: source, partition: source}
"""


def each_command(command: click.Command, words: str = "") -> Iterator[str]:
    """Yield the words of each command, groups too."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            below = command.get_command(click.Context(command), name)
            if below is not None and not below.hidden:
                yield from each_command(below, f"{words} {name}".strip())
    if words:
        yield words


COMMANDS = list(each_command(cli))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a pipeline's file, in which the commands run."""
    (tmp_path / "orders.yaml").write_text(FILE)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_print_what_they_printed(command: str, folder: Path) -> None:
    cases = typed_cases(command, folder)
    compare_transcript(command.replace(" ", "-"), [typed(f"{command} --help"), *cases], folder)


def test_each_file_is_of_a_command() -> None:
    """A file of a command that is gone, or renamed, would prove nothing."""
    assert {path.stem for path in TRANSCRIPTS.glob("*.txt")} == {
        command.replace(" ", "-") for command in COMMANDS
    }
    assert set(CASES) <= set(COMMANDS)
