"""``.*`` does not append the state of other programs to that of the target's own."""

from __future__ import annotations

import uuid

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import TIMEOUT, Out, admin, create_topic, produce
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.pipelines.fixtures import MakePipeline


def topics_with(node: KafkaNode, prefix: str) -> set[str]:
    return {name for name in admin(node).list_topics(timeout=TIMEOUT).topics if prefix in name}


@pytest.mark.slow
def test_topics_of_other_programs_are_left_out(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    prefix = f"p{uuid.uuid4().hex[:8]}"
    mine = {f"{prefix}-orders.internal", f"{prefix}.heartbeats"}
    theirs = {f"{prefix}-connect-offsets", f"{prefix}.checkpoints.internal"}
    for name in mine | theirs:
        create_topic(source, name)
        produce(source, name, [Out(b"1")])
    for name in theirs:  # the target has its own
        create_topic(target, name)
        produce(target, name, [Out(b"2")])
    pipeline = make_pipeline(f"{prefix}.*")
    file = pipeline.write()

    checks = {check["name"]: check for check in k2ktui_json("check", "-f", file)["checks"]}
    left_out = checks["topics of other programs"]
    assert left_out["outcome"] == "pass" and "2 topics left out" in left_out["detail"]
    assert f"{prefix}-connect-offsets (Kafka Connect)" in left_out["detail"]
    assert checks[f"topic {prefix}.heartbeats"]["outcome"] == "warning"
    rows = {row["topic"]: row for row in k2ktui_json("explain", "-f", file)["topics"]}
    assert {name for name, row in rows.items() if row["left_out"]} == theirs
    assert "left out" in k2ktui("explain", "-f", file).stdout

    pipeline.catch_up()
    shown = {row["topic"] for row in k2ktui_json("status", "-f", file)["partitions"]}
    assert shown == mine
    pipeline.topics = sorted(mine)
    pipeline.prove(len(mine))
    pipeline.topics = f"{prefix}.*"

    # Switched off, they are copied as before, and check says that the target has its own records.
    pipeline.settings = {"features.excludeProgramTopics": "disabled"}
    file = pipeline.write()
    checks = {check["name"]: check for check in k2ktui_json("check", "-f", file)["checks"]}
    for name in theirs:
        assert (
            "1 record that this pipeline has not copied" in checks[f"target topic {name}"]["detail"]
        )
    pipeline.catch_up()
    # A position goes on: a running pipeline does not stop because of a name.
    pipeline.settings = {}
    for name in theirs:
        produce(source, name, [Out(b"3")])
    pipeline.catch_up()
    shown = {row["topic"] for row in k2ktui_json("status", "-f", pipeline.write())["partitions"]}
    assert shown == mine | theirs
    assert all(row["lag_records"] == 0 for row in k2ktui_json("status", "-f", file)["partitions"])
