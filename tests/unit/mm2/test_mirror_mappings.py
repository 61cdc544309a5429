"""Offset syncs that were read are used, whatever fails between reading and merging them."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from confluent_kafka import KafkaError

from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConnectionFailed, K2kError
from k2ktui.kafka.clients import Cluster, TopicDescription, source_cluster, target_cluster
from k2ktui.log.record import KafkaRecord
from k2ktui.mm2.flows.formats import OffsetSync
from k2ktui.mm2.flows.history import encode_history
from k2ktui.mm2.flows.mirror_mappings import MirrorMappings
from k2ktui.mm2.flows.settings import parse_settings
from k2ktui.mm2.flows.topic_tail import TopicTail
from k2ktui.mm2.flows.topics import TimedOffsetSync
from k2ktui.mm2.mirror_flow import MirrorFlow
from k2ktui.sync.mapping.source import CopierState

FILE = b"""
clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
"""
AT = SourcePartition("t", 0)


class Clusters:
    """What both clusters answer, in place of the topics of a ``MirrorMappings``."""

    def __init__(self, mappings: MirrorMappings, patch: pytest.MonkeyPatch) -> None:
        self.syncs: list[TimedOffsetSync] = []
        self.history: list[KafkaRecord] = []
        self.source_is_up = self.history_is_up = True
        self.copies: set[str] = {"A.t"}
        patch.setattr(mappings.topics, "read_positions", lambda: None)
        patch.setattr(mappings.topics, "new_syncs", self.new_syncs)
        patch.setattr(Cluster, "cluster_id", lambda _: self.cluster_id())
        patch.setattr(Cluster, "describe", lambda _, names: self.describe(names))
        patch.setattr(TopicTail, "read", lambda _: self.new_history())
        patch.setattr("k2ktui.mm2.flows.mirror_mappings._DOWN_S", 0.0)

    def describe(self, names: Collection[str]) -> dict[str, TopicDescription | KafkaError]:
        missing = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        return {n: TopicDescription(n, "", 1, 1) if n in self.copies else missing for n in names}

    def cluster_id(self) -> str:
        if not self.source_is_up:
            raise ConnectionFailed("the source is down")
        return "id"

    def new_syncs(self) -> list[TimedOffsetSync]:
        syncs, self.syncs = self.syncs, []
        return syncs

    def new_history(self) -> list[KafkaRecord]:
        if not self.history_is_up:
            raise K2kError("the history cannot be read")
        history, self.history = self.history, []
        return history


@pytest.fixture
def mappings() -> MirrorMappings:
    flow = MirrorFlow.of(parse_settings(FILE, "mm2.properties", {}).flow(""))
    config = flow.config
    return flow.open_mappings(source_cluster(config), target_cluster(config))


@pytest.fixture
def clusters(mappings: MirrorMappings, monkeypatch: pytest.MonkeyPatch) -> Clusters:
    return Clusters(mappings, monkeypatch)


def sync(at: int) -> TimedOffsetSync:
    return TimedOffsetSync(OffsetSync(AT, at, 1_000 + at), at)


def taken(mappings: MirrorMappings, copier: CopierState) -> list[int]:
    # There is an anchor after each sync as well.
    anchors = mappings.read(copier, {}).replicas[AT].anchors or ()
    return [anchor.source for anchor in anchors if anchor.source % 10 == 0]


def test_the_history_cannot_be_read_at_first(mappings: MirrorMappings, clusters: Clusters) -> None:
    clusters.syncs = [sync(10), sync(20)]
    clusters.history_is_up = False
    with pytest.raises(K2kError, match="history"):
        mappings.read_copier()
    clusters.history_is_up = True
    clusters.syncs = [sync(30)]
    assert taken(mappings, mappings.read_copier()) == [10, 20, 30]
    assert [known.at_ms for known in mappings.history.unwritten] == [10, 20, 30]


def test_then_the_source_is_down_for_some_time(
    mappings: MirrorMappings, clusters: Clusters
) -> None:
    """Merged repeatedly until the source answers; each sync is written once."""
    clusters.syncs = [sync(10)]
    clusters.history_is_up = False
    with pytest.raises(K2kError, match="history"):
        mappings.read_copier()
    clusters.history_is_up, clusters.source_is_up = True, False
    for _ in range(3):
        assert taken(mappings, mappings.read_copier()) == [10]
    written = encode_history("A->B", mappings.history.unwritten)
    clusters.history = [KafkaRecord(n, *entry, (), 0) for n, entry in enumerate(written)]
    clusters.source_is_up, clusters.syncs = True, [sync(20)]
    copier = mappings.read_copier()
    assert copier.positions[AT].offset == 21
    assert taken(mappings, copier) == [10, 20]
    assert [known.at_ms for known in mappings.history.unwritten] == [10, 20]


def test_no_copy_has_the_name_that_the_file_gives(
    mappings: MirrorMappings, clusters: Clusters
) -> None:
    """A finding, until one is there; later, a deleted topic is told by its rows."""
    clusters.syncs, clusters.copies = [sync(10)], set()
    for _ in range(2):
        with pytest.raises(
            K2kError, match=r"none is on the target under the name .*: A\.t\n"
        ) as exited:
            mappings.read_copier()
        assert exited.value.exit_code == 1
    clusters.copies = {"A.t"}
    assert list(mappings.read_copier().positions) == [AT]
    clusters.copies = set()
    assert list(mappings.read_copier().positions) == [AT]
