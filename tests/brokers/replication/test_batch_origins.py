"""Batches of the opposite pipeline are passed over, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.engine.records.producer_registration import (
    ProducerRegistration,
    registration_key,
    registration_value,
)
from k2ktui.engine.records.run_record import Run, run_key, run_value
from k2ktui.engine.records.state import Covers, Position, SourcePartition
from k2ktui.kafka.wire.cluster import Loop, Wire
from k2ktui.replication.copying.batch_origins import BatchOrigins, Origin
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.registration_reader import (
    RegistrationReader,
    RegistrationsUnavailable,
)
from k2ktui.replication.copying.slot_task import Assignment, CopyPath, OppositePipeline, Route
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    create_topic,
    delete_topic,
    eventually,
    open_transaction,
    produce,
    produce_transaction,
    unique_name,
)
from tests.support.clusters.quotas import limited

OPPOSITE = OppositePipeline("commits", "here", "there")
COPIER, NATIVE, PLAIN = 5, 7, -1


def batch(first: int, count: int, producer: int) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=producer >= 0,
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=0 if producer >= 0 else -1,
        batch_size=1 << 20,
    )
    for offset in range(count):
        builder.append(offset, 1000, b"k", b"v", [])
    data = builder.build()
    data[0:8] = first.to_bytes(8, "big")
    return bytes(data)


def registered(number: int, source: str = "here", target: str = "there") -> ProducerRegistration:
    return ProducerRegistration(number, source, target)


def reader_of(origins: BatchOrigins, offset: int = 0) -> PartitionReader:
    position = Position(offset, offset, -1, "", 1, 0, "t", 0)
    route = Route(CopyPath.VERBATIM, "t", 0, 1)
    return PartitionReader(Assignment(SourcePartition("t", 0), position, route), origins)


def deciding(*asked: int) -> BatchOrigins:
    origins = BatchOrigins(OPPOSITE)
    origins.learn([registered(COPIER)], asked)
    return origins


def test_only_the_pipeline_between_the_same_clusters_is_left_out() -> None:
    origins = BatchOrigins(OPPOSITE)
    others = [registered(2, "third", "there"), registered(3, "here", "third")]
    origins.learn([registered(1), *others], [2, 3, 4])
    read = [origins.origin(number) for number in range(1, 6)]
    assert read == [Origin.OPPOSITE, Origin.NATIVE, Origin.NATIVE, Origin.NATIVE, Origin.UNDECIDED]


def test_registrations_of_before_a_restore_are_of_the_same_clusters() -> None:
    """Otherwise all that was copied before comes back, in either direction."""
    numbers = [registered(1, "here-0", "there"), registered(2, "here", "there-0")]
    numbers += [registered(3, "here-0", "there-0"), registered(4, "there-0", "here-0")]
    own = BatchOrigins(OppositePipeline("commits", "here", "there", ("here-0",), ("there-0",)))
    own.learn(numbers, range(1, 5))
    theirs = BatchOrigins(OPPOSITE)
    pairs = [ClusterPair("here", "there", "", ("here-0",)), ClusterPair("x", "there-0", "")]
    pairs += [ClusterPair("there", "y", "", ("there-0",))]
    theirs.learn(numbers, range(1, 5), pairs)
    for origins in (own, theirs):
        read = [origins.origin(number) for number in range(1, 5)]
        assert read == [Origin.OPPOSITE] * 3 + [Origin.NATIVE]
    unknown = BatchOrigins(OPPOSITE)
    unknown.learn(numbers, range(1, 5))
    assert {unknown.origin(number) for number in range(1, 5)} == {Origin.NATIVE}


def test_what_is_left_out_advances_the_position_without_a_mapping() -> None:
    one = reader_of(deciding())
    one.receive(batch(0, 3, COPIER) + batch(4, 2, COPIER), [])
    assert (one.handed, one.ready_bytes, one.dirty) == (6, 0, True)
    (mapping,) = one.mappings("p", 1)
    assert (mapping.covers, mapping.ranges, mapping.left_out) == (Covers(0, 6), (), ((0, 6),))
    one.mark_committed(6)
    one.receive(batch(6, 2, PLAIN), [])
    (mapping,) = one.mappings("p", 1)
    assert mapping.left_out == ()


def test_a_partition_waits_for_the_decision() -> None:
    origins = BatchOrigins(OPPOSITE)
    one = reader_of(origins)
    one.receive(batch(0, 1, PLAIN) + batch(1, 2, COPIER) + batch(3, 1, NATIVE), [])
    assert one.undecided == {COPIER, NATIVE} and len(one.ready) == 3
    assert one.apply_origins() == 0, "nothing is decided yet"
    origins.learn([registered(COPIER)], one.undecided)
    held = one.ready_bytes
    assert held - one.apply_origins() == one.ready_bytes > 0
    assert not one.undecided and [batch.base_offset for batch in one.ready] == [0, 3]
    one.take()
    one.take()
    assert one.handed == 4
    assert one.mappings("p", 1)[0].left_out == ((1, 3),)


def test_what_is_left_out_during_a_commit_is_in_the_next() -> None:
    one = reader_of(deciding())
    one.receive(batch(0, 3, COPIER), [])
    written = one.position(1, 0, 0).offset
    assert one.mappings("p", 1)[0].left_out == ((0, 3),)
    one.receive(batch(3, 2, COPIER), [])
    one.mark_committed(written)
    assert one.mappings("p", 1)[0].left_out == ((3, 5),)


def test_what_is_dropped_again_is_not_left_out() -> None:
    """The log was truncated, and other records may be there now."""
    one = reader_of(deciding())
    one.receive(batch(0, 1, PLAIN) + batch(1, 5, COPIER), [])
    one.drop_from(3)
    one.take()
    assert one.mappings("p", 1)[0].left_out == ((1, 3),)


@given(
    writers=st.lists(st.tuples(st.sampled_from([COPIER, 6, NATIVE, PLAIN]), st.integers(1, 4))),
    choices=st.lists(st.integers(0, 3), min_size=200, max_size=200),
)
def test_any_order_of_batches_decisions_and_commits(
    writers: list[tuple[int, int]], choices: list[int]
) -> None:
    origins = BatchOrigins(OPPOSITE)
    one, at, dice = reader_of(origins), 0, iter(choices)
    copied: list[int] = []
    covered: list[tuple[int, int]] = []
    left_out: list[int] = []

    def step(kind: int) -> None:
        if kind == 1 and one.undecided:
            origins.learn([registered(COPIER), registered(6)], set(one.undecided))
            one.apply_origins()
        elif kind == 2 and one.ready and not one.undecided:
            taken = one.take()
            copied.extend(range(taken.base_offset, taken.last_offset + 1))
            one.acknowledge(OutgoingBatch(("t", 0), memoryview(b""), taken.count, 0), 0)
        elif kind == 3 and one.dirty:
            (mapping,) = one.mappings("p", 1)
            assert mapping.covers is not None
            covered.append((mapping.covers.first, mapping.covers.end))
            for first, end in mapping.left_out:
                assert mapping.covers.first <= first < end <= mapping.covers.end
                left_out.extend(range(first, end))
            one.mark_committed(one.handed)

    expected: dict[int, int] = {}
    for producer, count in writers:
        one.receive(batch(at, count, producer), [])
        expected |= dict.fromkeys(range(at, at + count), producer)
        at += count
        step(next(dice, 0))
    for kind in (1, *[2] * len(writers), 3):
        step(kind)
    assert copied == [o for o, producer in expected.items() if producer in (NATIVE, PLAIN)]
    assert left_out == [o for o, producer in expected.items() if producer in (COPIER, 6)]
    assert one.committed == at and not one.ready
    assert [end for _, end in covered[:-1]] == [first for first, _ in covered[1:]]


class Source:
    """A connection to read registrations with."""

    def __init__(self, node: KafkaNode, **options: str) -> None:
        self._loop = Loop()
        options_of_wire = {"bootstrap_servers": [node.bootstrap], **options}
        self._wire = Wire(self._loop, options_of_wire, "source")
        self._loop.run(lambda: self._wire.open(TIMEOUT))

    def read(self, reader: RegistrationReader, timeout: float = TIMEOUT) -> set[int]:
        self._loop.run(lambda: reader.read(self._wire, timeout))
        return set(reader.registrations)

    def decide(self, origins: BatchOrigins, asked: set[int]) -> None:
        self._loop.run(lambda: origins.decide(self._wire, asked))

    def close(self) -> None:
        self._wire.close()
        self._loop.close()


@pytest.fixture
def connection(source: KafkaNode) -> Any:
    source_connection = Source(source)
    yield source_connection
    source_connection.close()


def record(number: int, group: str = "g") -> Out:
    return Out(registration_value(registered(number)), registration_key(group, number))


def test_registrations_are_read_up_to_the_high_watermark(
    source: KafkaNode, connection: Source
) -> None:
    """Also those of open and aborted transactions, compressed ones, and of other groups."""
    topic = create_topic(source, partitions=2)
    reader = RegistrationReader(topic)
    assert connection.read(reader) == set()
    produce(source, topic, [Out(b"x", b"no JSON"), record(1), record(2, "h")])
    assert connection.read(reader) == {1, 2}
    produce(source, topic, [record(3)] * 40, compression_type="zstd")
    produce_transaction(source, topic, [record(4)], commit=False)
    left_open = open_transaction(source, topic, [record(5)])
    assert connection.read(reader) == {1, 2, 3, 4, 5}
    left_open.abort_transaction(TIMEOUT)
    assert connection.read(RegistrationReader(topic)) == {1, 2, 3, 4, 5}


def test_registrations_are_read_from_a_source_that_throttles(source: KafkaNode) -> None:
    """A fetch above the quota is answered without any partition."""
    topic, slow = create_topic(source), unique_name("slow")
    for number in range(40):
        padding = Out(b"x" * 10_000, b"no JSON")
        produce(source, topic, [padding, record(number)])
    with limited(source, slow, consumer_byte_rate=36_000):
        connection = Source(source, client_id=slow)
        try:
            assert connection.read(RegistrationReader(topic)) == set(range(40))
        finally:
            connection.close()


def of_another_release(out: Out) -> Out:
    assert out.value is not None
    return Out(out.value.replace(b'"v":1', b'"v":9'), out.key)


def test_a_registration_of_another_release_decides_nothing_about_its_producer_id(
    source: KafkaNode, connection: Source
) -> None:
    """To take its batches for native ones would copy records back."""
    topic = create_topic(source)
    run = Out(run_value(Run(1, 1, "run")), run_key("run"))
    known_before = [record(3), of_another_release(record(3))]
    known_later = [of_another_release(record(4)), record(4, "h")]
    newer = [of_another_release(record(2)), of_another_release(run)]
    produce(source, topic, [record(1), *newer, *known_before, *known_later])
    reader = RegistrationReader(topic)
    assert connection.read(reader) == {1, 3, 4}
    assert (reader.newer_ids, reader.newer_runs, reader.runs) == ({2}, {"run"}, {})
    origins = BatchOrigins(OppositePipeline(topic, "here", "there"))
    with pytest.raises(
        RegistrationsUnavailable, match=r"does not read \(producer id 2\)"
    ) as raised:
        connection.decide(origins, {1, 2, 9})
    assert raised.value.is_lasting and not raised.value.unauthorized
    decided = [origins.origin(number) for number in (1, 2, 9)]
    assert decided == [Origin.OPPOSITE, Origin.UNDECIDED, Origin.NATIVE]


def test_a_commit_topic_that_does_not_exist_has_no_registrations(
    source: KafkaNode, connection: Source
) -> None:
    """The opposite pipeline has not been started yet; it registers before it writes."""
    topic = unique_name("commits")
    reader = RegistrationReader(topic)
    assert connection.read(reader) == set()
    create_topic(source, topic)
    produce(source, topic, [record(1)])
    assert connection.read(reader) == {1}


def test_a_commit_topic_that_was_deleted_is_no_proof(source: KafkaNode, connection: Source) -> None:
    """Its registrations are gone: who wrote an unknown batch cannot be decided."""
    topic = create_topic(source)
    produce(source, topic, [record(1)])
    reader = RegistrationReader(topic)
    assert connection.read(reader) == {1}
    delete_topic(source, topic)
    eventually(lambda: is_unavailable(connection, reader), f"{topic} is gone")
    assert set(reader.registrations) == {1}, "what is known stays known"


def is_unavailable(connection: Source, reader: RegistrationReader) -> bool:
    try:
        connection.read(reader, 1.0)
    except RegistrationsUnavailable:
        return True
    return False
