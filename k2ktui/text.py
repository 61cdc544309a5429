"""Text for people. Names from Kafka are untrusted input; this module makes them safe to print."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache

# Categories without a visible shape: controls, formats (zero-width, bidirectional, tags),
# surrogates, private, unassigned, separators. U+0020 is allowed separately.
_SHAPELESS = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
# Letters, marks and symbols that are drawn as nothing: Unicode's Default_Ignorable_Code_Point
# outside those categories, and the blanks of Braille, musical notation and Khitan.
_BLANK = frozenset(
    map(
        chr,
        (
            *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x180E), 0x180F),
            *(0x2800, 0x3164, *range(0xFE00, 0xFE10), 0xFFA0, 0x16FE4, 0x1D159),
            *range(0xE0100, 0xE01F0),
        ),
    )
)
_whole: ContextVar[bool] = ContextVar("whole", default=False)
# Maximum number of names listed on one line.
NAMED = 5
_MARKS = 4  # maximum per letter; more would overlap the lines above and below
_NO_FILE_PART = re.compile(r"[^A-Za-z0-9._-]")


# A literal backslash that looks like the start of an escape.
_AMBIGUOUS = re.compile(r"\\(?=x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8})")


def safe_text(value: object, limit: int | None = None) -> str:
    """Return an untrusted value as text that cannot control a terminal and hides nothing.

    Invisible characters become ``\\xNN``, ``\\uNNNN`` or ``\\UNNNNNNNN``: controls, Unicode
    formats (zero-width, bidirectional), separators, surrogates, variation selectors, spaces other
    than U+0020, and a trailing space. So does a character where a precomposed one would look the
    same (Unicode NFC), and a backslash before what looks like the rest of an escape. Different
    names therefore look different, except for similar letters of different alphabets.

    Use it once for each name: a second time would escape the backslashes of the first.
    ``safe_message`` is for texts whose names are escaped.

    Args:
        value: a name or any other object that another system has sent or an operator has typed.
        limit: maximum number of characters; longer text ends with an ellipsis.
    """
    text = str(value)
    if "\\" in text:
        text = _AMBIGUOUS.sub(r"\\x5c", text)
    return safe_message(text, limit)


def safe_message(value: object, limit: int | None = None) -> str:
    """Return a message, with its names escaped by ``safe_text``, as text that is safe to print.

    It escapes as ``safe_text`` does, but leaves backslashes as they are. Applied to its own
    result, it changes nothing.

    Args:
        value: a message or an error.
        limit: maximum number of characters; longer text ends with an ellipsis.
    """
    text = str(value)
    if not (text.isascii() and text.isprintable()):
        text = _escaped(text)
    if text.endswith(" "):
        text = f"{text[:-1]}\\x20"
    if limit is not None and len(text) > limit and not _whole.get():
        text = text[: max(0, limit - 1)] + "…"
    return text


@contextmanager
def whole_texts() -> Iterator[None]:
    """Within the context, no text is cut to a limit: for a copy of what a screen has cut."""
    token = _whole.set(True)
    try:
        yield
    finally:
        _whole.reset(token)


def _escaped(text: str) -> str:
    out: list[str] = []
    letter = ""  # the current letter with its visible marks
    for char in text:
        is_mark = unicodedata.category(char).startswith("M")
        shown = not _is_hidden(char) and unicodedata.is_normalized("NFC", letter + char)
        if is_mark and not 0 < len(letter) <= _MARKS:
            shown = False
        letter = "" if not shown else letter + char if is_mark else char
        out.append(char if shown else _escape(char))
    return "".join(out)


@lru_cache(4096)
def _is_hidden(char: str) -> bool:
    if char == " ":
        return False
    return unicodedata.category(char) in _SHAPELESS or char in _BLANK


def _escape(char: str) -> str:
    point = ord(char)
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"


def file_part(name: str) -> str:
    """Return a name as a part of a file's name, or of a pipeline's; others may have the same."""
    return _NO_FILE_PART.sub("_", name)


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless the number is 1."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def list_names(names: Sequence[object], most: int) -> str:
    """Return the first names, safe to print, and the number of further ones."""
    shown = ", ".join(safe_text(name) for name in names[:most])
    more = len(names) - most
    return f"{shown} and {more:,} more" if more > 0 else shown


def list_texts(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first texts, which are safe to print, and the number of further ones."""
    more = len(texts) - most
    return separator.join(texts[:most]) + (f" and {more:,} more" if more > 0 else "")


def first_names(names: Iterable[object]) -> str:
    """Return the first few names in order, safe to print, and the number of further ones."""
    return list_names(sorted(str(name) for name in names), NAMED)


def join_first(texts: Sequence[str], most: int) -> str:
    """Return the first texts, separated by semicolons, and the number of further ones."""
    return list_texts(texts, most, "; ")


def first_lines(texts: Sequence[str], most: int) -> list[str]:
    """Return the first texts, and a last one with the number of further ones, if there are any."""
    more = len(texts) - most
    return [*texts[:most], *([f"and {more:,} more"] if more > 0 else [])]


def duration(value: float, *, tenths: bool = False) -> str:
    """Return a measured duration in seconds as text, in its two largest units.

    Every age, delay and elapsed time is shown by this function. Limits are shown as configured.

    Args:
        value: seconds.
        tenths: whether to show tenths of a second below 100 s.
    """
    if tenths and value < 100:
        return f"{value:.1f} s"
    whole = int(value)
    for unit, size, small, part in (("d", 86400, "h", 3600), ("h", 3600, "m", 60)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part} {small}"
    return f"{whole // 60} m {whole % 60} s" if whole >= 60 else f"{whole} s"


def moment(at: float) -> str:
    """Return epoch seconds as a UTC date and time."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
