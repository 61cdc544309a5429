"""Runs that could stand still without a word: moved brokers, partitions without a leader."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import OffsetSpec

from k2ktui.config.clusters import ClusterConfig
from k2ktui.errors import ExitCode, K2kError
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.control.keyed_writer import KeyedWriter
from k2ktui.kafka.control.reader import require_offsets
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.cluster import Loop, NotSent, OutcomeUnknown, Wire
from tests.support.clusters.brokers import Brokers
from tests.support.clusters.kafka import (
    START_S,
    TIMEOUT,
    Out,
    create_topic,
    eventually,
    produce,
)
from tests.support.clusters.proxy import LISTENER, ProxiedNode, Proxy, proxied_node
from tests.support.commands.verbs import k2ktui
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import Pipeline
from tests.support.pipelines.preflight import plain

pytestmark = pytest.mark.slow


class _WithEntry:
    """A cluster whose brokers can move: one bootstrap server leads to wherever they are."""

    def __init__(self, node: ProxiedNode) -> None:
        self.node, self.entry = node, Proxy()
        self.entry.upstream = node.address(LISTENER)

    def move(self) -> None:
        """Restart the broker at another address."""
        self.node.stop()
        self.node.proxy.close()
        self.node.proxy = Proxy()
        self.node.start(START_S)


@contextmanager
def _with_entry(directory: Path, kind: str) -> Iterator[_WithEntry]:
    with proxied_node("moving", directory / "moving", kind) as node:
        made = _WithEntry(node)
        try:
            yield made
        finally:
            made.entry.close()


@pytest.mark.rotate("kind", ["", "3.9"])
def test_all_brokers_move_to_other_addresses(
    make_pipeline: MakePipeline, tmp_path: Path, kind: str
) -> None:
    """Those of the source, then those of the target."""
    with (
        _with_entry(tmp_path / "source", kind) as source,
        _with_entry(tmp_path / "target", kind) as target,
    ):
        where = {
            "source.kafka.common": {"bootstrap.servers": source.entry.address},
            "target.kafka.common": {"bootstrap.servers": target.entry.address},
        }
        pipe: Pipeline = make_pipeline([create_topic(source.node)], where, target.node)
        pipe.source = source.node
        produce(pipe.source, pipe.topics[0], [Out(b"before")])
        run = pipe.start()
        run.expect("firstrecord")
        file = pipe.write()
        for moving in (source, target):
            with _clients_follow(moving):
                moving.move()

            pipe.await_more([Out(b"after")])
            eventually(lambda: _has_no_problem(file), "heartbeats, lag and watch are well")
        pipe.end(run)
        pipe.prove()


@contextmanager
def _clients_follow(moving: _WithEntry) -> Iterator[None]:
    """Clients of both libraries, connected before the block, work after it."""
    side = ClusterConfig.model_validate(plain(moving.entry.address))
    cluster, name = Cluster(side, "target"), create_topic(moving.node)
    writer, loop = KeyedWriter(cluster, name), Loop()
    connected = Wire(loop, wire(side, "consumer"), "target")
    try:
        loop.run(lambda: connected.open(TIMEOUT))
        writer.put([(b"k", b"1")])
        assert cluster.broker_ids("asking")
        yield
        at = [(name, 0)]
        for ask in (
            lambda: require_offsets(cluster, at, OffsetSpec.latest()),
            lambda: writer.put([(b"k", b"2")]),
            lambda: loop.run(lambda: connected.metadata([name])),
        ):
            eventually(partial(_works, ask), "it follows the brokers")
    finally:
        connected.close()
        loop.close()


def test_a_partition_without_a_leader_while_others_are_copied(
    make_pipeline: MakePipeline, brokers: Brokers
) -> None:
    two = brokers.two
    topic = create_topic(two, replicas=[[1], [2]])
    where = {"source.kafka.common": {"bootstrap.servers": two.first.bootstrap}, "spark.slots": 1}
    pipe: Pipeline = make_pipeline([topic], where)
    produce(two, topic, [Out(b"0", partition=0), Out(b"1", partition=1)])
    run = pipe.start()
    run.expect("firstrecord")
    two.second.kill()
    late = f"{topic}-1: not read for 30 s or longer: it has no leader"
    run.expect("note", lambda event: late in event["text"])
    file = pipe.write()
    eventually(lambda: is_serious(file, "it has no leader"), "watch says so")
    two.start()
    eventually(lambda: _has_no_problem(file), "it is over")
    assert run.stop() == 0


def _works(ask: Callable[[], object]) -> bool:
    with suppress(K2kError, NotSent, OutcomeUnknown):
        ask()
        return True
    return False


def _has_no_problem(file: Path) -> bool:
    return k2ktui("watch", "--once", "-f", file).code == ExitCode.OK


def is_serious(file: Path, cause: str) -> bool:
    """Whether ``watch --once`` shows the cause, and ends with findings."""
    said = k2ktui("watch", "--once", "-f", file)
    return said.code == ExitCode.FINDINGS and cause in said.out
