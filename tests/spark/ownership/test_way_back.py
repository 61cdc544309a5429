"""A group goes to the other cluster, works there, and comes back: proven by consuming.

Of records that were not copied back yet, see ``brokers/sync/test_opposite_mappings.py``; of the way
back after a disaster, ``spark/drill/test_failback.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import create_topic, unique_name
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.pipelines.both_ways import BothWays, count_records
from tests.support.pipelines.pipeline import Pipeline
from tests.support.records.numbered import PARTITIONS, consume_numbered, write_numbered

pytestmark = pytest.mark.slow


@pytest.fixture
def both(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Iterator[BothWays]:
    topic = unique_name("back")
    for node in (source, target):
        create_topic(node, topic, PARTITIONS)
    made = BothWays(tmp_path, source, target, [topic])
    yield made
    made.close()


def move(pipeline: Pipeline, group: str) -> list[dict[str, Any]]:
    """Move a group with a plan; return its rows."""
    plan = pipeline.directory / "plan.json"
    k2ktui("plan", "-f", pipeline.write(), "--group", group, "-o", plan)
    rows = k2ktui_json("plan", "-f", pipeline.write(), "--group", group)["rows"]
    k2ktui("apply", "-f", pipeline.write(), plan, "--yes")
    return list(rows)


@pytest.fixture
def group() -> str:
    return unique_name("worker")


def test_there_and_back_nothing_is_read_again_and_nothing_skipped(
    both: BothWays, group: str
) -> None:
    """A planned switchover and back; the forward pipeline stays stopped."""
    (topic,) = list(both.topics)
    there, back = both.both
    slow = f"{group}-slow"
    write_numbered(both.a, topic, "a", range(100))
    there.catch_up()
    read = {
        group: consume_numbered(both.a, group, topic, 20),
        slow: consume_numbered(both.a, slow, topic, 5),
    }
    for reader in read:
        assert {(row["basis"], row["reread"]) for row in move(there, reader)} == {("exact", 0)}
    write_numbered(both.b, topic, "b", range(40))
    read[group] += consume_numbered(both.b, group, topic)
    read[slow] += consume_numbered(both.b, slow, topic, 10)
    back.catch_up()
    rows = move(back, group)
    assert {(row["basis"], row["reread"], row["skipped"]) for row in rows} == {("end", 0, 0)}
    rows = move(back, slow)
    assert {(row["basis"], row["reread"], row["skipped"]) for row in rows} == {("exact", 0, 0)}
    shown = k2ktui_json("groups", "-f", back.write())["groups"]
    shown = [row for row in shown if row["group"] in read]
    assert [row["divergence"] for row in shown] == [0, 0, 0, 0]
    assert {(row["reread_now"], row["skipped_now"]) for row in shown} == {(0, 0)}
    at = [f"{row['topic']}:{row['partition']}:{row['source_offset']}" for row in shown[2:]]
    there_again = k2ktui_json("translate", "-f", back.write(), *at)["positions"]
    offsets = [row["translated_offset"] for row in shown[2:]]
    assert [row["translated_offset"] for row in there_again] == offsets
    plan = back.directory / "plan.json"
    for options in (("--plan", plan), ("--group", slow)):
        proof = k2ktui_json("verify", "-f", back.write(), *options, "--sample", "50")
        assert (proof["positions"]["same"], proof["positions"]["different"]) == (2, 0), proof
        assert proof["records"]["same"] and not proof["not_compared"], proof
    write_numbered(both.a, topic, "a", range(100, 120))
    for reader in read:
        read[reader] += consume_numbered(both.a, reader, topic)
        assert Counter(read[reader]) == count_records(both.a, topic), "each record once"
