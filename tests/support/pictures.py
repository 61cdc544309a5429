"""Pictures of screens that are kept, to be compared; ``K2KTUI_PICTURES=write`` redraws them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

PICTURES = Path(__file__).parents[1] / "console" / "pictures"


Drawn = tuple[str, str, tuple[int, int]]


def mostly_slow(drawn: Iterable[Drawn]) -> list[object]:
    """Return pictures (screen, theme, size) as parameters; all but those of 80 by 24 are slow."""
    slow = (pytest.mark.slow,)
    return [pytest.param(*each, marks=() if each[2] == (80, 24) else slow) for each in drawn]


def compare(svg: str, name: str) -> None:
    """Expect a picture to be the one that is kept under a name."""
    path = PICTURES / f"{name}.svg"
    if os.environ.get("K2KTUI_PICTURES") == "write":
        path.parent.mkdir(exist_ok=True)
        path.write_text(svg)
    expected = path.read_text()
    if svg != expected:
        assert _words(svg) == _words(expected)
    assert svg == expected, f"{path.name} differs in colours or places"


def _words(svg: str) -> list[str]:
    """The texts of a picture, which say more of a difference than its markup."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)
