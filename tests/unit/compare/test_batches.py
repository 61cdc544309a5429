"""Small batches in a row are decoded in one pass, each as it would be by itself."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest

from k2ktui.compare.batches import BatchRun, FetchedBatch
from k2ktui.engine.compare.log_items import UnreadableBatch
from k2ktui.log.batch import Batch, split_batches
from k2ktui.log.rebuild import build_batches
from k2ktui.log.records import Records, decode_records, encode_nullable

PLAIN, GZIP, LZ4 = 0, 1, 3


def batch_at(first: int, count: int, codec: int = PLAIN, size: int = 100) -> Batch:
    tails = [
        encode_nullable(b"k%d" % n) + encode_nullable(b"v" * size) + b"\0" for n in range(count)
    ]
    numbers = np.arange(count, dtype=np.int64)
    (built,) = build_batches(Records(numbers, 1000 + first + numbers, tails), codec, 1 << 30)
    struct.pack_into(">q", built.data, 0, first)
    (batch,) = split_batches(built.data)
    return batch


def in_runs(batches: Sequence[Batch]) -> tuple[list[FetchedBatch], list[BatchRun]]:
    """Return fetched batches, and the runs that they are in."""
    run, runs, fetched = BatchRun(), list[BatchRun](), list[FetchedBatch]()
    for batch in batches:
        number = run.add(batch)
        if number is None:
            run = BatchRun()
            number = run.add(batch)
        fetched.append(FetchedBatch(batch, None if number is None else (run, number)))
        runs += [] if number is None or run in runs else [run]
    return fetched, runs


def assert_decoded(fetched: FetchedBatch) -> None:
    rows, alone = fetched.rows().records, decode_records(fetched.batch)
    assert rows.offsets.tolist() == alone.offsets.tolist()
    assert rows.timestamps.tolist() == alone.timestamps.tolist()
    assert list(rows.tails) == list(alone.tails)


@pytest.mark.parametrize("codec", [PLAIN, GZIP, LZ4])
def test_each_batch_of_a_run_has_its_own_records(codec: int) -> None:
    batches = [batch_at(10 * n, 1 + n % 7, codec) for n in range(70)]
    fetched, runs = in_runs(batches)
    assert 1 < len(runs) < 5
    for one in reversed(fetched):
        assert_decoded(one)


def test_a_large_batch_is_decoded_by_itself() -> None:
    fetched, runs = in_runs([batch_at(0, 3), batch_at(10, 3, size=90_000), batch_at(20, 3)])
    assert len(runs) == 2
    for one in fetched:
        assert_decoded(one)


@pytest.mark.parametrize("native", ["require", "off"])
def test_records_are_the_same_up_to_the_first_that_is_not(
    native: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if native == "off":
        for module in ("log.records", "compare.batches"):
            monkeypatch.setattr(f"k2ktui.{module}.core", lambda: None)
    small, (_,) = in_runs([batch_at(0, 5), batch_at(5, 5)])
    merged = FetchedBatch(batch_at(0, 10)).rows()
    later = small[1].rows()
    assert small[0].rows().are_same(0, merged, 0, 5)
    assert not later.are_same(0, merged, 5, 5), "its keys begin again"
    assert not later.are_same(0, small[0].rows(), 0, 1), "its times are others"
    one, other = (FetchedBatch(batch_at(0, 10, LZ4, size)).rows() for size in (100, 101))
    assert one.are_same(3, merged, 3, 7)
    assert not other.are_same(9, merged, 9, 1)


def test_what_is_compressed_far_below_its_size_is_decoded_by_itself() -> None:
    fetched, runs = in_runs([batch_at(0, 3, GZIP), batch_at(10, 400, GZIP, size=5000)])
    assert len(runs) == 1 and len(fetched[1].batch.view) < 16_384
    for one in fetched:
        assert_decoded(one)


def test_a_damaged_batch_leaves_the_others_of_its_run_readable() -> None:
    batches = [batch_at(10 * n, 5) for n in range(4)]
    batches[2].view[62] ^= 0x40  # the length of its first record
    fetched, (_,) = in_runs(batches)
    with pytest.raises(UnreadableBatch):
        fetched[2].rows()
    for number in (0, 1, 3):
        assert_decoded(fetched[number])
