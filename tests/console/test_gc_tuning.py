"""Full collections are rare while the console is open, and as before when it is closed."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from k2ktui.console import gc_tuning


class _Knot:
    def __init__(self) -> None:
        self.self = self


@pytest.fixture(autouse=True)
def frozen() -> Iterator[None]:
    """What the suite excludes from collections is so again afterwards, see conftest.py."""
    yield
    gc.freeze()


def test_views_come_and_go_without_a_full_collection() -> None:
    before = gc.get_threshold()
    full = gc.get_stats()[2]["collections"]
    with gc_tuning.collect_by_hand():
        kept: list[list[list[int]]] = []
        for _ in range(20):
            kept = [*kept[-2:], [[number] for number in range(50_000)]]
        assert gc.get_stats()[2]["collections"] == full
        threshold = gc.get_stats()[2]["collected"]
        knots = [_Knot() for _ in range(1000)]
        del knots
        gc_tuning.collect()
        assert gc.get_stats()[2]["collected"] - threshold >= 1000
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
