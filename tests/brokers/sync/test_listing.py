"""Each offset of a log is listed as what it is, whatever wrote, removed or holds it back."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise

import pytest

from k2ktui.log.listing import LogEntry, LogLister, OffsetState
from k2ktui.runtime.node import KafkaNode
from tests.brokers.sync.test_content import cluster, record_of
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    create_topic,
    delete_before,
    end_offsets,
    open_transaction,
    produce,
    produce_transaction,
    read_all,
    start_offsets,
    unique_name,
)
from tests.support.records.kinds import make_all
from tests.support.records.traffic import CODECS, mixture

MANY = 100_000


@pytest.fixture
def lister(source: KafkaNode) -> Iterator[LogLister]:
    with LogLister(cluster(source)) as opened:
        yield opened


def listed(entries: Sequence[LogEntry]) -> list[tuple[int, int, OffsetState]]:
    return [(entry.first, entry.last, entry.state) for entry in entries]


def prove_topic(node: KafkaNode, lister: LogLister, topic: str) -> None:
    """No offset is left out or listed twice, and the records are those that a consumer reads."""
    dice = random.Random(topic)
    seen = read_all(node, topic)
    starts = start_offsets(node, topic)
    for number, high in end_offsets(node, topic).items():
        records = [record_of(got) for got in seen if got.partition == number]
        at = (topic, number)
        whole = lister.list_from(at, 0, MANY, TIMEOUT)
        assert [entry.record for entry in whole if entry.record] == records
        assert whole[0].first == 0
        assert all(before.last + 1 == after.first for before, after in pairwise(whole))
        assert (whole[-1].first, whole[-1].state) == (high, OffsetState.NOT_WRITTEN)
        deleted = [entry for entry in whole if entry.state is OffsetState.DELETED]
        assert listed(deleted) == (
            [(0, starts[number] - 1, OffsetState.DELETED)] if starts[number] else []
        )
        for offset in {0, high, *(dice.randrange(high + 1) for _ in range(8))}:
            following = lister.list_from(at, offset, 3, TIMEOUT)
            expected = [record for record in records if record.offset >= offset][:3]
            assert [entry.record for entry in following if entry.record] == expected
            earlier = lister.list_before(at, offset, 3, TIMEOUT)
            expected = [record for record in records if record.offset < offset][-3:]
            assert [entry.record for entry in earlier if entry.record] == expected
            assert not earlier or earlier[-1].last == offset - 1


@pytest.mark.slow
def test_topics_of_every_kind(source: KafkaNode, lister: LogLister) -> None:
    for kind, topic in make_all(source, unique_name("listing")).items():
        if kind not in ("many", "beheaded"):
            prove_topic(source, lister, topic)


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_records(source: KafkaNode, lister: LogLister, codec: str) -> None:
    topic = create_topic(source)
    produce(source, topic, mixture(1, 100, 1), compression_type=codec, linger_ms=20)
    prove_topic(source, lister, topic)


def test_transactions_and_their_markers(source: KafkaNode, lister: LogLister) -> None:
    topic = create_topic(source)
    produce_transaction(source, topic, [b"a", b"b"])
    produce_transaction(source, topic, [b"c", b"d", b"e"], commit=False)
    produce(source, topic, [b"f"])
    open_one = open_transaction(source, topic, [b"g", b"h"])
    produce(source, topic, [b"i"])
    assert listed(lister.list_from((topic, 0), 1, 10, TIMEOUT)) == [
        (1, 1, OffsetState.RECORD),
        (2, 2, OffsetState.COMMIT_MARKER),
        (3, 5, OffsetState.ABORTED),
        (6, 6, OffsetState.ABORT_MARKER),
        (7, 7, OffsetState.RECORD),
        (8, 10, OffsetState.OPEN),
        (11, 11, OffsetState.NOT_WRITTEN),
    ]
    assert listed(lister.list_before((topic, 0), 7, 1, TIMEOUT)) == [
        (1, 1, OffsetState.RECORD),
        (2, 2, OffsetState.COMMIT_MARKER),
        (3, 5, OffsetState.ABORTED),
        (6, 6, OffsetState.ABORT_MARKER),
    ]
    open_one.abort_transaction(TIMEOUT)


def test_a_position_that_retention_has_passed(source: KafkaNode, lister: LogLister) -> None:
    topic = create_topic(source)
    produce(source, topic, [b"%d" % number for number in range(30)], linger_ms=50)
    delete_before(source, topic, 12)
    following = lister.list_from((topic, 0), 5, 2, TIMEOUT)
    assert listed(following) == [
        (5, 11, OffsetState.DELETED),
        (12, 12, OffsetState.RECORD),
        (13, 13, OffsetState.RECORD),
    ]
    earlier = lister.list_before((topic, 0), 14, 3, TIMEOUT)
    assert listed(earlier)[-3:] == [
        (0, 11, OffsetState.DELETED),
        (12, 12, OffsetState.RECORD),
        (13, 13, OffsetState.RECORD),
    ]
    assert listed(lister.list_before((topic, 0), 3, 3, TIMEOUT)) == [(0, 2, OffsetState.DELETED)]


def test_beyond_the_end(source: KafkaNode, lister: LogLister) -> None:
    topic = create_topic(source)
    produce(source, topic, [b"a"])
    assert listed(lister.list_from((topic, 0), 9, 3, TIMEOUT)) == [(9, 9, OffsetState.NOT_WRITTEN)]
    (missing,) = lister.list_from((topic, 7), 0, 3, TIMEOUT)
    assert missing.meaning == "not read: the topic has only 1 partition"


def test_large_records_end_the_listing_before_memory_does(
    source: KafkaNode, lister: LogLister, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("k2ktui.log.listing._HELD_BYTES", 3 << 20)
    topic = create_topic(source, config={"max.message.bytes": "2000000"})
    big = [Out(b"%d" % number * (1 << 20), b"k") for number in range(5)]
    produce(source, topic, big, message_max_bytes=2_000_000)
    *records, last = lister.list_from((topic, 0), 0, 5, TIMEOUT)
    assert [len(entry.record.value or b"") for entry in records if entry.record] == [1 << 20] * 2
    assert (last.first, last.state) == (2, OffsetState.UNREAD)
    assert "continue with this offset" in last.reason
    # Going back, only the last ones are held.
    earlier = lister.list_before((topic, 0), 5, 2, TIMEOUT)
    assert listed(earlier) == [(3, 3, OffsetState.RECORD), (4, 4, OffsetState.RECORD)]
