"""What programs may rely on (docs/stability.md) is still there.

``public_interface.txt`` has a line for each name, signature, option and JSON field that was
promised. A line may be added in any release; one that is gone breaks programs.
``K2KTUI_DOCUMENTS=write`` adds the new ones.
"""

from __future__ import annotations

import ast
import enum
import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import k2ktui
from k2ktui.cli.groups import result_object
from k2ktui.cli.main import cli
from k2ktui.engine.mapping.translate import list_translated
from k2ktui.engine.moves.apply import WriteOutcome, WriteResult
from k2ktui.engine.moves.failover import GroupPositions
from k2ktui.engine.moves.journal import JournalHeader
from k2ktui.engine.moves.plan import dump_plan
from k2ktui.engine.moves.written import OffsetWrite
from k2ktui.sync.moves.apply import Applied
from k2ktui.sync.operations import journal_json
from k2ktui.watch.once import Reading
from tests.support.console.views import NOON, Made
from tests.support.documents.options import commands, visible_options
from tests.unit.engine.test_plan import PLAN

GOLDEN = Path(__file__).parent / "public_interface.txt"
ROOT = Path(k2ktui.__file__).parent
_BUILT_IN = {"Any", "Mapping", "None", "bool", "dict", "float", "int", "list", "str", "tuple"}
# Types that only bound values: of files, and of records.
_BOUNDED = {"Count": "int", "Number": "int", "Seconds": "float", "Millis": "int", "Text": "str"}


def exported() -> dict[str, object]:
    return {name: getattr(k2ktui, name) for name in k2ktui.__all__}


def python_lines() -> Iterator[str]:
    """Yield each public name with what belongs to it: signatures, fields, members."""
    for name, value in exported().items():
        yield name
        if not inspect.isclass(value):
            continue
        if issubclass(value, Exception):
            yield from (f"{name}.{attribute}" for attribute in (*vars(value("")), "exit_code"))
        elif issubclass(value, enum.Enum):
            yield from (f"{name}.{member.name} = {member.value}" for member in value)
        elif is_dataclass(value):
            yield from (
                f"{name}.{field.name}: {shown}"
                for field in fields(value)
                if (shown := public_type(str(field.type)))
            )
        for attribute, raw in vars(value).items():
            if attribute.startswith("_"):
                continue
            member = raw.__func__ if isinstance(raw, classmethod) else raw
            if isinstance(member, property) and member.fget is not None:
                returned = public_type(member.fget.__annotations__.get("return", ""))
                yield from [f"{name}.{attribute}: {returned}"] if returned else []
            elif inspect.isfunction(member):
                yield f"{name}.{attribute}{inspect.signature(member)}"


def public_type(text: str) -> str:
    """Return a type as it is promised; "" if it has a part that is not public."""
    text = re.sub(r"Annotated\[(.*), FailFast\(\)\]", r"\1", text)
    text = re.sub(r"\w+", lambda word: _BOUNDED.get(word[0], word[0]), text)
    is_public = set(re.findall(r"[A-Za-z_]\w*", text)) <= _BUILT_IN | set(k2ktui.__all__)
    return text if is_public else ""


def option_lines() -> Iterator[str]:
    for name, command in commands(cli, "k2ktui"):
        for option in visible_options(command):
            yield from (f"{name} {opt}" for opt in option.opts)


def json_lines() -> Iterator[str]:
    """Yield the fields of what commands print with ``--json``, as paths."""
    made = Made()
    at = made.partition("orders", 0, end=90_000, lag=10)
    made.group("billing", at)
    view = made.view()
    reading = Reading(view)
    groups = GroupPositions("orders", NOON, NOON, view.pair_state, "", (), view.groups, estimate())
    write = OffsetWrite("billing", "orders", 0, None, "", 5, "")
    applied = Applied("1", (WriteResult(write, WriteOutcome.APPLIED),))
    header = JournalHeader("1", 0, "me", "apply")
    printed = {
        "status": reading.status().as_json(),
        "groups": groups.as_json(),
        "translate": {"positions": [vars_of(row) for row in list_translated({at: 5}, [])]},
        "plan": json.loads(dump_plan(PLAN)),
        "apply": result_object("orders", applied),
        "journal": journal_json([header]),
    }
    for command, value in printed.items():
        yield from dict.fromkeys(f"k2ktui {command} --json: {path}" for path in paths(value))


