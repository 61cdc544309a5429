"""Transactions on the source that do not end: found, reported, and never taken for caught up."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping

import pytest

from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.engine.status import HeldBack
from k2ktui.kafka.admin.active_producers import OpenTransaction
from k2ktui.kafka.clients import Cluster, Partition, source_cluster
from k2ktui.replication.copying.slot_task import FaultKind
from k2ktui.replication.reports.events import Event, Note
from k2ktui.replication.topics.held_back import HeldBackReader, HeldBackWatch
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    await_stable,
    create_topic,
    end_offsets,
    eventually,
    open_transaction,
    produce,
)
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.telemetry import pipeline as configured

AT = ("orders", 0)
SOURCE = SourcePartition(*AT)


class Asked:
    """Answers who holds back an offset, and counts how often it was asked."""

    def __init__(self, last_ms: int = -1) -> None:
        self.times = 0
        self.last_ms = last_ms

    def __call__(
        self, cluster: Cluster, stable: Mapping[Partition, int], timeout: float
    ) -> dict[Partition, OpenTransaction]:
        self.times += 1
        return {at: OpenTransaction(7, self.last_ms) for at in stable}


class Clock:
    """Monotonic seconds that a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def reader(asked: Asked, clock: Clock) -> HeldBackReader:
    return HeldBackReader(source_cluster(configured()), asked, clock)


def test_the_producer_of_an_open_transaction_is_found(source: KafkaNode) -> None:
    topic = create_topic(source)
    produce(source, topic, [b"before"] * 3)
    producer = open_transaction(source, topic, [b"open"] * 5, transaction_timeout_ms=600_000)
    reader_ = HeldBackReader(source_cluster(configured(source.bootstrap)))

    def read() -> dict[Partition, HeldBack]:
        stable = end_offsets(source, topic, "read_committed")[0]
        return reader_.read({(topic, 0): end_offsets(source, topic)[0]}, {(topic, 0): stable})

    held = read()[topic, 0]
    assert (held.records, held.stable) == (5, 3)
    assert held.producer_id is not None and held.producer_id >= 0
    assert 0 <= held.age_s < TIMEOUT
    assert f"5 records held back by an open transaction of producer id {held.producer_id}" in (
        held.text()
    )
    producer.commit_transaction(TIMEOUT)
    eventually(lambda: read() == {}, "the commit marker is written")


def test_a_transaction_that_ends_soon_is_not_asked_about() -> None:
    asked, clock = Asked(), Clock()
    reader_ = reader(asked, clock)
    assert reader_.read({AT: 5}, {AT: 5}) == {}
    for stable in range(5, 20, 3):
        clock.now += 3.0
        assert not reader_.read({AT: 30}, {AT: stable})[AT].too_long
    assert asked.times == 0
    clock.now += 5.0
    assert reader_.read({AT: 30}, {AT: 17})[AT].producer_id == 7
    clock.now += 60.0
    held = reader_.read({AT: 40}, {AT: 17})[AT]
    assert (held.records, held.too_long, held.observed_s, asked.times) == (23, True, 65.0, 1)


def test_the_first_reading_asks_at_once() -> None:
    asked = Asked(last_ms=int(time.time() * 1000) - 90_000)
    held = reader(asked, Clock()).read({AT: 9}, {AT: 2})[AT]
    assert held.too_long and held.observed_s == 0.0 and 90 <= held.age_s < 90 + TIMEOUT


@pytest.mark.parametrize("high", [{AT: 40}, {}], ids=["without the LSO", "without both"])
def test_a_reading_without_the_offset_does_not_restart_the_clock(
    high: dict[Partition, int],
) -> None:
    clock, reported = Clock(), list[Event]()
    reader_, watch = reader(Asked(), clock), HeldBackWatch(reported.append)

    def look(high: Mapping[Partition, int], stable: Mapping[Partition, int]) -> float | None:
        held = reader_.read(high, stable)
        watch.look({SourcePartition(*at): held_one for at, held_one in held.items()}, {}, {})
        return held[AT].observed_s if AT in held else None

    assert look({AT: 30}, {AT: 17}) == 0.0
    clock.now += 70.0
    assert look({AT: 30}, {AT: 17}) == 70.0
    notes = len(reported)
    clock.now += 10.0
    assert look(high, {}) == 70.0, "as it was when it was last read"
    clock.now += 10.0
    assert look({AT: 40}, {AT: 17}) == 90.0
    assert len(reported) == notes, "nothing has ended"
    clock.now += 400.0
    assert look({}, {}) is None, "a deleted topic does not stay"
    clock.now += 1.0
    assert look({AT: 40}, {AT: 40}) is None
    assert "has ended" in str(reported[-1])


def test_old_brokers_do_not_tell_who_it_is() -> None:
    text = HeldBack(1, 0, None, 61.0).text()
    assert "1 record held back" in text and "id is unknown" in text and "Kafka 2.8" in text


def test_a_run_that_waits_stops_after_a_minute_of_its_own_clock() -> None:
    reported: list[Event] = []
    watch = HeldBackWatch(reported.append)
    positions = {SOURCE: Position(3, 0, -1, "", 1, 0, "orders", 0)}

    def look(age_s: float, observed_s: float, until: int = 8) -> list[FaultKind]:
        held = {SOURCE: HeldBack(5, 3, 7, age_s, observed_s)}
        return [fault.kind for fault in watch.look(held, positions, {SOURCE: until})]

    assert look(20.0, 20.0) == [] and not reported
    assert look(9000.0, 59.0) == []  # the producer's records are old; that proves nothing
    assert look(60.0, 60.0) == [FaultKind.HELD_BACK]
    assert look(60.0, 60.0, until=3) == []  # what it waits for is there
    assert [type(event) for event in reported] == [Note]
    assert watch.look({}, positions, {}) == []
    assert "has ended" in str(reported[-1])


@pytest.mark.slow
def test_until_caught_up_does_not_end_well(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    """Before, it ended with 0 and said that it had caught up."""
    topic = create_topic(source)
    produce(source, topic, [b"before"] * 3)
    producer = open_transaction(source, topic, [b"open"] * 5, transaction_timeout_ms=600_000)
    pipeline = make_pipeline([topic])
    # A minute is not what is tested.
    program = (
        "import k2ktui.replication.topics.held_back as held; held.HELD_BACK_S = 4.0\n"
        "import k2ktui.engine.status as status; status.HELD_BACK_S = 4.0\n"
        "from k2ktui.cli.main import main; main()"
    )
    run = subprocess.run(
        [sys.executable, "-c", program, "start", "-f", str(pipeline.write()), "--until-caught-up"],
        capture_output=True,
        text=True,
        timeout=4 * TIMEOUT,
        env=dict(os.environ),
    )
    assert run.returncode == 1, run.stdout + run.stderr
    assert f"{topic}-0 is not caught up: 5 records held back by" in run.stdout
    assert "transaction of producer id " in run.stdout
    assert "\ncaught up: " not in run.stdout
    await_stable(target, topic)
    assert end_offsets(target, topic)[0] >= 3
    producer.abort_transaction(TIMEOUT)
