"""Positions moved between two runs of a real pipeline, and against drivers that still live."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.engine.access import access
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import Refused
from k2ktui.kafka.properties.translation import wire
from k2ktui.replication.fencing_errors import Superseded
from k2ktui.replication.ownership.ownership import Ownership
from k2ktui.replication.ownership.pipeline import make_ownership
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.positions.position_planner import PositionPlanner
from k2ktui.sync.positions.position_writer import PositionWriter
from tests.support.clusters.kafka import (
    Out,
    create_topic,
    delete_before,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import Copied
from tests.support.pipelines.pipeline import START_TIMEOUT, Pipeline

pytestmark = pytest.mark.slow


@pytest.fixture
def copied(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Copied:
    return Copied(tmp_path, source, target)


@pytest.fixture
def topic(copied: Copied, source: KafkaNode) -> str:
    """A copied topic of 100 records."""
    name = create_topic(source)
    produce(source, name, [Out(b"%d" % n) for n in range(100)])
    copied.copy(name)
    return name


@pytest.fixture
def driver(copied: Copied) -> Iterator[Ownership]:
    """A driver with two slots that took the pipeline over, and sends no heartbeat."""
    options = wire(copied.config.target, "producer")
    ownership = make_ownership(copied.config, copied.cluster, options, 1)
    ownership.take_over(2)
    yield ownership
    ownership.close()


@pytest.fixture
def positions(copied: Copied) -> Iterator[PositionPlanner]:
    position_planner = PositionPlanner(copied.config)
    yield position_planner
    position_planner.close()


def test_a_driver_that_lives_unnoticed_is_fenced(
    copied: Copied, topic: str, driver: Ownership, positions: PositionPlanner
) -> None:
    driver.renew(0)
    change = positions.plan_set({SourcePartition(topic, 0): 40})
    moved = PositionWriter(positions).apply(change, access())
    assert moved.term > driver.run.term
    for slot in (0, 1):
        with pytest.raises(Superseded):
            driver.renew(slot)
    with pytest.raises(Superseded):
        driver.renew_own()


def test_a_driver_that_started_since_wins(
    copied: Copied, topic: str, positions: PositionPlanner, driver: Ownership
) -> None:
    """Its positions are newer than the plan's: nothing is written over them."""
    source = SourcePartition(topic, 0)
    change = positions.plan_set({source: 40})
    copied.term = driver.run.term
    produce(copied.source, topic, [b"more"])
    copied.record(topic, 0, {100: 107}, 101, 0)
    with pytest.raises(Refused, match="have changed since the plan was made"):
        PositionWriter(positions).apply(change, access())
    (row,) = [row for row in positions.rows() if row.source == source]
    assert row.position is not None and row.position.offset == 101


def test_a_source_log_that_moved_since_is_refused(
    copied: Copied, topic: str, positions: PositionPlanner
) -> None:
    change = positions.plan_set({SourcePartition(topic, 0): 40})
    delete_before(copied.source, topic, 60)
    with pytest.raises(Refused, match=r"source log .* has changed"):
        PositionWriter(positions).apply(change, access())


def test_copying_continues_from_there_and_groups_follow_the_newer_copy(
    source: KafkaNode, target: KafkaNode, tmp_path: Path
) -> None:
    topic = create_topic(source, unique_name("moved"))
    produce(source, topic, [b"%d" % n for n in range(50)])
    pipeline = Pipeline(tmp_path, source, target, [topic], {"groups.consumerGroups": f"{topic}-.*"})
    try:
        file = pipeline.write()
        running = pipeline.start()
        eventually(
            lambda: running.running and pipeline.is_caught_up(topic),
            lambda: f"all is copied\n{running.tail()}",
            START_TIMEOUT,
        )
        said = k2ktui("offsets", "set", f"{topic}:0:30", "-f", file, "--yes", code=5).stderr
        assert "is running on" in said
        assert running.stop() == 0

        k2ktui("offsets", "set", f"{topic}:0:30", "-f", file, "--yes")
        produce(source, topic, [b"new"])
        pipeline.catch_up()
        values = [got.value for got in read_all(target, topic)]
        expected = [b"%d" % n for n in range(50)]
        assert values == [*expected, *expected[30:], b"new"]

        for offset in (10, 30, 45):
            commit_offsets(source, f"{topic}-{offset}", {(topic, 0): offset})
        reported = {r["source_offset"]: r for r in k2ktui_json("groups", "-f", file)["groups"]}
        # What was copied again counts as the copy; records before it were copied once.
        assert {at: row["translated_offset"] for at, row in reported.items()} == {
            10: 10,
            30: at_second_copy(target, topic, 30),
            45: at_second_copy(target, topic, 45),
        }
    finally:
        pipeline.close()


def at_second_copy(target: KafkaNode, topic: str, number: int) -> int:
    return [got.offset for got in read_all(target, topic) if got.value == b"%d" % number][1]
