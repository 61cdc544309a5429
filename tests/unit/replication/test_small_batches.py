"""Small batches decoded in one pass, or in C, become what they become one by one."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest import mock

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.log import records
from k2ktui.log.batch import (
    APPEND_TIME,
    COMPRESSION_MASK,
    CONTROL,
    HEADER,
    TRANSACTIONAL,
    Batch,
    CorruptBatch,
    split_batches,
)
from k2ktui.log.core import core
from k2ktui.log.plain import read_payload
from k2ktui.log.records import decode_records, encode_nullable, locate_run
from k2ktui.log.varints import encode_varint
from k2ktui.replication.copying import batch_router
from k2ktui.replication.copying.batch_router import BatchRouter
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch
from k2ktui.replication.copying.partition_reader import (
    SMALL_BATCH_BYTES,
    SMALL_BYTES,
    SMALL_UNCOMPRESSED_BYTES,
    PartitionReader,
    is_small,
)
from k2ktui.replication.copying.slot_task import (
    Assignment,
    CopyPath,
    Fault,
    FaultKind,
    Route,
    SizeLimit,
)
from tests.support.records.made_batches import (
    DAMAGED,
    FLAGS,
    RECORDS,
    WHOLE,
    Made,
    Record,
    alike,
    log,
)
from tests.support.schedule.examples import examples

pytestmark = pytest.mark.usefixtures("with_and_without_core")
SOURCE = SourcePartition("t", 0)


@contextmanager
def one_by_one() -> Iterator[None]:
    """Let the router decode each record alone, in plain Python."""
    with mock.patch.object(records, "_locate_in_c", return_value=None):
        yield


def sources_of(sent: OutgoingBatch) -> list[int]:
    """Return the source offsets of its records."""
    if sent.sources is None:
        return list(range(sent.first_source, sent.first_source + sent.count))
    offsets: list[int] = sent.sources.tolist()
    return offsets


def reader_of(
    position: int,
    refused: int | None = None,
    limit: SizeLimit | None = None,
    path: CopyPath = CopyPath.VERBATIM,
    topic_limit: int | None = None,
) -> PartitionReader:
    fault = None if refused is None else Fault(SOURCE, FaultKind.TOO_LARGE, "", "", refused)
    route = Route(path, "t", 0 if path is CopyPath.VERBATIM else None, 3)
    begin = Position(position, 0, -1, "", 1, 0, "t", 0)
    return PartitionReader(Assignment(SOURCE, begin, route, None, limit, fault, topic_limit))


def copy(reader: PartitionReader, data: bytes) -> list[object]:
    """Route all; return what is sent, where the reader is each time, and the error at the end."""
    reader.receive(data, [])
    outcome: list[object] = [reader.fault, reader.fetched, len(reader.ready)]
    while reader.ready:
        try:
            for sent in BatchRouter("p").take_next(reader):
                sources = None if sent.sources is None else tuple(sent.sources.tolist())
                outcome.append((sent.target, bytes(sent.data), sent.count, sent.first_source))
                outcome.append((sources, sent.rebuilt))
        except CorruptBatch as error:
            outcome.append((str(error), reader.handed))
            break
        outcome.append((reader.handed, reader.ready_bytes, reader.state))
    return outcome


@given(
    st.lists(WHOLE | DAMAGED, min_size=3, max_size=12) | st.lists(WHOLE, min_size=3, max_size=12),
    st.none() | st.integers(0, 4),
    st.integers(0, 60),
    st.none() | st.integers(10, 80),
    st.none() | st.builds(SizeLimit, st.integers(100, 9000), st.integers(100, 9000)),
    st.sampled_from(list(CopyPath)),
)
@settings(max_examples=examples(120), deadline=None)
def test_one_pass_sends_what_one_by_one_does(
    batches: list[Made],
    codec: int | None,
    position: int,
    refused: int | None,
    limit: SizeLimit | None,
    path: CopyPath,
) -> None:
    data = b"".join(log(alike(batches, codec)))
    if refused is not None and refused < position:
        refused = position
    one_pass = copy(reader_of(position, refused, limit, path), data)
    with one_by_one():
        assert one_pass == copy(reader_of(position, refused, limit, path), data)


@given(
    st.lists(st.lists(RECORDS, min_size=1, max_size=6).map(tuple), min_size=3, max_size=12),
    st.integers(0, 4),
    FLAGS,
)
@settings(max_examples=examples(60), deadline=None)
def test_every_record_arrives_with_its_offset_and_time(
    contents: list[tuple[Record, ...]], codec: int, flags: int
) -> None:
    batches = [Made(content, codec, flags) for content in contents]
    expected, first = [], 10
    for made in batches:
        at = first
        for record in made.records:
            at += record.after
            time = made.latest if flags & APPEND_TIME else made.base_time + record.time
            expected.append((at, time, record.tail()))
            at += 1
        first = at
    reader = reader_of(0)
    reader.receive(b"".join(log(batches)), [])
    copied: list[tuple[int, int, bytes]] = []
    while reader.ready:
        for sent in BatchRouter("p").take_next(reader):
            (batch,) = split_batches(sent.data)
            records = decode_records(batch)
            copied += zip(sources_of(sent), records.timestamps.tolist(), records.tails, strict=True)
    assert copied == expected


@pytest.mark.parametrize("codec", range(5))
def test_the_same_records_give_the_same_bytes_at_any_time(
    codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"".join(log(some(6, codec)))
    sent = []
    for now in (1_800_000_000.0, 1_800_000_001.0):
        monkeypatch.setattr("time.time", lambda now=now: now)
        sent.append(copy(reader_of(0), data))
    assert sent[0] == sent[1]


def some(count: int, codec: int = 0, flags: int = 0) -> list[Made]:
    records = tuple(Record(b"k%d" % n, b"v" * 50) for n in range(5))
    return [Made(records, codec, flags) for _ in range(count)]


@pytest.mark.parametrize("codec", range(5))
def test_a_run_is_decoded_in_one_pass(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_router, "decode_with_keys", None)  # it would decode one alone
    reader = reader_of(0)
    reader.receive(b"".join(log(some(6, codec))), [])
    (sent,) = BatchRouter("p").take_next(reader)
    assert (sent.count, sent.rebuilt, reader.handed) == (30, True, 40)


@pytest.mark.parametrize("codec", range(5))
def test_a_damaged_batch_stops_the_run_at_its_own_offset(codec: int) -> None:
    batches = some(6, codec, APPEND_TIME)  # which cannot be copied unchanged
    batches[4] = replace(batches[4], counted=1)
    reader = reader_of(0)
    reader.receive(b"".join(log(batches)), [])
    (sent,) = BatchRouter("p").take_next(reader)
    assert (sent.count, reader.handed) == (20, 30)
    with pytest.raises(CorruptBatch, match="batch at offset 30"):
        BatchRouter("p").take_next(reader)
    assert reader.handed == 30


def test_control_batches_between_are_left_out() -> None:
    batches = some(5, flags=TRANSACTIONAL)
    batches[2] = Made((Record(b"\0\0\0\1", b"\0" * 6),), flags=CONTROL | TRANSACTIONAL)
    reader = reader_of(0)
    reader.receive(b"".join(log(batches)), [])
    (sent,) = BatchRouter("p").take_next(reader)
    assert sources_of(sent) == [*range(10, 20), *range(21, 31)]
    assert reader.handed == 31


def test_old_messages_end_a_run() -> None:
    builder = LegacyRecordBatchBuilder(1, 0, 1 << 20)
    builder.append(25, 7, b"k", b"v")
    reader = reader_of(0)
    late, _ = some(1)[0].encode(26)
    reader.receive(b"".join(log(some(3))) + bytes(builder.build()) + late * 1, [])
    (sent,) = BatchRouter("p").take_next(reader)
    assert (sent.count, reader.handed) == (15, 25)


@pytest.mark.parametrize("codec", range(1, 5))
def test_batches_that_hold_much_more_are_not_small(codec: int) -> None:
    bomb = Made((Record(None, bytes(16 << 20)),), codec)
    data = log([*some(2, codec), bomb, bomb, bomb])
    if len(data[2]) > SMALL_BATCH_BYTES:
        # Of this codec, the same records do not fit into a small batch.
        bomb = Made((Record(None, bytes(2 << 20)),), codec)
        data = log([*some(2, codec), bomb, bomb, bomb])
    reader = reader_of(0)
    reader.receive(b"".join(data), [])
    tracemalloc.start()
    try:
        (sent,) = BatchRouter("p").take_next(reader)
        assert sent.count == 10
        (sent,) = BatchRouter("p").take_next(reader)
        assert (sent.count, sent.rebuilt) == (1, False)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", range(5))
def test_a_run_ends_before_a_refused_record(codec: int) -> None:
    reader = reader_of(0, refused=27)
    reader.receive(b"".join(log(some(6, codec))), [])
    copied: list[int] = []
    while reader.ready:
        for sent in BatchRouter("p").take_next(reader):
            copied += sources_of(sent)
    assert copied == list(range(10, 27))
    assert reader.handed == 27
    assert not reader.ready


@pytest.mark.parametrize("change", [0x01, 0x02, 0x80, 0xFF])
def test_any_damaged_byte_is_found_as_one_by_one(change: int) -> None:
    records = (Record(b"k", b"vw", ((b"h", b""),)), Record(None, None, (), 3))
    size = len(Made(records).encode(0)[0]) - 61
    outcomes = set()
    for place in range(size):
        batches = [Made(records, flags=APPEND_TIME) for _ in range(4)]
        batches[1] = replace(batches[1], damage=((place, change),))
        for path in CopyPath:
            data = b"".join(log(batches))
            one_pass = copy(reader_of(0, path=path), data)
            with one_by_one():
                assert one_pass == copy(reader_of(0, path=path), data)
            outcomes.add(len(one_pass))
    assert len(outcomes) > 1, "some damage is found"


def raw(first: int, body: bytes, count: int, last: int) -> Batch:
    """A batch whose header has a right checksum, whatever is in it."""
    header = HEADER.pack(first, 49 + len(body), 0, 2, 0, 0, last, 0, 0, -1, 0, 0, count)
    data = bytearray(header + body)
    data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    (batch,) = split_batches(bytes(data))
    return batch


def record(offset: int) -> bytes:
    """One record without a key, a value and headers."""
    rest = b"\0\0" + encode_varint(offset) + encode_nullable(None) * 2 + encode_varint(0)
    return encode_varint(len(rest)) + rest


def refuse(batches: list[Batch]) -> None:
    """What the first has wrong is found before records of the next are taken for its own."""
    with pytest.raises(CorruptBatch):
        locate_run(batches, 1 << 20)
    with pytest.raises(CorruptBatch):
        decode_records(batches[0])


def test_a_run_ends_before_a_batch_that_begins_within_another() -> None:
    body = record(0) + record(1)
    one = locate_run([raw(10, body, 2, 1), raw(11, body, 2, 1)], 1 << 20)
    assert (one.batches, one.offsets.tolist()) == (1, [10, 11])
    assert locate_run([raw(10, body, 2, 1), raw(12, body, 2, 1)], 1 << 20).batches == 2


@pytest.mark.parametrize("codec", [0, 3])
def test_a_run_ends_where_its_records_are_large_enough_decompressed(codec: int) -> None:
    made = Made((Record(None, bytes(1000)),) * 3, codec)
    batches = [batch for data in log([made] * 3) for batch in split_batches(data)]
    runs = [locate_run(batches, most).batches for most in (1_600, 3_000, 3_100, 99_000)]
    assert runs == [1, 1, 2, 3]
    with pytest.raises(CorruptBatch):
        locate_run(batches, 1_000)
    small = Made((Record(None, bytes(100)),) * 3, codec)
    batches = [batch for data in log([small, made, small]) for batch in split_batches(data)]
    assert [locate_run(batches, most).batches for most in (1_000, 2_000)] == [1, 2]


def test_a_run_with_a_record_of_the_next_batch_in_one_is_refused() -> None:
    """In all they have as many records as they say; one of them has too many."""
    refuse([raw(10, record(0), 2, 5), raw(20, record(1) + record(2), 1, 5)])


def test_a_run_with_a_record_whose_fields_are_in_the_next_batch_is_refused() -> None:
    """Its offset would be the length of the next record, and its key, a negative length, there."""
    short = encode_varint(2) + b"\0\0"
    behind = bytearray(record(0))
    behind[1] = 0x09  # the attributes, which nobody reads: -5
    refuse([raw(10, short, 1, 20), raw(40, bytes(behind), 1, 0)])


def first_sent(data: bytes) -> tuple[int, bool, int]:
    """Return how many records the first batch has, whether it is rebuilt, and its codec."""
    reader = reader_of(0)
    reader.receive(data, [])
    sent = BatchRouter("p").take_next(reader)[0]
    (batch,) = split_batches(sent.data)
    return sent.count, sent.rebuilt, batch.attributes & COMPRESSION_MASK


def test_a_run_has_one_codec() -> None:
    assert first_sent(b"".join(log([*some(3, 3), *some(3, 4)]))) == (15, True, 3)


def test_two_batches_that_wait_are_copied_as_they_are() -> None:
    assert first_sent(b"".join(log(some(2))))[:2] == (5, False)


def test_a_run_has_one_leader_epoch() -> None:
    later = [replace(made, epoch=4) for made in some(3)]
    assert first_sent(b"".join(log([*some(3), *later])))[:2] == (15, True)


def test_a_large_batch_ends_a_run() -> None:
    large = Made((Record(None, bytes(SMALL_UNCOMPRESSED_BYTES)),))
    assert first_sent(b"".join(log([*some(3), large, *some(3)])))[:2] == (15, True)


@pytest.mark.parametrize("codec", [0, 4])
def test_a_run_has_an_upper_size(codec: int) -> None:
    """Of what it has decompressed; a batch more may exceed it."""
    size, most = 10_000, 691_200
    batches = [Made((Record(None, bytes(size)),), codec) for _ in range(80)]
    count, rebuilt, _ = first_sent(b"".join(log(batches)))
    assert rebuilt and most // (size + 100) < count <= most // size + 1


@pytest.mark.parametrize("codec", [0, 3])
def test_larger_batches_are_merged_in_c_where_they_are_not_compressed(codec: int) -> None:
    size = 4 * SMALL_BATCH_BYTES
    batches = [Made((Record(None, random.Random(n).randbytes(size)),), codec) for n in range(4)]
    merged = not codec and core() is not None
    assert first_sent(b"".join(log(batches)))[:2] == ((4, True) if merged else (1, False))


def test_a_merged_batch_of_tiny_records_is_below_the_usual_limit() -> None:
    """Their offsets take more bytes in it than in the batches that they come from."""
    tiny = Made((Record(None, b""),) * 15_000)
    reader = reader_of(0)
    reader.receive(b"".join(log([tiny] * 20)), [])
    (sent,) = BatchRouter("p").take_next(reader)
    least = 1 if core() is None else 4
    assert sent.count >= least * 15_000 and len(sent.data) <= 900 << 10


@pytest.mark.parametrize("codec", [0, 3])
@pytest.mark.parametrize("limit", [2_000, 100_000, 500_000])
def test_what_is_merged_fits_into_the_topic_and_into_requests(limit: int, codec: int) -> None:
    """Before compression: a broker may store it in another codec."""
    batches = [Made((Record(None, bytes(500)),) * 3, codec) for _ in range(900)]
    data = b"".join(log(batches))
    for router, topic_limit in (
        (BatchRouter("p"), limit),
        (BatchRouter("p", None, None, limit), None),
    ):
        reader = reader_of(0, topic_limit=topic_limit)
        reader.receive(data, [])
        largest = 0
        while reader.ready:
            for sent in router.take_next(reader):
                (batch,) = split_batches(sent.data)
                largest = max(largest, len(read_payload(batch)))
        assert limit // 2 < largest + 1_500 and largest < limit


@pytest.mark.parametrize("codec", range(COMPRESSION_MASK + 1))
@pytest.mark.parametrize("limit", [SMALL_BATCH_BYTES, SMALL_UNCOMPRESSED_BYTES])
def test_a_batch_is_as_small_alone_as_in_rows(limit: int, codec: int) -> None:
    """What waits in rows as small enough would else not be merged, without a word."""
    for size in (limit, limit + 1):
        batch = Batch(memoryview(bytes(size)), 0, 0, -1, 2, codec, 0, 0, -1, 1)
        assert is_small(batch) == (size <= SMALL_BYTES[codec])
