"""Programs that tests and benchmarks run with ``python -c`` import what there is.

Neither mypy nor ruff reads a program in a string, so a renamed module would be noticed by its own
test only, which is often a slow one.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("k2ktui", "tests", "bench")


def programs() -> Iterator[tuple[str, ast.Module]]:
    """Yield each string that is a program with imports of ours, and where it stands."""
    for folder in ("tests", "bench"):
        for path in sorted({*(ROOT / folder).rglob("*.py")} - {Path(__file__)}):
            for node in ast.walk(ast.parse(path.read_text())):
                if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
                    continue
                if not any(f"from {name}" in node.value for name in PACKAGES):
                    continue
                try:
                    program = ast.parse(node.value)
                except SyntaxError:
                    continue  # prose, or a template
                yield f"{path.relative_to(ROOT)}:{node.lineno}", program


def missing_names(program: ast.Module) -> list[str]:
    """Return what a program imports, or takes from a module that it imports, and is not there."""
    modules: dict[str, ModuleType] = {}
    missing = []
    for node in ast.walk(program):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(PACKAGES):
            continue
        assert node.module is not None
        for alias in node.names:
            try:
                module = importlib.import_module(node.module)
                if alias.name == "*":
                    continue
                if not hasattr(module, alias.name):
                    module = importlib.import_module(f"{node.module}.{alias.name}")
                    modules[alias.asname or alias.name] = module
                elif isinstance(value := getattr(module, alias.name), ModuleType):
                    modules[alias.asname or alias.name] = value
            except ImportError:
                missing.append(f"{node.module}.{alias.name}")
    for node in ast.walk(program):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            owner = modules.get(node.value.id)
            if owner is not None and not hasattr(owner, node.attr):
                missing.append(f"{owner.__name__}.{node.attr}")
    return missing


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("from k2ktui.text import safe_text", []),
        ("from k2ktui import text\ntext.safe_text", []),
        ("from k2ktui import nothing_there", ["k2ktui.nothing_there"]),
        ("from k2ktui.gone import x", ["k2ktui.gone.x"]),
        ("from k2ktui import text as t\nt._GONE = 1", ["k2ktui.text._GONE"]),
    ],
)
def test_what_is_missing_is_named(program: str, expected: list[str]) -> None:
    assert missing_names(ast.parse(program)) == expected


def test_programs_import_what_there_is() -> None:
    missing = {at: names for at, program in programs() if (names := missing_names(program))}
    assert missing == {}
