"""A group that has read all: it continues behind control records, never behind a record."""

from __future__ import annotations

from pathlib import Path

from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.records.state import SourcePartition
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.snapshot import SnapshotReader
from tests.support.clusters.kafka import (
    Out,
    create_topic,
    end_offsets,
    eventually,
    produce,
    produce_transaction,
)
from tests.support.pipelines.copied import Copied


def test_the_end(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    copied, topic = Copied(tmp_path, source, target), create_topic(source)
    produce(source, topic, [Out(b"%d" % n) for n in range(10)])
    produce_transaction(source, topic, [b"never"] * 3, commit=False)
    # The broker answers before the marker is in the log.
    at, position = SourcePartition(topic, 0), 14
    eventually(
        lambda: end_offsets(source, topic, "read_committed")[0] == position, "the marker is written"
    )
    pairs = copied.copy(topic)[topic, 0]
    snapshots = SnapshotReader(Flow(copied.config))

    def reported(offset: int) -> tuple[int | None, Basis, int | None]:
        ((row,),) = snapshots.translate_each([{at: offset}])
        return row.offset, row.basis, row.reread

    try:
        behind = max(pairs.values()) + 1
        for offset in (10, 12, position):
            assert reported(offset) == (behind, Basis.END, 0)
        # Aborted records and markers: nothing to read lies before the end of the log.
        produce_transaction(target, topic, [b"never"] * 3, commit=False)
        end = behind + 4
        eventually(
            lambda: end_offsets(target, topic, "read_committed")[0] == end, "the marker is written"
        )
        for offset in (10, 12, position):
            assert reported(offset) == (end, Basis.END, 0)
        # A group is ahead of the copy only as far as the source's log goes.
        assert reported(position + 2) == (None, Basis.UNMAPPED, None)
        produce(source, topic, [b"not copied yet"] * 2)
        assert reported(position + 2) == (end, Basis.AHEAD, 2)
        assert reported(position + 3) == (None, Basis.UNMAPPED, None)
        assert reported(9) == (behind - 1, Basis.EXACT, 0)
        # The target's own record would be skipped.
        produce(target, topic, [b"own"])
        produce_transaction(target, topic, [b"never"], commit=False)
        assert reported(position) == (behind, Basis.END, 0)
    finally:
        snapshots.close()


def test_nothing_was_copied_yet(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    copied, topic = Copied(tmp_path, source, target), create_topic(source)
    copied.copy(topic)
    snapshots = SnapshotReader(Flow(copied.config))
    try:
        ((row,),) = snapshots.translate_each([{SourcePartition(topic, 0): 0}])
        assert (row.offset, row.basis) == (copied.prior, Basis.END)
    finally:
        snapshots.close()
