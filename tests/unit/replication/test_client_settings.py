"""Client properties of the pipeline file, and the requests of the copy path."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.future import Future
from kafka.protocol.consumer import FetchRequest

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.cluster_pair import UNKNOWN_PAIR
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.producer_id import Producer
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.cluster import Loop, PartitionLeader, Signal, TopicInfo, Wire
from k2ktui.log.batch import COMPRESSION_MASK, split_batches
from k2ktui.replication.copying import source_fetcher
from k2ktui.replication.copying.batch_router import BatchRouter
from k2ktui.replication.copying.batch_sender import BatchSender
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.slot_settings import fetch_settings
from k2ktui.replication.copying.slot_task import Assignment, CopyPath, SlotTask
from k2ktui.replication.copying.source_fetcher import SourceFetcher
from k2ktui.replication.driver.laps import LapPlanner
from k2ktui.replication.ownership.pipeline import make_ownership
from k2ktui.replication.slots import SlotState
from k2ktui.replication.topics.routing import choose_path, routes_for
from k2ktui.replication.topics.targets import TargetTopic
from tests.support.model.run_parts import run_parts
from tests.unit.replication.test_partition_reader import batch
from tests.unit.replication.test_reader_model import FOREVER, Brokers, a_feed

SIGNAL: Any = SimpleNamespace(set=lambda: None)


def pipeline(
    consumer: Mapping[str, str] | None = None,
    producer: Mapping[str, str] | None = None,
    **sections: Any,
) -> PipelineConfig:
    address = {"bootstrap.servers": "localhost:1"}
    source = {"kafka": {"common": address, "consumer": consumer or {}}}
    target = {"kafka": {"common": address, "producer": producer or {}}}
    return PipelineConfig.model_validate(
        {"name": "p", "source": source, "target": target, **sections}
    )


def task(config: PipelineConfig) -> SlotTask:
    """The task of a lap, as the driver makes it."""
    topic = SimpleNamespace(name="c", group="p", partition=lambda slot: 0)
    ownership: Any = SimpleNamespace(
        renew=lambda slot: None, topic=topic, run=SimpleNamespace(term=1), pair=UNKNOWN_PAIR
    )
    return LapPlanner(run_parts(config), ownership).make_task(SlotState(0, 0), ())


def first_fetch(config: PipelineConfig) -> tuple[Any, float]:
    """The first fetch request of a lap, and its time limit."""
    brokers: Any = Brokers()
    settings = task(config).fetch
    reader = SourceFetcher(brokers, [a_feed()], SIGNAL, continue_on_loss=True, settings=settings)
    reader.pump(FOREVER)
    request, _, timeout = brokers.posted[0]
    assert isinstance(request, FetchRequest)
    return request, timeout


@pytest.mark.parametrize(
    ("key", "value", "field"),
    [
        ("fetch.min.bytes", "100000", "min_bytes"),
        ("fetch.max.bytes", "5000000", "max_bytes"),
        ("fetch.max.wait.ms", "900", "max_wait_ms"),
        ("max.partition.fetch.bytes", "300000", "partition_max_bytes"),
        ("client.rack", "eu-1a", "rack_id"),
    ],
)
def test_fetch_requests_follow_the_source_consumer(key: str, value: str, field: str) -> None:
    def sent(config: PipelineConfig) -> str:
        request, _ = first_fetch(config)
        holder = request if hasattr(request, field) else request.topics[0].partitions[0]
        return str(getattr(holder, field))

    assert sent(pipeline({key: value})) == value
    assert sent(pipeline()) != value


def test_a_fetch_may_take_as_long_as_the_broker_waits() -> None:
    _, timeout = first_fetch(pipeline({"fetch.max.wait.ms": "9000"}))
    assert timeout == Brokers.request_timeout_s + 9


@pytest.mark.parametrize(
    ("config", "records", "wait_ms"),
    [
        (pipeline(), 0, 1000),
        (pipeline(), 1, 250),
        (pipeline({"fetch.max.wait.ms": "900"}), 0, 900),
        (pipeline({"fetch.min.bytes": "2"}), 0, 250),
        (pipeline(features={"bidirectionalReplication": "enabled"}), 0, 250),
    ],
    ids=["idle", "records not committed yet", "configured", "more than a record", "bidirectional"],
)
def test_a_fetch_waits_longer_while_nothing_else_can_be_requested(
    config: PipelineConfig, records: int, wait_ms: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(source_fetcher, "_TRICKLE_S", 0.0)
    brokers: Any = Brokers()
    if records:
        brokers.append(records)
    settings = fetch_settings(config)
    reader = SourceFetcher(brokers, [a_feed()], SIGNAL, continue_on_loss=True, settings=settings)
    reader.pump(FOREVER)
    brokers.arrive(0)
    reader.pump(FOREVER)
    request, _, timeout = brokers.posted[1]
    assert request.max_wait_ms == wait_ms
    assert timeout == Brokers.request_timeout_s + wait_ms / 1000


class Racks(Brokers):
    """A leader that names broker 7 as the closer replica of every fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.follower_error = 0

    def _read(self, offset: int, last_epoch: int, node: int) -> Any:
        part = super()._read(offset, last_epoch, self.leader)
        if node == 7:
            part.error_code = self.follower_error
        else:
            part.records, part.preferred_read_replica = None, 7
        return part


