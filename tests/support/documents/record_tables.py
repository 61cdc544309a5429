"""The tables of docs/internals/record-formats.md: a record's fields, as the code declares them.

Names and forms are those of its ``Wire``, meanings those of its class's docstring.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import groupby
from types import ModuleType
from typing import Any

_SCALARS = {
    "TEXT": "text",
    "FLAG": "true or false",
    "COUNT": "number",
    "NUMBER": "number",
    "TERM": "number",
    "MILLIS": "time",
    "whole": "number",
    "text": "text",
    "number": "number",
    "read_digest": "text",
}
_FORMS = {
    "_PARTITION": "[topic, partition]",
    "_commit_row": "[commit, …]",
    "editions_value": "{digest: number}",
    "sorted": "[text, …]",
    "_by_partition": "[[topic, partition, number, number], …]",
}
"""Forms of types that are functions: by what writes them."""
_OR_NULL = " or null"
_EMPTY = {"''", "()", "{}", "frozenset()", "NO_EDITIONS"}


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of record.

    Attributes:
        kind: its class.
        examples: keys and values, as they are written.
        wire: name of its ``Wire`` in the module of the class, or in ``module``; "" if it has none.
        module: where the ``Wire`` is, if not beside the class.
        names: without a ``Wire``, the fields of the record by attribute.
        further: what else has fields of the record.
    """

    kind: type
    examples: Sequence[tuple[bytes, bytes]]
    wire: str = ""
    module: ModuleType | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    further: Format | None = None


@dataclass(frozen=True, slots=True)
class _Field:
    attribute: str
    name: str
    form: str
    absent: str


def section(of: Format) -> str:
    """Return the examples and the table of a kind of record, as Markdown."""
    lines = ["```json"]
    lines += [f"{key.decode()}\n{value.decode()}" for key, value in of.examples]
    lines += ["```", "", "| field | value | absent | meaning |", "|---|---|---|---|", *_rows(of)]
    return "\n".join(lines) + "\n"


def _rows(of: Format) -> list[str]:
    fields = _fields(of)
    meanings = _meanings(of.kind, {one.attribute: one.name for one in fields})
    rows = []
    same = groupby(fields, lambda one: (one.form, one.absent, meanings[one.attribute]))
    for (form, absent, meaning), together in same:
        names = "`, `".join(one.name for one in together)
        shape = form.removesuffix(_OR_NULL) if form[:1] in ("[", "{") else ""
        shown = form.replace(shape, f"`{shape}`", 1) if shape else form
        rows.append(f"| `{names}` | {shown} | {absent} | {meaning} |")
    return rows if of.further is None else [*rows, *_rows(of.further)]


def field_names(of: Format) -> set[str]:
    """Return the names of all fields in the table."""
    names = {name for one in _fields(of) for name in one.name.split("`, `")}
    return names if of.further is None else names | field_names(of.further)


def _fields(of: Format) -> list[_Field]:
    if not of.wire:
        body = json.loads(of.examples[0][1])
        kinds = {int: "number", str: "text", list: "list", dict: "object"}
        return [
            _Field(attribute, name, kinds[type(body[name.partition("`")[0]])], "")
            for attribute, name in of.names.items()
        ]
    module = of.module or sys.modules[of.kind.__module__]
    fields = []
    for keyword in _assigned(module, of.wire).keywords:
        declared = keyword.value
        assert (
            keyword.arg and isinstance(declared, ast.Call) and isinstance(declared.func, ast.Name)
        )
        name, form = declared.args[0], _form(module, declared.args[1])
        assert isinstance(name, ast.Constant)
        absent = ""
        if declared.func.id == "defaulted":
            absent = "in earlier releases"
        elif declared.func.id == "optional":
            absent = _absent(module, declared.args[2])
        fields.append(_Field(keyword.arg, str(name.value), form, absent))
    return fields


def _absent(module: ModuleType, default: ast.expr) -> str:
    """Return when a field is not written."""
    text = ast.unparse(default)
    if text in _EMPTY:
        return "if empty"
    if isinstance(default, ast.Attribute):
        return f"if `{eval(text, vars(module))}`"
    return f"if {text.lower().replace('none', 'null')}"


def _form(module: ModuleType, node: ast.expr) -> str:
    """Return what a type is in JSON."""
    if isinstance(node, ast.Name):
        known = _SCALARS.get(node.id) or _FORMS.get(node.id)
        return known or _form(module, _assigned(module, node.id))
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name), ast.unparse(node)
    inner = [_form(module, arg) for arg in node.args] if node.func.id in _MADE else []
    match node.func.id:
        case "or_none":
            return f"{inner[0]}{_OR_NULL}"
        case "list_of":
            return f"[{_form(module, node.args[0])}, …]"
        case "map_of":
            return f"{{name: {inner[0]}}}"
        case "row_of":
            names = [str(keyword.arg).replace("_", " ") for keyword in node.keywords]
            return f"[{', '.join(names)}]"
        case "tuple_of":
            return f"[{', '.join(inner)}]"
        case "table_of":
            columns = next(ast.literal_eval(k.value) for k in node.keywords if k.arg == "columns")
            forms = [_form(module, arg) for arg in node.args]
            parts = [f[1:-1] if n > 1 else f for f, n in zip(forms, columns, strict=True)]
            return f"[[{', '.join(parts)}], …]"
        case "object_of":
            assert isinstance(node.args[0], ast.Name)
            declared = _assigned(module, node.args[0].id).keywords
            names = [str(k.value.args[0].value) for k in declared]  # type: ignore[attr-defined]
            return f"{{{', '.join(names)}}}"
        case "word":
            enum: Any = getattr(module, ast.unparse(node.args[0]))
            never = [ast.unparse(k.value).rpartition(".")[2] for k in node.keywords]
            return ", ".join(f"`{one.value}`" for one in enum if one.name not in never)
    names = [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]
    forms = [_FORMS[name] for name in names if name in _FORMS]
    return (forms or [_SCALARS[name] for name in names if name in _SCALARS])[0]


_MADE = {"or_none", "map_of", "tuple_of"}


@cache
def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def _assigned(module: ModuleType, name: str) -> ast.Call:
    """Return the call whose result a module assigns to a name."""
    for statement in _tree(module).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name:
            assert isinstance(statement.value, ast.Call), name
            return statement.value
    raise AssertionError(f"{name} is not assigned in {module.__name__}")


def _meanings(kind: type, names: Mapping[str, str]) -> dict[str, str]:
    """Return what the docstring of a class says of each attribute, with the record's names."""
    text = inspect.getdoc(kind) or ""
    attributes = text.partition("\nAttributes:\n")[2]
    meanings: dict[str, str] = {}
    for item in re.split(r"\n(?=    \w)", f"\n{attributes}")[1:]:
        said, _, meaning = item.strip().partition(":")
        meaning = " ".join(meaning.split()).removesuffix(".")
        meaning = re.sub(r", see :\w+:`[^`]+`", "", meaning).replace("``", "`")
        meaning = re.sub(r":\w+:`", "`", meaning).replace("|", "or")
        meaning = re.sub(r"`(\w+)`", lambda m: f"`{names.get(m[1], m[1])}`", meaning)
        meanings |= dict.fromkeys(said.split(", "), re.sub(r"\bNone\b", "null", meaning))
    return meanings
