"""The words of the program: text and names are the plain English of technical documentation."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from k2ktui.cli.main import cli

PACKAGE = Path(__file__).parents[1] / "k2ktui"
# Old words, metaphors and inversions; each has a plainer one.
WORDS = re.compile(
    r"\b(nobody|anybody|anew|lest|mends?|told|tells|heard|unheard|whoever|rivals?|"
    r"as it stands|for who|by who|in who|to who|needs? not|says so|let go|lets? \w+ go on|"
    r"goes on|go on|went on|going on|tak(?:e|es|en|ing) back|took back|all the same|"
    r"again and again|decide by hand|for ever|stood still|without a word|nowhere else|"
    r"warden|courier|survey(?:or)?|leash|outlets?|peek)\b",
    re.IGNORECASE,
)
# Spellings of earlier releases that are still read from logs.
ALLOWED = {("jobs/joblog.py", "mend"), ("replication/event_text.py", "mend")}
# Functions are verbs: sayings and participles are not.
SAYINGS = re.compile(r"_*(told|tells?|teller|said|says|taken|seen|kept|heard|gone|anew|mend)")
# Not in the console, where the handler of an event has the event's name.
PARTICIPLES = re.compile(
    r"_*(answered|changed|connected|copied|damaged|described|fetched|filled|finished|found|joined|"
    r"judged|landed|layered|left|listed|looked|matched|merged|numbered|opened|outdated|parsed|passed|"
    r"quoted|reached|received|replaced|retained|scoped|searched|stamped|stripped|translated|"
    r"unchecked|undecided|undescribed|unescaped|unlisted|validated|vanished|warned)"
)


def _strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield each string literal, docstrings included, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Yield each comment with its line."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def _old_words(source: str, name: str) -> list[str]:
    """Return the old words in a module's text, and its functions with old names."""
    tree = ast.parse(source)
    found = [
        f"k2ktui/{name}:{line + text.count(chr(10), 0, hit.start())}: {hit[0]!r}"
        for line, text in (*_strings(tree), *_comments(source))
        for hit in WORDS.finditer(text)
        if (name, hit[0]) not in ALLOWED
    ]
    found += [
        f"k2ktui/{name}:{node.lineno}: def {node.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (
            SAYINGS.fullmatch(node.name)
            or (PARTICIPLES.fullmatch(node.name) and not name.startswith("console/"))
        )
    ]
    return found


def _modules() -> list[str]:
    return sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py"))


def test_text_and_names_are_plain() -> None:
    found = {name: _old_words((PACKAGE / name).read_text(), name) for name in _modules()}
    assert len(found) > 300
    assert {name: words for name, words in found.items() if words} == {}


TESTS = sorted(
    path
    for folder in ("tests", "bench")
    for path in (PACKAGE.parent / folder).rglob("*.py")
    if path != Path(__file__)
)


def _old_words_of_a_test(path: Path) -> list[str]:
    """Return the old words in text, comments and names; a principal may be called "nobody"."""
    source, name = path.read_text(), path.relative_to(PACKAGE.parent)
    words = source.replace("_", " ").replace('"nobody"', '"      "')
    return [
        f"{name}:{source.count(chr(10), 0, hit.start()) + 1}: {hit[0]!r}"
        for hit in WORDS.finditer(words)
        if hit[0] != "mend" or "errors" not in path.name
    ]


def test_tests_and_benchmarks_are_plain() -> None:
    assert len(TESTS) > 300
    assert [hit for path in TESTS for hit in _old_words_of_a_test(path)] == []


def test_commands_in_a_tests_process_fail_with_their_exception() -> None:
    """Click's runner keeps an exception to itself: the output is empty, and lacks everything."""
    users = [path.name for path in TESTS if "CliRunner(" in path.read_text()]
    assert users == ["in_process.py"]


@pytest.mark.parametrize(
    ("source", "where"),
    [
        ('raise K2kError("nobody leads t-0")', "k2ktui/a.py:1: 'nobody'"),
        ('def read():\n    """Return it.\n\n    It goes on.\n    """', "k2ktui/a.py:4: 'goes on'"),
        ('x = f"{name} is created anew"', "k2ktui/a.py:1: 'anew'"),
        ("def _told():\n    pass", "k2ktui/a.py:1: def _told"),
        ("x = 1  # nobody reads it", "k2ktui/a.py:1: 'nobody'"),
        ("def _matched():\n    pass", "k2ktui/a.py:1: def _matched"),
    ],
)
def test_old_words_are_found(source: str, where: str) -> None:
    assert _old_words(source, "a.py") == [where]


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


DOCS = sorted([*(PACKAGE.parent / "docs").glob("*.md"), PACKAGE.parent / "README.md"])


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_pages_are_plain(page: Path) -> None:
    lines = enumerate(page.read_text().splitlines(), 1)
    found = [
        f"{page.name}:{line}: {hit[0]!r}" for line, text in lines for hit in WORDS.finditer(text)
    ]
    assert found == []
