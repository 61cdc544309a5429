"""Java properties files, as ``java.util.Properties`` reads them, with the line of each key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from k2ktui.config.problems import FilePosition

# Key, then a separator: "=", ":" or blanks; a backslash makes the next character an ordinary one.
_KEY = re.compile(r"((?:\\.|[^\\=:\s])*)\s*[=:]?\s*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class Property:
    """A value, and where its key stands; no repr shows the value, which may be a secret."""

    value: str
    mark: FilePosition

    def __repr__(self) -> str:
        return f"Property({self.mark})"


def parse(raw: bytes, file: str) -> dict[str, Property]:
    """Read a properties file; of a key that is there twice the last value counts.

    Args:
        raw: its bytes; they are ISO 8859-1 by definition.
        file: its name, for the places of keys.
    """
    found = {}
    for number, line in _logical_lines(raw.decode("latin-1")):
        split = _KEY.fullmatch(line)
        assert split is not None
        found[_unescaped(split[1])] = Property(_unescaped(split[2]), FilePosition(file, number))
    return found


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield lines that are not blank or comments, continued ones joined, with their number."""
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


def _unescaped(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        escape = found[1]
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        return _NAMED.get(escape, escape)

    return _ESCAPE.sub(plain, text)
