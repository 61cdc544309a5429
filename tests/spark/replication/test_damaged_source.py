"""A source log is cut inside of what was fetched, or damaged, on a real broker."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

import pytest
from crc32c import crc32c

from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.kafka.wire.cluster import Loop, Signal, Wire
from k2ktui.log.batch import APPEND_TIME, split_batches
from k2ktui.log.records import decode_records
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.slot_task import Assignment, Route
from k2ktui.replication.copying.slot_task import CopyPath as Way
from k2ktui.replication.copying.source_fetcher import SourceFetcher
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    START_S,
    TIMEOUT,
    create_topic,
    end_offsets,
    produce,
    read_all,
)
from tests.support.oracle.judge import prove
from tests.support.pipelines.fixtures import MakePipeline

pytestmark = pytest.mark.slow


def cut_log(node: KafkaNode, topic: str, batches: int) -> None:
    """Take batches away from the end of a log, as an unclean election would."""
    (segment,) = Path(node.data_dir, "logs", f"{topic}-0").glob("*.log")
    data = segment.read_bytes()
    sizes = [len(batch.view) for batch in split_batches(data)]
    segment.write_bytes(data[: sum(sizes[:-batches])])


def damage_log(node: KafkaNode, topic: str, *, right_checksum: bool) -> None:
    """Damage the second batch of a log: its records, or its codec where the checksum is renewed."""
    (segment,) = Path(node.data_dir, "logs", f"{topic}-0").glob("*.log")
    batches = [bytearray(batch.view) for batch in split_batches(segment.read_bytes())]
    if right_checksum:
        batches[1][22] |= 5 | APPEND_TIME  # one that is not decoded would go as it is
        batches[1][17:21] = crc32c(memoryview(batches[1])[21:]).to_bytes(4, "big")
    else:
        batches[1][-3] ^= 1
    segment.write_bytes(b"".join(batches))


def test_a_damaged_batch_stops_its_partition_alone(
    make_pipeline: MakePipeline, source: KafkaNode, target: KafkaNode
) -> None:
    checksum, codec, whole = (create_topic(source) for _ in range(3))
    for topic in (checksum, codec, whole):
        for index in range(3):
            produce(source, topic, [b"%d.%d" % (index, n) for n in range(10)], linger_ms=50)
    source.stop()
    damage_log(source, checksum, right_checksum=False)
    damage_log(source, codec, right_checksum=True)
    source.start(START_S)
    end_offsets(source, whole)  # it leads its partitions again
    pipeline = make_pipeline([checksum, codec, whole], {"spark.slots": 1})
    run = pipeline.catch_up(1)
    for topic, words in ((checksum, "wrong checksum"), (codec, "unknown compression codec 5")):
        (what,) = [
            event["fault"]["message"]
            for event in run.events("stopped")
            if event["fault"]["source"]["topic"] == topic
        ]
        assert words in what and "offset 10" in what
        assert [got.value for got in read_all(target, topic)] == [b"0.%d" % n for n in range(10)]
    assert "read again" not in run.tail(100)
    prove(source, target, pipeline.name, whole)


def test_only_what_the_source_has_now_is_copied(source: KafkaNode) -> None:
    topic = create_topic(source)
    for index in range(6):
        produce(source, topic, [b"old %d.%d" % (index, n) for n in range(10)], linger_ms=50)
    position = Position(0, 0, -1, "", 1, 0, topic, 0)
    feed = PartitionReader(
        Assignment(SourcePartition(topic, 0), position, Route(Way.VERBATIM, topic, 0, 1))
    )
    loop = Loop()
    wire = Wire(loop, {"bootstrap_servers": [source.bootstrap]}, "source")
    signal = Signal(loop)
    reader = SourceFetcher(wire, [feed], signal, continue_on_loss=True)
    until = monotonic() + TIMEOUT + START_S

    async def fetch_to(offset: int) -> None:
        while feed.fetched != offset:
            assert monotonic() < until, f"{feed.fetched} {feed.fault}"
            await signal.wait(min(1.0, reader.pump(until)))
            reader.take_updated()

    loop.run(lambda: wire.open(TIMEOUT))
    loop.run(lambda: fetch_to(60))
    reader.release(len(feed.take().view))
    source.kill()
    cut_log(source, topic, 3)
    source.start(START_S)
    produce(source, topic, [b"new %d" % n for n in range(5)], linger_ms=50)
    loop.run(lambda: fetch_to(35))
    wire.close()
    loop.close()

    there = [got.value for got in read_all(source, topic)]
    assert len(there) == 35
    left = [tail for batch in feed.ready for tail in decode_records(batch).tails]
    assert [value for value in there[10:] if value] == [tail[2:-1] for tail in left]
    assert (feed.gaps, reader.buffered) == ((), feed.ready_bytes)
