"""Mapping records have expired: what positions say of several feeders, and of older releases."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.records.state import SourcePartition
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.snapshot import SnapshotReader
from tests.support.clusters.kafka import Out, create_topic, produce, read_all
from tests.support.pipelines.copied import Copied, delete_records


def topic_of(node: KafkaNode, stem: str, records: int) -> str:
    name = create_topic(node)
    produce(node, name, [Out(f"{stem} {number}".encode()) for number in range(records)])
    return name


def translated(copied: Copied, offsets: dict[str, int]) -> tuple[object, ...]:
    """Return the translation of one group by a process that has read nothing before."""
    snapshots = SnapshotReader(Flow(copied.config))
    try:
        commits = {SourcePartition(topic, 0): offset for topic, offset in offsets.items()}
        ((row,),) = snapshots.translate_each([commits])
    finally:
        snapshots.close()
    return row.offset, row.basis, row.reread, row.skipped


@pytest.mark.slow
def test_two_topics_that_feed_one(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    """Records of both interleave on the target: nothing is exact, and nothing is skipped."""
    copied = Copied(tmp_path, source, target)
    joined = create_topic(target)
    one, other = topic_of(source, "one", 4), topic_of(source, "other", 3)
    values = [b"native", b"one 0", b"one 1", b"other 0", b"other 1", b"one 2", b"one 3", b"other 2"]
    produce(target, joined, [Out(value) for value in values])
    copied.put_position(one, 0, 4, 0, joined, landed=(1, 7), first=(0, 1))
    copied.put_position(other, 0, 3, 0, joined, landed=(1, 8), first=(0, 3))

    def would_read(offset: object) -> list[bytes | None]:
        assert isinstance(offset, int)
        return [got.value for got in read_all(target, joined) if got.offset >= offset]

    offset, basis, reread, skipped = translated(copied, {one: 4, other: 3})
    assert (offset, basis, reread, skipped) == (7, Basis.BOUNDED, 1, 0)
    offset, basis, _, skipped = translated(copied, {one: 0, other: 3})
    assert (offset, basis, skipped) == (1, Basis.BOUNDED, 0)
    offset, basis, _, skipped = translated(copied, {one: 4, other: 0})
    assert (offset, basis, skipped) == (3, Basis.BOUNDED, 0)
    assert would_read(offset)[0] == b"other 0"
    # A group that has no offset of the other topic would skip its first two records.
    assert translated(copied, {one: 4})[1] is Basis.UNMAPPED
    assert translated(copied, {one: 2, other: 3})[1] is Basis.UNMAPPED


@pytest.mark.slow
def test_positions_of_an_earlier_release(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """They do not say where the first copy landed: the span is only the last one.

    All records are the same, so that comparing them on both clusters proves nothing.
    """
    copied, topic = Copied(tmp_path, source, target), create_topic(source)
    produce(source, topic, [Out(b"same")] * 20)
    pairs = copied.copy(topic)[topic, 0]
    delete_records(target, copied.mappings)
    assert (pairs[0], pairs[19]) == (7, 26)
    for offset in (0, 20):
        assert translated(copied, {topic: offset})[1] is Basis.UNMAPPED or not offset
    copied.put_position(topic, 0, 20, 0, landed=(17, 27))
    assert translated(copied, {topic: 0}) == (0, Basis.BOUNDED, 17, 0)
    assert translated(copied, {topic: 20}) == (27, Basis.END, 0, 0)
    assert translated(copied, {topic: 10})[1] is Basis.UNMAPPED
    copied.put_position(topic, 0, 20, 0, landed=(17, 27), first=(0, 7))
    assert translated(copied, {topic: 0}) == (7, Basis.EXACT, 0, 0)
    # Without exactly-once, copies and the position may part.
    copied.put_position(topic, 0, 20, 0, landed=(27, 27))
    assert translated(copied, {topic: 20})[1] is Basis.UNMAPPED
    # The target has lost its end; and it was created again.
    copied.put_position(topic, 0, 20, 0, landed=(17, 40), first=(0, 7))
    for offset in (0, 20):
        assert translated(copied, {topic: offset})[1] is Basis.UNMAPPED
