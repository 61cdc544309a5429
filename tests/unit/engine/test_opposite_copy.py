"""What the opposite pipeline copied, against two logs whose records are known one by one."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.mapping.opposite_copy import TailKind, find_pair, find_uncopied
from k2ktui.engine.records.state import SourcePartition
from tests.support.model.two_way_logs import STEPS, find_tail, numbers_read, played, replica_of


@given(STEPS, st.integers(), st.integers(0, 60), st.integers(0, 60))
def test_offsets_without_a_copy(
    steps: list[tuple[str, str, int]], seed: int, low: int, size: int
) -> None:
    pair = played(steps, 2, seed)
    copies = {
        log.name: [
            ranges for b in pair.sides["b"] for at, ranges in b.ranges.items() if at == log.name
        ]
        for log in pair.sides["a"]
    }
    for log in pair.sides["a"]:
        spans = find_uncopied(copies[log.name], low, low + size)
        offsets = [offset for first, end in spans for offset in range(first, end)]
        landed = {o for o, n in log.ever.items() if pair.origin[n] == "b"}
        assert offsets == [o for o in range(low, low + size) if o not in landed]
        assert all(end < first for (_, end), (first, _) in itertools.pairwise(spans))


@given(STEPS, st.integers(1, 2), st.integers(), st.integers(0, 80))
def test_the_next_record_is_paired_with_itself_on_the_other_side(
    steps: list[tuple[str, str, int]], partitions: int, seed: int, at: int
) -> None:
    pair = played([step for step in steps if step[0] != "compact"], partitions, seed)
    replicas = {SourcePartition(*log.name): replica_of(log) for log in pair.sides["b"]}
    there = {log.name: log for log in pair.sides["b"]}
    for log in pair.sides["a"]:
        copy = find_tail(log, pair)
        next_pair = find_pair(log.name, at, replicas, copy)
        following = min((offset for offset in log.records if offset >= at), default=None)
        if next_pair is None:
            assert following is None or following >= copy.tail
            continue
        assert next_pair.target_offset == following
        records = there[next_pair.source.topic, next_pair.source.partition].records
        assert records[next_pair.source_offset] == log.records[next_pair.target_offset]


@given(
    STEPS,
    st.integers(),
    st.integers(0, 80),
    st.tuples(st.integers(0, 80), st.integers(0, 80)),
)
def test_records_of_the_opposite_copy_between_two_offsets(
    steps: list[tuple[str, str, int]], seed: int, read: int, span: tuple[int, int]
) -> None:
    pair = played([step for step in steps if step[0] != "compact"], 1, seed)
    (log,), (there,) = pair.sides["a"], pair.sides["b"]
    low, high = min(span), max(span)
    copy = find_tail(log, pair)
    counted = copy.count_between({SourcePartition(*there.name): read}, low, high)
    if copy.tail_kind is TailKind.RECORD and high > copy.tail:
        assert counted is None
        return
    done = numbers_read(pair, [read])
    own = [n for o, n in log.records.items() if low <= o < high and pair.origin[n] == "a"]
    assert counted == (len([n for n in own if n in done]), len([n for n in own if n not in done]))
    holed = replace(copy, replica=replace(copy.replica, holes=((0, 99),)))
    assert holed.count_between({}, low, high) is None or low == high
