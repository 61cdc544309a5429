"""Which headers a record has on the target: the source's, under which names, and others."""

from __future__ import annotations

import re
from dataclasses import dataclass

from k2ktui.engine.java_patterns import NameSelection, compile_pattern
from k2ktui.engine.pickled import pickled_by_fields

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
            match = compile_pattern(pattern).fullmatch(name)
            if match is not None:
                return _fill(replacement, match)
        return name


#: Keeps every header as it is.
EVERY_HEADER = HeaderNames()


def _fill(replacement: str, match: re.Match[str]) -> str:
    return _GROUP.sub(lambda group: match[int(group[1])] or "", replacement)


def check_replacement(pattern: str, replacement: str) -> None:
    """Check the new name of a header; ``$1`` to ``$9`` are the groups of the pattern.

    Raises:
        ValueError: it is empty, or names a group that the pattern lacks.
    """
    groups = compile_pattern(pattern).groups
    if not replacement:
        raise ValueError("a new name that is not empty for each pattern")
    for group in _GROUP.finditer(replacement):
        if int(group[1]) > groups:
            raise ValueError(f"{group[0]} only where the pattern has that many groups")


@pickled_by_fields
@dataclass(frozen=True, slots=True)
class HeaderRules:
    """What the record path does to headers; the defaults leave them unchanged.

    Attributes:
        drop: remove the source's headers.
        added: a (coordinate, header name) pair per tracing header; the coordinate is ``topic``,
            ``partition``, ``offset`` or ``pipeline``.
        names: which headers of the source are kept, and under which names.
        constants: headers to add, each with its value.
    """

    drop: bool = False
    added: tuple[tuple[str, str], ...] = ()
    names: HeaderNames = EVERY_HEADER
    constants: tuple[tuple[str, str], ...] = ()


#: Leaves all headers as they are.
SAME_HEADERS = HeaderRules()


@dataclass(frozen=True, slots=True)
class OriginHeader:
    """How a header marks where records came from (modes ``pipeline`` and ``cluster``).

    Attributes:
        name: of the header.
        own: value that this pipeline adds.
        left_out: records with one of these values came from the target and are not copied.
        first_only: keep the value of an earlier pipeline, and add none.
    """

    name: str
    own: str
    left_out: tuple[str, ...]
    first_only: bool
