"""The table of variables in docs/troubleshooting.md is that of the tests."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.pipelines.environment import table

PAGE = Path(__file__).parents[3] / "docs" / "troubleshooting.md"
BEGIN, END = "<!-- environment -->\n", "\n<!-- /environment -->"


def test_the_page_has_the_table() -> None:
    """Write it with ``K2KTUI_DOCUMENTS=write``."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    written, _, after = rest.partition(END)
    if os.environ.get("K2KTUI_DOCUMENTS") == "write":
        PAGE.write_text(f"{before}{BEGIN}{table()}{END}{after}")
        return
    assert written == table()
