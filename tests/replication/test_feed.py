"""A feed's three offsets, where markers and aborted records arrive at an awkward moment."""

from __future__ import annotations

from kafka.record.default_records import DefaultRecordBatchBuilder

from k2ktui.engine.state import Position, SourcePartition
from k2ktui.replication.copying.feed import Feed
from k2ktui.replication.tokens import Assignment, Path, Route

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


def feed(offset: int = 0) -> Feed:
    source = SourcePartition("t", 0)
    position = Position(offset, offset, -1, "", 1, 0, "t", 0)
    return Feed(Assignment(source, position, Route(Path.VERBATIM, "t", 0, 1)))


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
