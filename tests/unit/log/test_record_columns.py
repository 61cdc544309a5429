"""Records as columns have what they have as tails, whatever batch they come from."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from k2ktui.log.batch import HEADER_BYTES, Batch, CorruptBatch, split_batches
from k2ktui.log.record_columns import (
    RecordColumns,
    concatenate_columns,
    decode_columns,
    split_records,
)
from k2ktui.log.records import Records, decode_records
from k2ktui.log.varints import encode_varints, read_varints
from tests.support.schedule.examples import examples

BLOBS = st.none() | st.binary(max_size=200)
HEADERS = st.lists(st.tuples(st.text(max_size=3), BLOBS), max_size=2)
SENT = st.lists(st.tuples(BLOBS, BLOBS, HEADERS), min_size=1, max_size=20)


def make(sent: list[Any], first: int, codec: int) -> Batch:
    builder = DefaultRecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 30)
    for row, (key, value, headers) in enumerate(sent):
        builder.append(row, 1000 * row, key, value, headers)
    data = bytearray(builder.build())
    data[0:8] = first.to_bytes(8, "big")
    (batch,) = split_batches(data)
    return batch


def parts(decoded: RecordColumns) -> list[tuple[Any, ...]]:
    columns = [
        [
            None if size < 0 else decoded.body[at : at + size]
            for at, size in zip(*places, strict=True)
        ]
        for places in (decoded.keys, decoded.values, decoded.headers)
    ]
    return list(zip(decoded.offsets.tolist(), decoded.timestamps.tolist(), *columns, strict=True))


@settings(max_examples=examples(200))
@given(st.lists(SENT, min_size=1, max_size=3), st.sampled_from([0, 1, 3]), st.integers(0, 70))
def test_columns_of_batches_are_those_of_their_tails(
    batches: list[list[Any]], codec: int, position: int
) -> None:
    made, first = [], 5
    for sent in batches:
        made.append(make(sent, first, codec))
        first += len(sent)
    decoded = decode_columns(made, position)
    expected = [parts(split_records(decode_records(batch, position))) for batch in made]
    rows = [row for part in expected for row in part]
    assert parts(decoded) == rows
    flat = [record for sent in batches for record in sent][max(0, position - 5) :]
    assert [(row[2], row[3]) for row in rows] == [(key, value) for key, value, _ in flat]
    assert parts(concatenate_columns([decode_columns([batch], position) for batch in made])) == rows
    for at in range(len(rows)):
        assert parts(decoded.slice(at, at + 1)) == rows[at : at + 1]
        assert parts(decoded.slice(at, len(rows))) == rows[at:]


def test_old_formats_have_columns_too() -> None:
    builder = LegacyRecordBatchBuilder(1, 0, 1 << 20)
    for row in range(3):
        builder.append(row, 7, b"k%d" % row, None if row else b"v")
    assert parts(decode_columns(list(split_batches(bytearray(builder.build()))))) == [
        (row, 7, b"k%d" % row, None if row else b"v", b"\x00") for row in range(3)
    ]


def outcome(decode: Callable[[], RecordColumns]) -> list[tuple[Any, ...]] | None:
    try:
        return parts(decode())
    except CorruptBatch:
        return None


def test_the_same_damage_is_found_as_in_tails() -> None:
    whole = make([(b"key", b"value", [("h", b"1")])] * 2, 0, 0)
    outcomes = []
    for at in range(HEADER_BYTES, len(whole.view)):
        damaged = bytearray(whole.view)
        damaged[at] ^= 0x80
        (batch,) = split_batches(damaged)
        columns = partial(decode_columns, [batch])
        tails = partial(lambda batch: split_records(decode_records(batch)), batch)
        outcomes.append(outcome(columns))
        assert outcomes[-1] == outcome(tails)
        for others in ([whole, batch], [batch, whole], [whole, batch, whole]):
            assert (outcome(partial(decode_columns, others)) is None) == (outcomes[-1] is None)
    assert None in outcomes


def test_a_record_whose_value_does_not_end_is_corrupt() -> None:
    at = np.array([3], dtype=np.int64)
    with pytest.raises(CorruptBatch, match="record at 3 is truncated"):
        split_records(Records(at, at, [b"\x01\x0aval"]))


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=8))
def test_varints_are_read_as_they_were_encoded(values: list[int]) -> None:
    cells, used = encode_varints(np.array(values, dtype=np.int64))
    data = np.frombuffer(cells[used].tobytes() + b"\xff", dtype=np.uint8)
    ends = np.cumsum(used.sum(axis=1), dtype=np.int64)
    starts = np.concatenate((np.zeros(1, dtype=np.int64), ends))[:-1]
    varints, after = read_varints(data, starts)
    assert (varints.tolist(), after.tolist()) == (values, ends.tolist())


def test_a_varint_without_an_end_is_refused() -> None:
    data = np.full(11, 0xFF, dtype=np.uint8)
    with pytest.raises(CorruptBatch, match="more than 10 bytes"):
        read_varints(data, np.zeros(1, dtype=np.int64))
    with pytest.raises(IndexError):
        read_varints(data[:3], np.zeros(1, dtype=np.int64))
