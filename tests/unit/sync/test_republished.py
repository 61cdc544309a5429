"""What a repeat claims, if the broker deletes old records before they are read again."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from confluent_kafka import IsolationLevel, Message
from confluent_kafka.admin import OffsetSpec
from hypothesis import given, settings
from hypothesis import strategies as st

from k2ktui.engine.mapping.intervals import Span
from k2ktui.engine.mapping.log import MappingLog
from k2ktui.engine.mapping.ranges import NOT_FOUND
from k2ktui.engine.mapping.replica import Replica, TargetLog, TargetPartition
from k2ktui.engine.mapping.translate import translate
from k2ktui.engine.records.state import (
    Covers,
    MappingRange,
    MappingRecord,
    Position,
    SourcePartition,
    mapping_key,
    mapping_value,
)
from k2ktui.kafka.clients import TopicDescription
from k2ktui.kafka.control.keyed_writer import Entry
from k2ktui.sync.mapping import reload as mapping_reload
from k2ktui.sync.mapping import republish as mapping_republish
from k2ktui.sync.mapping import store as mapping_store
from k2ktui.sync.mapping.reader import TopicReader
from k2ktui.sync.mapping.sort import MappingSorter
from k2ktui.sync.mapping.store import MappingStore
from tests.support.schedule.examples import examples

MANY, WEEK_MS = 1_000, 604_800_000
A, B, C = (SourcePartition("s", number) for number in range(3))
LANES = {source: ("t", source.partition) for source in (A, B, C)}
LANE = LANES[A]


@dataclass
class Topic:
    """A mapping topic in memory, and what is written to it; it is its own cluster.

    Attributes:
        records: the records per partition; the offset of each is its index.
        starts: log start offset per partition.
        repeats: what ``republish`` wrote.
        deleted: log start offsets that take effect when the topic is read again.
        target_end: high watermark of the target partition that the mappings name.
    """

    records: dict[int, list[Entry]] = field(default_factory=dict)
    starts: dict[int, int] = field(default_factory=dict)
    repeats: list[Entry] = field(default_factory=list)
    deleted: dict[int, int] = field(default_factory=dict)
    label: str = "target"
    target_end: int = 1_000_000

    def target_ends(
        self, target: object, positions: Collection[SourcePartition], partitions: object
    ) -> dict[SourcePartition, dict[TargetPartition, int]]:
        return {source: dict.fromkeys(LANES.values(), self.target_end) for source in positions}

    def describe(self, names: Collection[str]) -> dict[str, TopicDescription]:
        return {name: TopicDescription(name, "id", max(self.records) + 1, 1) for name in names}

    def offsets(
        self,
        partitions: Collection[tuple[str, int]],
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        denied: Any = None,
    ) -> dict[tuple[str, int], int]:
        first = spec is OffsetSpec.earliest()
        return {
            at: self.starts.get(at[1], 0) if first else len(self.records.get(at[1], []))
            for at in partitions
        }

    def put(
        self,
        partition: int,
        source: SourcePartition,
        covers: Covers,
        *ranges: int,
        left_out: tuple[tuple[int, int], ...] = (),
    ) -> None:
        """Append a record with a range of one source record at each of these offsets."""
        rows = tuple(MappingRange(at, 1_000 + at, 1) for at in ranges)
        made = MappingRecord("p", source, *LANES[source], 1, rows, covers=covers, left_out=left_out)
        self.records.setdefault(partition, []).append((mapping_key(made), mapping_value(made)))

    def messages(self, partition: int, begin: int) -> list[Message]:
        return [
            Message(topic="m", partition=partition, offset=at, key=key, value=value)
            for at, (key, value) in enumerate(self.records.get(partition, []))
            if at >= begin
        ]


class Reader(TopicReader):
    """Reads the records in memory: it stops where records were deleted."""

    def __init__(self, topic: Any, name: str) -> None:
        super().__init__(topic, name)
        self._log: Topic = topic

    def seek(self, offsets: Mapping[int, int]) -> None:
        self.next = dict(offsets)
        self._log.starts.update(self._log.deleted)

    def read(self, ends: Mapping[int, int], until: float) -> Iterator[dict[int, list[Message]]]:
        for partition, begin in list(self.next.items()):
            messages = self._log.messages(partition, begin)
            if begin >= self._log.starts.get(partition, 0) and messages:
                self.next[partition] = begin + len(messages)
                yield {partition: messages}

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def topic() -> Iterator[Topic]:
    with pytest.MonkeyPatch.context() as patch:
        yield in_memory(patch)


def in_memory(patch: pytest.MonkeyPatch) -> Topic:
    """Let every record count as old, and every access go to a topic in memory."""
    made = Topic()
    patch.setattr(mapping_reload, "TopicReader", Reader)
    patch.setattr(mapping_store, "TopicReader", Reader)
    expiry = mapping_republish.MappingExpiry(WEEK_MS)
    patch.setattr(mapping_republish, "read_expiry", lambda target, topic: expiry)
    patch.setattr(mapping_republish, "old_before", lambda target, topic, ends, expiry: dict(ends))
    patch.setattr(mapping_republish, "read_target_ends", made.target_ends)

    def write(target: object, name: str, count: int, entries: Sequence[Entry], s: float) -> None:
        made.repeats += entries

    patch.setattr(mapping_republish, "write_repeats", write)
    return made


def loaded(
    topic: Topic, held: int = MANY, positions: Mapping[SourcePartition, Position] | None = None
) -> MappingStore:
    """Return a store that has read the topic, and holds so many ranges of each partition."""
    retention = SimpleNamespace(count=held, schedule_s=0.0, time_s=None)
    config: Any = SimpleNamespace(
        coordination=SimpleNamespace(commit=SimpleNamespace(group="p", batch_timeout_s=0.0)),
        features=SimpleNamespace(offset_mapping=True),
        offset_mapping=SimpleNamespace(topic="m", retention=retention),
    )
    cluster: Any = topic
    store = MappingStore(config, cluster)
    unknown = {at: Position(0, 0, -1, "", 1, 0, *lane) for at, lane in LANES.items()}
    store.refresh(20.0, unknown if positions is None else positions)
    return store


def read(topic: Topic, messages: Mapping[int, list[Message]]) -> dict[SourcePartition, MappingLog]:
    tracks: dict[SourcePartition, MappingLog] = {}
    for message in messages.values():
        for source, pieces in MappingSorter(("p",)).sort(message):
            for piece in pieces:
                tracks.setdefault(source, MappingLog()).take(piece)
    return tracks


def later(topic: Topic) -> dict[SourcePartition, MappingLog]:
    """Return what is known to a reader that comes when only the repeats are left."""
    topic.records[99] = topic.repeats
    return read(topic, {99: topic.messages(99, 0)})


def claimed(
    tracks: Mapping[SourcePartition, MappingLog], source: SourcePartition
) -> tuple[Span, ...]:
    return tracks[source].known.all() if source in tracks else ()


def rows(tracks: Mapping[SourcePartition, MappingLog], source: SourcePartition) -> list[int]:
    columns = tracks[source].target_ranges[LANES[source]].columns()
    return [
        int(first) + n
        for first, count in zip(columns.source, columns.count, strict=True)
        for n in range(int(count))
    ]


def fill(topic: Topic, partition: int, source: SourcePartition, numbers: Collection[int]) -> None:
    """Put a transaction of ten source offsets for each of the numbers, five of them records."""
    for n in numbers:
        topic.put(partition, source, Covers(n * 10, n * 10 + 10), *range(n * 10, n * 10 + 10, 2))


def test_a_repeat_holds_all_ranges_of_what_it_claims(topic: Topic) -> None:
    fill(topic, 0, A, range(10))
    store = loaded(topic, 10)
    assert store.replica(A).held_from > 5
    assert store.republish({A: 5}) == [A]
    assert claimed(later(topic), A) == ((5, 100),)
    assert rows(later(topic), A) == list(range(6, 100, 2))


def test_a_repeat_says_up_to_where_records_came_from_the_target(topic: Topic) -> None:
    """Otherwise a source that is lost later looks as if nothing had come from the target."""
    fill(topic, 0, A, range(5))
    topic.put(0, A, Covers(50, 60), 50, left_out=((51, 53), (54, 57)))
    fill(topic, 0, A, range(6, 10))
    store = loaded(topic)
    assert store.republish({A: 5}) == [A]
    assert later(topic)[A].left_out_end == 57


def test_nothing_is_claimed_that_was_deleted_before_it_could_be_read_again(topic: Topic) -> None:
    """The ranges below 80 are only in the topic, and are deleted there: a repeat from 5 on would
    say that source offsets 5 to 79 were never copied."""
    fill(topic, 0, A, range(10))
    store = loaded(topic, 10)
    topic.deleted = {0: 3}
    assert store.republish({A: 5}) == []
    assert topic.repeats == []
    # The next attempt, before the store has started over, claims only what is in memory.
    held = store.replica(A).held_from
    assert store.republish({A: 5}) == [A]
    assert claimed(later(topic), A) == ((held, 100),)
    assert rows(later(topic), A) == list(range(held + held % 2, 100, 2))


def test_only_the_partition_that_could_not_be_read_is_left_out(topic: Topic) -> None:
    """What is in memory needs no reading."""
    fill(topic, 0, A, range(20))
    fill(topic, 1, B, range(10))
    store = loaded(topic, 50)
    topic.deleted = {0: 3, 1: 3}
    assert store.republish({A: 5, B: 5}) == [B]
    assert claimed(later(topic), A) == ()
    assert claimed(later(topic), B) == ((5, 100),)
    assert rows(later(topic), B) == list(range(6, 100, 2))


def test_one_partition_of_the_mapping_topic_does_not_hold_up_the_others(topic: Topic) -> None:
    fill(topic, 0, A, range(10))
    fill(topic, 1, B, range(10))
    store = loaded(topic, 10)
    topic.deleted = {0: 3}
    assert store.republish({A: 5, B: 5}) == [B]
    assert claimed(later(topic), A) == ()
    assert rows(later(topic), B) == list(range(6, 100, 2))


@pytest.mark.parametrize("deleted", [False, True])
def test_nothing_is_claimed_below_what_the_topic_held(topic: Topic, deleted: bool) -> None:
    """The mapping is known from source offset 50 on; a group needs offset 5."""
    fill(topic, 0, A, range(5, 10))
    store = loaded(topic, 10 if deleted else MANY)
    if deleted:
        topic.deleted = {0: 1}
    assert store.republish({A: 5}) == ([] if deleted else [A])
    assert claimed(later(topic), A) == (() if deleted else ((50, 100),))


def test_after_a_failed_repeat_the_store_says_what_it_does_not_know(topic: Topic) -> None:
    fill(topic, 0, A, range(10))
    store = loaded(topic, 10, {A: Position(100, 0, -1, "", 1, 0, *LANE)})
    held = store.replica(A).held_from
    topic.deleted = {0: 3}
    store.republish({A: 5})
    copy = store.replica(A)
    assert (copy.complete_from, copy.holes, copy.behind) == (None, ((5, held),), False)
    assert copy.left_out_end == 0


@pytest.mark.parametrize("committed", [100, 1_000])
def test_a_group_that_has_read_everything_keeps_where_it_continues(
    topic: Topic, committed: int
) -> None:
    """Without the last mapped record, the end of what was copied would be unknown."""
    fill(topic, 0, A, range(10))
    store = loaded(topic)
    assert store.republish({A: committed}) == [A]
    assert claimed(later(topic), A) == ((98, 100),)
    assert rows(later(topic), A) == [98]


@pytest.mark.parametrize("target_end", [1_050, 1_051, 500])
def test_what_the_target_has_lost_is_not_repeated(topic: Topic, target_end: int) -> None:
    """A repeat would outlive the mappings that show the loss, and lead groups to other records."""
    fill(topic, 0, A, range(10))
    store = loaded(topic)
    topic.target_end = target_end
    done = store.republish({A: 6})
    copied = [at for at in range(6, 100, 2) if 1_000 + at < target_end]
    assert done == ([A] if copied else [])
    if copied:
        assert rows(later(topic), A) == copied
    lost = set(range(6, 100, 2)) - set(copied)
    covered = {at for low, end in claimed(later(topic), A) for at in range(low, end)}
    assert not lost & covered, "a covered offset without a mapping would hold no record"


def test_what_later_copies_have_overwritten_is_not_repeated(topic: Topic) -> None:
    """The target lost its end at 1,020, and the records from source offset 50 on landed there."""
    fill(topic, 0, A, range(5))
    for n in range(5, 10):
        made = MappingRecord(
            "p",
            A,
            *LANE,
            1,
            (MappingRange(n * 10, 970 + n * 10, 10),),
            covers=Covers(n * 10, n * 10 + 10),
        )
        topic.records[0].append((mapping_key(made), mapping_value(made)))
    store = loaded(topic)
    topic.target_end = 1_070
    assert store.republish({A: 5}) == [A]
    assert rows(later(topic), A) == [*range(6, 20, 2), *range(50, 100)]
    covered = {at for low, end in claimed(later(topic), A) for at in range(low, end)}
    assert not covered & set(range(20, 50, 2))


def test_where_partitions_share_a_target_the_mappings_of_all_are_needed(topic: Topic) -> None:
    """A group continues at a record of A; what it has read of B behind it is read again."""

    def put(source: SourcePartition, first: int, landed: int) -> None:
        rows = (MappingRange(first, landed, 10),)
        covers = Covers(first, first + 10)
        made = MappingRecord("p", source, *LANE, 1, rows, covers=covers)
        topic.records.setdefault(0, []).append((mapping_key(made), mapping_value(made)))

    for n in range(10):
        put(A, n * 10, n * 20)
        put(B, n * 10, n * 20 + 10)
    store = loaded(topic)
    needed = {A: 35, B: 90}
    store.reach(needed)
    assert store.republish(needed) == [A, B]
    tracks = later(topic)
    assert claimed(tracks, A) == ((30, 100),) and claimed(tracks, B) == ((20, 100),)
    position = Position(100, 0, -1, "", 1, 0, *LANE)
    claims = {at: tracks[at].known.all()[0][0] for at in needed}
    rows_of = [
        translate(replicas, needed, {LANE: TargetLog(0, 200)})
        for replicas in (
            {at: Replica(position, store.replica(at).target_ranges) for at in needed},
            {at: Replica(position, tracks[at].target_ranges, claims[at]) for at in needed},
        )
    ]
    assert rows_of[0] == rows_of[1]
    assert (rows_of[0][0].offset, rows_of[0][0].reread) == (65, 60)


def test_a_target_that_may_be_another_one_gets_no_repeats(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its topic was created again, or its leader does not answer."""
    fill(topic, 0, A, range(10))
    store = loaded(topic)
    answers: list[dict[SourcePartition, dict[TargetPartition, int]]] = [{}, {A: {}}]
    for ends in answers:
        monkeypatch.setattr(mapping_republish, "read_target_ends", lambda *_, ends=ends: ends)
        assert store.republish({A: 5}) == []
    assert topic.repeats == []


