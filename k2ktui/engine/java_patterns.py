"""Java regular expressions, and selections of names by them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Self

_UNSUPPORTED = (
    (re.compile(r"\\[pP]\{|\\[pP][A-Z]"), r"\p{…} classes"),
    (re.compile(r"\[[^\]]*&&"), "class intersections (&&)"),
    (re.compile(r"\\[GRXhHkvV]"), r"\G, \R, \X, \h, \k and \v"),
)
_QUOTED = re.compile(r"\\Q(.*?)(?:\\E|$)", re.DOTALL)


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a Java regular expression that must match a full name.

    Raises:
        ValueError: the expression is invalid, or uses a Java construct that Python lacks.
    """
    bare = _QUOTED.sub("", pattern)
    for construct, words in _UNSUPPORTED:
        if construct.search(bare):
            raise ValueError(
                f"a regular expression without Java's {words}, which are not supported"
            )
    translated = _QUOTED.sub(lambda quoted: re.escape(quoted[1]), pattern)
    translated = re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", translated).replace(r"\z", r"\Z")
    try:
        return re.compile(translated)
    except re.error as error:
        raise ValueError(f"a valid regular expression ({error})") from error


@dataclass(frozen=True)
class NameSelection:
    """A selection of names: one regular expression for the full name, or a list of exact names.

    The expression never matches ``excluded`` names; a list of exact names may contain them.
    """

    pattern: str | None = None
    names: tuple[str, ...] = ()
    excluded: frozenset[str] = frozenset()

    @classmethod
    def of(cls, chosen: str | tuple[str, ...]) -> Self:
        """Return the selection of a pattern, or of a list of names."""
        return cls(chosen) if isinstance(chosen, str) else cls(None, chosen)

    def matches(self, name: str) -> bool:
        """Return whether ``name`` is selected."""
        if self.pattern is None:
            return name in self.names
        return name not in self.excluded and bool(compile_pattern(self.pattern).fullmatch(name))

    def __str__(self) -> str:
        return self.pattern if self.pattern is not None else ", ".join(self.names)
