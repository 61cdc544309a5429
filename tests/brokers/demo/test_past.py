"""The demo's clusters hold what the demo promises, and its traffic keeps them moving."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka.admin import ConfigResource

from k2ktui.config.load import load
from k2ktui.demo import clients, pipeline
from k2ktui.demo.applications import CAUGHT_UP, LIVE, STOPPED, Applications, commit_seed_offsets
from k2ktui.demo.topics import TOPICS, DemoRecord, by_name, session
from k2ktui.demo.traffic import Pace, Traffic, write_seed_data
from k2ktui.runtime.node import EAGER_CLEANING, KafkaNode
from tests.support.clusters.kafka import START_S, end_offsets, eventually, read_all, start_offsets
from tests.support.oracle.group_offsets import committed

pytestmark = pytest.mark.slow  # two clusters of its own

Pair = tuple[KafkaNode, KafkaNode]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two clusters of their own, because the demo's names are fixed, with the demo's past."""
    data = tmp_path_factory.mktemp("demo")
    nodes = tuple(KafkaNode(name, data / name, EAGER_CLEANING) for name in ("source", "target"))
    try:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda node: node.start(START_S), nodes))
        source, target = nodes
        clients.create_topics(source.bootstrap, target.bootstrap)
        write_seed_data(source.bootstrap, target.bootstrap)
        commit_seed_offsets(source.bootstrap, target.bootstrap)
        yield source, target
    finally:
        for node in nodes:
            node.close()


def test_target_has_records_of_its_own(pair: Pair) -> None:
    assert list(end_offsets(pair[1], "orders").values()) == list(by_name("orders").prior)


def test_transactions_leave_markers_and_aborted_records(pair: Pair) -> None:
    committed_only = read_all(pair[0], "payments")
    everything = read_all(pair[0], "payments", "read_uncommitted")
    assert len(committed_only) < len(everything) < sum(end_offsets(pair[0], "payments").values())


def test_retention_deleted_a_head(pair: Pair) -> None:
    assert all(start > 0 for start in start_offsets(pair[0], "sessions").values())


def test_retention_deletes_nothing_while_the_pages_are_followed(pair: Pair) -> None:
    admin = clients.admin(pair[0].bootstrap)
    topic = ConfigResource(ConfigResource.Type.TOPIC, "sessions")
    (settings,) = admin.describe_configs([topic]).values()
    bound = int(settings.result()["retention.bytes"].value)
    sessions = by_name("sessions")
    record = len(session(random.Random(1), 0).value or b"")
    hours = bound * sessions.partitions / (sessions.rate * record) / 3600
    assert hours > 2


def test_records_hold_everything_that_a_copy_could_get_wrong(pair: Pair) -> None:
    orders = read_all(pair[0], "orders")
    assert orders[0].headers[1:] == (
        ("hop", b"shop"),
        ("hop", b"gateway"),
        ("hop", b""),
        ("note", None),
    )
    clicks = read_all(pair[0], "clicks")
    assert {None, b""} < {record.value for record in clicks}
    assert {record.key for record in clicks} == {None}
    assert {record.partition for record in clicks} == {0, 1, 2, 3}


def test_traffic_makes_the_cleaner_leave_holes(pair: Pair) -> None:
    source = pair[0]
    before = end_offsets(source, "customers")
    customers = by_name("customers")
    traffic = Traffic(source.bootstrap, [customers], factor=5)
    traffic.start()

    def holes() -> bool:
        read = read_all(source, "customers")
        ends = end_offsets(source, "customers")
        return len(read) < sum(ends.values()) / 2 and ends != before

    try:
        eventually(holes, "compaction removed most records")
    finally:
        traffic.stop()
    assert any(record.value is None for record in read_all(source, "customers"))


def test_groups_are_in_every_state(pair: Pair) -> None:
    source, target = pair
    live = Applications(source.bootstrap, target.bootstrap, 0.0, LIVE)
    live.start()
    try:
        eventually(lambda: committed(target, "billing"), "the target's member commits")
        eventually(lambda: committed(source, "fulfilment"), "the live group commits")
        eventually(lambda: committed(source, "recommender"), "the slow group commits")
    finally:
        live.stop()
    stopped = committed(source, STOPPED)
    assert stopped["sessions", 0] < start_offsets(source, "sessions")[0]
    caught_up = committed(source, CAUGHT_UP)
    ends = end_offsets(source, "invoices")
    assert caught_up == {("invoices", number): end for number, end in ends.items()}


def test_pipeline_file_is_an_ordinary_one(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.yaml"
    text = pipeline.write_yaml(path, "127.0.0.1:1", "127.0.0.1:2")
    assert path.read_text() == text
    config = load([path], env={}).config
    assert (config.name, config.features.exactly_once) == ("demo", True)
    assert all(config.topics.matches(topic.name) for topic in TOPICS)


def test_pace_keeps_fractions_and_ends() -> None:
    end = threading.Event()
    pace = Pace(25.0, end, 100)
    numbers = [number for _ in range(4) for number in next(pace)]
    assert numbers == list(range(100, 110))
    end.set()
    assert list(pace) == []


def test_every_topic_has_a_reason() -> None:
    assert len({topic.why for topic in TOPICS}) == len(TOPICS)
    assert DemoRecord(None, b"") != DemoRecord(None, None)
