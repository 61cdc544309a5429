"""Two source clusters into one target with different prefixes and the default control topics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.runtime.node import EAGER_CLEANING, KafkaNode
from tests.support.clusters.kafka import START_S, Out, create_topic, produce, read_all, unique_name
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import committed
from tests.support.pipelines.pipeline import Pipeline, catch_up_together

pytestmark = pytest.mark.slow

COUNT = 60


@pytest.fixture
def second(tmp_path: Path) -> Iterator[KafkaNode]:
    """A second source cluster."""
    with KafkaNode("second", tmp_path / "second", EAGER_CLEANING) as node:
        yield node.start(START_S)


def test_groups_of_both_sources_continue_at_their_next_record(
    source: KafkaNode, second: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """The topics have the same name on both sources, and so has one of the groups."""
    topic, groups = unique_name("orders"), unique_name("app")
    shared = f"{groups}-shared"
    ends = {source: 20, second: 45}
    pipelines = []
    for node, stem in ((source, "one"), (second, "two")):
        create_topic(node, topic)
        produce(node, topic, [Out(f"{stem} {n}".encode()) for n in range(COUNT)])
        for group in (shared, f"{groups}-{stem}"):
            commit_offsets(node, group, {(topic, 0): ends[node]})
        settings = {
            "replication.sink.topic": {"prefix": f"{stem}."},
            "groups.consumerGroups": f"^{groups}-.*",
        }
        pipelines.append(Pipeline(tmp_path, node, target, [topic], settings))
        # Native records, so that offsets differ from the source's, and from each other's.
        create_topic(target, f"{stem}.{topic}")
        produce(target, f"{stem}.{topic}", [Out(b"native")] * (3 + len(pipelines)))
    catch_up_together(*pipelines)
    for pipeline in pipelines:
        file = pipeline.write()
        rows = k2ktui_json("plan", "-f", file)["rows"]
        assert {(row["action"], row["basis"]) for row in rows} == {("create", "exact")}
        assert "2 committed" in k2ktui("sync", "-f", file, "--once").stdout
    for node, stem in ((source, "one"), (second, "two")):
        where = (f"{stem}.{topic}", 0)
        values = {got.offset: got.value for got in read_all(target, where[0])}
        for group in (shared, f"{groups}-{stem}"):
            at = committed(target, group, [where])[where]
            assert at is not None and values[at] == f"{stem} {ends[node]}".encode()
