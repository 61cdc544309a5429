"""Damaged, hostile and very old batches: a fault of their partition, never another error."""

from __future__ import annotations

import contextlib
import struct
import zlib

import lz4.frame
import numpy as np
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.codec import gzip_encode, lz4_encode, snappy_encode, zstd_encode
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.engine.transforms.header_names import HeaderRules
from k2ktui.log import decompress as module
from k2ktui.log.batch import CorruptBatch, split_batches
from k2ktui.log.decompress import decompress, limit_of
from k2ktui.log.rebuild import build_batches
from k2ktui.log.records import Records, decode_records
from k2ktui.replication.copying.batch_router import BatchRouter
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.slot_task import Assignment, CopyPath, FaultKind, Route
from tests.support.schedule.examples import examples

pytestmark = pytest.mark.usefixtures("with_and_without_core")
CODECS = {1: gzip_encode, 2: snappy_encode, 3: lz4_encode, 4: zstd_encode}
FIRST, COUNT = 40, 12


def modern(codec: int, offsets: list[int] | None = None) -> bytes:
    """A v2 batch, with its checksum."""
    numbers = offsets or list(range(FIRST, FIRST + COUNT))
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 20,
    )
    for offset in numbers:
        builder.append(offset - numbers[0], 1000 + offset, b"k", b"value", [("h", b"x")])
    data = builder.build()
    data[0:8] = numbers[0].to_bytes(8, "big")
    return bytes(data)


def legacy(magic: int, codec: int) -> bytes:
    """Messages of an old format: a wrapper with the offset of its last, or one after another."""
    plain = LegacyRecordBatchBuilder(magic=magic, compression_type=0, batch_size=1 << 20)
    for index in range(COUNT):
        relative = codec and magic == 1
        plain.append(index if relative else FIRST + index, 1000 + index, b"k", b"v%d" % index)
    data = bytes(plain.build())
    if not codec:
        return data
    body = CODECS[codec](data)
    if codec == 3 and magic == 0:  # Kafka 0.8 and 0.9 wrote another header checksum
        body = lz4.frame.compress(data, store_size=False)
        body = body[:6] + bytes((body[6] ^ 0x5A,)) + body[7:]
    return message(magic, codec, FIRST + COUNT - 1, body)


def message(magic: int, attributes: int, offset: int, value: bytes) -> bytes:
    time = struct.pack(">q", 777) if magic else b""
    rest = bytes((magic, attributes)) + time + struct.pack(">ii", -1, len(value)) + value
    sized = struct.pack(">I", zlib.crc32(rest)) + rest
    return struct.pack(">qi", offset, len(sized)) + sized


BATCHES = {
    **{f"v2-{codec}": modern(codec) for codec in range(5)},
    "v2-hole": modern(1, [FIRST, FIRST + 5, FIRST + 6]),
    **{f"v{magic}-{codec}": legacy(magic, codec) for magic in (0, 1) for codec in range(4)},
}


def a_feed(way: CopyPath = CopyPath.VERBATIM, offset: int = FIRST) -> PartitionReader:
    position = Position(offset, offset, -1, "", 1, 0, "t", 0)
    partition = 0 if way is CopyPath.VERBATIM else None
    rules = Route(way, "t", partition, 3, headers=HeaderRules(drop=way is CopyPath.RECORD))
    return PartitionReader(Assignment(SourcePartition("t", 0), position, rules))


def copied(feed: PartitionReader) -> list[int]:
    """The source offsets that are handed on; what cannot be read stops the feed."""
    copied_offsets: list[int] = []
    while feed.ready:
        try:
            for outgoing in BatchRouter("p").take_next(feed):
                sources = outgoing.sources
                first = outgoing.first_source
                plain = range(first, first + outgoing.count)
                copied_offsets += plain if sources is None else sources.tolist()
        except CorruptBatch as error:
            feed.corrupt(error, feed.handed)
            feed.drop_from(feed.handed)
    return sorted(copied_offsets)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", range(4))
def test_old_messages_are_copied_from_the_position_on(magic: int, codec: int) -> None:
    feed = a_feed(offset=FIRST + 3)
    feed.receive(legacy(magic, codec), [])
    assert copied(feed) == list(range(FIRST + 3, FIRST + COUNT))
    assert feed.fault is None
    parts = [
        part
        for batch in split_batches(legacy(magic, codec))
        for part in decode_records(batch).tails
    ]
    assert parts == [b"\x02k" + bytes((2 * len(b"v%d" % i),)) + b"v%d\x00" % i for i in range(12)]


