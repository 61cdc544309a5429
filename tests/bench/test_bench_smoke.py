"""The benchmark's one command, on tiny data: the peer and us."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.__main__ import main
from bench.model import Results


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_copies_through_the_peer_and_us(tmp_path: Path) -> None:
    """One command starts everything, copies, counts and writes both files."""
    asked = [f"--only=copy/{one}/100-*" for one in ("mm2", "bare", "k2ktui")]
    options = ["--quick", "--records", "100=20000", "--out", str(tmp_path)]
    assert main([*options, *asked]) == 0
    results = Results.from_plain(json.loads((tmp_path / "results.json").read_text()))
    assert {one.contender for one in results.copies} == {"mm2", "bare", "k2ktui"}
    for one in results.copies:
        assert one.exact and 0 < one.first_record_s <= one.all_records_s
        if one.contender != "bare":
            assert one.cpu_s > 1 and one.rss_peak > 100_000_000
    assert "all, once" in (tmp_path / "RESULTS.md").read_text()
    assert main(["--report", "--out", str(tmp_path)]) == 0
