"""The mapping topic on a real broker: order, terms, bounds, and everything that may go missing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator
from dataclasses import replace
from zlib import crc32

import numpy as np
import pytest
from confluent_kafka import IsolationLevel
from confluent_kafka.admin import (
    OffsetSpec,
)

from k2ktui.engine.mapping.replica import Replica
from k2ktui.engine.records.state import (
    Covers,
    MappingRange,
    MappingRecord,
    Position,
    SourcePartition,
    mapping_key,
    mapping_value,
)
from k2ktui.errors import TimedOut
from k2ktui.kafka.clients import Cluster, Partition
from k2ktui.progress import ProgressStep, listening
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.mapping.store import MappingStore
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    admin,
    alter_topic,
    await_stable,
    create_topic,
    delete_before,
    delete_topic,
    end_offsets,
    eventually,
    grow_topic,
    open_transaction,
    produce,
)
from tests.support.pipelines.copied import Copied

AT, OTHER = SourcePartition("s", 0), SourcePartition("s", 1)
LANE = ("t", 0)
Range = tuple[int, int, int]
WEEK_MS, HOUR_MS = 604_800_000, 3_600_000


@pytest.fixture
def store(copied: Copied) -> Iterator[MappingStore]:
    made = MappingStore(copied.config, copied.cluster)
    yield made
    made.close()


def position(offset: int, start: int = 0, since: int = 0) -> dict[SourcePartition, Position]:
    return {AT: Position(offset, start, -1, "", 1, 0, *LANE, since=since)}


def record(
    copied: Copied, term: int, covers: Covers, *ranges: Range, source: SourcePartition = AT
) -> Out:
    made = tuple(MappingRange(*numbers) for numbers in ranges)
    mapping = MappingRecord(copied.name, source, *LANE, term, made, covers=covers)
    return Out(mapping_value(mapping), mapping_key(mapping))


def put(
    copied: Copied, term: int, covers: Covers, *ranges: Range, source: SourcePartition = AT
) -> None:
    produce(copied.target, copied.mappings, [record(copied, term, covers, *ranges, source=source)])


def steps(count: int, first: int = 0) -> list[tuple[Covers, Range]]:
    """Transactions that cover ten source offsets each, the last two of which hold no record."""
    rows = range(first, first + count)
    return [(Covers(n * 10, n * 10 + 10), (n * 10, 1_000 + n * 9, 8)) for n in rows]


def put_steps(copied: Copied, count: int, first: int = 0, at_ms: int | None = None) -> None:
    outs = [record(copied, 1, covers, span) for covers, span in steps(count, first)]
    produce(
        copied.target,
        copied.mappings,
        [Out(out.value, out.key, timestamp=at_ms) for out in outs],
    )


def fill_lane(node: KafkaNode, count: int) -> None:
    """Let the target partition have so many records at least."""
    topic = LANE[0]
    if topic not in admin(node).list_topics(timeout=TIMEOUT).topics:
        create_topic(node, topic)
    produce(node, topic, [b""] * (count - end_offsets(node, topic)[0]))


def rows(store: MappingStore) -> list[Range]:
    columns = store.replica(AT).target_ranges[LANE].columns()
    ranges = zip(columns.source, columns.target, columns.count, strict=True)
    return [(int(s), int(t), int(n)) for s, t, n in ranges]


# The gaps of a mapping that has none.
WHOLE = Replica(None)


def gaps(store: MappingStore) -> Replica:
    """What a copy's mapping lacks, without the rest of it."""
    copy = store.replica(AT)
    return replace(copy, position=None, target_ranges={}, mapped=0, held_from=0)


def translated(store: MappingStore, offset: int) -> int:
    return int(store.replica(AT).target_ranges[LANE].translate(np.array([offset]))[0])


class Leaderless(Cluster):
    """A cluster of one broker cannot lose a partition's leader: here its answers lack one."""

    lacking: frozenset[Partition] = frozenset()

    def offsets(
        self,
        partitions: Collection[Partition],
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        denied: set[Partition] | None = None,
    ) -> dict[Partition, int]:
        offsets = super().offsets(partitions, spec, isolation, denied)
        return {at: offset for at, offset in offsets.items() if at not in self.lacking}


