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


# Commands without a case, and why.
ONLY_HELP = {
    "config schema": "the schema of the file is a document of its own, of 2,000 lines",
}


def each_command(command: click.Command, words: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield each command with its words, groups and the whole program, too."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            below = command.get_command(click.Context(command), name)
            if below is not None and not below.hidden:
                yield from each_command(below, f"{words} {name}".strip())
    yield words, command


COMMANDS = dict(each_command(cli))


def file_name(command: str) -> str:
    """Return the name of a command's file; that of the whole program is its own name."""
    return command.replace(" ", "-") or "k2ktui"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a pipeline's file, in which the commands run."""
    (tmp_path / "orders.yaml").write_text(FILE)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_print_what_they_printed(command: str, folder: Path) -> None:
    cases = typed_cases(command, folder)
    compare_transcript(file_name(command), [typed(f"{command} --help"), *cases], folder)


def test_each_file_is_of_a_command() -> None:
    """A file of a command that is gone, or renamed, would prove nothing."""
    assert {path.stem for path in TRANSCRIPTS.glob("*.txt")} == {
        file_name(command) for command in COMMANDS
    }
    assert set(CASES) <= set(COMMANDS)


@pytest.mark.parametrize("words", COMMANDS)
def test_each_command_has_cases(words: str, folder: Path) -> None:
    """One that prints has more than its help; with ``--json``, both outputs."""
    command = COMMANDS[words]
    if isinstance(command, click.Group) and not command.invoke_without_command:
        return  # it prints its help only
    cases = typed_cases(words, folder)
    assert bool(cases) is (words not in ONLY_HELP)
    prints_json = any("--json" in parameter.opts for parameter in command.params)
    if prints_json and words not in ONLY_HELP:
        given = ["--json" in case.arguments for case in cases]
        assert any(given) and not all(given)
