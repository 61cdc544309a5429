"""Starts with each ``coordination.mode``: the table."""

from __future__ import annotations

from bench.coordination import Starts, section


def test_a_row_has_a_figure_of_each_pipeline() -> None:
    one = Starts("exclusive", (3.61, 3.5), (3.4,), (3.5,), 1.23, (9.4, 25.1, 60.2), None)
    other = Starts("shared", (6.0,), (4.4,), (20.1,), 2.0, (9.0, 25.0, 60.0), 16.04)
    text = section([one, other])
    assert "| `exclusive` | 3.6, 3.5 | 3.4 | 3.5 | 1.2 | 9 / 25 / 60 | — |" in text
    assert "| `shared` | 6.0 | 4.4 | 20.1 | 2.0 | 9 / 25 / 60 | 16.0 |" in text
