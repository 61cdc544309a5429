"""Names that an operator chose by a pattern; one that matches nothing is a mistake."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from difflib import get_close_matches

from k2ktui.errors import ConfigError
from k2ktui.text import counted, safe_text

_NEAREST = 3


@dataclass(frozen=True, slots=True)
class NamePattern:
    """Whether a whole name matches what a command's option was given.

    Attributes:
        option: the option, as it was typed.
        text: what it was given.
        pattern: the same, compiled.
    """

    option: str
    text: str
    pattern: re.Pattern[str]

    def __call__(self, name: str) -> bool:
        """Whether it matches."""
        return self.pattern.fullmatch(name) is not None


def require_match(chosen: Callable[[str], bool], names: Collection[str], what: str) -> None:
    """Refuse a pattern that matches none of the names.

    Args:
        chosen: a :class:`NamePattern`; of any other rule nothing is required.
        names: what there is to choose from.
        what: what they are, in the singular: ``group``.

    Raises:
        ConfigError: it matches none; the nearest ones are named.
    """
    if not isinstance(chosen, NamePattern) or any(map(chosen, names)):
        return
    near = get_close_matches(chosen.text, sorted(names), _NEAREST, cutoff=0.4)
    verb = "is" if len(names) == 1 else "are"
    there = f"there {verb} {counted(len(names), what)}" if names else f"there is no {what}"
    nearest = f", the nearest: {', '.join(map(safe_text, near))}" if near else ""
    raise ConfigError(
        f"{chosen.option}: no {what} matches {safe_text(chosen.text)}; {there}{nearest}",
        unchanged="Nothing was done.",
        mend="The whole name must match; .* stands for anything. k2ktui groups -f FILE lists what "
        "there is.",
    )