def test_the_times_of_old_messages() -> None:
    def times(data: bytes) -> set[int]:
        return {int(t) for batch in split_batches(data) for t in decode_records(batch).timestamps}

    assert times(legacy(0, 1)) == {-1}
    assert times(legacy(1, 1)) == set(range(1000, 1000 + COUNT))
    inner = gzip_encode(bytes(BATCHES["v1-0"]))
    assert times(message(1, 1 | 8, FIRST + COUNT - 1, inner)) == {777}


def offsets_differ(original: bytes, damaged: bytearray) -> bool:
    """Whether a set of old messages has other offsets, which no checksum covers."""
    at = 0
    while at < len(original):
        if damaged[at : at + 8] != original[at : at + 8]:
            return True
        at += 12 + struct.unpack_from(">i", original, at + 8)[0]
    return False


@pytest.mark.parametrize("name", BATCHES)
@settings(max_examples=examples(40), deadline=None)
@given(st.data())
def test_a_damaged_batch_stops_the_feed_or_is_not_there_yet(name: str, data: st.DataObject) -> None:
    """Bits flip, and the end is cut off: what is behind a checksum is never copied changed.

    A set of uncompressed old messages has one checksum per message, and their offsets have none.
    """
    original = BATCHES[name]
    damaged = bytearray(original)
    for at in data.draw(st.lists(st.integers(0, 8 * len(damaged) - 1), max_size=4, unique=True)):
        damaged[at // 8] ^= 1 << at % 8
    covered = 21 if name.startswith("v2") else 16
    hurt = damaged[covered : len(original)] != original[covered:]
    cut = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    for way in CopyPath:
        feed = a_feed(way)
        feed.receive(cut, [])
        offsets = copied(feed)
        assert feed.fault is None or feed.fault.kind is FaultKind.CORRUPT
        if len(cut) == len(original) and hurt and damaged[:covered] == original[:covered]:
            if name in ("v0-0", "v1-0") and offsets_differ(original, damaged):
                continue
            assert feed.fault is not None
            assert len(offsets) < COUNT


@pytest.mark.parametrize("name", BATCHES)
@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_damage_behind_a_right_checksum_is_found_or_harmless(
    name: str, data: st.DataObject
) -> None:
    """The decoders meet anything, as from a broker that computed the checksum of damaged bytes."""
    damaged = bytearray(BATCHES[name])
    for at in data.draw(st.lists(st.integers(16, len(damaged) - 1), min_size=1, max_size=3)):
        damaged[at] = data.draw(st.integers(0, 255))
    if name.startswith("v2"):
        damaged[17:21] = crc32c(memoryview(damaged)[21:]).to_bytes(4, "big")
    elif not name.endswith("-0"):
        damaged[12:16] = zlib.crc32(damaged[16:]).to_bytes(4, "big")
    for way in CopyPath:
        feed = a_feed(way)
        feed.receive(bytes(damaged), [(5, FIRST)])
        offsets = copied(feed)
        assert offsets == sorted(set(offsets))
        assert feed.fault is None or feed.fault.kind is FaultKind.CORRUPT
        assert feed.ready_bytes == 0


@given(st.sampled_from(sorted(BATCHES)), st.binary(max_size=100))
def test_any_bytes_behind_a_batch(name: str, garbage: bytes) -> None:
    feed = a_feed()
    feed.receive(BATCHES[name] + garbage, [])
    assert feed.fault is None or feed.fault.kind is FaultKind.CORRUPT
    assert len(copied(feed)) >= 3


@pytest.mark.parametrize(
    ("at", "value"),
    [(8, b"\xff\xff\xff\xf4"), (8, b"\x00\x00\x00\x00"), (16, b"\x09"), (0, b"\xff")],
    ids=["length -12", "length 0", "format 9", "negative offset"],
)
def test_a_batch_that_ends_before_it_begins(at: int, value: bytes) -> None:
    data = bytearray(modern(0))
    data[at : at + len(value)] = value
    feed = a_feed()
    feed.receive(bytes(modern(0)) + bytes(data), [])
    assert feed.fault is not None and feed.fault.kind is FaultKind.CORRUPT
    assert feed.fault.offset == FIRST + COUNT
    assert copied(feed) == list(range(FIRST, FIRST + COUNT))


def test_a_batch_of_an_unknown_codec() -> None:
    data = bytearray(modern(0, [FIRST, FIRST + 3]))
    data[22] |= 5
    data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    feed = a_feed()
    feed.receive(bytes(data), [])
    assert copied(feed) == []
    assert feed.fault is not None and "unknown compression codec 5" in feed.fault.message


@pytest.mark.parametrize("codec", CODECS)
def test_a_decompression_bomb_is_refused(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = CODECS[codec](bytes(3 << 20))
    assert decompress(codec, bomb) == bytes(3 << 20)
    monkeypatch.setattr(module, "_LEAST_BYTES", 1 << 20)
    monkeypatch.setattr(module, "_RATIO", 2)
    with pytest.raises(CorruptBatch, match="hold more than 1048576 bytes: the limit is 2 times"):
        decompress(codec, bomb)


@pytest.mark.parametrize("codec", CODECS)
def test_what_was_damaged_or_too_large_does_not_reach_the_next_batch(codec: int) -> None:
    # The contexts of codecs are used again, also after they were left in the middle of a batch.
    plain = [bytes(range(256)) * 40, b"k2k" * 500_000]
    packed = [CODECS[codec](text) for text in plain]
    for whole in packed:
        for broken in (whole[: len(whole) // 2], whole[:-1] + bytes([whole[-1] ^ 0xFF]), b"?" * 9):
            with contextlib.suppress(CorruptBatch):
                decompress(codec, broken)
            assert [decompress(codec, data) for data in packed] == plain
        with pytest.raises(CorruptBatch, match="hold more than"):
            decompress(codec, packed[1], 1_000)
        assert [decompress(codec, data) for data in packed] == plain


def test_the_bound_follows_the_size_of_the_batch() -> None:
    assert (limit_of(1000), limit_of(4 << 20)) == (64 << 20, 128 << 20)


def test_a_bomb_that_lies_about_its_size_takes_no_memory() -> None:
    claims = b"\xff\xff\xff\xff\x0f" + b"\x00" * 20  # 4 GiB of raw snappy
    with pytest.raises(CorruptBatch, match="hold more than"):
        decompress(2, claims)


def test_small_batches_are_merged_up_to_a_size_that_counts_what_is_inside() -> None:
    zeros = np.zeros(1, dtype=np.int64)
    feed = a_feed()
    for index in range(40):
        tails = [b"\x01\x80\x80\x40" + bytes(1 << 19) + b"\x00"]
        (built,) = build_batches(Records(zeros, zeros, tails), 4, 1 << 20)
        built.data[0:8] = (FIRST + index).to_bytes(8, "big")
        feed.receive(bytes(built.data), [])
    assert feed.ready_bytes < 40_000
    BatchRouter("p").take_next(feed)
    assert len(feed.ready) >= 38


def test_a_bad_one_among_small_batches_that_wait_keeps_none_back() -> None:
    data = [bytearray(modern(0, [FIRST + i])) for i in range(5)]
    data[3][61:] = b"\x7f" * (len(data[3]) - 61)
    data[3][17:21] = crc32c(memoryview(data[3])[21:]).to_bytes(4, "big")
    feed = a_feed(CopyPath.RECORD)
    for batch in data:
        feed.receive(bytes(batch), [])
    assert copied(feed) == [FIRST, FIRST + 1, FIRST + 2]
    assert feed.fault is not None and feed.fault.offset == FIRST + 3


def test_damaged_lz4_of_the_oldest_format() -> None:
    broken = message(0, 3, FIRST, b"\x04\x22\x4d\x18nothing of the kind")
    (batch,) = split_batches(broken)
    with pytest.raises(CorruptBatch, match="lz4"):
        decode_records(batch)
    assert lz4.frame.decompress(lz4_encode(b"x")) == b"x"


def test_a_control_batch_without_a_record() -> None:
    data = bytearray(modern(0)[:61])
    data[8:12] = (61 - 12).to_bytes(4, "big")
    data[22] |= 0x30
    data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    feed = a_feed()
    feed.receive(bytes(data), [])
    assert feed.fault is not None and feed.fault.kind is FaultKind.CORRUPT


def test_a_batch_shorter_than_its_records_is_corrupt() -> None:
    (batch,) = split_batches(modern(0))
    with pytest.raises(CorruptBatch):
        decode_records(batch._replace(view=batch.view[:-4]))
