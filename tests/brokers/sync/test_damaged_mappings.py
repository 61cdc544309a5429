"""Mapping records that are valid one by one and contradict each other: damaged, no exception."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.engine.records.state import (
    Covers,
    MappingRange,
    MappingRecord,
    SourcePartition,
    mapping_key,
    mapping_value,
)
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, create_topic, produce
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied

pytestmark = pytest.mark.slow


def test_parts_that_overlap_stop_no_reader(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    copied = Copied(tmp_path, source, target, prior=0)
    topic, other = create_topic(source), create_topic(source)
    for name in (topic, other):
        produce(source, name, [Out(b"%d" % n) for n in range(20)])
        copied.copy(name)
    group = copied.group("g")
    commit_offsets(source, group, {(topic, 0): 3, (other, 0): 3})
    copied.term = 2
    for part, rows in enumerate([(0, 0, 10), (5, 20, 10)]):
        mapping = MappingRecord(
            copied.name,
            SourcePartition(topic, 0),
            topic,
            0,
            copied.term,
            (MappingRange(*rows),),
            covers=Covers(0, 20, part, 2),
        )
        copied.put_mapping(mapping_key(mapping), mapping_value(mapping))
    file = copied.file
    rows = k2ktui_json("groups", "-f", file, code=None)["groups"]
    assert {row["topic"]: row["basis"] for row in rows} == {topic: "unmapped", other: "exact"}
    reply = k2ktui("groups", "-f", file, code=None)
    assert "1 records of the mapping topic are damaged" in reply.stdout + reply.stderr
    planned = k2ktui_json("plan", "-f", file)["rows"]
    assert {row["topic"]: row["action"] for row in planned} == {topic: "skip", other: "create"}
    (row,) = k2ktui_json("translate", "-f", file, f"{topic}:0:3", code=None)["positions"]
    assert row["basis"] == "unmapped"
    aliases = ("--source-alias", copied.name, "--target-alias", "there")
    k2ktui("mm2", "publish", "-f", file, *aliases, "--once")
    k2ktui("sync", "-f", file, "--once", code=None)
    for command in (("status",), ("watch", "--once"), ("verify",)):
        assert k2ktui(*command, "-f", file, code=None).returncode in (0, 1)
