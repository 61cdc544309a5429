"""Pictures of screens that are kept, to be compared; ``K2KTUI_PICTURES=write`` draws them anew."""

from __future__ import annotations

import os
import re
from pathlib import Path

PICTURES = Path(__file__).parents[1] / "console" / "pictures"


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
