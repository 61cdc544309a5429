"""Regular expressions and lists of names as values of the pipeline file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

from k2ktui.config.scalars import SCALAR, Name, parse_text
from k2ktui.engine.java_patterns import compile_pattern


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