def estimate() -> k2ktui.GroupEstimate:
    return k2ktui.GroupEstimate(named=(k2ktui.NamedMove("g", k2ktui.MoveOutcome.LOSES),))


def vars_of(row: object) -> dict[str, object]:
    assert is_dataclass(row)
    return {field.name: getattr(row, field.name) for field in fields(row)}


def paths(value: object, prefix: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, below in value.items():
            yield f"{prefix}{name}"
            yield from paths(below, f"{prefix}{name}.")
    elif isinstance(value, list | tuple):
        for below in value:
            yield from paths(below, prefix)


def test_what_was_promised_is_still_there() -> None:
    now = [*python_lines(), *option_lines(), *json_lines()]
    promised = GOLDEN.read_text().splitlines() if GOLDEN.exists() else []
    if os.environ.get("K2KTUI_DOCUMENTS") == "write":
        GOLDEN.write_text("".join(f"{line}\n" for line in dict.fromkeys([*promised, *now])))
        return
    assert len(promised) > 400
    gone = sorted(set(promised) - set(now))
    assert gone == [], "this breaks programs: it needs a new major version, and a deprecation first"


def test_python_names_are_promised_as_they_are_added() -> None:
    promised = set(GOLDEN.read_text().splitlines())
    assert [name for name in k2ktui.__all__ if name not in promised] == []


def test_a_change_is_noticed() -> None:
    lines = {*python_lines()}
    assert "Pipeline.journal(self) -> 'list[JournalHeader]'" in lines
    assert "Basis.EXACT = exact" in lines
    assert "TranslatedOffset.translated_offset: int | None" in lines
    assert "Applied.complete: bool" in lines
    assert not any(line.startswith(("Plan.logs", "PlanRow.version")) for line in lines)
    assert "k2ktui translate --json: positions.basis" in {*json_lines()}
    assert public_type("tuple[PlanRow, MappingVersion]") == ""


def test_the_lazy_names_are_those_that_type_checkers_see() -> None:
    tree = ast.parse((ROOT / "__init__.py").read_text())
    (block,) = [
        node
        for node in tree.body
        if isinstance(node, ast.If)
        and isinstance(node.test, ast.Name)
        and any(isinstance(line, ast.ImportFrom) for line in node.body)
    ]
    seen = {
        alias.name: line.module
        for line in block.body
        if isinstance(line, ast.ImportFrom)
        for alias in line.names
    }
    assert seen == {
        name: value.__module__ for name, value in exported().items() if inspect.isclass(value)
    }
    assert {*seen, "__version__"} == set(k2ktui.__all__) <= set(dir(k2ktui))


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Pipelines'"):
        k2ktui.Pipelines  # type: ignore[attr-defined]  # noqa: B018


LIGHT = """
import sys
before = set(sys.modules)
import k2ktui
k2ktui.__version__
own = {name for name in sys.modules if name.partition(".")[0] == "k2ktui"}
others = {name.partition(".")[0] for name in set(sys.modules) - before - own}
print(sorted(own), sorted(others - set(sys.stdlib_module_names)))
from k2ktui import K2kError, Pipeline
print(sorted({"click", "pyspark", "rich", "textual"} & set(sys.modules)))
"""


def test_the_package_alone_is_light_and_a_pipeline_draws_and_runs_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", LIGHT], capture_output=True, text=True)
    assert done.stdout == "['k2ktui', 'k2ktui.version'] []\n[]\n", done.stderr


def test_type_checkers_are_told_that_it_is_typed() -> None:
    assert (ROOT / "py.typed").exists()
