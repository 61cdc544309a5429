"""The section about functions: what its figures mean."""

from __future__ import annotations

from bench.functions import Function, Measured, section
from bench.model import DataSet


def test_microseconds_of_a_batch() -> None:
    data = DataSet(1000, "none", 4, 1_000_000)  # one GB
    longest = (Function("slot.copy", 1.25, 0.125),)
    one = Measured(data, 1.5, 0.5, 10_000, 60.0, 50.2, longest, (0.5, 2.25))
    assert round(one.user_us, 3) == 150
    text = section([one])
    assert (
        "| 1,000 B, batches of 64 KiB, uncompressed, 4 partitions | 1.50 | 0.50 | 150 | 60 | 50 "
        "| 0.50 | 2.25 |" in text
    )
    assert "| `slot.copy` | 1.2 | 12 % |" in text