def test_records_are_fetched_from_the_replica_that_the_leader_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers, feed, now = Racks(), a_feed(), [0.0]
    monkeypatch.setattr(source_fetcher, "monotonic", lambda: now[0])
    wire: Any = brokers
    settings = task(pipeline({"client.rack": "a"})).fetch
    reader = SourceFetcher(wire, [feed], SIGNAL, continue_on_loss=True, settings=settings)

    def exchange() -> int:
        reader.pump(FOREVER)
        node = brokers.posted[-1][1]
        while brokers.pending:
            brokers.arrive(0)
        return node

    brokers.append(3)
    assert exchange() == brokers.leader
    assert exchange() == 7
    assert feed.fetched == 3
    # A replica that lags does not decide that records are lost: the leader is asked again.
    brokers.follower_error = 1
    brokers.append(2)
    now[0] += 60  # after the pause that follows little data
    assert exchange() == 7
    assert feed.fault is None and not feed.gaps
    brokers.follower_error = 0
    now[0] += 60
    assert [exchange(), exchange()] == [brokers.leader, 7]
    assert feed.fetched == 5


def test_produce_requests_follow_the_target_producer() -> None:
    given = {"max.request.size": "2000", "delivery.timeout.ms": "7000"}
    produce, default = task(pipeline(producer=given)).produce, task(pipeline()).produce
    assert (produce.request_bytes, produce.delivery_timeout_s) == (2000, 7)
    assert (default.request_bytes, default.delivery_timeout_s) == (4 << 20, 90)


