"""Parser of Java properties files (``java.util.Properties``) that keeps each key's line."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass

from k2ktui.config.problems import FilePosition, Problem

# A key and its separator: "=", ":" or whitespace; a backslash escapes the next character.
_KEY = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class Property:
    """A value and the position of its key; the repr omits the value, which may be a secret."""

    value: str
    mark: FilePosition

    def __repr__(self) -> str:
        return f"Property({self.mark})"


def byte_order_mark(raw: bytes, file: str) -> list[Problem]:
    """Return the error of a byte order mark at the beginning, unless a comment follows it."""
    if not raw.startswith(codecs.BOM_UTF8) or raw[3:].lstrip()[:1] in (b"", b"#", b"!"):
        return []
    wanted = "begins with a byte order mark, which Kafka reads as a part of the first key"
    return [Problem(FilePosition(file, 1), "", f"{wanted}; save it as UTF-8 without BOM")]


def parse(raw: bytes, file: str, encoding: str = "latin-1") -> dict[str, Property]:
    """Parse a properties file; the last value of a repeated key wins.

    Args:
        raw: the file's bytes.
        file: the file's name, for positions.
        encoding: ISO 8859-1 by definition; Kafka's config providers read UTF-8.
    """
    properties = {}
    for number, line in _logical_lines(raw.decode(encoding)):
        split = _KEY.fullmatch(line)
        assert split is not None
        properties[_unescape(split[1])] = Property(_unescape(split[2]), FilePosition(file, number))
    return properties


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers, joined at continuations, without blanks and comments."""
    lines = enumerate(re.split(r"\r\n|\r|\n", text), 1)
    for number, line in lines:
        line = line.lstrip(" \t\f")
        if not line or line[0] in "#!":
            continue
        while _continues(line):
            _, more = next(lines, (0, ""))
            line = line[:-1] + more.lstrip(" \t\f")
        yield number, line


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        escape = match[1]
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        return _NAMED.get(escape, escape)

    return _ESCAPE.sub(plain, text)
