"""Batches as bytes, against kafka-python's own record classes as an independent oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as reference_murmur2
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from k2ktui.engine.records.state import (
    Covers,
    MappingRecord,
    SourcePartition,
    mapping_key,
    mapping_value,
    read_mapping_record,
)
from k2ktui.engine.transforms.partitioner import murmur2, partitions_for_keys
from k2ktui.log.batch import (
    APPEND_TIME,
    AbortedTransactions,
    Batch,
    CorruptBatch,
    Defect,
    find_defect,
    next_sequence,
    split_batches,
    stamp_producer,
)
from k2ktui.log.rebuild import build_batches
from k2ktui.log.records import Records, Tails, concatenate, decode_records
from k2ktui.log.varints import encode_varint, read_varint, read_varints
from k2ktui.replication.copying.range_builder import RangeBuilder
from tests.support.schedule.examples import examples

blobs = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=8), blobs), max_size=3)
deltas = st.lists(st.integers(1, 5), min_size=1, max_size=30)
codecs = st.sampled_from([0, 1, 2, 3, 4])


def make(
    offsets: list[int], codec: int = 0, *, key: bytes | None = b"k", producer: int = -1, **kw: Any
) -> bytearray:
    """Build a batch with kafka-python, with real offsets in it."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=kw.get("transactional", False),
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=0 if producer >= 0 else -1,
        batch_size=1 << 30,
    )
    first = offsets[0]
    for offset in offsets:
        value = kw.get("value", lambda o: b"v%d" % o)(offset)
        builder.append(offset - first, 1000 + offset, key, value, kw.get("headers", []))
    data = bytearray(builder.build())
    data[0:8] = first.to_bytes(8, "big")
    return data


def one(data: bytes | bytearray) -> Batch:
    (batch,) = split_batches(data)
    return batch


def seen(data: bytes | bytearray | memoryview) -> list[tuple[Any, ...]]:
    """What kafka-python reads from a batch."""
    return [
        (r.offset, r.timestamp, r.key, r.value, r.headers) for r in DefaultRecordBatch(bytes(data))
    ]


@settings(max_examples=examples(200))
@given(deltas, codecs, blobs, headers, st.integers(0, 60))
def test_rebuilding_keeps_every_record_and_maps_it(
    gaps: list[int], codec: int, key: bytes | None, record_headers: list[Any], position: int
) -> None:
    offsets, at = [], 100
    for gap in gaps:
        offsets.append(at)
        at += gap
    original = make(offsets, codec, key=key, headers=record_headers)
    kept = [r for r in seen(original) if r[0] >= 100 + position]
    built = list(build_batches(decode_records(one(original), 100 + position), codec, 300))
    landed: list[tuple[Any, ...]] = []
    for part in built:
        again = seen(part.data)
        assert [r[0] for r in again] == list(range(part.count))
        landed += [(int(part.sources[r[0]]), *r[1:]) for r in again]
        assert DefaultRecordBatch(bytes(part.data)).validate_crc()
    assert landed == kept


@given(deltas, codecs)
def test_a_stamped_batch_is_the_same_records_by_another_producer(
    gaps: list[int], codec: int
) -> None:
    original = make(list(range(50, 50 + len(gaps))), codec, producer=9)
    before = seen(original)
    batch = one(original)
    stamp_producer(batch.view, 4711, 3, 17, transactional=True)
    after = DefaultRecordBatch(bytes(batch.view))
    assert after.validate_crc()
    assert (after.producer_id, after.producer_epoch, after.base_sequence) == (4711, 3, 17)
    assert (
        after.is_transactional and after.base_offset == 0 and after.compression_type == codec
    ) or (after.compression_type == 0)
    assert [r[1:] for r in seen(batch.view)] == [r[1:] for r in before]
    stamp_producer(batch.view, 1, 0, 0, transactional=False)
    assert not DefaultRecordBatch(bytes(batch.view)).is_transactional


DELETE_HORIZON = 0x40


def test_the_delete_horizon_of_a_compacted_source_is_not_carried_over() -> None:
    data = make([5, 6])
    data[22] |= DELETE_HORIZON
    batch = one(data)
    stamp_producer(batch.view, 1, 0, 0, transactional=False)
    assert not one(bytes(batch.view)).attributes & DELETE_HORIZON
    assert [r[1] for r in seen(batch.view)] == [1005, 1006]


def test_what_cannot_go_as_it_is() -> None:
    assert find_defect(one(make([10, 11, 12])), 10) is None
    assert find_defect(one(make([10, 12])), 10) is Defect.HOLE
    assert find_defect(one(make([10, 11])), 11) is Defect.TRIMMED
    stamped = make([10, 11])
    stamped[22] |= APPEND_TIME
    assert find_defect(one(stamped), 10) is Defect.APPEND_TIME
    assert set(decode_records(one(stamped)).timestamps.tolist()) == {1011}


def test_damage_is_an_error_and_not_other_records() -> None:
    data = make([1, 2, 3])
    broken = bytearray(data)
    broken[-3] ^= 0xFF
    assert not one(broken).crc_ok()
    cut = one(data)
    short = Batch(cut.view[:-4], cut.base_offset, cut.last_offset, -1, 2, 0, 0, 0, -1, cut.count)
    with pytest.raises(CorruptBatch):
        decode_records(short)


