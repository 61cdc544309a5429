"""MirrorMaker 2's offset-syncs, all that the topic still has; on the source it is only read."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from k2ktui.engine.state import SourcePartition
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.mm2.flows import Flow
from k2ktui.mm2.formats import PARTITION, ForeignRecord, OffsetSync, read_offset_sync
from k2ktui.mm2.matching import safe_pairs
from k2ktui.sync.content import Contents

_CHUNK = 10_000
_READ_S = 60.0

Syncs = Mapping[SourcePartition, tuple[tuple[int, int], ...]]


def read_syncs(flow: Flow, cluster: Cluster) -> Syncs:
    """Return source and target offsets of records that MirrorMaker 2 told of, by partition.

    Both increase strictly. Without an offset-syncs topic there are none.

    Args:
        flow: what MirrorMaker 2 copied.
        cluster: that on the flow's ``offset_syncs_side``.

    Raises:
        ConnectionFailed, TimedOut: the cluster did not answer.
    """
    topic = flow.offset_syncs_topic
    if not isinstance(cluster.describe([topic])[topic], TopicDescription):
        return {}
    at = (topic, PARTITION)
    first = cluster.offsets([at], OffsetSpec.earliest()).get(at, 0)
    end = cluster.offsets([at], OffsetSpec.latest(), IsolationLevel.READ_COMMITTED).get(at, 0)
    known: dict[SourcePartition, dict[int, int]] = {}
    with Contents(cluster) as contents:
        for begin in range(first, end, _CHUNK):
            (read,) = contents.stretches([((*at, begin), min(_CHUNK, end - begin))], _READ_S)
            for offset in sorted(read.records):
                record = read.records[offset]
                try:
                    _, sync = read_offset_sync(record.key, record.value)
                except ForeignRecord:
                    continue
                if sync is not None:
                    _take(known.setdefault(sync.source, {}), sync)
    return {source: tuple(safe_pairs(list(pairs.items()))) for source, pairs in known.items()}


def _take(known: dict[int, int], sync: OffsetSync) -> None:
    """Take in a sync, in the order of the topic.

    One that goes back on the source is of a copy that began again there; one that goes back on the
    target is of a topic that was created anew.
    """
    if known and sync.downstream < max(known.values()):
        known.clear()
    for upstream in [each for each in known if each >= sync.upstream]:
        del known[upstream]
    known[sync.upstream] = sync.downstream
