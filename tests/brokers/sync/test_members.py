"""Who is in the groups of both clusters is what a whole snapshot says, and takes no mapping."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from k2ktui.engine.moves.groups import list_members, members_json
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.snapshot import SnapshotReader
from tests.support.clusters.kafka import (
    create_topic,
    eventually,
    group_consumer,
    produce,
)
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied


def test_members_need_no_mapping(
    source: KafkaNode, target: KafkaNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = Copied(tmp_path, source, target)
    topic, other = create_topic(source), create_topic(source)
    produce(source, topic, [b"1", b"2"])
    copied.copy(topic)
    reads, elsewhere, both = copied.group("reads"), copied.group("elsewhere"), copied.group("both")
    commit_offsets(source, elsewhere, {(other, 0): 0})
    for node in (source, target):
        commit_offsets(node, both, {(topic, 0): 1})
    commit_offsets(source, reads, {(topic, 0): 1})
    consumer = group_consumer(source, reads, "earliest")
    with (
        closing(consumer),
        closing(SnapshotReader(Flow(copied.config), for_plans=False)) as snapshots,
    ):
        consumer.subscribe([topic])
        eventually(lambda: consumer.poll(0.1) or consumer.assignment(), "it is a member")
        whole = snapshots.take()
        assert [(row.group, row.side) for row in list_members(whole)] == [(reads, "source")]
        monkeypatch.setattr(type(snapshots.mappings), "read", None)
        alone = snapshots.take_groups()
        assert (alone.source, alone.target) == (whole.source, whole.target)
        assert members_json(alone)["groups"] == members_json(whole)["groups"]
        assert elsewhere not in alone.source
