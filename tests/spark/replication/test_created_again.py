"""A target topic that was created again, on brokers whose topics have no id.

Nothing but the end of its log says that it is another one. Before, its copy was called exact, and
the run went on where the first copy had ended.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.brokers import Brokers
from tests.support.clusters.kafka import (
    create_topic,
    delete_topic,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.checks import UNKNOWN, Drilled
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.oracle.judge import read_ledger
from tests.support.pipelines.pipeline import Pipeline

pytestmark = pytest.mark.slow

_FINDINGS = 1


@pytest.fixture
def old(brokers: Brokers) -> KafkaNode:
    (node,) = brokers("2.5")
    return node


def _landed(pipeline: Pipeline, topic: str) -> list[list[Any]]:
    ledger = read_ledger(pipeline.target, pipeline.name)
    return list(ledger.positions[topic, 0]["landed"])


def _create_again(node: KafkaNode, topic: str) -> None:
    delete_topic(node, topic)

    def created() -> bool:
        try:
            create_topic(node, topic)
        except Exception:  # the old one is not gone yet
            return False
        return True

    eventually(created, f"{topic} is created again")


def _basis(pipeline: Pipeline, topic: str) -> set[str]:
    file = pipeline.write()
    rows = k2ktui_json("translate", "-f", file, f"{topic}:0:10", code=None)["positions"]
    planned = k2ktui("plan", "-f", file, "--output", file.with_suffix(".json"), code=None)
    assert planned.returncode in (0, _FINDINGS)
    rows += json.loads(file.with_suffix(".json").read_text())["rows"]
    return {row["basis"] for row in rows}


def test_a_target_topic_without_an_id_is_created_again(
    source: KafkaNode, old: KafkaNode, tmp_path: Path
) -> None:
    """While a run copies, and before the next one.

    What one pipeline wrote to the other topic meanwhile is one span over its runs.
    """
    topic, other, group = create_topic(source), create_topic(source), unique_name("group")
    produce(source, topic, [b"first"] * 100)
    produce(source, other, [b"ours"] * 50)
    commit_offsets(source, group, {(topic, 0): 10})
    pipeline = Pipeline(tmp_path, source, old, [topic, other])
    with pipeline.start() as run:
        eventually(lambda: all(map(pipeline.is_caught_up, (topic, other))), "copied")
        assert _landed(pipeline, topic) == [[topic, 0, 0, 100]]
        assert _basis(pipeline, topic) == {"exact"}
        _create_again(old, topic)
        produce(source, topic, [b"second"] * 10)
        run.expect("stopped", lambda event: event["fault"]["kind"] == "target-gone")
        assert run.stop() == 0
    assert read_all(old, topic) == []

    assert _basis(pipeline, topic) == {"unmapped"}
    produce(source, other, [b"ours"] * 50)
    run = pipeline.catch_up(_FINDINGS)
    stopped = run.expect("stopped")["fault"]
    assert stopped["kind"] == "target-gone" and "offsets clear" in stopped["hint"]
    ends = r"it ends at offset \d+, and this pipeline had written up to offset 100"
    assert re.search(ends, stopped["message"])
    assert read_all(old, topic) == []
    ((_, _, first, end),) = _landed(pipeline, other)
    assert first == 0 and end >= 101, "a marker lies between"

    produce(old, other, [b"theirs"])
    produce(source, other, [b"ours"] * 50)
    file = pipeline.write()
    k2ktui("offsets", "set", "-f", file, f"{topic}:0:0", "--yes")
    pipeline.catch_up()
    values = [got.value for got in read_all(old, topic)]
    assert values == [b"first"] * 100 + [b"second"] * 10
    assert _basis(pipeline, topic) == {"exact"}
    assert _landed(pipeline, other) == [[other, 0, end + 2, end + 52]]


def test_d12_cannot_say_without_ids(source: KafkaNode, old: KafkaNode, tmp_path: Path) -> None:
    drilled = Drilled(tmp_path, source, old)
    result = drilled.check("D12")
    assert result.outcome is UNKNOWN and "without an id" in result.evidence
