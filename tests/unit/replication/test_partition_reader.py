"""The three offsets of a partition reader, with markers and aborted records in between."""

from __future__ import annotations

import pytest
from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder

from k2ktui.engine.records.state import (
    Covers,
    MappingRange,
    Position,
    SourcePartition,
    mapping_key,
    mapping_value,
    read_mapping_record,
)
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.slot_task import Assignment, CopyPath, Route

pytestmark = pytest.mark.usefixtures("with_and_without_core")
_PRODUCER = 5


def batch(first: int, count: int, *, aborted: bool = False) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=aborted,
        producer_id=_PRODUCER if aborted else -1,
        producer_epoch=0 if aborted else -1,
        base_sequence=0 if aborted else -1,
        batch_size=1 << 20,
    )
    for offset in range(count):
        builder.append(offset, 1000, b"k", b"v", [])
    data = builder.build()
    data[0:8] = first.to_bytes(8, "big")
    return bytes(data)


def compressed(first: int, count: int) -> bytes:
    """Return a compressed message of magic 1, whose offset is that of the last record in it."""
    builder = LegacyRecordBatchBuilder(magic=1, compression_type=1, batch_size=1 << 20)
    for offset in range(count):
        builder.append(offset, 1000, b"k", b"v")
    data = builder.build()
    data[0:8] = (first + count - 1).to_bytes(8, "big")
    return bytes(data)


def feed(offset: int = 0) -> PartitionReader:
    source = SourcePartition("t", 0)
    position = Position(offset, offset, -1, "", 1, 0, "t", 0)
    return PartitionReader(Assignment(source, position, Route(CopyPath.VERBATIM, "t", 0, 1)))


def test_what_arrives_during_a_commit_is_committed_by_the_next() -> None:
    """Or the position on the target would stay behind what the slot believes."""
    one = feed()
    one.receive(batch(0, 3), [])
    one.take()
    written = one.position(1, 0, 0).offset
    one.receive(batch(3, 2, aborted=True), [(_PRODUCER, 3)])
    one.mark_committed(written)
    assert (one.committed, one.handed, one.dirty) == (3, 5, True)
    assert one.position(1, 0, 0).offset == 5


def test_aborted_records_behind_waiting_ones_do_not_move_the_position() -> None:
    one = feed()
    one.receive(batch(0, 3) + batch(3, 2, aborted=True), [(_PRODUCER, 3)])
    assert one.position(1, 0, 0).offset == 0
    one.take()
    assert one.position(1, 0, 0).offset == 5


def test_mappings_cover_what_was_passed_since_the_last_commit() -> None:
    one = feed()
    one.receive(batch(0, 3) + batch(3, 2, aborted=True), [(_PRODUCER, 3)])
    taken = one.take()
    one.acknowledge(OutgoingBatch(("t", 0), memoryview(b""), taken.count, 0), 70)
    one.acknowledge(OutgoingBatch(("t", 1), memoryview(b""), 1, 4), 7)
    mappings = one.mappings("p", 1)
    assert [mapping.covers for mapping in mappings] == [Covers(0, 5, 0, 2), Covers(0, 5, 1, 2)]
    assert mappings[0].ranges == (MappingRange(0, 70, 3),)
    one.mark_committed(5)
    one.receive(batch(5, 2, aborted=True), [(_PRODUCER, 5)])
    (passed,) = one.mappings("p", 1)
    assert (passed.covers, passed.ranges) == (Covers(5, 7), ())
    assert read_mapping_record(mapping_key(passed), mapping_value(passed)) == passed


def test_a_partition_that_committed_nothing_keeps_the_term_of_its_record() -> None:
    """With this lap's term the record on the target would look older, and never be believed."""
    one = feed(7)
    assert one.committed_position(3, 0) is None
    one.receive(batch(7, 2), [])
    one.take()
    assert one.committed_position(3, 0) is None
    one.mark_committed(9)
    after = one.committed_position(3, 0)
    assert after is not None and (after.term, after.offset) == (3, 9)
    assert feed(7).committed_position(3, 0) is None


def test_a_dropped_batch_is_fetched_again_from_its_first_record() -> None:
    """Of a compressed message of an old log, only the offset of the last record is known."""
    for make in (batch, compressed):
        one = feed()
        one.receive(make(0, 5) + make(5, 5), [])
        one.jump(7, "truncated")
        assert [batch.last_offset for batch in one.ready] == [4]
        assert (one.fetched, one.handed, one.gaps) == (5, 0, ())
        one = feed()
        one.receive(make(0, 10), [])
        one.jump(7, "truncated")
        assert (one.ready_bytes, one.fetched, one.handed, one.gaps) == (0, 0, 0, ())


def test_the_time_of_the_next_record_is_not_a_delete_horizon() -> None:
    """In a compacted batch with tombstones, the base timestamp may lie days ahead (KIP-534)."""
    one = feed()
    data = bytearray(batch(0, 3))
    one.receive(bytes(data), [])
    assert one.next_timestamp == 1000
    data[22] |= 0x40
    data[27:35] = (10**15).to_bytes(8, "big")
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    other = feed()
    other.receive(bytes(data), [])
    assert other.next_timestamp == 1000
