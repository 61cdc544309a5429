"""Which of a source record's headers the target gets, and under which names."""

from __future__ import annotations

import re
from dataclasses import dataclass

from k2ktui.engine.java_patterns import NameSelection, compile_pattern

_GROUP = re.compile(r"\$(\d)")


@dataclass(frozen=True)
class HeaderNames:
    """Keeps, drops and renames headers by their names; the defaults leave them unchanged.

    Attributes:
        keep: the headers to keep; None for all.
        drop: the headers to drop of those that are kept.
        rename: patterns for the full name, each with the new name; the first match applies.
    """

    keep: NameSelection | None = None
    drop: NameSelection | None = None
    rename: tuple[tuple[str, str], ...] = ()

    def target_for(self, name: str) -> str | None:
        """Return the header's name on the target, or None if it is dropped."""
        if self.keep is not None and not self.keep.matches(name):
            return None
        if self.drop is not None and self.drop.matches(name):
            return None
        for pattern, replacement in self.rename:
            found = compile_pattern(pattern).fullmatch(name)
            if found is not None:
                return _fill(replacement, found)
        return name


#: Keeps every header as it is.
EVERY_HEADER = HeaderNames()


def _fill(replacement: str, found: re.Match[str]) -> str:
    return _GROUP.sub(lambda group: found[int(group[1])] or "", replacement)


def check_replacement(pattern: str, replacement: str) -> None:
    """Check the new name of a header; ``$1`` to ``$9`` are the groups of the pattern.

    Raises:
        ValueError: it is empty, or names a group that the pattern lacks.
    """
    groups = compile_pattern(pattern).groups
    if not replacement:
        raise ValueError("a new name that is not empty for each pattern")
    for found in _GROUP.finditer(replacement):
        if int(found[1]) > groups:
            raise ValueError(f"{found[0]} only where the pattern has that many groups")
