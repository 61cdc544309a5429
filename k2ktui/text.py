"""Texts for people. Names that come from Kafka are hostile input: made safe to print here."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

# Categories without a shape of their own: controls, formats (zero-width, bidirectional, tags),
# surrogates, private, unassigned, separators. U+0020 is none of them here.
_SHAPELESS = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
# Letters, marks and signs that are drawn as nothing: Unicode's Default_Ignorable_Code_Point outside
# of those categories, and the blanks of Braille, of musical notation and of Khitan.
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
_MARKS = 4  # on one letter; more only smear what is above and below


def safe_text(value: object, limit: int | None = None) -> str:
    """Return ``value`` as text that does nothing to a terminal and hides nothing.

    What cannot be seen becomes ``\\xNN``, ``\\uNNNN`` or ``\\UNNNNNNNN``: controls, all of
    Unicode's formats (zero-width, bidirectional), separators, surrogates, variation selectors,
    spaces other than U+0020, and one at the end. So does a character where a precomposed one would
    look the same (Unicode's NFC). Two names that differ therefore look different, except by
    letters of other alphabets that resemble each other, and by a backslash that is really there.

    Args:
        value: a name, a message, anything.
        limit: cut to that many characters, the last one being an ellipsis.
    """
    text = str(value)
    if not (text.isascii() and text.isprintable()):
        text = _escaped(text)
    if text.endswith(" "):
        text = f"{text[:-1]}\\x20"
    if limit is not None and len(text) > limit:
        text = text[: max(0, limit - 1)] + "…"
    return text


def _escaped(text: str) -> str:
    out: list[str] = []
    letter = ""  # with its marks, as far as they are shown
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


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where that is due."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