def test_a_truncated_last_batch_is_left_for_the_next_fetch() -> None:
    both = bytes(make([1])) + bytes(make([2]))
    assert [b.base_offset for b in split_batches(both)] == [1, 2]
    assert [b.base_offset for b in split_batches(both[:-1])] == [1]
    assert list(split_batches(both[:20])) == []


@given(st.integers(-(2**62), 2**62))
def test_varints(value: int) -> None:
    assert read_varint(encode_varint(value), 0) == (value, len(encode_varint(value)))


@given(st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=50))
def test_varints_in_columns(values: list[int]) -> None:
    encoded = [encode_varint(value) for value in values]
    starts = np.cumsum([0, *map(len, encoded)])[:-1]
    data = np.frombuffer(b"".join(encoded), dtype=np.uint8)
    varints, after = read_varints(data, starts)
    assert varints.tolist() == values
    assert after.tolist() == np.cumsum([len(e) for e in encoded]).tolist()


@given(st.binary(max_size=64))
def test_murmur2_is_javas(data: bytes) -> None:
    row = np.frombuffer(data, dtype=np.uint8).reshape(1, -1)
    assert int(murmur2(row)[0]) == reference_murmur2(data) & 0xFFFFFFFF


@given(st.lists(st.none() | st.binary(max_size=20), min_size=1, max_size=40))
def test_partitions_are_javas(keys: list[bytes | None]) -> None:
    lengths = np.array([-1 if k is None else len(k) for k in keys])
    starts = np.cumsum([0, *np.maximum(lengths, 0)])[:-1]
    data = np.frombuffer(b"".join(k or b"" for k in keys), dtype=np.uint8)
    expected = [4 if k is None else (reference_murmur2(k) & 0x7FFFFFFF) % 7 for k in keys]
    assert partitions_for_keys(data, starts, lengths, 7, 4).tolist() == expected


@given(st.lists(deltas, min_size=1, max_size=4))
def test_a_landing_maps_each_offset_once(batches: list[list[int]]) -> None:
    landing, offset, target, expected = RangeBuilder(), 0, 7, []
    for gaps in batches:
        offsets = [offset := offset + gap for gap in gaps]
        landing.add(np.array(offsets), target)
        expected += list(zip(offsets, range(target, target + len(offsets)), strict=True))
        target += len(offsets) + 3
    template = MappingRecord("p", SourcePartition("t", 0), "t", 0, covers=Covers(0, offset + 1))
    mappings = list(landing.mappings(template))
    assert sorted(pair for m in mappings for pair in m.pairs()) == expected
    read = [read_mapping_record(mapping_key(m), mapping_value(m)) for m in mappings]
    assert read == mappings


def marker(offset: int, producer: int, *, abort: bool) -> bytes:
    control = (0 if abort else 1).to_bytes(2, "big")
    data = make([offset], key=b"\x00\x00" + control, producer=producer, transactional=True)
    data[22] |= 0x20
    return bytes(data)


def test_aborted_transactions_are_left_out_and_later_ones_of_the_producer_are_not() -> None:
    def txn(offset: int, producer: int) -> bytes:
        return bytes(make([offset], producer=producer, transactional=True))

    log = [
        txn(0, 1),
        txn(1, 2),
        marker(2, 1, abort=True),
        txn(3, 1),
        marker(4, 2, abort=False),
        bytes(make([5])),
        marker(6, 1, abort=False),
    ]
    aborted = AbortedTransactions([(1, 0)])
    kept = [b.base_offset for b in split_batches(b"".join(log)) if not aborted.drops(b)]
    assert kept == [1, 3, 5]


def test_sequence_numbers_wrap_as_the_broker_expects() -> None:
    assert next_sequence(2**31 - 1, 1) == 0
    assert next_sequence(2**31 - 2, 3) == 1


def test_tails_are_a_sequence_of_bytes() -> None:
    tails = Tails(b"abcdef", np.array([0, 1, 1, 4]), np.array([1, 1, 4, 6]))
    made = [b"a", b"", b"bcd", b"ef"]
    assert (len(tails), list(tails), tails[-1], list(tails[1:3])) == (4, made, b"ef", made[1:3])
    assert list(tails.take(np.array([3, 0]))) == [b"ef", b"a"]
    assert tails[:2] == tails[:2] and tails[:2] != tails[1:3]
    assert tails == made and made == tails and tails != made[1:]


def test_records_of_buffers_and_of_bytes_are_concatenated() -> None:
    numbers = np.arange(2)
    located = Records(numbers, numbers, Tails(b"abc", np.array([0, 2]), np.array([2, 3])))
    listed = Records(numbers, numbers, [b"x", b"yz"])
    for parts in ([located, located], [located, listed], [listed, listed]):
        whole = concatenate(parts)
        assert list(whole.tails) == [tail for part in parts for tail in part.tails]
        assert whole.sizes.tolist() == list(map(len, whole.tails))
        assert list(whole.located) == list(whole.tails)
        assert list(whole.take(np.array([3, 1])).tails) == [whole.tails[3], whole.tails[1]]