def test_a_partition_of_the_topic_that_no_broker_leads(copied: Copied) -> None:
    """It is not one that was read to its end, and it is not read again when it is back."""
    put_steps(copied, 2)
    cluster = Leaderless(copied.config.target, "target")
    with contextlib.closing(MappingStore(copied.config, cluster)) as store:
        assert not store.refresh(TIMEOUT, position(20)).behind
        copy_of = rows(store)
        numbers = range(len(admin(copied.target).list_topics().topics[copied.mappings].partitions))
        cluster.lacking = frozenset((copied.mappings, number) for number in numbers)
        put_steps(copied, 1, first=2)
        with pytest.raises(
            TimedOut,
            match=f"the log bounds of {copied.mappings}-0 on the target cluster are unavailable",
        ):
            store.refresh(TIMEOUT, position(30))
        assert rows(store) == copy_of
        cluster.lacking = frozenset()
        assert store.refresh(TIMEOUT, position(30)).records == 1
        assert store.replica(AT).mapped == 24


def test_order_terms_and_what_is_new(copied: Copied, store: MappingStore) -> None:
    # One transaction's records come in any order: none of them cuts another.
    put(copied, 1, Covers(180, 370, 1, 2), (246, 346, 10), (360, 460, 5))
    put(copied, 1, Covers(180, 370, 0, 2), (182, 282, 20))
    assert not store.refresh(TIMEOUT, position(370, 180)).behind
    assert rows(store) == [(182, 282, 20), (246, 346, 10), (360, 460, 5)]
    assert gaps(store) == WHOLE
    # A later run that went back counts from there on.
    put(copied, 2, Covers(250, 260), (250, 900, 3))
    store.refresh(TIMEOUT, position(260, 180))
    assert rows(store) == [(182, 282, 20), (246, 346, 4), (250, 900, 3)]
    produce(copied.target, copied.mappings, [Out(b"?", b"?")])
    put(copied, 2, Covers(300, 310), (300, 950, 1))
    report = store.refresh(TIMEOUT, position(310, 180))
    assert (report.malformed_count, report.malformed[0].offset) == (1, 3)
    assert gaps(store) == replace(WHOLE, holes=((260, 300),))


def test_loading_says_how_far_it_is(copied: Copied, store: MappingStore) -> None:
    put_steps(copied, 2_000)
    steps_heard: list[ProgressStep] = []
    with listening(steps_heard.append):
        store.refresh(TIMEOUT, position(20_000))
    counted = [step for step in steps_heard if step.total == 2_000]
    assert {step.text for step in counted} == {"mapping records read"}
    assert (counted[0].done, counted[-1].done) == (0, 2_000)
    assert [step.done for step in counted] == sorted(step.done for step in counted)
    assert steps_heard[-1] == ProgressStep("")
    put_steps(copied, 5, first=2_000)
    steps_heard.clear()
    with listening(steps_heard.append):
        store.refresh(TIMEOUT, position(20_050))
    assert max(step.done for step in steps_heard) == 5  # counted from where it went on


