"""The table of variables in docs/troubleshooting.md is that of the tests."""

from __future__ import annotations

from pathlib import Path

from tests.support.documents.markdown import check_section
from tests.support.pipelines.environment import table

PAGE = Path(__file__).parents[3] / "docs" / "troubleshooting.md"


def test_the_page_has_the_table() -> None:
    check_section(PAGE, "environment", table())
