"""Batches that a target refuses for their size, against a model of a target."""

from __future__ import annotations

import random
from collections import deque

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.log.batch import COMPRESSION_MASK, HEADER_BYTES, split_batches, stamp_producer
from k2ktui.log.compress import compress
from k2ktui.log.plain import read_payload
from k2ktui.log.rebuild import build_batches, built_bytes
from k2ktui.log.records import decode_records, make_records
from k2ktui.replication.copying.batch_router import BatchRouter
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.size_limits import split_refused
from k2ktui.replication.copying.slot_settings import ProduceSettings
from k2ktui.replication.copying.slot_task import (
    Assignment,
    CopyPath,
    Fault,
    FaultKind,
    Route,
    SizeLimit,
)
from k2ktui.replication.driver.learned_limits import LearnedLimits, with_settings
from k2ktui.replication.topics.discovery import TopicSnapshot
from tests.support.schedule.examples import examples

pytestmark = pytest.mark.usefixtures("with_and_without_core")
CODECS = (0, 1, 2, 3, 4)
SOURCE = SourcePartition("t", 0)
OVERHEAD = 61


class Target:
    """Compresses each batch with a codec of its own (None: keeps it), and refuses large ones."""

    def __init__(self, codec: int | None, limit: int) -> None:
        self.codec, self.limit = codec, limit
        self.accepted: list[OutgoingBatch] = []
        self.refused = 0

    def takes(self, outgoing: OutgoingBatch) -> bool:
        (batch,) = split_batches(outgoing.data)
        size = len(outgoing.data)
        own = batch.attributes & COMPRESSION_MASK
        if self.codec is not None and self.codec != own and size <= self.limit:
            body = read_payload(batch)
            size = OVERHEAD + len(compress(self.codec, body) if self.codec else body)
        if size > self.limit:
            self.refused += 1
            return False
        self.accepted.append(outgoing)
        return True


def write(target: Target, outgoing: OutgoingBatch, reader: PartitionReader) -> OutgoingBatch | None:
    """Write a batch as a slot does; return a record that is too large alone."""
    waiting = deque([outgoing])
    while waiting:
        batch = waiting.popleft()
        stamp_producer(batch.data, 7, 1, 0, transactional=True)
        if target.takes(batch):
            continue
        if batch.count == 1:
            return batch
        parts, reader.size_limit = split_refused(batch, reader.size_limit)
        assert len(parts) > 1
        assert sum(part.count for part in parts) == batch.count
        waiting.extendleft(reversed(parts))
    return None


def reader_of(
    path: CopyPath = CopyPath.VERBATIM,
    limit: SizeLimit | None = None,
    refused: Fault | None = None,
) -> PartitionReader:
    route = Route(path, "t", 0, 1)
    position = Position(0, 0, -1, "", 1, 0, "t", 0)
    return PartitionReader(Assignment(SOURCE, position, route, None, limit, refused))