def test_a_bound_changes_no_answer(copied: Copied) -> None:
    copied.settings = {
        "offsetMapping": {
            "topic": copied.mappings,
            "retention": {"count": 5, "schedule": "1 millisecond"},
        }
    }
    store = MappingStore(copied.config, copied.cluster)
    try:
        put_steps(copied, 700)
        store.refresh(TIMEOUT, position(7_000))
        assert len(rows(store)) == 5
        assert gaps(store) == WHOLE
        assert store.replica(AT).mapped == 5_600
        # No entry of the index, in the middle, and at an end of what is in memory.
        for offset in (6_951, 6_940, 3_009, 0):
            store.reach({AT: offset})
            wanted = -(-offset // 10) * 10 if offset % 10 > 7 else offset
            assert translated(store, offset) == 1_000 + wanted // 10 * 9 + wanted % 10
            assert translated(store, 6_999) == -1
        assert len(rows(store)) == 700
        store.refresh(TIMEOUT, position(7_000))
        store.refresh(TIMEOUT, position(7_000))
        assert len(rows(store)) == 5
        # A run that goes back behind what is in memory.
        put(copied, 2, Covers(1_000, 1_010), (1_000, 9_000, 8))
        store.refresh(TIMEOUT, position(1_010))
        store.reach({AT: 0})
        assert [translated(store, offset) for offset in (0, 995, 1_003)] == [1_000, 1_896, 9_003]
        assert rows(store)[-1] == (1_000, 9_000, 8)
    finally:
        store.close()


def test_old_mappings_leave_the_memory(copied: Copied) -> None:
    """``retention.time``: also where all are old, and were read at once. They are read again."""
    copied.settings = {
        "offsetMapping": {
            "topic": copied.mappings,
            "retention": {"time": "1 hour", "schedule": "1 millisecond"},
        }
    }
    now = int(time.time() * 1000)
    put_steps(copied, 700, at_ms=now - 2 * HOUR_MS)
    with contextlib.closing(MappingStore(copied.config, copied.cluster)) as store:
        store.refresh(TIMEOUT, position(7_000))
        # The end of the last one is where a group continues that has read everything.
        assert rows(store) == [(6_990, 7_291, 8)]
        assert (store.replica(AT).mapped, gaps(store)) == (5_600, WHOLE)
        store.reach({AT: 1_000})
        assert translated(store, 1_000) == 1_900
        put_steps(copied, 20, first=700, at_ms=now)
        store.refresh(TIMEOUT, position(7_200))
        store.refresh(TIMEOUT, position(7_200))
        assert rows(store)[0] == (7_000, 7_300, 8) and len(rows(store)) == 20
        assert store.replica(AT).held_from == 7_000


def test_what_the_topic_has_lost_is_unknown(copied: Copied, store: MappingStore) -> None:
    put_steps(copied, 20)
    store.refresh(TIMEOUT, position(200))
    assert gaps(store) == WHOLE
    delete_before(copied.target, copied.mappings, 5)
    store.refresh(TIMEOUT, position(200))
    assert gaps(store) == replace(WHOLE, complete_from=50)
    assert rows(store)[0] == (50, 1_045, 8)
    # Created again: nothing but what is written from now on is known.
    delete_topic(copied.target, copied.mappings)
    gone = replace(WHOLE, complete_from=200)
    eventually(
        lambda: store.refresh(TIMEOUT, position(200)) and gaps(store) == gone,
        "it is deleted",
    )
    create_topic(copied.target, copied.mappings, 1)
    put_steps(copied, 2, first=20)
    store.refresh(TIMEOUT, position(220))
    assert gaps(store) == replace(WHOLE, complete_from=200)
    assert translated(store, 203) == 1_183


def test_it_was_off_for_a_time(copied: Copied, store: MappingStore) -> None:
    put_steps(copied, 2)
    put_steps(copied, 2, first=5)
    store.refresh(TIMEOUT, position(80))
    assert gaps(store) == replace(WHOLE, holes=((20, 50), (70, 80)))


def test_a_source_log_that_is_no_more(copied: Copied, store: MappingStore) -> None:
    put(copied, 1, Covers(0, 100), (0, 0, 100))
    store.refresh(TIMEOUT, position(100))
    put(copied, 4, Covers(0, 10), (0, 500, 10))
    store.refresh(TIMEOUT, position(10, since=4))
    assert rows(store) == [(0, 500, 10)]
    assert gaps(store) == WHOLE


def test_an_open_transaction_holds_mappings_back(copied: Copied) -> None:
    copied.settings = {"coordination": {"commit": {"topic": "c", "batchTimeout": "100 ms"}}}
    store = MappingStore(copied.config, copied.cluster)
    put_steps(copied, 1)
    opened = open_transaction(
        copied.target, copied.mappings, [record(copied, 1, *steps(1, first=1)[0])]
    )
    try:
        assert store.refresh(TIMEOUT, position(20)).behind
        assert gaps(store) == replace(WHOLE, behind=True)
        assert not store.refresh(TIMEOUT, position(10)).behind
        opened.commit_transaction(TIMEOUT)
        await_stable(copied.target, copied.mappings)
        assert not store.refresh(TIMEOUT, position(20)).behind
        assert gaps(store) == WHOLE
    finally:
        store.close()


def test_more_partitions_from_the_next_run_on(copied: Copied, store: MappingStore) -> None:
    put_steps(copied, 3)
    store.refresh(TIMEOUT, position(30))
    grow_topic(copied.target, copied.mappings, 3)
    made = record(copied, 2, Covers(20, 40), (20, 7_000, 20))
    home = crc32(made.key or b"") % 3
    produce(copied.target, copied.mappings, [Out(made.value, made.key, home)])
    assert not store.refresh(TIMEOUT, position(40)).behind
    expected = [(0, 1_000, 8), (10, 1_009, 8), (20, 7_000, 20)]
    assert rows(store) == expected
    fresh = MappingStore(copied.config, copied.cluster)
    try:
        fresh.refresh(TIMEOUT, position(40))
        assert (rows(fresh), gaps(fresh)) == (expected, WHOLE)
    finally:
        fresh.close()


def test_another_pipeline_maps_the_same(copied: Copied, store: MappingStore) -> None:
    put_steps(copied, 1)
    mapping = MappingRecord("other", AT, "elsewhere", 0, 1, covers=Covers(0, 9))
    produce(copied.target, copied.mappings, [Out(mapping_value(mapping), mapping_key(mapping))] * 2)
    report = store.refresh(TIMEOUT, position(10))
    assert report.conflicting_pipelines == {AT: tuple(sorted([copied.name, "other"]))}
    assert gaps(store) == WHOLE


def test_what_groups_need_is_written_again_before_it_is_deleted(
    copied: Copied, store: MappingStore
) -> None:
    now = int(time.time() * 1000)
    alter_topic(copied.target, copied.mappings, retention_ms=str(WEEK_MS))
    put_steps(copied, 300, at_ms=now - WEEK_MS * 6 // 10)
    put_steps(copied, 10, first=300, at_ms=now)
    store.refresh(TIMEOUT, position(3_100))
    before = rows(store)
    assert store.republish({AT: 1_005}) == [], "the target has not what they name"
    fill_lane(copied.target, 4_000)
    assert store.expires_at({AT: 1_005}) == pytest.approx((now + WEEK_MS * 4 // 10) / 1000)
    assert store.republish({AT: 1_005, OTHER: 0}) == [AT]
    store.refresh(TIMEOUT, position(3_100))
    assert store.republish({AT: 1_005}) == []
    renewed = store.expires_at({AT: 1_005})
    assert renewed is not None and now <= renewed * 1000 - WEEK_MS <= time.time() * 1000
    assert store.expires_at({OTHER: 0}) is None
    delete_before(copied.target, copied.mappings, 300)
    store.refresh(TIMEOUT, position(3_100))
    assert gaps(store) == replace(WHOLE, complete_from=1_005)
    assert rows(store) == [(1_005, 1_905, 3), *before[101:]]
    # The needed stretch is not in memory, and its only record is the repeat.
    store.reach({AT: 1_010})
    assert translated(store, 1_010) == 1_909


def test_several_source_partitions_on_one_target_partition(copied: Copied) -> None:
    """What lies behind a translation is in memory for all of them: it is counted as re-read."""
    copied.settings = {
        "offsetMapping": {
            "topic": copied.mappings,
            "retention": {"count": 5, "schedule": "1 millisecond"},
        }
    }
    store = MappingStore(copied.config, copied.cluster)
    try:
        outs = []
        for n in range(400):
            covers = Covers(n * 10, n * 10 + 10)
            outs.append(record(copied, 1, covers, (n * 10, n * 20, 9)))
            outs.append(record(copied, 1, covers, (n * 10, n * 20 + 10, 9), source=OTHER))
        produce(copied.target, copied.mappings, outs)
        at = Position(4_000, 0, -1, "", 1, 0, *LANE)
        store.refresh(TIMEOUT, {AT: at, OTHER: at})
        store.reach({AT: 1_000, OTHER: 3_990})
        other = store.replica(OTHER).target_ranges[LANE]
        assert translated(store, 1_000) == 2_000
        assert other.target_records_between(2_000, 8_000) == 300 * 9
        assert other.target_records_between(0, 2_000) > 0
    finally:
        store.close()
