"""From a fetched batch to batches for the target: as it is, rebuilt, or record by record."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from k2ktui.engine.partitioner import partition_for_key
from k2ktui.engine.state import SourcePartition
from k2ktui.replication.batch import COMPRESSION_MASK, Batch, Defect, defect
from k2ktui.replication.feed import Feed, now_ms
from k2ktui.replication.rebuild import (
    Built,
    RawRecord,
    build,
    read_varint,
    records,
    varint,
)
from k2ktui.replication.tokens import HeaderRules, Path, Route
from k2ktui.replication.writer import Outgoing, TargetPartition

# Batches smaller than this are worth merging when several wait: one goes per request and lane.
SMALL_BATCH_BYTES = 16 << 10
_MERGED_BYTES = 256 << 10
_MERGE_FROM = 3
_REBUILT_BYTES = 900 << 10  # below the default max.message.bytes of 1 MiB

Routed = tuple[TargetPartition, Outgoing]


def route(feed: Feed, pipeline: str) -> Iterator[tuple[TargetPartition, Outgoing, bool]]:
    """Take the next batch of a feed (or several small ones) and say where its records go.

    Yields:
        Target partition, batch, and whether it had to be rebuilt. All of them belong to one
        transaction.

    Raises:
        CorruptBatch: the records cannot be decoded where that is needed.
    """
    rules = feed.assignment.route
    if rules.path is Path.RECORD:
        yield from _by_record(feed, rules, pipeline)
        return
    assert rules.partition is not None
    target = (rules.topic, rules.partition)
    for outgoing, rebuilt in _whole(feed, rules):
        yield target, outgoing, rebuilt


def _whole(feed: Feed, rules: Route) -> Iterator[tuple[Outgoing, bool]]:
    position = feed.handed
    batch = feed.take()
    why = defect(batch, position)
    small = _small_successors(feed, batch, why)
    limit = rules.batch_limit
    if why is None and not small and not (limit and len(batch.view) > limit):
        ranges = ((batch.base_offset, 0, batch.count),)
        yield Outgoing(batch.view, batch.count, ranges, feed), False
        return
    found = records(batch, position)
    for other in small:
        found.extend(records(other))
    codec = batch.attributes & COMPRESSION_MASK if batch.magic == 2 else 0
    for built in build(found, codec, limit or _REBUILT_BYTES):
        yield _outgoing(built, feed), True


def _small_successors(feed: Feed, first: Batch, why: Defect | None) -> list[Batch]:
    """Take the small batches behind a small one, to be merged with it."""
    if why is not None or len(first.view) > SMALL_BATCH_BYTES or len(feed.ready) < _MERGE_FROM:
        return []
    taken: list[Batch] = []
    size = len(first.view)
    while feed.ready and size < _MERGED_BYTES:
        following = feed.ready[0]
        if (
            len(following.view) > SMALL_BATCH_BYTES
            or following.magic < 2
            or (following.attributes ^ first.attributes) & COMPRESSION_MASK
        ):
            break
        taken.append(feed.take())
        size += len(following.view)
    return taken


def _by_record(
    feed: Feed, rules: Route, pipeline: str
) -> Iterator[tuple[TargetPartition, Outgoing, bool]]:
    position = feed.handed
    batch = feed.take()
    found: list[RawRecord] = records(batch, position)
    if rules.now_timestamps:
        stamp = now_ms()
        found = [RawRecord(r.offset, stamp, r.tail) for r in found]
    choose = _chooser(rules, feed)
    change = _header_change(rules.headers, feed.source, pipeline)
    lanes: dict[int, list[RawRecord]] = defaultdict(list)
    for record in found:
        partition = choose(record)
        lanes[partition].append(change(record) if change else record)
    codec = batch.attributes & COMPRESSION_MASK if batch.magic == 2 else 0
    for partition, chosen in lanes.items():
        for built in build(chosen, codec, rules.batch_limit or _REBUILT_BYTES):
            yield (rules.topic, partition), _outgoing(built, feed), True


def _outgoing(built: Built, feed: Feed) -> Outgoing:
    ranges = tuple((r.source, r.target, r.count) for r in built.ranges)
    return Outgoing(memoryview(built.data), built.count, ranges, feed)


def _chooser(rules: Route, feed: Feed) -> Callable[[RawRecord], int]:
    if rules.partition is not None:
        fixed = rules.partition
        return lambda record: fixed
    # The Java producer spreads records without a key; keeping them by source partition instead
    # preserves their order, which spreading would lose.
    keyless = feed.source.partition % rules.partitions

    def by_key(record: RawRecord) -> int:
        length, at = read_varint(record.tail, 0)
        if length < 0:
            return keyless
        return partition_for_key(record.tail[at : at + length], rules.partitions)

    return by_key


def _header_change(
    rules: HeaderRules, source: SourcePartition, pipeline: str
) -> Callable[[RawRecord], RawRecord] | None:
    if not rules.drop and not rules.added:
        return None
    fixed = {"partition": str(source.partition), "topic": source.topic, "pipeline": pipeline}

    def change(record: RawRecord) -> RawRecord:
        tail = record.tail
        at = _headers_at(tail)
        count, after = read_varint(tail, at)
        kept = b"" if rules.drop else tail[after:]
        count = (0 if rules.drop else count) + len(rules.added)
        added = b"".join(
            _header(name, fixed.get(what) or str(record.offset)) for what, name in rules.added
        )
        return RawRecord(record.offset, record.timestamp, tail[:at] + varint(count) + kept + added)

    return change


def _headers_at(tail: bytes) -> int:
    at = 0
    for _ in ("key", "value"):
        length, at = read_varint(tail, at)
        at += max(0, length)
    return at


def _header(name: str, value: str) -> bytes:
    key, body = name.encode(), value.encode()
    return varint(len(key)) + key + varint(len(body)) + body
