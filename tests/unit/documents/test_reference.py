"""docs/reference says what the code declares; ``K2KTUI_DOCUMENTS=write`` writes the pages anew."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from k2ktui.cli.main import cli
from tests.support.documents import checks, keys, metrics, options
from tests.support.documents.markdown import check_page

PACKAGE = Path(__file__).parents[3] / "k2ktui"
# Modules with checks of ``k2ktui check`` or of a job's start.
CHECKED = (
    *sorted((PACKAGE / "replication" / "preflight").glob("*.py")),
    PACKAGE / "jobs" / "checks.py",
    PACKAGE / "sync" / "other_files.py",
    PACKAGE / "sync" / "drill" / "guard.py",
    PACKAGE / "sync" / "holds.py",
    PACKAGE / "sync" / "mapping" / "keeper.py",
)
OUTCOMES = {"passes", "fails", "warns", "unknown", "error"}


@pytest.mark.parametrize(
    ("name", "title", "body"),
    [
        ("keys", "Keys of a pipeline file", keys.body),
        ("options", "Commands and options", options.body),
        ("metrics", "Metrics by name", metrics.body),
        ("checks", "Checks", checks.body),
    ],
)
def test_the_page_is_what_the_code_says(name: str, title: str, body: Callable[[], str]) -> None:
    check_page(f"{name}.md", name, title, body())


def test_every_command_says_what_it_does() -> None:
    every = dict(options.commands(cli, "k2ktui"))
    assert len(every) > 60
    assert [name for name, command in every.items() if not (command.help or "").strip()] == []


def test_the_page_has_the_names_of_checks() -> None:
    """Each name that a module gives a check, as far as it can be read without a run."""
    named = {name for file in CHECKED for name in _names(ast.parse(file.read_text()))}
    shown = {re.sub(r"<[^>]+>", "<>", name) for name in checks.PREFLIGHT}
    assert len(named) > 25
    # The first check when a cluster is silent lists those that follow.
    assert named - shown == {
        "cluster identity, clocks, rights, control topics, target topics, retention"
    }
    assert shown - named == set()


def _names(module: ast.Module) -> Iterator[str]:
    """Yield the names of checks of a module; what is filled in is ``<>``."""
    values: dict[str, set[str]] = {}
    for node in ast.walk(module):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                values.setdefault(name, set()).update(_text(value))
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=name), *_])], value=ast.Tuple()):
                assert isinstance(node.value, ast.Tuple)
                values.setdefault(name, set()).update(_text(node.value.elts[0]))
    for node in ast.walk(module):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="Check"), attr=outcome), args=[first, *_]
            ) if outcome in OUTCOMES:
                yield from values.get(first.id, ()) if isinstance(first, ast.Name) else _text(first)
            case ast.Call(func=ast.Name(id="replace"), keywords=[ast.keyword(arg="name"), *_]):
                yield from _text(node.keywords[0].value)


def _text(node: ast.expr) -> set[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return {node.value}
    if isinstance(node, ast.JoinedStr):
        parts = (v.value if isinstance(v, ast.Constant) else "<>" for v in node.values)
        return {"".join(map(str, parts))}
    return set()
