"""docs/drill-checks.md has the table of all checks, and names the bounds."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path

from k2ktui.drill.checks.context import CheckLimits
from k2ktui.engine.drill.objectives import NO_OBJECTIVES
from tests.support.documents.checks import drill_checks

PAGE = Path(__file__).parents[3] / "docs" / "drill-checks.md"
BEGIN, END = "<!-- catalog -->\n", "<!-- /catalog -->"


def test_the_page_has_the_catalog() -> None:
    """Write it with ``K2KTUI_DOCUMENTS=write``."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    written, _, after = rest.partition(END)
    if os.environ.get("K2KTUI_DOCUMENTS") == "write":
        PAGE.write_text(f"{before}{BEGIN}{drill_checks()}{END}{after}")
        return
    assert written == drill_checks()


def test_the_page_has_every_bound_with_its_default() -> None:
    text = PAGE.read_text()
    for field in fields(CheckLimits):
        default = "none" if field.default == NO_OBJECTIVES else f"{field.default:,g}"
        assert f"| `{field.name}` | {default} |" in text, field.name
