"""What a linter cannot check: help texts, formats of durations, how tests run commands."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from k2ktui.cli.main import cli

PACKAGE = Path(__file__).parents[1] / "k2ktui"


def _modules() -> list[str]:
    return sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))


TESTS = sorted(
    path
    for folder in ("tests", "bench")
    for path in (PACKAGE.parent / folder).rglob("*.py")
    if path != Path(__file__)
)


def test_commands_in_a_tests_process_fail_with_their_exception() -> None:
    """Click's runner keeps an exception to itself: the output is empty, and lacks everything."""
    users = [path.name for path in TESTS if "CliRunner(" in path.read_text()]
    assert users == ["in_process.py"]


# The difference between two clocks; figures of a drill's report and the demo's output in a column.
OWN_SECONDS = {
    "demo/screen.py",
    "drill/checks/reachability.py",
    "engine/drill_report.py",
    "replication/preflight/clusters.py",
    "text.py",
}
SECONDS = re.compile(r":[,.0-9]*f\} s\b")


def test_measured_durations_have_one_format() -> None:
    found = [
        f"k2ktui/{name}:{source.count(chr(10), 0, hit.start()) + 1}"
        for name in sorted({*_modules()} - OWN_SECONDS)
        for source in [(PACKAGE / name).read_text()]
        for hit in SECONDS.finditer(source)
    ]
    assert not found, "use k2ktui.text.duration"


def _commands(command: click.Command, path: str = "k2ktui") -> Iterator[tuple[str, click.Command]]:
    """Yield a command and its subcommands with their names."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _commands(found, f"{path} {name}")


@pytest.mark.parametrize(("path", "command"), list(_commands(cli)), ids=lambda each: str(each))
def test_every_option_has_a_help_text(path: str, command: click.Command) -> None:
    """A help text is a sentence or a noun phrase: a capital or a name first, a full stop last."""
    if command.hidden:
        return
    options = [each for each in command.params if isinstance(each, click.Option)]
    for option in (each for each in options if not each.hidden):
        text = (option.help or "").split("  [")[0]
        assert text.endswith(".") and not text.startswith("How "), f"{path} {option.opts}: {text!r}"
