"""Parses the console's style sheets once for all consoles of a process.

Textual keeps what it has parsed for one style sheet, and each console makes several of the same
text: a fifth of what a console's test costs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet

_parsed: dict[tuple[Any, ...], list[RuleSet]] = {}
_parse = Stylesheet._parse_rules


@contextlib.contextmanager
def parsed_once() -> Iterator[None]:
    """Within it, a text is parsed once for the same colors; Textual's caches share rules, too."""
    with mock.patch.object(Stylesheet, "_parse_rules", _parse_rules):
        yield


def _parse_rules(sheet: Stylesheet, css: str, read_from: Any, *args: Any, **kwargs: Any) -> Any:
    variables = tuple(sorted(sheet._variables.items()))
    key = (variables, css, read_from, args, tuple(sorted(kwargs.items())))
    if key not in _parsed:
        _parsed[key] = _parse(sheet, css, read_from, *args, **kwargs)
    return _parsed[key]
