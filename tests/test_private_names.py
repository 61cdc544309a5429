"""Private names of libraries are used only in the modules that are made for them."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from functools import cache
from pathlib import Path

import pytest

import k2ktui

LIBRARIES = ("click", "confluent_kafka", "kafka", "plotext", "py4j", "pyspark", "textual")
# Each has contract tests that say what breaks when the library moves.
MADE_FOR_IT = {
    "k2ktui/console/_textual.py",
    "k2ktui/kafka/_kafka_python.py",
    "k2ktui/registry/_confluent.py",
    "k2ktui/replication/_pyspark.py",
}
ROOT = Path(k2ktui.__file__).parent.parent
FILES = sorted(str(path.relative_to(ROOT)) for path in ROOT.joinpath("k2ktui").rglob("*.py"))
_PRIVATE = re.compile(r"_[a-z]\w*")


def test_the_modules_exist() -> None:
    assert set(FILES) >= MADE_FOR_IT


@pytest.mark.parametrize("library", LIBRARIES)
def test_no_private_module_of_a_library_is_imported_elsewhere(library: str) -> None:
    found = re.compile(
        rf"^\s*(from|import) {library}(\.\w+)*\._|^\s*from {library}\S* import _", re.M
    )
    using = [file for file in FILES if found.search((ROOT / file).read_text())]
    assert set(using) <= MADE_FOR_IT


def test_no_private_attribute_of_another_object_is_used_elsewhere() -> None:
    """Ruff checks it (SLF001): no module but these may switch the check off."""
    found = {file for file in FILES if "SLF001" in (ROOT / file).read_text()}
    # http.client, atexit and pyjks have no public hooks for it; each has a test of its own.
    assert found == {
        "k2ktui/cli/ending.py",
        "k2ktui/kafka/bounded_http.py",
        "k2ktui/kafka/java_stores.py",
    }


def test_no_subclass_of_a_library_uses_private_names_of_it_elsewhere() -> None:
    """Neither on purpose nor by accident: an attribute of the same name would be overwritten."""
    found: list[str] = []
    for module in pkgutil.walk_packages(k2ktui.__path__, "k2ktui."):
        file = module.name.replace(".", "/") + ".py"
        if module.name.endswith("__main__") or file in MADE_FOR_IT:
            continue
        for name, kind in vars(importlib.import_module(module.name)).items():
            if inspect.isclass(kind) and kind.__module__ == module.name:
                clashes = _names_used(file, name) & _names_of_libraries(kind)
                found += [f"{module.name}.{name}.{each}" for each in sorted(clashes)]
    assert found == []


def _names_of_libraries(kind: type) -> set[str]:
    bases = [base for base in kind.__mro__ if base.__module__.partition(".")[0] in LIBRARIES]
    return {name for base in bases for name in _private_names(base)}


@cache
def _private_names(base: type) -> frozenset[str]:
    try:
        source = inspect.getsource(base)
    except (OSError, TypeError):
        source = ""
    own = {name for name in vars(base) if _PRIVATE.fullmatch(name)}
    return frozenset(own | set(re.findall(r"\bself\.(_[a-z]\w*)", source)))


@cache
def _parsed(file: str) -> ast.Module:
    return ast.parse((ROOT / file).read_text())


def _names_used(file: str, name: str) -> set[str]:
    """Private names that a class defines, or uses on ``self``, ``cls`` or ``super()``."""
    path = ROOT / file
    if not path.exists():
        file = file.removesuffix(".py") + "/__init__.py"
    used: set[str] = set()
    for found in ast.walk(_parsed(file)):
        if not isinstance(found, ast.ClassDef) or found.name != name:
            continue
        for each in ast.walk(found):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                used.add(each.name)
            elif isinstance(each, ast.Attribute) and _is_own(each.value):
                used.add(each.attr)
    return {each for each in used if _PRIVATE.fullmatch(each)}


def _is_own(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "super"
    return isinstance(node, ast.Name) and node.id in ("self", "cls")
