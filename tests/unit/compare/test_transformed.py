"""What a transform makes of records is compared with the copies; chunks keep their records."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from k2ktui.compare.batches import FetchedRows, RecordComparer
from k2ktui.compare.transformed import TransformedBatch, TransformedComparer, TransformedRows
from k2ktui.engine.compare.outcomes import Outcome
from k2ktui.engine.transforms.model import Transform
from k2ktui.log.record import TimestampType
from k2ktui.log.records import Records, encode_nullable
from k2ktui.sync.verify.record_comparison import RecordComparison

COMPARER = TransformedComparer(RecordComparer("orders", RecordComparison(), maps_schema_ids=False))


def fetched(offsets: Sequence[int], values: Sequence[bytes]) -> FetchedRows:
    tails = [encode_nullable(b"k") + encode_nullable(value) + b"\0" for value in values]
    numbers = np.array(offsets, dtype=np.int64)
    return FetchedRows(
        Records(numbers, np.zeros(len(tails), dtype=np.int64), tails), TimestampType.CREATE
    )


def rows(failures: dict[int, str] | None = None, *, stops: bool = False) -> TransformedRows:
    """Of offset 10 one record is made, of 11 none, of 12 two."""
    offsets = np.array([10, 11, 12], dtype=np.int64)
    made = fetched([10, 12, 12], [b"a", b"b", b"c"])
    return TransformedRows(offsets, made, None, failures or {}, stops=stops)


def compare(row: int, *values: bytes, in_order: bool = True) -> tuple[Outcome, str, int]:
    copies = fetched(range(len(values)), values)
    targets = [(copies, at) for at in range(len(values))]
    verdict = COMPARER.compare_several((rows(), row), targets, in_order=in_order)
    return verdict.outcome, verdict.why, verdict.number


def test_one_is_made_of_one() -> None:
    assert compare(0, b"a") == (Outcome.EQUAL, "", 0)
    assert compare(0, b"x") == (Outcome.DIFFERS, "value differs", 0)


def test_several_are_made_of_one() -> None:
    assert compare(2, b"b", b"c") == (Outcome.EQUAL, "", 0)
    assert compare(2, b"b", b"x") == (Outcome.DIFFERS, "value differs", 1)
    assert compare(2, b"c", b"b")[0] is Outcome.DIFFERS
    assert compare(2, b"c", b"b", in_order=False) == (Outcome.EQUAL, "", 0)
    assert compare(2, b"c", b"c", in_order=False)[::2] == (Outcome.DIFFERS, 1)
    outcome, why, _ = compare(2, b"b")
    assert (outcome, why) == (Outcome.DIFFERS, "the transform makes 2 records, 1 of them are there")


@pytest.mark.parametrize(
    ("failures", "stops", "outcome", "why"),
    [
        ({}, False, Outcome.DIFFERS, "the transform leaves it out now, and has a copy"),
        ({11: "filter"}, False, Outcome.DIFFERS, "it fails filter now, and has a copy"),
        ({11: "filter"}, True, Outcome.NOT_COMPARED, "it fails filter now"),
    ],
)
def test_a_copy_that_would_not_be_made(
    failures: dict[int, str], stops: bool, outcome: Outcome, why: str
) -> None:
    source, copy = rows(failures, stops=stops), fetched([0], [b"a"])
    verdict = COMPARER.compare((source, 1), (copy, 0))
    assert (verdict.outcome, verdict.why) == (outcome, why)
    assert source.is_left_out(1) is (None if stops else True)
    assert source.is_left_out(0) is False


def test_runs_of_single_records_are_compared_at_once() -> None:
    offsets = np.arange(3, dtype=np.int64)
    source = TransformedRows(offsets, fetched([0, 1, 2], [b"a", b"b", b"c"]), None, {}, stops=False)
    copies = fetched([7, 8, 9], [b"a", b"b", b"c"])
    assert COMPARER.are_equal((source, 0), (copies, 0), 3)
    assert not COMPARER.are_equal((source, 0), (copies, 1), 2)
    assert not COMPARER.are_equal((rows(), 0), (copies, 0), 3)


def test_a_row_of_facts_may_come_several_times() -> None:
    """``explode`` of a literal array makes several rows of each."""
    pa = pytest.importorskip("pyarrow")  # of the extra ``transform``
    from k2ktui.compare.tasks import ComparisonTask
    from k2ktui.compare.transform_tasks import ChunkFacts, TransformedChunks, TransformTask
    from k2ktui.replication.transforms.rows import FACTS, FAILED, HEADERS, KEPT, OUTPUT, TIME

    def batch(facts: Sequence[ChunkFacts | None]) -> Any:
        count = len(facts)
        columns = {
            FACTS: pa.array([None if one is None else pickle.dumps(one) for one in facts]),
            "offset": pa.array(range(count), pa.int64()),
            TIME: pa.array([0] * count),
            HEADERS: pa.array([b"\0"] * count),
            KEPT: pa.array([True] * count),
            FAILED: pa.nulls(count, pa.int32()),
        }
        arrays = [columns.get(name, pa.nulls(count, pa.binary())) for name in OUTPUT]
        return pa.RecordBatch.from_arrays(arrays, names=list(OUTPUT))

    one, two = (
        ChunkFacts(0, first=n, offsets=np.arange(n, dtype=np.int64), is_last=n == 2) for n in (1, 2)
    )
    work = TransformTask(ComparisonTask((), {}, {}, {}), Transform())
    chunks = TransformedChunks(work, [batch([None, one, one]), batch([one, None, None, two])])
    batches = [item for item in chunks.items(0) if isinstance(item, TransformedBatch)]
    assert [made.first for made in batches] == [1, 2]
    assert [made.rows().made.offsets.tolist() for made in batches] == [[0], [1, 2]]
