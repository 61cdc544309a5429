"""Strict parsing of untrusted JSON: exact types and bounded numbers.

Control topics and state files are untrusted input: a writer must not be able to crash or hang a
reader. :func:`parse` rejects NaN and infinity (also as ``1e999``), duplicate keys, bytes that are
not UTF-8, and strings that cannot be encoded as UTF-8; the other functions check one value each.
All raise :class:`MalformedRecord`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

LARGEST = (1 << 63) - 1
LARGEST_INT = (1 << 31) - 1
# 9999-12-31, the largest date of Python's datetime.
LARGEST_MS = 253_402_300_799_999
_LARGEST_BYTES = 64 << 20
LONGEST = 1 << 20
MOST = 10_000_000


class MalformedRecord(ValueError):
    """Not strict JSON, a value of the wrong type or out of bounds, or an unsupported version."""


class UnknownVersion(MalformedRecord):
    """A record of k2ktui in a version that this release does not read.

    Attributes:
        of: what its key names.
    """

    def __init__(self, what: str, of: str | int) -> None:
        super().__init__(f"{what} of an unknown version")
        self.of = of


def parse(raw: bytes | str | None, what: str = "it", *, largest: int = _LARGEST_BYTES) -> Any:
    """Return the value of a JSON text.

    Args:
        raw: the text; None is rejected like an empty one.
        what: name of the text in messages.
        largest: maximum size in bytes or characters.
    """
    if raw is None or len(raw) > largest:
        raise MalformedRecord(f"{what} is missing" if raw is None else f"{what} is too large")
    try:
        # json.loads would also accept bytes in UTF-16 and lone surrogates.
        text = raw.decode() if isinstance(raw, bytes) else raw
        return _DECODER.decode(text)
    except MalformedRecord as error:
        raise MalformedRecord(f"{what} is not JSON: {error}") from error
    except (ValueError, RecursionError) as error:
        raise MalformedRecord(f"{what} is not JSON") from error


def parse_object(
    raw: bytes | str | None, what: str = "it", *, largest: int = _LARGEST_BYTES
) -> dict[str, Any]:
    """Return the object of a JSON text; arguments as for :func:`parse`."""
    value = parse(raw, what, largest=largest)
    if not isinstance(value, dict):
        raise MalformedRecord(f"{what} is not a JSON object")
    return value


def require_version(body: Mapping[str, Any], version: int) -> None:
    """Require that a record has the version that this release reads."""
    stated = integer(field(body, "v"))
    if stated != version:
        raise MalformedRecord(f"version {stated}, this release reads version {version}")


def dump(value: object) -> bytes:
    """Return a value as compact JSON; the keys of objects stay in their order."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def dump_object(value: dict[str, Any]) -> bytes:
    """Return an object as compact JSON with sorted keys."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True).encode()


def text(value: object, longest: int = LONGEST) -> str:
    """Return a string that can be encoded as UTF-8."""
    if not isinstance(value, str):
        raise _type_error(value, "a string")
    if len(value) > longest:
        raise MalformedRecord(f"a string of more than {longest} characters")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise MalformedRecord("a string with a lone surrogate") from error
    return value


def integer(value: object, low: int = 0, high: int = LARGEST) -> int:
    """Return an integer within bounds; booleans and floats such as 1.0 are rejected."""
    if type(value) is not int:
        raise _type_error(value, "a whole number")
    if not low <= value <= high:
        raise MalformedRecord(f"a number outside {low} to {high}")
    return value


def number(value: object, low: float = 0.0, high: float = float(LARGEST)) -> float:
    """Return a number within bounds."""
    if type(value) is not int and type(value) is not float:
        raise _type_error(value, "a number")
    if not low <= value <= high:  # never true of NaN
        raise MalformedRecord(f"a number outside {low:g} to {high:g}")
    return float(value)


def flag(value: object) -> bool:
    """Return a boolean."""
    if not isinstance(value, bool):
        raise _type_error(value, "true or false")
    return value


def rows(value: object, width: int | None = None, *, most: int = MOST) -> list[list[Any]]:
    """Return a list of lists, each of ``width`` elements."""
    elements = items(value, most)
    if any(type(row) is not list or (width is not None and len(row) != width) for row in elements):
        raise MalformedRecord("not a row, or a row of another length")
    return elements


def items(value: object, most: int = MOST) -> list[Any]:
    """Return a list of at most ``most`` elements."""
    if not isinstance(value, list):
        raise _type_error(value, "a list")
    if len(value) > most:
        raise MalformedRecord(f"a list of more than {most} elements")
    return value


def mapping(value: object) -> dict[str, Any]:
    """Return an object."""
    if not isinstance(value, dict):
        raise _type_error(value, "an object")
    return value


def is_deeper(value: object, levels: int) -> bool:
    """Whether lists and objects are nested deeper than ``levels``."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return False
    return levels == 0 or any(is_deeper(item, levels - 1) for item in value)


def field(value: Mapping[str, Any], name: str) -> Any:
    """Return a required field."""
    try:
        return value[name]
    except KeyError as error:
        raise MalformedRecord(f"no field {name}") from error


def _type_error(value: object, wanted: str) -> MalformedRecord:
    # The value itself is not shown: it may have any size and depth.
    return MalformedRecord(f"{type(value).__name__} where {wanted} should be")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise MalformedRecord("a key appears twice")
    return value


def _float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise MalformedRecord("a number out of range")
    return value


def _constant(name: str) -> float:
    raise MalformedRecord(f"{name} is not a number")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)
