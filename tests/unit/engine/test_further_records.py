"""Source records that became several records: where groups continue, against single offsets."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from k2ktui.engine.mapping.log import MappingChunk, MappingLog
from k2ktui.engine.mapping.opposite_copy import find_uncopied
from k2ktui.engine.mapping.range_columns import clip_columns, count_consumed, decode_columns
from k2ktui.engine.mapping.ranges import NOT_FOUND, MappingRanges
from k2ktui.engine.mapping.replica import Replica, TargetLog
from k2ktui.engine.mapping.translate import Basis, translate
from k2ktui.engine.records.state import (
    Covers,
    MalformedRecord,
    MappingRecord,
    Position,
    SourcePartition,
    mapping_key,
    mapping_value,
    read_mapping_record,
)
from k2ktui.mm2.publish import syncs_of
from k2ktui.replication.copying.range_builder import RangeBuilder
from k2ktui.sync.mapping.republish import repeat_mappings

AT = SourcePartition("t", 0)


@dataclass(frozen=True)
class Landed:
    """Where the records made of each source record landed, and its mapping."""

    targets: dict[int, list[int]]
    record: MappingRecord


#: Per source offset: number of records made of it, and target offsets of others before each.
copies = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from((0, 0, 0, 1, 3))), min_size=1, max_size=40
)


def land(copies: list[tuple[int, int]], random: Random, *, apart: bool) -> Landed:
    """Write the copies in batches of any size; with ``apart``, others come between them."""
    builder, targets = RangeBuilder(), dict[int, list[int]]()
    pending: list[int] = []
    at, begin = 100, 100

    def acknowledge() -> None:
        if pending:
            builder.add(np.array(pending, dtype=np.int64), begin)
        pending.clear()

    for source, (count, gap) in enumerate(copies):
        for number in range(count):
            if apart and gap and (number or random.random() < 0.5):
                acknowledge()
                at += gap
            elif random.random() < 0.2:
                acknowledge()
            if not pending:
                begin = at
            pending.append(source)
            targets.setdefault(source, []).append(at)
            at += 1
    acknowledge()
    template = MappingRecord("p", AT, "t", 0, covers=Covers(0, len(copies)))
    (record, *more) = [*builder.mappings(template)] or [template]
    for extra in more:  # ranges and runs come apart
        record = MappingRecord(
            "p", AT, "t", 0, 0, record.ranges + extra.ranges, extra.runs, record.covers
        )
    return Landed(targets, read_mapping_record(mapping_key(record), mapping_value(record)))


def ranges_of(landed: Landed) -> MappingRanges:
    ranges = MappingRanges()
    ranges.put(decode_columns(landed.record))
    return ranges


def check(ranges: MappingRanges, targets: dict[int, list[int]], end: int) -> None:
    """Compare every lookup with the single offsets."""
    sources = sorted(targets)
    for offset in range(end + 2):
        first = next((s for s in sources if s >= offset), None)
        (translated,) = ranges.translate(np.array([offset], dtype=np.int64)).tolist()
        assert translated == (NOT_FOUND if first is None else targets[first][0])
    last = max((target[-1] for target in targets.values()), default=None)
    assert ranges.target_end == (None if last is None else last + 1)
    for target in range(99, (last or 99) + 3):
        # A source record is read again until all that was made of it is consumed.
        unread = next((s for s in sources if targets[s][-1] >= target), NOT_FOUND)
        assert ranges.back(np.array([target], dtype=np.int64)).tolist() == [unread]
    assert ranges.records == len(targets)


@given(copies, st.randoms(use_true_random=False), st.booleans())
def test_offsets_are_translated_to_the_first_record_and_back_to_an_unread_one(
    pieces: list[tuple[int, int]], random: Random, apart: bool
) -> None:
    landed = land(pieces, random, apart=apart)
    check(ranges_of(landed), landed.targets, len(pieces))


@example([(1, 0), (1, 0)], Random(0), 1, 1)
@given(copies, st.randoms(use_true_random=False), st.integers(0, 41), st.integers(0, 41))
def test_parts_of_the_source_keep_what_belongs_to_them(
    pieces: list[tuple[int, int]], random: Random, low: int, high: int
) -> None:
    landed = land(pieces, random, apart=True)
    columns = decode_columns(landed.record)
    kept = {s: t for s, t in landed.targets.items() if low <= s < high}
    clipped, forgotten, merged = MappingRanges(), ranges_of(landed), MappingRanges()
    clipped.put(clip_columns(columns, low, high))
    check(clipped, kept, len(pieces))
    forgotten.forget(low, high)
    check(forgotten, {s: t for s, t in landed.targets.items() if s not in kept}, len(pieces))
    rows = list(range(len(columns)))
    random.shuffle(rows)
    for row in rows:
        merged.merge_older(columns.take(slice(row, row + 1)))
    merged.drop_before(low)
    first = len(pieces) if merged.first is None else merged.first
    assert all(s < low for s in landed.targets if s < first)
    check(merged, {s: t for s, t in landed.targets.items() if s >= first}, len(pieces))


@given(copies, st.randoms(use_true_random=False), st.integers(0, 41), st.integers(95, 200))
def test_further_records_count_as_records(
    pieces: list[tuple[int, int]], random: Random, commit: int, offset: int
) -> None:
    landed = land(pieces, random, apart=False)
    ranges = ranges_of(landed)
    every = [(s, t) for s, targets in landed.targets.items() for t in targets]
    after = [s for s, t in every if t >= offset]
    assert ranges.target_records_between(offset, 1000) == len(after)
    consumed = len([s for s in after if s < commit])
    # Of a source record at the edge of an interval, all that lies in the interval counts.
    assert ranges.count_within((0, commit), (offset, 1000)) == consumed
    assert count_consumed(ranges.columns(), commit, offset, 1000) == consumed


@given(copies, st.randoms(use_true_random=False))
def test_further_records_are_copies(pieces: list[tuple[int, int]], random: Random) -> None:
    landed = land(pieces, random, apart=False)
    copied = {target for targets in landed.targets.values() for target in targets}
    spans = find_uncopied([ranges_of(landed)], 95, 200)
    uncopied = [at for low, high in spans for at in range(low, high)]
    assert uncopied == [at for at in range(95, 200) if at not in copied]


@given(copies, st.randoms(use_true_random=False))
def test_the_parts_of_a_mapping_may_divide_a_source_record(
    pieces: list[tuple[int, int]], random: Random
) -> None:
    landed = land(pieces, random, apart=True)
    runs = landed.record.runs
    cut = random.randrange(len(runs) + 1)
    parts = [(landed.record.ranges, runs[:cut]), ((), runs[cut:])]
    random.shuffle(parts)
    log = MappingLog()
    for number, (ranges, some) in enumerate(parts):
        covers = Covers(0, len(pieces), number, 2)
        record = MappingRecord("p", AT, "t", 0, 1, ranges, some, covers)
        log.take(MappingChunk(1, 0, number, 0, number, covers, ("t", 0), decode_columns(record)))
    check(log.target_ranges.get(("t", 0), MappingRanges()), landed.targets, len(pieces))


def test_ranges_still_must_not_overlap() -> None:
    key = b'{"partition":0,"pipeline":"p","topic":"t"}'
    head = b'{"covers":[0,9,0,1],"ranges":[],"runs":'
    tail = b',"targetPartition":0,"targetTopic":"t","term":1,"v":1}'
    with pytest.raises(MalformedRecord, match="a number outside"):
        read_mapping_record(key, head + b"[[0,3,-1]]" + tail)
    landed = decode_columns(read_mapping_record(key, head + b"[[0,3,0,0],[7,4,1]]" + tail))
    assert (landed.source.tolist(), landed.target.tolist()) == ([3, 4, 5], [0, 7, 8])
    assert landed.further.tolist() == [2, 0, 0]


@given(copies, st.randoms(use_true_random=False), st.integers(0, 42))
def test_groups_read_all_that_was_made_of_unread_records_and_nothing_else(
    pieces: list[tuple[int, int]], random: Random, committed: int
) -> None:
    landed = land(pieces, random, apart=False)
    ranges, end = ranges_of(landed), len(pieces)
    position = Position(end, 0, -1, "", 0, 0, "t", 0)
    after = max((target[-1] + 1 for target in landed.targets.values()), default=100)
    replica = Replica(position, {("t", 0): ranges})
    (row,) = translate({AT: replica}, {AT: committed}, {("t", 0): TargetLog(90, after)})
    every = [(s, t) for s, targets in sorted(landed.targets.items()) for t in targets]
    assert row.offset is not None and row.skipped == 0
    assert [t for _, t in every if t >= row.offset] == [t for s, t in every if s >= committed]
    assert row.basis in (Basis.EXACT, Basis.END, Basis.AHEAD)


@given(copies, st.randoms(use_true_random=False))
def test_what_is_published_for_mirrormaker_names_the_first_record(
    pieces: list[tuple[int, int]], random: Random
) -> None:
    landed = land(pieces, random, apart=True)
    position = Position(len(pieces), 0, -1, "", 0, 0, "t", 0)
    synced = syncs_of(
        {AT: Replica(position, {("t", 0): ranges_of(landed)})}, {("t", 0): TargetLog(0, 500)}
    )
    last = max(landed.targets, default=None)
    expected = None if last is None else (last, landed.targets[last][0])
    sync = synced.get(AT)
    assert expected == (None if sync is None else (sync.upstream, sync.downstream))


@given(copies, st.randoms(use_true_random=False))
def test_repeated_mappings_say_the_same(pieces: list[tuple[int, int]], random: Random) -> None:
    landed = land(pieces, random, apart=True)
    log = MappingLog()
    covers = Covers(0, len(pieces))
    log.take(MappingChunk(1, 0, 0, 0, 0, covers, ("t", 0), decode_columns(landed.record)))
    again = MappingLog()
    for number, record in enumerate(repeat_mappings("p", AT, log, (0, len(pieces)))):
        read = read_mapping_record(mapping_key(record), mapping_value(record))
        assert read.covers is not None
        target = (read.target_topic, read.target_partition)
        columns = decode_columns(read)
        again.take(MappingChunk(1, 0, number, 0, number, read.covers, target, columns, read.again))
    check(again.target_ranges.get(("t", 0), MappingRanges()), landed.targets, len(pieces))
