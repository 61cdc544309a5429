"""What is wrong with a pipeline file, in words that name the place, the expected and the found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from k2ktui.errors import ConfigError
from k2ktui.text import safe_text

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
    """A line of a file; lines count from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{safe_text(self.file)}:{self.line}"


@dataclass(frozen=True)
class Problem:
    """One error: where, which key, and what about it. Nothing in it may be a secret."""

    mark: FilePosition | None
    path: str
    message: str

    def __str__(self) -> str:
        parts = [str(self.mark) if self.mark else "", self.path, self.message]
        return ": ".join(part for part in parts if part)


def refuse(problems: Sequence[Problem]) -> ConfigError:
    """Make the one error that reports all ``problems``, in the order of the files."""
    placed = sorted(problems, key=lambda problem: problem.mark or FilePosition("", 0))
    lines = list(dict.fromkeys(str(problem) for problem in placed))
    count = "1 error" if len(lines) == 1 else f"{len(lines)} errors"
    return ConfigError(
        "\n".join([f"the configuration has {count}:", *(f"  {line}" for line in lines)]),
        mend="mend the file and try again; docs/configuration.md lists every key",
    )


def format_path(path: Path) -> str:
    """Write a path as ``a.b[0]."key.with.dots"``."""
    spoken = ""
    for step in path:
        if isinstance(step, int):
            spoken += f"[{step}]"
            continue
        plain = re.fullmatch(r"[A-Za-z0-9_-]+", step)
        spoken += ("." if spoken else "") + (step if plain else f'"{safe_text(step)}"')
    return spoken


def is_secret_key(key: str) -> bool:
    """Tell whether the value of a property of this name must never be shown."""
    return bool(_SECRET.search(key)) and not _PUBLIC.search(key)


def without_userinfo(text: str) -> str:
    """Return ``text`` without the user and password of URLs in it."""
    return _USERINFO.sub(f"{REDACTED}@", text)


def shown_value(key: str, value: str, *, secret: bool = False) -> str:
    """Return a value as an error may show it: escaped, cut, redacted if it may be a secret."""
    if secret or is_secret_key(key):
        return REDACTED
    return f'"{safe_text(without_userinfo(value), limit=80)}"'
