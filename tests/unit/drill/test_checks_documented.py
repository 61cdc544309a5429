"""docs/drill-checks.md has the table of all checks, and names the bounds."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from k2ktui.drill.checks.context import CheckLimits
from k2ktui.engine.drill.objectives import NO_OBJECTIVES
from tests.support.documents.checks import drill_checks
from tests.support.documents.markdown import check_section

PAGE = Path(__file__).parents[3] / "docs" / "drill-checks.md"


def test_the_page_has_the_catalog() -> None:
    check_section(PAGE, "catalog", drill_checks())


def test_the_page_has_every_bound_with_its_default() -> None:
    text = PAGE.read_text()
    for field in fields(CheckLimits):
        default = "none" if field.default == NO_OBJECTIVES else f"{field.default:,g}"
        assert f"| `{field.name}` | {default} |" in text, field.name
