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

LIBRARIES = (
    "click",
    "confluent_kafka",
    "httpcore2",
    "kafka",
    "plotext",
    "py4j",
    "pyspark",
    "textual",
)
# Each has contract tests that say what breaks when the library moves.
MADE_FOR_IT = {
    "k2ktui/console/_textual.py",
    "k2ktui/kafka/wire/_kafka_python.py",
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
    pattern = re.compile(
        rf"^\s*(from|import) {library}(\.\w+)*\._|^\s*from {library}\S* import _", re.M
    )
    using = [file for file in FILES if pattern.search((ROOT / file).read_text())]
    assert set(using) <= MADE_FOR_IT


def test_no_private_attribute_of_another_object_is_used_elsewhere() -> None:
    """Ruff checks it (SLF001): no module but these may switch the check off."""
    files = {file for file in FILES if "SLF001" in (ROOT / file).read_text()}
    # atexit and pyjks have no public hooks for it; each has a test of its own.
    assert files == {
        "k2ktui/cli/terminal/streams.py",
        "k2ktui/kafka/auth/java_stores.py",
    }


def test_no_subclass_of_a_library_uses_private_names_of_it_elsewhere() -> None:
    """Neither on purpose nor by accident: an attribute of the same name would be overwritten."""
    names: list[str] = []
    for module in pkgutil.walk_packages(k2ktui.__path__, "k2ktui."):
        file = module.name.replace(".", "/") + ".py"
        if module.name.endswith("__main__") or file in MADE_FOR_IT:
            continue
        for name, kind in vars(importlib.import_module(module.name)).items():
            if inspect.isclass(kind) and kind.__module__ == module.name:
                clashes = _names_used(file, name) & _names_of_libraries(kind)
                names += [f"{module.name}.{name}.{clash}" for clash in sorted(clashes)]
    assert names == []


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
    for class_ in ast.walk(_parsed(file)):
        if not isinstance(class_, ast.ClassDef) or class_.name != name:
            continue
        for node in ast.walk(class_):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                used.add(node.name)
            elif isinstance(node, ast.Attribute) and _is_own(node.value):
                used.add(node.attr)
    return {name_used for name_used in used if _PRIVATE.fullmatch(name_used)}


def _is_own(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "super"
    return isinstance(node, ast.Name) and node.id in ("self", "cls")
