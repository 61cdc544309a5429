"""The rate of comparisons beside copies: what the table says."""

from __future__ import annotations

from bench.compare import COPY, LOCAL, SPARK, Pass, Shared, ratios, section
from bench.model import DataSet

DATA = DataSet(1000, "lz4", 4, 1_200_000, batch_kib=16)


def test_each_comparison_is_divided_by_the_copy_of_its_turn() -> None:
    turns = [
        {
            COPY: Pass(copied, 3.0, 8.0),
            LOCAL: Pass(compared, 2.0, 7.04),
            SPARK: Pass(2 * compared, 2.5, 9.0),
        }
        for copied, compared in ((300.0, 120.0), (200.0, 120.0), (100.0, 30.0))
    ]
    assert ratios(turns, LOCAL) == [0.4, 0.6, 0.3]
    text = section({DATA: turns}, [])
    assert (
        f"| {DATA} | `copy` | 200 (100 to 300) |  | 3.00 (3.00 to 3.00) | 8.0 (8.0 to 8.0) |"
        in text
    )
    assert "| `compare --local` | 120 (30 to 120) | 0.40 (0.30 to 0.60) | 2.00" in text
    assert "| `compare --spark` | 240 (60 to 240) | 0.80 (0.60 to 1.20) | 2.50" in text
    assert "not met, lowest 0.40" in text
    assert "executors" not in text, "what was not measured is left out"


def test_executors_are_compared_by_the_busiest_one() -> None:
    one, two = Shared(1.0, (4.0,), 5.0), Shared(2.0, (4.0, 5.0), 9.0)
    text = section({}, [one, two])
    assert "| 1 | 1.00 | 4.00 | 4.00 | 250 | 1.00 | 5.0 |" in text
    assert "| 2 | 2.00 | 4.00, 5.00 | 4.50 | 400 | 1.60 | 9.0 |" in text
    assert "copy's rate" not in text
