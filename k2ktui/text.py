"""Texts for people. Names that come from Kafka are hostile input: made safe to print here."""

from __future__ import annotations

import unicodedata

# Bidirectional controls can reorder what follows them on a terminal line.
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


def safe_text(value: object, limit: int | None = None) -> str:
    """Return ``value`` as text that cannot move the cursor, colour or reorder a terminal.

    C0, DEL and C1 controls, bidirectional controls, surrogates and line separators become
    ``\\xNN`` / ``\\uNNNN`` escapes. With ``limit`` the result is cut to that many characters,
    the last one being an ellipsis.
    """
    out = "".join(_escape(char) for char in str(value))
    if limit is not None and len(out) > limit:
        out = out[: max(0, limit - 1)] + "…"
    return out


def _escape(char: str) -> str:
    if char.isascii():
        return char if char.isprintable() else f"\\x{ord(char):02x}"
    if char in _BIDI or unicodedata.category(char) in {"Cc", "Cs", "Co", "Cn", "Zl", "Zp"}:
        point = ord(char)
        return f"\\x{point:02x}" if point < 0x100 else f"\\u{point:04x}"
    return char


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural where that is due."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