@settings(deadline=None, max_examples=examples(40))
@given(st.integers(0, 2**32))
def test_repeats_never_claim_more_than_they_hold(seed: int) -> None:
    """Random topics, memory bounds, needs and deletions: what a later reader takes as known from
    the repeats is mapped exactly as it was copied."""
    random = Random(seed)
    with pytest.MonkeyPatch.context() as patch:
        topic, copied = in_memory(patch), dict[SourcePartition, set[int]]()
        for source in (A, B, C):
            first = random.randint(0, 4)
            missing = random.randint(0, 20)
            numbers = [n for n in range(first, random.randint(first + 1, 20)) if n != missing]
            fill(topic, random.randint(0, 1), source, numbers)
            copied[source] = {at for n in numbers for at in range(n * 10, n * 10 + 10, 2)}
        store = loaded(topic, random.randint(1, 100))
        topic.deleted = {p: random.choice([0, 0, 1, 10]) for p in topic.records}
        needed = {source: random.randint(0, 150) for source in (A, B, C)}
        done = store.republish(needed)
        republished = later(topic)
        assert sorted(republished) == done
        for source, track in republished.items():
            low = min(needed[source], max(copied[source]))  # the end of a group that has read all
            assert all(first >= low for first, _ in track.known.all())
            spans = track.known.all()
            expected = sorted(at for at in copied[source] if any(a <= at < b for a, b in spans))
            asked = np.array(expected, dtype=np.int64)
            landed = track.target_ranges[LANES[source]].translate(asked) if expected else asked
            assert NOT_FOUND not in landed.tolist()
            assert landed.tolist() == [1_000 + at for at in expected]
