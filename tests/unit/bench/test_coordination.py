"""Starts with each ``coordination.mode``: the table."""

from __future__ import annotations

from dataclasses import replace

from bench.coordination import Starts, copies_section, section
from bench.model import CopyResult


def test_a_row_has_a_figure_of_each_pipeline() -> None:
    one = Starts("exclusive", (3.61, 3.5), (3.4,), (3.5,), 1.23, (9.4, 25.1, 60.2), None)
    other = Starts("shared", (6.0,), (4.4,), (20.1,), 2.0, (9.0, 25.0, 60.0), 16.04)
    text = section([one, other])
    assert "| `exclusive` | 3.6, 3.5 | 3.4 | 3.5 | 1.2 | 9 / 25 / 60 | — |" in text
    assert "| `shared` | 6.0 | 4.4 | 20.1 | 2.0 | 9 / 25 / 60 | 16.0 |" in text


def test_copies_are_compared_by_the_medians_of_both_modes() -> None:
    blank = CopyResult("", "100-none-4-64k", 4_000_000, 400_000_000, cpu_s=1.0)
    results = [
        replace(blank, contender=mode, first_record_s=1.0, all_records_s=1.0 + seconds)
        for mode, seconds in (("exclusive", 4.0), ("exclusive", 8.0), ("shared", 5.0))
    ]
    text = copies_section(results)
    assert "| 100 B, 4 partitions | 1,000, 500 | 2.5 | 800 | 2.5 | 1.07 |" in text
    assert "64 partitions" not in text, "what was not measured is left out"
