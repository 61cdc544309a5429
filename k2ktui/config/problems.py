"""Problems of a pipeline file: messages with position, expected value and actual value."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from k2ktui.errors import ConfigError
from k2ktui.secret_values import REDACTED, hide_secrets, is_secret_key
from k2ktui.text import counted, safe_text

Path = tuple[str | int, ...]


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
        hint="Correct the file and try again; docs/reference/keys.md lists every key.",
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


def shown_value(key: str, value: str, *, secret: bool = False) -> str:
    """Return a value for display in an error: escaped, truncated, redacted if it may be secret."""
    if secret or is_secret_key(key):
        return REDACTED
    return f'"{safe_text(hide_secrets(value), limit=80)}"'
