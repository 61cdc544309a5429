"""What is read over the wire is what a consumer of another library sees, record for record."""

from __future__ import annotations

import bisect
import hashlib
import random
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.errors import ConnectionFailed
from k2ktui.kafka.clients import Cluster
from k2ktui.log.content import (
    AbsenceReason,
    Answer,
    ContentReader,
    KafkaRecord,
    LogBounds,
    RecordPart,
    UnreadableReason,
    Where,
    compare_content,
    content_digest,
)
from k2ktui.log.record import TimestampType
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Got,
    Out,
    admin,
    create_topic,
    delete_before,
    end_offsets,
    eventually,
    open_transaction,
    produce,
    produce_transaction,
    read_all,
    start_offsets,
    unique_name,
)
from tests.support.clusters.secure import start_secure_node
from tests.support.records.kinds import make_all
from tests.support.records.traffic import CODECS, mixture


def cluster(node: KafkaNode, **properties: str) -> Cluster:
    every = {"bootstrap.servers": node.bootstrap} | properties
    return Cluster(ClusterConfig(kafka=KafkaClients(common=every)), "source")


def record_of(got: Got) -> KafkaRecord:
    kind = TimestampType.APPEND if got.append_time else TimestampType.CREATE
    return KafkaRecord(got.offset, got.key, got.value, got.headers, got.timestamp, kind)


def expected(records: list[KafkaRecord], start: int, high: int, offset: int) -> Answer:
    if offset < start:
        return UnreadableReason(f"below the log start offset {start}")
    if offset > high:
        return UnreadableReason(f"above the high watermark {high}")
    at = bisect.bisect_left(records, offset, key=lambda record: record.offset)
    return records[at] if at < len(records) else None


def prove_topic(
    node: KafkaNode,
    contents: ContentReader,
    topic: str,
    most: int = 400,
    *,
    stays_open: bool = False,
) -> None:
    """Every answer about a topic is what reading it with confluent-kafka says."""
    dice = random.Random(topic)
    seen = read_all(node, topic, stays_open=stays_open)
    starts, highs = start_offsets(node, topic), end_offsets(node, topic)
    stables = end_offsets(node, topic, "read_committed")
    for number, high in highs.items():
        records = [record_of(got) for got in seen if got.partition == number]
        offsets = list(range(high + 3))
        asked = offsets if len(offsets) <= most else sorted(dice.sample(offsets, most))
        where = [(topic, number, offset) for offset in asked]
        dice.shuffle(where)
        answers = contents.next_records(where, TIMEOUT)
        for at in where:
            assert answers[at] == expected(records, starts[number], high, at[2]), at
        (whole,) = contents.stretches([((topic, number, 0), high + 2)], TIMEOUT)
        assert list(whole.records.values()) == records
        assert whole.bounds == LogBounds(starts[number], stables[number], high)
        assert whole.unread == ""


@pytest.fixture
def contents(source: KafkaNode) -> Iterator[ContentReader]:
    with ContentReader(cluster(source)) as opened:
        yield opened


@pytest.mark.slow
def test_topics_of_every_kind(source: KafkaNode, contents: ContentReader) -> None:
    for topic in make_all(source, unique_name("content")).values():
        prove_topic(source, contents, topic)


@pytest.mark.parametrize("codec", CODECS)
def test_mixed_records(source: KafkaNode, contents: ContentReader, codec: str) -> None:
    topic = create_topic(source, partitions=3)
    produce(source, topic, mixture(1, 400, 3), compression_type=codec, linger_ms=20)
    prove_topic(source, contents, topic)


def test_transactions(source: KafkaNode, contents: ContentReader) -> None:
    topic = create_topic(source)
    for seed in range(5):
        produce_transaction(source, topic, mixture(seed, 20, 1), commit=seed % 2 == 0)
        produce(source, topic, mixture(seed, 3, 1))
    produce_transaction(source, topic, mixture(9, 20, 1), commit=False)
    prove_topic(source, contents, topic)
    [whole] = contents.stretches([((topic, 0, 0), 1000)], TIMEOUT, with_aborted=True)
    every = [record_of(got) for got in read_all(source, topic, "read_uncommitted")]
    both = {**whole.records, **whole.aborted}
    assert [both[offset] for offset in sorted(both)] == every
    assert len(whole.aborted) == 60


def test_append_time(source: KafkaNode, contents: ContentReader) -> None:
    topic = create_topic(source, config={"message.timestamp.type": "LogAppendTime"})
    produce(source, topic, mixture(1, 50, 1), linger_ms=20)
    prove_topic(source, contents, topic)
    answer = contents.next_records([(topic, 0, 7)], TIMEOUT)[topic, 0, 7]
    assert isinstance(answer, KafkaRecord) and answer.timestamp_type is TimestampType.APPEND


