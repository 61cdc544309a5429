"""Problems of a pipeline file: messages with position, expected value and actual value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from k2ktui.errors import ConfigError
from k2ktui.text import counted, safe_text

Path = tuple[str | int, ...]

REDACTED = "<redacted>"
_SECRET = re.compile(
    r"passw|secret|token|jaas|credential|private|authorization|cookie|user\.info|api[._-]?key"
    r"|[._-]key$|[._-]key\.(?!password)",
    re.IGNORECASE,
)
_PUBLIC = re.compile(r"\.(url|urls|location|type|class|algorithm|factory\.class|ms|seconds)$", re.I)
_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")


@dataclass(frozen=True, order=True)
class FilePosition:
    """A line of a file, counted from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{safe_text(self.file)}:{self.line}"


@dataclass(frozen=True)
class Problem:
    """One error: position, key and message. It must not contain secrets."""

    mark: FilePosition | None
    path: str
    message: str

    def __str__(self) -> str:
        parts = [str(self.mark) if self.mark else "", self.path, self.message]
        return ": ".join(part for part in parts if part)


def refuse(problems: Sequence[Problem]) -> ConfigError:
    """Return one error that reports all ``problems``, ordered by file and line."""
    placed = sorted(problems, key=lambda problem: problem.mark or FilePosition("", 0))
    lines = list(dict.fromkeys(str(problem) for problem in placed))
    count = counted(len(lines), "error")
    return ConfigError(
        "\n".join([f"the configuration has {count}:", *(f"  {line}" for line in lines)]),
        hint="Correct the file and try again; docs/configuration.md lists every key.",
    )


def format_path(path: Path) -> str:
    """Format a path as ``a.b[0]."key.with.dots"``."""
    spoken = ""
    for step in path:
        if isinstance(step, int):
            spoken += f"[{step}]"
            continue
        plain = re.fullmatch(r"[A-Za-z0-9_-]+", step)
        spoken += ("." if spoken else "") + (step if plain else f'"{safe_text(step)}"')
    return spoken


def is_secret_key(key: str) -> bool:
    """Return whether a property of this name holds a secret."""
    return bool(_SECRET.search(key)) and not _PUBLIC.search(key)


def without_userinfo(text: str) -> str:
    """Return ``text`` with the credentials of URLs redacted."""
    return _USERINFO.sub(f"{REDACTED}@", text)


def shown_value(key: str, value: str, *, secret: bool = False) -> str:
    """Return a value for display in an error: escaped, truncated, redacted if it may be secret."""
    if secret or is_secret_key(key):
        return REDACTED
    return f'"{safe_text(without_userinfo(value), limit=80)}"'
