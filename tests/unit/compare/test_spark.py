"""How a comparison is divided among Spark's cores."""

from __future__ import annotations

import pytest

from k2ktui.compare.spark import parts_a_task


@pytest.mark.parametrize(
    ("parts", "cores", "size"),
    [(1, 2, 1), (12, 2, 1), (20, 2, 2), (32, 2, 4), (10_000, 2, 4), (20, 64, 1)],
)
def test_few_parts_are_spread_over_all_cores(parts: int, cores: int, size: int) -> None:
    assert parts_a_task(parts, cores) == size
