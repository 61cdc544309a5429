"""Batches passed on through memory and through a pipe, a few."""

from __future__ import annotations

import pytest

from bench.splice import WAYS, measure, section


@pytest.mark.parametrize("way", WAYS)
def test_all_batches_are_passed_on(way: str) -> None:
    measured = measure(way, 16 << 10, 0.02)
    assert measured.rate > 0
    assert f"| 16 KiB | {way} |" in section({(way, 16 << 10): measured})
