"""The benchmark's one command, on tiny data: the peer and us."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.__main__ import main
from bench.model import recall


@pytest.mark.slow
def test_copies_through_the_peer_and_us(tmp_path: Path) -> None:
    """One command starts everything, copies, counts and writes both files."""
    asked = [f"--only=copy/{one}/perf-*" for one in ("mm2-tuned", "bare", "k2ktui")]
    options = ["--quick", "--records", "20000", "--out", str(tmp_path), *asked]
    assert main([*options, "--rows", "2"]) == 0
    assert {one.contender for one in recall(tmp_path).copies} == {"mm2-tuned", "bare"}
    assert main([*options, "--resume", "--minutes", "30"]) == 0
    results = recall(tmp_path)
    assert [one.contender for one in results.copies] == ["mm2-tuned", "bare", "k2ktui"]
    assert not main([*options, "--resume"]), "nothing is left"
    for one in results.copies:
        assert one.exact and 0 < one.first_record_s <= one.all_records_s
        assert one.commit and one.date and one.mode == ("shared" * (one.contender == "k2ktui"))
        assert one.source_cpu_s is not None and one.target_cpu_s is not None
        if one.contender != "bare":
            assert one.cpu_s > 1 and one.rss_peak > 100_000_000
    assert "all, once" in (tmp_path / "RESULTS.md").read_text()
    assert main(["--report", "--out", str(tmp_path)]) == 0
