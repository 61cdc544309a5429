"""A run without ``k2ktui sync``: its mappings expire, and groups can still be failed over."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    Out,
    create_topic,
    delete_before,
    end_offsets,
    eventually,
    produce,
    start_offsets,
    unique_name,
)
from tests.support.commands.cli import k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets, committed
from tests.support.pipelines.pipeline import Pipeline

pytestmark = pytest.mark.slow

# Long enough for a busy machine: a repeat is due in the second half of it.
RETENTION = {"retention.ms": "60000", "segment.ms": "1000"}


def test_mappings_outlive_their_topics_retention_and_the_source(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    """The topic has no traffic; in the second half, the source is gone, too."""
    topic, mappings = create_topic(source), unique_name("__mappings")
    produce(source, topic, [Out(b"%d" % n) for n in range(200)])
    create_topic(target, mappings, config=RETENTION)
    pipeline = Pipeline(
        tmp_path,
        source,
        target,
        [topic],
        {
            "offsetMapping.topic": mappings,
            "features.validateControlTopicSettings": "disabled",
            "groups.pollInterval": "1 second",
            "groups.consumerGroups": f"{topic}-.*",
        },
    )
    pipeline.mode = "shared"
    offsets = {"start": 0, "middle": 101, "end": 200}
    for stem, at in offsets.items():
        commit_offsets(source, f"{topic}-{stem}", {(topic, 0): at})

    def has_expired(end: int) -> bool:
        return start_offsets(target, mappings)[0] >= end

    try:
        with pipeline.start() as run:
            run.expect("started")
            eventually(lambda: pipeline.is_caught_up(topic), "all is copied")
            before = translated(pipeline)
            for round_number in range(2):
                end = end_offsets(target, mappings)[0]
                eventually(partial(has_expired, end), "what was mapped has expired")
                if round_number == 0:
                    source.kill()
            assert translated(pipeline) == before
            assert {basis for _, basis in before.values()} == {"exact", "end"}
            assert run.running
        source.restart()
        # It leads its partitions and coordinates the group again: until then, a plan misses groups.
        end_offsets(source, topic)
        assert committed(source, f"{topic}-middle") == {(topic, 0): offsets["middle"]}
        # What expires because nothing runs is found by comparing records.
        delete_before(target, mappings, end_offsets(target, mappings)[0])
        assert translated(pipeline)["middle"] == before["middle"]
    finally:
        source.restart()
        pipeline.close()


def translated(pipeline: Pipeline) -> dict[str, tuple[int, str]]:
    rows = k2ktui_json("plan", "-f", pipeline.write(), code=None)["rows"]
    return {row["group"].rpartition("-")[2]: (row["proposed"], row["basis"]) for row in rows}
