"""Translation against a brute-force model of a source log, its copy, and a group that reads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.mapping.ranges import MappingRanges
from k2ktui.engine.mapping.replica import Replica, TargetLog
from k2ktui.engine.mapping.translate import Basis, Translation, translate
from k2ktui.engine.records.state import Gap, Landed, Position, SourcePartition

TARGET = ("t", 0)
A, B = SourcePartition("a", 0), SourcePartition("b", 0)


def position(offset: int, start: int = 0, **changes: object) -> Position:
    made = Position(offset, start, 0, "id", 1, 0, TARGET[0], TARGET[1])
    return replace(made, **changes)  # type: ignore[arg-type]


def ranges_of(pairs: list[tuple[int, int]]) -> MappingRanges:
    ranges = MappingRanges()
    for source, target in pairs:
        ranges.append(np.array([source]), np.array([target]), np.array([1]))
    return ranges


def one(replica: Replica, committed: int, log: TargetLog | None) -> Translation:
    (row,) = translate({A: replica}, {A: committed}, {TARGET: log} if log else {})
    return row


# A log is a list of steps: how many offsets without a record come first (compaction, markers,
# aborted records), and how many foreign target offsets (native records, our own markers).
logs = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=40)


def copied(
    log: list[tuple[int, int]], start: int = 5, target: int = 100
) -> tuple[list[tuple[int, int]], int]:
    """Return (source, target) of each record, and the replicated position."""
    pairs, source = [], start
    for source_gap, target_gap in log:
        source, target = source + source_gap, target + target_gap
        pairs.append((source, target))
        source, target = source + 1, target + 1
    return pairs, source


@given(logs, st.integers(5, 200))
def test_a_group_reads_exactly_what_it_has_not_read(
    log: list[tuple[int, int]], committed: int
) -> None:
    pairs, end = copied(log)
    row = one(Replica(position(end, 5), {TARGET: ranges_of(pairs)}), committed, TargetLog(0, 500))
    unread = [t for s, t in pairs if s >= committed]
    would_read = [t for _, t in pairs if row.offset is not None and t >= row.offset]
    assert would_read == unread
    assert row.skipped == 0
    if unread:
        assert (row.basis, row.offset, row.reread) == (Basis.EXACT, unread[0], 0)
    elif committed <= end:
        assert (row.basis, row.reread) == (Basis.END, 0)
    else:
        assert (row.basis, row.reread) == (Basis.AHEAD, committed - end)


TOPICS = (("eu", 0), ("us", 0), ("us", 1))


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(TOPICS)), max_size=40), st.data())
def test_records_on_several_topics_are_read_once(
    log: list[tuple[int, tuple[str, int]]], data: st.DataObject
) -> None:
    """An expression or a key chose where each record went; 0 re-read, 0 skipped on all together."""
    landed: dict[tuple[str, int], list[tuple[int, int]]] = {}
    source = 5
    for gap, where in log:
        source += gap
        pairs = landed.setdefault(where, [])
        pairs.append((source, 100 + 2 * len(pairs)))
        source += 1
    at = position(
        source, 5, target_topic="eu", target_partition=None, further_targets=(("us", ""),)
    )
    replica = Replica(at, {where: ranges_of(pairs) for where, pairs in landed.items()})
    committed = data.draw(st.integers(5, source))

    rows = translate({A: replica}, {A: committed}, dict.fromkeys(TOPICS, TargetLog(0, 500)))

    assert {row.target for row in rows} == landed.keys()
    for row in rows:
        pairs = landed[row.target]
        assert row.offset is not None and (row.reread, row.skipped) == (0, 0)
        assert [s for s, t in pairs if t >= row.offset] == [s for s, _ in pairs if s >= committed]
        assert row.basis in (Basis.EXACT, Basis.END)


@given(logs, logs, st.integers(5, 120), st.integers(5, 120), st.randoms())
def test_with_several_sources_nothing_is_skipped_and_what_is_read_again_is_counted(
    a: list[tuple[int, int]],
    b: list[tuple[int, int]],
    read_a: int,
    read_b: int,
    random: object,
) -> None:
    records_a, end_a = copied(a)
    records_b, end_b = copied(b)
    merged = [(A, s) for s, _ in records_a] + [(B, s) for s, _ in records_b]
    merged.sort(key=lambda item: (item[1] * 7919) % 101)
    merged.sort(key=lambda item: item[1])
    landed = {item: 100 + i for i, item in enumerate(merged)}
    lanes = {
        source: ranges_of([(s, landed[(source, s)]) for s, _ in records])
        for source, records in ((A, records_a), (B, records_b))
    }
    replicas = {
        A: Replica(position(end_a, 5), {TARGET: lanes[A]}),
        B: Replica(position(end_b, 5), {TARGET: lanes[B]}),
    }
    commits = {A: min(read_a, end_a), B: min(read_b, end_b)}
    end = 100 + len(merged)
    (row,) = translate(replicas, commits, {TARGET: TargetLog(0, end)})
    assert row.offset is not None
    unread = [t for (source, s), t in landed.items() if s >= commits[source]]
    again = [t for (source, s), t in landed.items() if s < commits[source] and t >= row.offset]
    assert all(t >= row.offset for t in unread)
    assert row.reread == len(again)
    assert row.skipped == 0
    assert (row.basis is Basis.BOUNDED) == bool(again)


def test_a_caught_up_group_moves_over_control_records_only_where_that_is_proven() -> None:
    replica = Replica(position(10), {TARGET: ranges_of([(s, 100 + s) for s in range(9)])})
    assert one(replica, 10, TargetLog(0, 112)).offset == 109
    assert one(replica, 10, TargetLog(0, 112, clear_from=109)).offset == 112
    assert one(replica, 10, TargetLog(0, 112, clear_from=110)).offset == 109
    assert one(replica, 9, TargetLog(0, 112)).basis is Basis.END


def test_nothing_copied_yet_means_the_targets_end() -> None:
    row = one(Replica(position(0)), 0, TargetLog(3, 40))
    assert (row.offset, row.basis) == (40, Basis.END)
    assert one(Replica(position(0)), 0, None).basis is Basis.UNMAPPED


def test_no_committed_offset_is_unmapped() -> None:
    row = one(Replica(position(1), {TARGET: ranges_of([(0, 0)])}), -1, TargetLog(0, 1))
    assert (row.offset, row.basis) == (None, Basis.UNMAPPED)


def test_before_the_pipelines_start() -> None:
    replica = Replica(position(20, 10), {TARGET: ranges_of([(s, s) for s in range(10, 20)])})
    row = one(replica, 4, TargetLog(0, 20))
    assert (row.basis, row.offset, row.skipped) == (Basis.UNMAPPED, 10, 6)
    row = one(replace(replica, source_start=6), 4, TargetLog(0, 20))
    assert row.skipped == 4
    row = one(replace(replica, source_start=10), 4, TargetLog(0, 20))
    assert (row.basis, row.offset, row.skipped) == (Basis.EXACT, 10, 0)


def test_what_another_program_copied_before_the_start_is_bounded_by_what_it_reported() -> None:
    pairs = [(100, 210), (150, 265), (200, 320), (201, 321)]
    replica = Replica(position(202, 200), {TARGET: ranges_of(pairs)}, source_start=0)
    log = TargetLog(20, 400)

    def reported(committed: int) -> tuple[object, ...]:
        row = one(replica, committed, log)
        return row.offset, row.basis, row.reread, row.skipped

    assert reported(200) == (320, Basis.EXACT, 0, 0)
    assert reported(150) == (265, Basis.EXACT, 0, 0)
    assert reported(151) == (266, Basis.EXACT, 0, 0)
    assert reported(180) == (266, Basis.BOUNDED, 29, 0)
    assert reported(99) == (20, Basis.BOUNDED, 190, 0)
    assert one(replica, 180, None).basis is Basis.UNMAPPED
    log = TargetLog(300, 400)  # some of it is deleted
    assert reported(151) == (300, Basis.BOUNDED, 0, 34)
    # Nothing was copied since: who has read all continues behind what is there.
    bare = Replica(position(200, 200), {TARGET: ranges_of(pairs[:2])}, source_start=0)
    row = one(bare, 200, log)
    assert (row.offset, row.basis) == (400, Basis.END)


def test_a_mapping_deleted_by_retention_gives_the_safest_offset() -> None:
    kept = ranges_of([(s, s + 5) for s in range(50, 60)])
    replica = Replica(position(60), {TARGET: kept}, complete_from=50)
    row = one(replica, 20, TargetLog(7, 65))
    assert (row.basis, row.offset, row.skipped) == (Basis.UNMAPPED, 7, 0)
    assert row.reread == 48
    assert one(replica, 50, TargetLog(7, 65)).basis is Basis.EXACT


def test_records_that_the_target_deleted_are_counted_as_skipped() -> None:
    replica = Replica(position(10), {TARGET: ranges_of([(s, s) for s in range(10)])})
    row = one(replica, 2, TargetLog(6, 10))
    assert (row.offset, row.basis, row.skipped) == (6, Basis.EXACT, 4)


def test_a_commit_in_a_lost_range_goes_to_what_follows_and_reports_it() -> None:
    lost = position(10, gaps=(Gap(3, 7, "truncated"),))
    pairs = [(s, s) for s in (0, 1, 2)] + [(s, s - 4) for s in (7, 8, 9)]
    row = one(Replica(lost, {TARGET: ranges_of(pairs)}), 4, TargetLog(0, 6))
    assert (row.offset, row.basis) == (3, Basis.EXACT)
    assert "lost" in row.reason


def test_a_partition_that_is_not_replicated_gives_no_row() -> None:
    assert translate({A: Replica(None)}, {A: 5, B: 6}, {}) == []


def test_an_offset_whose_mapping_was_damaged_is_unmapped() -> None:
    ranges = ranges_of([(5, 100), (6, 101), (20, 115), (21, 116)])
    replica = Replica(position(22, 5), {TARGET: ranges}, holes=((7, 20),))
    log = TargetLog(0, 500)
    assert one(replica, 6, log).basis is Basis.EXACT
    for committed in (7, 10, 19):
        row = one(replica, committed, log)
        assert (row.basis, row.skipped) == (Basis.UNMAPPED, None)
        assert "7 to 19" in row.reason
    assert (one(replica, 20, log).basis, one(replica, 20, log).offset) == (Basis.EXACT, 115)


def test_mappings_that_are_not_visible_yet_bound_the_answer() -> None:
    ranges = ranges_of([(5, 100), (6, 101)])
    replica = Replica(position(50, 5), {TARGET: ranges}, behind=True)
    log = TargetLog(0, 500)
    row = one(replica, 30, log)
    assert (row.basis, row.offset, row.reread, row.skipped) == (Basis.BOUNDED, 102, 23, 0)
    row = one(replica, 50, log)  # what landed since is before a group that has read it
    assert (row.basis, row.offset, row.reread, row.skipped) == (Basis.BOUNDED, 102, 43, 0)
    landed = replace(replica, position=position(50, 5, landed=(Landed("t", 0, 100, 147),)))
    row = one(landed, 50, log)
    assert (row.basis, row.offset, row.reread) == (Basis.END, 147, 0)
    assert one(replica, 6, log).basis is Basis.EXACT


def test_a_mapping_newer_than_the_position_counts() -> None:
    replica = Replica(position(6, 5), {TARGET: ranges_of([(5, 100), (6, 101), (7, 102)])})
    assert one(replica, 8, TargetLog(0, 500)) == Translation(TARGET, (A,), 103, Basis.END)


def test_another_source_without_a_commit_makes_it_uncertain() -> None:
    replicas = {
        A: Replica(position(7, 5), {TARGET: ranges_of([(5, 100), (6, 102)])}),
        B: Replica(position(7, 5), {TARGET: ranges_of([(5, 101), (6, 103)])}),
    }
    (row,) = translate(replicas, {A: 6}, {TARGET: TargetLog(0, 500)})
    assert (row.basis, row.offset, row.skipped) == (Basis.UNMAPPED, 102, None)
    assert "b-0 feeds this partition too" in row.reason
    (row,) = translate(replicas, {A: 5}, {TARGET: TargetLog(0, 500)})
    assert row.basis is Basis.EXACT