def values(sizes: list[int], seed: int = 1, ratio: int = 20) -> list[bytes]:
    """Values of these sizes, which compression makes about so many times smaller."""
    noise = random.Random(seed)
    values = []
    for size in sizes:
        part = noise.randbytes(max(1, size // ratio))
        values.append((part * (size // len(part) + 1))[:size])
    return values


def batch_of(contents: list[bytes], codec: int, first: int = 0) -> bytes:
    records = make_records([(first + n, 1_000 + n, b"k%d" % n, v) for n, v in enumerate(contents)])
    (built,) = build_batches(records, codec, 1 << 40)
    built.data[0:8] = first.to_bytes(8, "big")
    return bytes(built.data)


def records_of(batches: list[OutgoingBatch]) -> list[tuple[int, int, bytes]]:
    """Return source offset, timestamp and content of the records of batches."""
    copies: list[tuple[int, int, bytes]] = []
    for outgoing in batches:
        (batch,) = split_batches(outgoing.data)
        records = decode_records(batch)
        first = outgoing.first_source
        offsets = range(first, first + outgoing.count)
        sources = list(offsets) if outgoing.sources is None else outgoing.sources.tolist()
        assert len(records) == outgoing.count == len(sources)
        copies += zip(sources, records.timestamps.tolist(), records.tails, strict=True)
    return copies


@given(
    st.lists(st.integers(0, 3_000), min_size=1, max_size=40),
    st.sampled_from(CODECS),
    st.sampled_from((None, *CODECS)),
    st.integers(200, 20_000),
    st.sampled_from(list(CopyPath)),
)
@settings(max_examples=examples(200), deadline=None)
def test_every_record_arrives_once_and_in_order_or_is_too_large_alone(
    sizes: list[int],
    codec: int,
    recompressed: int | None,
    limit: int,
    path: CopyPath,
) -> None:
    target, reader = Target(recompressed, limit), reader_of(path)
    contents = values(sizes)
    last = len(sizes) - 1
    fetched = batch_of(contents[:-1], codec) if last else b""
    fetched += batch_of(contents[-1:], codec, last)
    reader.receive(fetched, [])
    stopped = None
    while reader.ready and stopped is None:
        for outgoing in BatchRouter("p").take_next(reader):
            stopped = stopped or write(target, outgoing, reader)
    landed = records_of(target.accepted)
    expected = [(n, 1_000 + n % max(1, last)) for n in range(len(sizes))]
    if stopped is None:
        assert [(offset, at) for offset, at, _ in landed] == expected
    else:
        assert stopped.count == 1
        at = stopped.first_source
        assert [(offset, stamp) for offset, stamp, _ in landed if offset < at] == expected[:at]
        assert not Target(recompressed, limit).takes(stopped)
        # The next lap copies what is before it, and nothing else.
        fault = Fault(SOURCE, FaultKind.TOO_LARGE, "too large", "", at)
        target, reader = Target(recompressed, limit), reader_of(path, reader.size_limit, fault)
        reader.receive(fetched, [])
        while reader.ready:
            for outgoing in BatchRouter("p").take_next(reader):
                assert write(target, outgoing, reader) is None
        assert [(offset, ms) for offset, ms, _ in records_of(target.accepted)] == expected[:at]
        assert (reader.handed, reader.fault, reader.done) == (at, fault, True)


def test_thousands_of_such_batches_are_not_learned_one_by_one() -> None:
    """Batches of 200 kB in about 10 kB onto a target that stores up to 100 kB uncompressed."""
    target, reader = Target(0, 100_000), reader_of()
    before, offset = 0, 0
    for number in range(120):
        contents = values([1_000] * 200, number, ratio=random.Random(number).choice((5, 10, 40)))
        reader.receive(batch_of(contents, 4, offset), [])
        offset += 200
        while reader.ready:
            for outgoing in BatchRouter("p").take_next(reader):
                assert write(target, outgoing, reader) is None
        if number == 20:
            before = target.refused
    assert target.refused == before <= 12
    assert len(records_of(target.accepted)) == 120 * 200
    # Each has been split into as few parts as halves allow, and not further and further.
    assert len(target.accepted) <= 121 * 5


def test_one_large_record_does_not_make_all_others_small() -> None:
    target, reader = Target(0, 100_000), reader_of()
    reader.receive(batch_of(values([500] * 20 + [99_000] + [500] * 20), 4), [])
    for outgoing in BatchRouter("p").take_next(reader):
        assert write(target, outgoing, reader) is None
    limit = reader.size_limit
    assert limit is not None and limit.uncompressed >= 99_000


def test_small_batches_as_sent_are_copied_unchanged() -> None:
    """The limit is of two sizes: a batch is not even decompressed if it is small as sent."""
    reader = reader_of(limit=SizeLimit(20_000, 50_000))
    whole = batch_of(values([1_000] * 200, ratio=40), 4)
    assert len(whole) < 20_000
    reader.receive(whole, [])
    (outgoing,) = BatchRouter("p").take_next(reader)
    assert (outgoing.count, outgoing.rebuilt) == (200, False)
    reader.receive(batch_of(values([100] * 300, ratio=1), 0, 200), [])
    (outgoing,) = BatchRouter("p").take_next(reader)
    assert (outgoing.count, outgoing.rebuilt) == (300, False), "large as sent, but not uncompressed"


def test_a_limit_is_forgotten_after_an_hour() -> None:
    now = [0.0]
    limits, nothing = LearnedLimits(lambda: now[0]), snapshot({})
    limits.learn({SOURCE: SizeLimit(1, 2)}, nothing)
    now[0] = 3_599.0
    assert limits.of(SOURCE) == SizeLimit(1, 2)
    now[0] = 3_600.0
    assert limits.of(SOURCE) is None


def test_the_size_of_requests_limits_the_batches_of_all_partitions_for_an_hour() -> None:
    now = [0.0]
    limits, whole = LearnedLimits(lambda: now[0]), ProduceSettings()
    assert limits.requests.apply(whole) == whole
    assert limits.requests.learn(1_000) and not limits.requests.learn(2_000)
    limits.learn({SOURCE: SizeLimit(5_000, 500)}, snapshot({}))
    assert limits.of(SOURCE) == SizeLimit(1_000, 500)
    assert limits.of(SourcePartition("other", 0)) == SizeLimit(1_000, 1_000)
    assert limits.requests.apply(whole).request_bytes == 1_000
    now[0] = 3_600.0
    assert limits.of(SOURCE) is None and limits.requests.apply(whole) == whole
    assert limits.requests.learn(2_000)


def snapshot(sizes: dict[str, tuple[int, str]]) -> TopicSnapshot:
    return TopicSnapshot({SOURCE: Route(CopyPath.VERBATIM, "t", 0, 1)}, sizes=sizes)


def test_a_limit_is_forgotten_with_other_settings_of_the_topic() -> None:
    limits = LearnedLimits()
    limits.learn({SOURCE: SizeLimit(1, 2)}, snapshot({"t": (100, "lz4")}))
    limits.forget_changed(snapshot({"t": (100, "lz4"), "other": (5, "gzip")}))
    assert limits.of(SOURCE) == SizeLimit(1, 2)
    limits.forget_changed(snapshot({"t": (100, "producer")}))
    assert limits.of(SOURCE) is None


def test_the_settings_are_those_of_the_topic_that_has_refused() -> None:
    """The names of others may begin as its name does."""
    sizes = {"a": (100, "lz4"), "a-b": (2_000, ""), "a-0": (3, "")}
    for name, shown in {
        "a": "a-0 refused it (compression.type lz4, max.message.bytes 100)",
        "a-b": "a-b-0 refused it (max.message.bytes 2,000)",
        "a-dead-letters": "a-dead-letters-0 refused it",
    }.items():
        fault = Fault(SOURCE, FaultKind.TOO_LARGE, f"{name}-0 refused it", "", 1, name)
        assert with_settings(fault, sizes).message == shown


def test_the_size_of_records_is_that_of_the_batch_at_most() -> None:
    records = make_records([(n, n * 10**9, b"k", b"v" * n) for n in range(300)])
    (built,) = build_batches(records, 0, built_bytes(records))
    assert HEADER_BYTES < len(built.data) <= built_bytes(records)
    assert len(list(build_batches(records, 0, built_bytes(records) - 1))) == 2
    assert built_bytes(records.take(np.array([3]))) == HEADER_BYTES + 21 + len(records.tails[3])