def test_a_deleted_head(source: KafkaNode, contents: ContentReader) -> None:
    topic = create_topic(source)
    produce(source, topic, mixture(1, 100, 1), linger_ms=50)
    delete_before(source, topic, 37)
    prove_topic(source, contents, topic)
    piece = contents.stretches([((topic, 0, 30), 20)], TIMEOUT)[0]
    assert list(piece.records) == list(range(37, 50))
    assert piece.absence(36) is AbsenceReason.DELETED


def test_an_open_transaction_hides_what_is_behind_it(
    source: KafkaNode, contents: ContentReader
) -> None:
    topic = create_topic(source)
    produce(source, topic, [b"a", b"b"])
    producer = open_transaction(source, topic, [b"c", b"d"])
    produce(source, topic, [b"e"])
    prove_topic(source, contents, topic, stays_open=True)
    piece = contents.stretches([((topic, 0, 0), 9)], TIMEOUT)[0]
    assert [piece.absence(offset) for offset in (2, 4, 5)] == [
        AbsenceReason.UNSTABLE,
        AbsenceReason.UNSTABLE,
        AbsenceReason.BEYOND,
    ]
    producer.commit_transaction(TIMEOUT)
    eventually(lambda: end_offsets(source, topic, "read_committed")[0] == 6, "the marker")
    prove_topic(source, contents, topic)


def test_an_aborted_tail_and_an_empty_topic(source: KafkaNode, contents: ContentReader) -> None:
    topic, empty = create_topic(source), create_topic(source)
    produce_transaction(source, topic, [b"x"] * 300, commit=False)
    eventually(
        lambda: end_offsets(source, topic, "read_committed")[0] == 301, "the marker is written"
    )
    where: list[Where] = [(topic, 0, 0), (topic, 0, 300), (topic, 0, 301), (empty, 0, 0)]
    assert contents.next_records(where, TIMEOUT) == dict.fromkeys(where)


def test_what_cannot_be_read_says_why(source: KafkaNode, contents: ContentReader) -> None:
    topic, missing = create_topic(source), unique_name("missing")
    produce(source, topic, [b"x"])
    where: list[Where] = [
        (topic, 0, 0),
        (topic, 5, 0),
        (missing, 0, 0),
        ("b d", 0, 0),
        (topic, 0, -1),
    ]
    records = contents.next_records(where, TIMEOUT)
    assert isinstance(records[topic, 0, 0], KafkaRecord)
    assert records[topic, 5, 0] == UnreadableReason("the topic has only 1 partition")
    for at, words in {(missing, 0, 0): "not exist", ("b d", 0, 0): "name"}.items():
        answer = records[at]
        assert isinstance(answer, UnreadableReason) and words in answer.reason
    assert records[topic, 0, -1] == UnreadableReason("no offset")
    assert contents.stretches([((missing, 0, 0), 5)], TIMEOUT)[0].absence(3) is AbsenceReason.UNREAD
    assert missing not in admin(source).list_topics(timeout=TIMEOUT).topics


def test_time_is_over(source: KafkaNode, contents: ContentReader) -> None:
    topic = create_topic(source)
    contents.next_records([(topic, 0, 0)], TIMEOUT)
    answer = contents.next_records([(topic, 0, 0)], 0.0)[topic, 0, 0]
    assert isinstance(answer, UnreadableReason) and "not read within 0 s" in answer.reason
    piece = contents.stretches([((topic, 0, 0), 3)], 0.0)[0]
    assert "not read within" in piece.unread and piece.absence(0) is AbsenceReason.UNREAD


def test_no_broker_answers() -> None:
    unreachable = Cluster(
        ClusterConfig(kafka=KafkaClients(common={"bootstrap.servers": "127.0.0.1:1"})), "source"
    )
    refused = pytest.raises(ConnectionFailed, match="no broker of the source cluster accepts")
    with ContentReader(unreachable) as contents, refused:
        contents.next_records([("topic", 0, 0)], 0.5)


def test_batches_larger_than_what_is_asked_for(source: KafkaNode, contents: ContentReader) -> None:
    """Only the first partition of a request is sure to get its batch: the others get a turn."""
    topic = create_topic(source, partitions=40)
    for number in range(40):
        produce(source, topic, [Out(bytes(90_000), b"%d" % number, number)] * 2)
    where = [(topic, number, offset) for number in range(40) for offset in (0, 1)]
    records = contents.next_records(where, TIMEOUT)
    for _, number, offset in where:
        answer = records[topic, number, offset]
        assert isinstance(answer, KafkaRecord)
        assert (answer.offset, answer.key) == (offset, b"%d" % number)


def test_overlapping_stretches(source: KafkaNode, contents: ContentReader) -> None:
    topic = create_topic(source)
    produce(source, topic, [b"%d" % i for i in range(3000)], batch_num_messages=100)
    spans = [(0, 1), (10, 500), (400, 5), (400, 1200), (2999, 1), (2990, 100)]
    stretches = contents.stretches([((topic, 0, first), count) for first, count in spans], TIMEOUT)
    for (first, count), piece in zip(spans, stretches, strict=True):
        assert list(piece.records) == list(range(first, min(first + count, 3000)))
        assert all(one.value == b"%d" % at for at, one in piece.records.items())


