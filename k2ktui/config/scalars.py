"""Scalar types of the pipeline file: toggles, durations, Java property values, instants.

Each accepts both the verbatim text of a YAML scalar (see ``Text``) and a plain Python value, so
models can be built from YAML and from code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema

from k2ktui.engine.java_patterns import compile_pattern

_TRUE = frozenset({"enabled", "true", "yes", "on"})
_FALSE = frozenset({"disabled", "false", "no", "off"})
_DURATION = re.compile(r"^\s*(\d+)\s*([A-Za-z]+)\s*$")
_UNITS: dict[str, float] = {
    **dict.fromkeys(("ms", "milli", "millis", "millisecond", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
}
_SPOKEN = ((86400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


class Text(str):
    """The verbatim text of a YAML scalar, so that ``1.10`` and ``no`` can be used as names.

    ``boolean`` is the YAML 1.1 boolean of unquoted text (``yes``, ``off``, ``true``), or None.
    """

    __slots__ = ("boolean",)
    boolean: bool | None

    def __new__(cls, text: str, boolean: bool | None = None) -> Text:
        made = super().__new__(cls, text)
        made.boolean = boolean
        return made


def parse_toggle(value: Any) -> bool:
    """Parse ``enabled``, ``disabled`` or a YAML boolean; ValueError otherwise."""
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else None
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise ValueError("enabled or disabled")


def toggle_text(value: bool) -> str:
    """Format a toggle as in the pipeline file."""
    return "enabled" if value else "disabled"


def parse_duration(value: Any) -> float:
    """Parse a duration such as ``5 seconds``, ``500ms`` or ``7 days`` into seconds.

    A Python number is in seconds; text needs a unit. ValueError otherwise.
    """
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    match = _DURATION.match(value) if isinstance(value, str) else None
    scale = _UNITS.get(match[2].lower()) if match else None
    if match is None or scale is None:
        raise ValueError('a duration with its unit, such as "750 milliseconds" or "5 seconds"')
    return int(match[1]) / 1000 if scale == 0.001 else int(match[1]) * scale


def duration_text(seconds: float) -> str:
    """Format seconds in the largest unit that represents them exactly, rounded to milliseconds."""
    for size, word in _SPOKEN:
        if seconds and seconds % size == 0:
            return _amount_text(int(seconds // size), word)
    return _amount_text(round(seconds * 1000), "millisecond") if seconds else "0 seconds"


def _amount_text(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def java_text(value: Any) -> str:
    """Format a value as a Java property: ``true``, ``1000``, or ``a,b`` for a list."""
    if isinstance(value, Text) and value.boolean is not None:
        value = value.boolean
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    if isinstance(value, (list, tuple)):
        return ",".join(java_text(item) for item in value)
    raise ValueError("a string, number, boolean or list of these")


def parse_text(value: Any) -> str:
    """Return the verbatim text of a YAML scalar; ValueError for any other value."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError("a string")
    return str(value)


def parse_instant(value: Any) -> int:
    """Parse an ISO-8601 instant (UTC by default) or epoch milliseconds into epoch milliseconds."""
    text = str(value).strip()
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        wanted = 'an ISO-8601 instant such as "2025-03-01T12:00:00Z", or milliseconds since 1970'
        raise ValueError(wanted) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


# JSON schemas of scalars, for editors. They read YAML's booleans and numbers as such; a text with a
# template may become any scalar.
SCALAR = {"type": ["string", "number", "boolean"]}
TEMPLATE = {"type": "string", "pattern": r"\$\{"}


def _in_any_case(words: Iterable[str]) -> str:
    """Return a regular expression for words in any case, as JSON schema's have no flags."""
    spelled = ("".join(f"[{c.upper()}{c}]" for c in word) for word in words)
    return f"({'|'.join(spelled)})"


DURATION_TEXT = rf"^\s*\d+\s*{_in_any_case(_UNITS)}\s*$"
Toggle = Annotated[
    bool,
    BeforeValidator(parse_toggle),
    PlainSerializer(toggle_text, return_type=str),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["enabled", "disabled"]},
                {"type": "boolean"},
                {"type": "string", "pattern": rf"^\s*{_in_any_case(sorted(_TRUE | _FALSE))}\s*$"},
                TEMPLATE,
            ]
        }
    ),
]
Duration = Annotated[
    float,
    BeforeValidator(parse_duration),
    PlainSerializer(duration_text, return_type=str),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": DURATION_TEXT}, TEMPLATE]}),
]
JavaText = Annotated[
    str,
    BeforeValidator(java_text),
    WithJsonSchema({"type": ["string", "number", "boolean", "array"]}),
]
Name = Annotated[str, BeforeValidator(parse_text)]


def whole_path(value: str) -> str:
    """Return a path; ValueError if it depends on a directory."""
    if not value.startswith("/") or not value.isprintable():
        raise ValueError("a whole path")
    return value


Instant = Annotated[
    int,
    BeforeValidator(parse_instant),
    WithJsonSchema({"type": ["string", "number"]}),
]
FailOrIgnore = Literal["fail", "ignore"]
FailSkipOrIgnore = Literal["fail", "skip", "ignore"]


class WrongEntry(ValueError):
    """One entry of a list is wrong, not the list."""

    def __init__(self, index: int, expected: str) -> None:
        super().__init__(expected)
        self.index = index


def checked_pattern(pattern: str) -> str:
    """Return the pattern; ValueError if it is not valid."""
    compile_pattern(pattern)
    return pattern


def _parse_entry(index: int, name: Any) -> str:
    try:
        return parse_text(name)
    except ValueError as error:
        raise WrongEntry(index, str(error)) from error


def _names_or_pattern(value: Any) -> str | tuple[str, ...]:
    if isinstance(value, (list, tuple)):
        return tuple(_parse_entry(index, name) for index, name in enumerate(value))
    try:
        return checked_pattern(parse_text(value))
    except ValueError as error:
        raise ValueError(_PATTERN_OR_LIST if str(error) == "a string" else str(error)) from error


_PATTERN_OR_LIST = "one regular expression, or a list of exact names"

Pattern = Annotated[Name, AfterValidator(checked_pattern)]
NamesOrPattern = Annotated[
    str | tuple[str, ...],
    BeforeValidator(_names_or_pattern),
    WithJsonSchema({"anyOf": [SCALAR, {"type": "array", "items": SCALAR}]}),
]
