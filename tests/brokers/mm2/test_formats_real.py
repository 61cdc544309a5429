"""The codec against what the real MirrorMaker 2 writes, dedicated and on a Connect worker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from k2ktui.engine.records.state import SourcePartition
from k2ktui.mm2.flows import formats
from k2ktui.mm2.flows.settings import load_settings
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    admin,
    create_topic,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.clusters.mirrormaker import ConnectWorker, MirrorMaker
from tests.support.oracle.group_offsets import commit_offsets

T = TypeVar("T")
PATIENCE = 200.0
pytestmark = pytest.mark.slow


def records(
    node: KafkaNode, topic: str, read: Callable[[bytes | None, bytes | None], T]
) -> list[tuple[bytes | None, bytes | None, T]]:
    """All records of an internal topic, raw and read; none while there is no such topic."""
    if topic not in admin(node).list_topics(timeout=TIMEOUT).topics:
        return []
    return [(got.key, got.value, read(got.key, got.value)) for got in read_all(node, topic)]


def test_dedicated(clusters: tuple[KafkaNode, KafkaNode], tmp_path: Path) -> None:
    """Every record that it writes is read, and written again it has the same bytes."""
    source, target = clusters
    topic, group = create_topic(source, partitions=2), unique_name("group")
    produce(source, topic, [b"x"] * 250)
    commit_offsets(source, group, {(topic, 0): 250}, metadata="meta")
    with MirrorMaker(source, target, tmp_path, topic, group) as mirror:
        flow = load_settings(mirror.file).flow()
        at = formats.GroupPartition(group, flow.target_topic(topic), 0)

        def checkpoint() -> Any:
            checkpoints = records(target, flow.checkpoints_topic, formats.read_checkpoint)
            return [checkpoint for checkpoint in checkpoints if checkpoint[2][0] == at]

        last = eventually(checkpoint, f"a checkpoint; {mirror.log()}", PATIENCE)[-1]

        def stored() -> Any:
            # Of the heartbeats of other flows on this source, too, which may come first.
            stored = records(target, flow.connect_offsets_topic, formats.read_connect_offset)
            return [
                p for p in stored if p[2] is not None and p[2][0].source.topic == topic
            ] and stored

        positions = eventually(stored, "positions", PATIENCE)
        syncs = records(source, flow.offset_syncs_topic, formats.read_offset_sync)
        # Flows of other tests may still have left theirs on this source.
        own = (mirror.target, mirror.source)

        def beating() -> Any:
            heartbeats = records(target, flow.heartbeats_topic, formats.read_heartbeat)
            return heartbeats if own in {aliases for _, _, (aliases, _) in heartbeats} else []

        beats = eventually(beating, "heartbeats", PATIENCE)
    read = last[2][1]
    assert read.upstream == 250 and 0 < read.downstream <= 250
    # This client ends what it commits with a NUL.
    assert read.metadata.rstrip("\0") == "meta"
    assert (formats.checkpoint_key(at), formats.checkpoint_value(read)) == last[:2]
    sources = [sync for sync in syncs if sync[2][0] == SourcePartition(topic, 0)]
    first = sources[0][2][1]
    assert first is not None and first.upstream == 0
    for key, value, (where, sync) in syncs:
        assert sync is not None
        assert (formats.offset_sync_key(where), formats.offset_sync_value(sync)) == (key, value)
    mine = [position for position in positions if position[2] is not None]
    assert {position[2][0].source for position in mine} >= {SourcePartition(topic, 0)}
    assert {position[2][0].connector for position in mine} == {formats.SOURCE_CONNECTOR}
    for key, value, content in mine:
        assert (
            formats.connect_offset_key(content[0]),
            formats.connect_offset_value(content[1]),
        ) == (
            key,
            value,
        )
    for key, value, (_, beat) in beats:
        assert (formats.heartbeat_key(beat), formats.heartbeat_value(beat)) == (key, value)


def test_on_a_connect_worker(clusters: tuple[KafkaNode, KafkaNode], tmp_path: Path) -> None:
    """Positions are read there too, those set and cleared through REST among them."""
    source, target = clusters
    topic = create_topic(source)
    produce(source, topic, [b"x"] * 10)
    with ConnectWorker(target, tmp_path) as worker:
        mirror = worker.create_mirror(source, target, topic)
        name = mirror.source_connector
        at = formats.ConnectorPartition(name, mirror.source, SourcePartition(topic, 0))

        def position() -> Any:
            stored = records(target, worker.offsets_topic, formats.read_connect_offset)
            mine = [
                position for position in stored if position[2] is not None and position[2][0] == at
            ]
            return mine[-1] if mine else None

        def await_position(expected: object, patience: float = TIMEOUT) -> Any:
            return eventually(lambda: (p := position()) and p[2] == expected and p, "set", patience)

        await_position((at, 9), PATIENCE)  # the worker may flush before it has copied all
        worker.ask("PUT", f"/connectors/{name}/stop")
        eventually(
            lambda: (
                worker.ask("GET", f"/connectors/{name}/status")["connector"]["state"] == "STOPPED"
            ),
            "it is stopped",
        )
        partition = {"topic": topic, "cluster": mirror.source, "partition": 0}
        for offset in ({"offset": 3}, None):
            body = {"offsets": [{"partition": partition, "offset": offset}]}
            worker.ask("PATCH", f"/connectors/{name}/offsets", body)
            expected = (at, offset["offset"] if offset else None)
            last = await_position(expected)
            assert formats.connect_offset_key(at) == last[0]