@pytest.mark.slow
def test_least_rights_and_no_offsets_topic(tmp_path: Path) -> None:
    """Describe and Read on the topic are enough, and nothing appears on the cluster."""
    secure = start_secure_node(tmp_path, {"ann": "secret-1"})
    try:
        node = secure.node
        readable, described = create_topic(node), create_topic(node)
        for topic in (readable, described):
            produce(node, topic, [b"x"])
        secure.allow("ann", [AclOperation.DESCRIBE, AclOperation.READ], readable)
        secure.allow("ann", [AclOperation.DESCRIBE], described)
        where = [(readable, 0, 0), (described, 0, 0), (unique_name("hidden"), 0, 0)]
        config = ClusterConfig(kafka=KafkaClients(common=secure.java("ann")))
        with ContentReader(Cluster(config, "source")) as contents:
            records = contents.next_records(where, TIMEOUT)
        answers = [records[at] for at in where]
        assert isinstance(answers[0], KafkaRecord) and answers[0].value == b"x"
        assert answers[1:] == [UnreadableReason("the principal may not read it")] * 2
        assert "__consumer_offsets" not in admin(node).list_topics(timeout=TIMEOUT).topics
    finally:
        secure.node.close()


@pytest.mark.slow
def test_a_leader_on_its_way_is_waited_for(target: KafkaNode) -> None:
    topic = create_topic(target)
    produce(target, topic, [b"x"])
    with ContentReader(cluster(target)) as contents:
        assert contents.next_records([(topic, 0, 0)], TIMEOUT)
        target.stop()
        target.start()
        answer = contents.next_records([(topic, 0, 0)], TIMEOUT)[topic, 0, 0]
    assert isinstance(answer, KafkaRecord) and answer.value == b"x"


SOURCE = KafkaRecord(5, b"k", b"v", (("h", b"1"), ("h", None), ("", b"")), 1000)
CHANGES = {
    "": {"offset": 9, "timestamp_type": TimestampType.APPEND},
    "key differs": {"key": b""},
    "value differs": {"value": None},
    "header 2 differs": {"headers": (("h", b"1"), ("h", b""), ("", b""))},
    "header 1 differs": {"headers": (("h", None), ("h", b"1"), ("", b""))},
    "number of headers differs (3 on the source, 2)": {"headers": SOURCE.headers[:2]},
    "timestamp differs (1000 on the source, 1001)": {"timestamp_ms": 1001},
}


@pytest.mark.parametrize("difference", CHANGES)
def test_what_differs(difference: str) -> None:
    copy = replace(SOURCE, **CHANGES[difference])  # type: ignore[arg-type]
    assert compare_content(SOURCE, copy) == difference
    assert (content_digest(SOURCE) == content_digest(copy)) == (not difference)


def test_parts_can_be_left_out() -> None:
    copy = replace(SOURCE, timestamp_ms=1, headers=())
    ignored = [RecordPart.TIMESTAMP, RecordPart.HEADERS]
    assert compare_content(SOURCE, copy, ignored) == ""
    assert content_digest(SOURCE, ignored) == content_digest(copy, ignored)
    assert compare_content(SOURCE, copy, [RecordPart.TIMESTAMP]) != ""


def test_the_hash_is_what_it_says() -> None:
    """So that somebody else can compute it."""

    def number(value: int) -> bytes:
        return struct.pack(">q", value)

    encoded = number(1) + b"k" + number(-1) + number(1) + number(1) + b"h" + number(0)
    made = KafkaRecord(0, b"k", None, (("h", b""),), 7)
    assert content_digest(made) == hashlib.sha256(encoded + number(7)).hexdigest()


small = st.none() | st.binary(max_size=2)
records = st.builds(
    KafkaRecord,
    st.integers(0, 3),
    small,
    small,
    st.lists(st.tuples(st.sampled_from(["", "a", "aa", "\udcff"]), small), max_size=3).map(tuple),
    st.integers(-1, 1),
    st.sampled_from(TimestampType),
)


@given(records, records, st.sets(st.sampled_from(RecordPart)))
def test_hashes_are_equal_where_nothing_differs(
    a: KafkaRecord, b: KafkaRecord, ignore: set[RecordPart]
) -> None:
    assert (content_digest(a, ignore) == content_digest(b, ignore)) == (
        compare_content(a, b, ignore) == ""
    )


@pytest.mark.slow
def test_thousands_of_positions(source: KafkaNode, contents: ContentReader) -> None:
    topic = create_topic(source, partitions=10)
    produce(source, topic, [Out(b"v%d" % i, partition=i % 10) for i in range(200_000)], linger_ms=5)
    dice = random.Random(1)
    where = {(topic, n, dice.randrange(20_000)) for n in range(10) for _ in range(1000)}
    records = contents.next_records(where, TIMEOUT)
    for _, number, offset in where:
        answer = records[topic, number, offset]
        assert isinstance(answer, KafkaRecord) and answer.value == b"v%d" % (offset * 10 + number)
