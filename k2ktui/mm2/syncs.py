"""Reads all offset syncs that MirrorMaker 2's topic still holds."""

from __future__ import annotations

from collections.abc import Mapping

from k2ktui.engine.state import SourcePartition
from k2ktui.kafka.clients import Cluster
from k2ktui.mm2.flows import FlowProperties
from k2ktui.mm2.formats import OffsetSync
from k2ktui.mm2.matching import safe_pairs
from k2ktui.mm2.topics import MirrorTopics

Syncs = Mapping[SourcePartition, tuple[tuple[int, int], ...]]


def read_syncs(flow: FlowProperties, source: Cluster, target: Cluster) -> Syncs:
    """Return source and target offsets of the records in the offset syncs, by partition.

    Both increase strictly. The result is empty if the offset-syncs topic does not exist.

    Raises:
        ConnectionFailed, TimedOut, K2kError: the topic cannot be read.
    """
    topics = MirrorTopics(flow, source, target)
    known: dict[SourcePartition, dict[int, int]] = {}
    try:
        for each in topics.new_syncs():
            _take(known.setdefault(each.sync.source, {}), each.sync)
    finally:
        topics.close()
    return {at: tuple(safe_pairs(list(pairs.items()))) for at, pairs in known.items()}


def _take(known: dict[int, int], sync: OffsetSync) -> None:
    """Add a sync; syncs must be added in the order of the topic.

    A lower source offset means that copying restarted there; a lower target offset means that the
    target topic was recreated.
    """
    # Neither source nor target offsets ever decrease in ``known``, so its last entry has both
    # maxima, and each sync is added and removed at most once.
    if known and sync.downstream < known[next(reversed(known))]:
        known.clear()
    while known and next(reversed(known)) >= sync.upstream:
        known.popitem()
    known[sync.upstream] = sync.downstream
