"""Records fetched from a follower in the reader's rack (KIP-392), on two real brokers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from kafka.protocol.consumer import FetchRequest

from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.kafka.wire.cluster import Loop, Signal, Wire
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.slot_task import Assignment, CopyPath, Route
from k2ktui.replication.copying.source_fetcher import SourceFetcher
from tests.support.clusters.brokers import TwoBrokers
from tests.support.clusters.kafka import TIMEOUT, create_topic, produce
from tests.unit.replication.test_client_settings import pipeline, task

_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class RecordingWire(Wire):
    """Connections that remember which broker was sent the last fetch."""

    fetched_from: int | None = None

    def post(self, request: Any, node: int | None = None, timeout: float | None = None) -> Any:
        if isinstance(request, FetchRequest):
            self.fetched_from = node
        return super().post(request, node, timeout)


@pytest.fixture
def racks(tmp_path: Path) -> Iterator[TwoBrokers]:
    two = TwoBrokers(
        "racks", tmp_path, {"replica.selector.class": _SELECTOR}, racks=("west", "east")
    )
    yield two.start()
    two.close()


def test_a_follower_in_the_rack_serves_the_records_and_the_leader_without_it(
    racks: TwoBrokers,
) -> None:
    topic = create_topic(racks, replicas=[[1, 2]])
    produce(racks, topic, [b"%d" % n for n in range(60)])
    position = Position(0, 0, -1, "", 1, 0, topic, 0)
    feed = PartitionReader(
        Assignment(SourcePartition(topic, 0), position, Route(CopyPath.VERBATIM, topic, 0, 1))
    )
    loop = Loop()
    wire = RecordingWire(loop, {"bootstrap_servers": racks.bootstrap.split(",")}, "source")
    signal = Signal(loop)
    settings = task(pipeline({"client.rack": "east"})).fetch
    reader = SourceFetcher(wire, [feed], signal, continue_on_loss=True, settings=settings)
    until = monotonic() + TIMEOUT + 60

    async def fetch_to(offset: int) -> None:
        while feed.fetched != offset:
            assert monotonic() < until, f"{feed.fetched} {feed.fault}"
            await signal.wait(min(1.0, reader.pump(until)))
            reader.take_updated()

    loop.run(lambda: wire.open(TIMEOUT))
    sent = 60
    loop.run(partial(fetch_to, sent))
    while wire.fetched_from != 2:  # a follower that is late for a moment serves nobody meanwhile
        produce(racks, topic, [b"%d" % sent])
        sent += 1
        loop.run(partial(fetch_to, sent))
    racks.stop_second()
    produce(racks, topic, [b"%d" % n for n in range(10)])
    loop.run(partial(fetch_to, sent + 10))
    assert wire.fetched_from == 1, "the leader"
    assert feed.fault is None and not feed.gaps
    wire.close()
    loop.close()
