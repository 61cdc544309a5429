"""Select names by an operator's pattern; a pattern that matches nothing is an error."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from difflib import get_close_matches

from k2ktui.engine.java_patterns import compile_pattern
from k2ktui.errors import ConfigError
from k2ktui.text import counted, safe_message, safe_text

_NEAREST = 3


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A predicate on names: whether the whole name matches a command option's pattern.

    Attributes:
        option: the option as typed, or the name of the argument.
        text: the pattern as typed.
        pattern: the compiled pattern.
    """

    option: str
    text: str
    pattern: re.Pattern[str]

    def __call__(self, name: str) -> bool:
        """Whether the whole name matches."""
        return self.pattern.fullmatch(name) is not None


def pattern_of(option: str, text: str | None) -> Callable[[str], bool]:
    """Return a predicate for names that match an option's pattern as a whole; None matches all.

    Raises:
        ConfigError: the pattern is not a regular expression.
    """
    if text is None:
        return lambda _: True
    try:
        compiled = compile_pattern(text)
    except ValueError as error:
        raise ConfigError(
            f"{option}: expected {safe_message(error)}, found {safe_text(text)}",
            unchanged="Nothing was done.",
            hint="Match the whole name; .* stands for any text.",
        ) from error
    return NamePattern(option, text, compiled)


def require_match(chosen: Callable[[str], bool], names: Collection[str], what: str) -> None:
    """Require that a pattern matches at least one of the names.

    Args:
        chosen: a :class:`NamePattern`; any other callable is accepted without a check.
        names: the names to choose from.
        what: the kind of name, in the singular: ``group``.

    Raises:
        ConfigError: the pattern matches none; the message lists the nearest names.
    """
    if not isinstance(chosen, NamePattern) or any(map(chosen, names)):
        return
    near = get_close_matches(chosen.text, sorted(names), _NEAREST, cutoff=0.4)
    verb = "is" if len(names) == 1 else "are"
    available = f"there {verb} {counted(len(names), what)}" if names else f"there is no {what}"
    nearest = f", the nearest: {', '.join(map(safe_text, near))}" if near else ""
    raise ConfigError(
        f"{chosen.option}: no {what} matches {safe_text(chosen.text)}; {available}{nearest}",
        unchanged="Nothing was done.",
        hint="Match the whole name; .* stands for any text. List groups and topics with "
        "k2ktui groups -f FILE.",
    )
