"""docs/reference/keys.md: every key of a pipeline file, from the model."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from k2ktui.config.clusters import Section, yaml_name
from k2ktui.config.drill import Command, Phase
from k2ktui.config.key_aliases import IGNORED, SPELLINGS
from k2ktui.config.model import MappingRetention, PipelineConfig
from k2ktui.config.replication import Expression
from k2ktui.config.scalars import (
    Duration,
    Instant,
    JavaText,
    Name,
    NamesOrPattern,
    Pattern,
    Toggle,
    duration_text,
)
from k2ktui.config.transforms import DecodeField, EncodeField
from k2ktui.config.validate import keys_of, yaml_key
from tests.support.documents.markdown import code, first_paragraph, table

INTRODUCTION = """\
Every key of a pipeline file. [Configuration](../configuration.md) says how files are read, which
forms values have, and what a table cannot say. `k2ktui config schema` prints the same for editors,
`k2ktui config show` the values of a file.
"""

# The first one whose base and marks a key's type has; ``Pattern`` also has those of ``Name``.
_TYPES: tuple[tuple[Any, str], ...] = (
    (Toggle, "`enabled`, `disabled`"),
    (get_type_hints(MappingRetention, include_extras=True)["time_s"], "duration, or `topic`"),
    (Duration, "duration"),
    (Pattern, "pattern"),
    (NamesOrPattern, "pattern, or list of names"),
    (Instant, "instant"),
    (Expression, "Spark SQL"),
    (JavaText, "text"),
    (Name, "text"),
    (DecodeField, "format"),
    (EncodeField, "format"),
    (Command, "list of text"),
    (Phase, "phase of a drill"),
    (int, "whole number"),
)
_PLURALS = {"pattern": "patterns", "text": "texts", "keys": "sections"}
# Larger bounds are those of the formats that records have.
_LARGEST_BOUND = 2**31
_HEAD = ("key", "type", "default", "meaning")


def body() -> str:
    """Return the page without its heading."""
    rows = list(_rows(PipelineConfig, ()))
    parts = [INTRODUCTION, "## Pipeline\n", table(_HEAD, (r[1:] for r in rows if not r[0]))]
    for section in dict.fromkeys(row[0] for row in rows if row[0]):
        parts += [f"## {section}\n", table(_HEAD, (r[1:] for r in rows if r[0] == section))]
    others = [(code(".".join(old)), code(".".join(new))) for old, new in SPELLINGS]
    parts += ["## Other spellings\n", table(("key", "the same as"), others)]
    ignored = [(code(".".join(path)), note) for path, note in IGNORED.items()]
    parts += ["## Keys without effect\n", table(("key", "note"), ignored)]
    return "\n".join(parts)


def _rows(
    section: type[Section], above: tuple[str, ...]
) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield the top section, key, type, default and meaning of all keys of a section."""
    hints = get_type_hints(section, include_extras=True)
    required = {name: None for name, f in section.model_fields.items() if f.is_required()}
    spelled = section.model_construct(**required).model_dump(by_alias=True, mode="json")
    below = keys_of(section)
    for name, field in section.model_fields.items():
        key = yaml_key(section, name)
        path = (*above, key)
        inner = below[key]
        if inner is None or field.description:
            assert field.description, f"{'.'.join(path)} has no description"
            default = "required" if name in required else _value(spelled[key])
            what = _type(hints[name], field.metadata)
            top = path[0] if len(path) > 1 else ""
            yield top, code(".".join(path)), what, default, first_paragraph(field.description)
        if inner is not None:
            yield from _rows(inner, path)


def _value(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_value, value))
    return "" if value is None or isinstance(value, dict) else code(str(value))


def _type(hint: Any, more: Sequence[Any] = ()) -> str:
    """Return a type in words.

    Args:
        hint: the annotation.
        more: what pydantic says of the key beside its annotation, such as bounds.
    """
    base, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    marks = [*more, *(part for m in marks for part in getattr(m, "metadata", [m]))]
    for known, words in _TYPES:
        known_base, *needed = get_args(known) if get_origin(known) is Annotated else (known,)
        if known_base == base and all(mark in marks for mark in needed):
            return words + _bounds(marks, duration_text if known is Duration else "{:,}".format)
    return _composed(base)


def _composed(base: Any) -> str:
    inner = [part for part in get_args(base) if part not in (type(None), ...)]
    if get_origin(base) is Literal:
        return ", ".join(code(str(word)) for word in inner)
    if get_origin(base) in (Union, UnionType):
        return ", ".join(map(_type, inner))
    if get_origin(base) is tuple:
        words = _type(inner[0])
        return f"list of {_PLURALS.get(words, words)}"
    if get_origin(base) is Mapping:
        return "mapping"
    if dataclasses.is_dataclass(base):
        return code(f"{{{', '.join(yaml_name(field.name) for field in dataclasses.fields(base))}}}")
    assert issubclass(base, Section), base
    return "keys"


def _bounds(marks: Sequence[Any], shown: Callable[[float], str]) -> str:
    least, above, most = (_first(marks, name) for name in ("ge", "gt", "le"))
    most = None if most is None or most > _LARGEST_BOUND else most
    low = shown(least) if least is not None else f"more than {above}" if above is not None else ""
    if most is None:
        return f", {low} or more" if least is not None else f", {low}" if low else ""
    return f", {low} to {shown(most)}" if least is not None else f", up to {shown(most)}"


def _first(marks: Sequence[Any], name: str) -> Any:
    return next((value for mark in marks if (value := getattr(mark, name, None)) is not None), None)