class Collector:
    """A target with two partitions on one broker, which takes requests and answers none."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.posted = 0

    async def metadata(self, topics: Any) -> dict[str, TopicInfo]:
        return {"t": TopicInfo(0, "", dict.fromkeys((0, 1), PartitionLeader(1, 0)))}

    def version_of(self, _: Any) -> int:
        return 11

    def post(self, *_: Any) -> Any:
        self.posted += 1
        return Future()


def requests_for_two_batches(config: PipelineConfig) -> int:
    loop = Loop()
    target: Any = Collector(loop)
    settings = task(config).produce
    sender = BatchSender(target, Producer(None, 1, 0), Signal(loop), settings)
    for partition in (0, 1):
        sender.offer(OutgoingBatch(("t", partition), memoryview(bytearray(1500)), 1))
    loop.run(sender.pump)
    loop.close()
    return int(target.posted)


def test_a_produce_request_is_no_larger_than_max_request_size() -> None:
    assert requests_for_two_batches(pipeline()) == 1
    assert requests_for_two_batches(pipeline(producer={"max.request.size": "2000"})) == 2


def test_without_exactly_once_a_lap_may_deliver_for_the_delivery_timeout() -> None:
    config = pipeline(
        producer={"delivery.timeout.ms": "7000", "transaction.timeout.ms": "9000"},
        features={"exactlyOnce": "disabled"},
    )
    both = config, pipeline(producer={"transaction.timeout.ms": "9000"})
    fencers = [
        make_ownership(c, Cluster(c.target, "target"), wire(c.target, "producer"), 1) for c in both
    ]
    assert [ownership.longest_commit_s for ownership in fencers] == [7, 9]


def codec_written(config: PipelineConfig) -> int:
    (route,) = routes_for(config, TopicDescription("t", "", 1, 1), [TargetTopic("t", "", 1)])
    feed = PartitionReader(
        Assignment(SourcePartition("t", 0), Position(0, 0, -1, "", 1, 0, "t", 0), route)
    )
    feed.receive(batch(0, 3), [])
    (outgoing,) = BatchRouter("p").take_next(feed)
    (written,) = split_batches(outgoing.data)
    return int(written.attributes & COMPRESSION_MASK)


def test_compression_type_is_that_of_records_that_are_decoded() -> None:
    by_key = {"source": {"topic": ".*"}, "sink": {"partition": "producer"}}
    assert codec_written(pipeline(replication=by_key)) == 0
    assert codec_written(pipeline(producer={"compression.type": "gzip"}, replication=by_key)) == 1


def test_verbatim_batches_keep_their_compression_and_explain_reports_it() -> None:
    config = pipeline(producer={"compression.type": "gzip"})
    assert codec_written(config) == 0
    choice = choose_path(config)
    assert choice.path is CopyPath.VERBATIM
    assert "keep the source's compression" in choice.reason
    assert "compression" not in choose_path(pipeline()).reason


def test_request_timeout_is_the_time_limit_of_a_request() -> None:
    def limit(config: PipelineConfig) -> float:
        loop = Loop()
        connection = Wire(loop, wire(config.source, "consumer"), "source")
        connection.close()
        loop.close()
        return float(connection.request_timeout_s)

    assert limit(pipeline({"request.timeout.ms": "700"})) == 0.7
    assert limit(pipeline()) == 30


@pytest.mark.parametrize(
    ("key", "option"),
    [("receive.buffer.bytes", socket.SO_RCVBUF), ("send.buffer.bytes", socket.SO_SNDBUF)],
)
def test_buffer_sizes_reach_the_sockets(key: str, option: int) -> None:
    def options(value: str) -> list[tuple[int, int, int]]:
        options: list[tuple[int, int, int]] = wire(pipeline({key: value}).source, "consumer")[
            "socket_options"
        ]
        return [setting for setting in options if setting[:2] == (socket.SOL_SOCKET, option)]

    assert options("70000") == [(socket.SOL_SOCKET, option, 70000)]
    assert options("-1") == [], "as in Java: the system's size"


def test_client_id_names_the_connections() -> None:
    config = pipeline({"client.id": "reader"}, {"client.id": "writer"})
    assert wire(config.source, "consumer")["client_id"] == "reader"
    assert wire(config.target, "producer")["client_id"] == "writer"


@given(st.integers(-5, 2**40))
def test_any_number_makes_a_valid_request(number: int) -> None:
    keys = ("fetch.min.bytes", "fetch.max.bytes", "fetch.max.wait.ms", "max.partition.fetch.bytes")
    fetch = task(pipeline(dict.fromkeys(keys, str(number)))).fetch
    sizes = (fetch.min_bytes, fetch.max_bytes, fetch.max_wait_ms, fetch.partition_bytes)
    assert all(1 <= size < 2**31 for size in sizes)
