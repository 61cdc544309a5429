"""The report of the failover benchmark, without running it."""

from __future__ import annotations

from bench.failover import LAGS, OURS, PUT_RIGHT, THEIRS, Found, group_of, report


def test_report_has_a_row_for_each_group_and_copier() -> None:
    moves = [Found(lag, tool, lag, 7, 0) for lag in LAGS for tool in (THEIRS, PUT_RIGHT, OURS)]
    text = report(moves, 400_000)
    assert (
        text.count("| MirrorMaker 2 |") == len(LAGS)
        and "| 100,000 | k2ktui | 100,000 | 7 |" in text
    )
    assert len({group_of(lag) for lag in LAGS}) == len(LAGS)
