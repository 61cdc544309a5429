"""Which record is a copy of which, and what is said of records without one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.mapping.range_columns import RangeColumns
from k2ktui.engine.mapping.ranges import MappingRanges
from k2ktui.engine.mapping.replica import Replica
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.tables.mapping import find_known_from
from k2ktui.tables.record_tasks import split_offsets
from k2ktui.tables.records import CopyState, RecordsTask

AT = SourcePartition("t", 3)
Spans = list[tuple[int, int, int]]


def ranges_of(spans: Spans) -> MappingRanges:
    ranges = MappingRanges()
    ranges.append(*(np.array(column, dtype=np.int64) for column in zip(*spans, strict=True)))
    return ranges


def replica_of(spans: Spans, position: int, start: int = 0, **more: object) -> Replica:
    where = Position(position, start, -1, "", 1, 0, "t", 3, "", start, 0)
    targets = {("t", 3): ranges_of(spans)} if spans else {}
    known = {"source_start": 0, "target_ranges": targets, **more}
    return Replica(where, **known)  # type: ignore[arg-type]


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(1, 20), st.integers(0, 5)), max_size=30),
    st.integers(1, 50),
)
def test_each_record_is_paired_with_the_offset_that_it_landed_at(
    steps: list[tuple[int, int, int]], offsets: int
) -> None:
    landed: dict[int, tuple[tuple[str, int], int]] = {}
    spans, source, target = [], 0, 100
    for skipped, count, markers in steps:
        source, target = source + skipped, target + markers
        spans.append((source, target, count))
        landed |= {source + n: (("t", 3), target + n) for n in range(count)}
        source, target = source + count, target + count
    tasks = list(split_offsets(AT, replica_of(spans, source), source, offsets))
    assert [task.first for task in tasks] == list(range(0, source, offsets))
    found: dict[int, tuple[tuple[str, int], int]] = {}
    for task in tasks:
        asked = list(range(task.first, task.end))
        found |= task.find_spots(asked)
        left = [offset for offset in asked if offset not in landed]
        assert {task.explain_unmapped(offset) for offset in left} <= {CopyState.LEFT_OUT}
    assert found == landed


def explain(task: RecordsTask) -> list[CopyState | None]:
    offsets = list(range(task.first, task.end))
    spots = task.find_spots(offsets)
    return [None if at in spots else task.explain_unmapped(at) for at in offsets]


def test_what_is_said_of_records_without_a_copy() -> None:
    replica = replica_of([(6, 0, 2)], 12, start=2, complete_from=4, holes=((9, 10),))
    (task,) = split_offsets(AT, replica, 14, 100)
    assert explain(task) == [
        *[CopyState.BEFORE_START] * 2,
        *[CopyState.UNKNOWN] * 2,
        *[CopyState.LEFT_OUT] * 2,
        *[None] * 2,
        CopyState.LEFT_OUT,
        CopyState.UNKNOWN,
        *[CopyState.LEFT_OUT] * 2,
        *[CopyState.WAITING] * 2,
    ]


def test_copies_that_the_target_has_lost_are_not_paired_with_what_took_their_place() -> None:
    (task,) = split_offsets(AT, replica_of([(0, 0, 10), (10, 4, 5)], 15), 15, 100)
    assert explain(task) == [*[None] * 4, *[CopyState.MISSING] * 6, *[None] * 5]


def test_a_topic_that_was_created_again_has_no_copies() -> None:
    replica = replica_of([(0, 0, 5)], 5, unusable_reason="created again")
    (task,) = split_offsets(AT, replica, 6, 100)
    assert explain(task) == [*[CopyState.UNKNOWN] * 5, CopyState.WAITING]


def test_ranges_say_from_where_on_every_offset_is_decided() -> None:
    columns = RangeColumns(*(np.array(c) for c in ([2, 12, 30], [0, 9, 20], [1, 5, 5])))
    replica = replica_of([], 50, start=5, complete_from=10, holes=((20, 25),))
    assert find_known_from(replica, columns).tolist() == [2, 10, 25]
