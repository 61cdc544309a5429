"""Ranges against a brute-force model: dictionaries of single offsets."""

from __future__ import annotations

import itertools
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.mapping.intervals import OffsetIntervals
from k2ktui.engine.mapping.range_columns import RangeColumns, clip_columns, has_overlap
from k2ktui.engine.mapping.ranges import NOT_FOUND, MappingRanges

steps = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(1, 6)), min_size=1, max_size=30
)


def filled(
    gaps: list[tuple[int, int, int]], source: int = 10, target: int = 100
) -> tuple[MappingRanges, dict[int, int]]:
    """Append ranges with gaps of the given sizes before them, a few at a time."""
    ranges, model = MappingRanges(), dict[int, int]()
    rows = []
    for source_gap, target_gap, count in gaps:
        source, target = source + source_gap, target + target_gap
        rows.append((source, target, count))
        model.update({source + i: target + i for i in range(count)})
        source, target = source + count, target + count
        if len(rows) == 3:
            append(ranges, rows)
            rows = []
    append(ranges, rows)
    return ranges, model


def append(ranges: MappingRanges, rows: list[tuple[int, int, int]]) -> None:
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3)
    ranges.append(columns[:, 0], columns[:, 1], columns[:, 2])


def first_at(model: dict[int, int], offset: int) -> int:
    following = [source for source in model if source >= offset]
    return model[min(following)] if following else NOT_FOUND


@given(steps)
def test_translation_is_the_first_mapped_record_at_or_after(
    gaps: list[tuple[int, int, int]],
) -> None:
    ranges, model = filled(gaps)
    offsets = np.arange(0, max(model) + 5)
    assert ranges.translate(offsets).tolist() == [first_at(model, o) for o in offsets.tolist()]
    known = ranges.translate(offsets)
    known = known[known != NOT_FOUND]
    assert (np.diff(known) >= 0).all()


@given(steps)
def test_the_way_back_is_the_inverse(gaps: list[tuple[int, int, int]]) -> None:
    ranges, model = filled(gaps)
    sources = np.array(sorted(model))
    assert ranges.back(ranges.translate(sources)).tolist() == sources.tolist()
    inverse = {target: source for source, target in model.items()}
    targets = np.arange(0, max(inverse) + 5)
    assert ranges.back(targets).tolist() == [first_at(inverse, t) for t in targets.tolist()]


@given(steps, st.integers(0, 150), st.integers(0, 150))
def test_counting(gaps: list[tuple[int, int, int]], low: int, high: int) -> None:
    ranges, model = filled(gaps)
    assert ranges.records == len(model)
    assert ranges.target_records_between(low, high) == sum(low <= t < high for t in model.values())
    offsets = np.arange(0, 60)
    assert ranges.mapped(offsets).tolist() == [o in model for o in offsets.tolist()]
    assert (ranges.first, ranges.end) == (min(model), max(model) + 1)


@given(steps, steps, st.integers(0, 120))
def test_a_rewind_replaces_what_comes_after(
    before: list[tuple[int, int, int]], after: list[tuple[int, int, int]], back_to: int
) -> None:
    ranges, model = filled(before)
    again, remodel = filled(after, source=back_to, target=5_000)
    columns = again.columns()
    ranges.append(columns.source, columns.target, columns.count)
    expected = {s: t for s, t in model.items() if s < min(remodel)} | remodel
    offsets = np.arange(0, max(expected) + 3)
    assert ranges.translate(offsets).tolist() == [first_at(expected, o) for o in offsets.tolist()]


@given(steps, st.integers(0, 150))
def test_forgetting_old_ranges_changes_no_later_answer(
    gaps: list[tuple[int, int, int]], before: int
) -> None:
    ranges, model = filled(gaps)
    ranges.drop_before(before)
    offsets = np.arange(before, max(model) + 5)
    assert ranges.translate(offsets).tolist() == [first_at(model, o) for o in offsets.tolist()]


def test_continuing_ranges_are_one() -> None:
    ranges = MappingRanges()
    append(ranges, [(0, 5, 10)])
    append(ranges, [(10, 15, 10), (30, 25, 1)])
    assert len(ranges) == 2


def test_unsorted_or_empty_ranges_are_refused() -> None:
    for rows in ([(5, 0, 1), (4, 1, 1)], [(0, 0, 3), (2, 9, 1)], [(0, 0, 0)]):
        with pytest.raises(ValueError, match=r"sorted|overlap|records"):
            append(MappingRanges(), rows)


def shifted(columns: RangeColumns, by: int) -> RangeColumns:
    """The same source offsets, landed elsewhere."""
    return RangeColumns(columns.source, columns.target + by, columns.count)


def mapped_in(columns: RangeColumns) -> dict[int, int]:
    rows = zip(
        columns.source.tolist(), columns.target.tolist(), columns.count.tolist(), strict=True
    )
    return {s + i: t + i for s, t, n in rows for i in range(n)}


def assert_is(ranges: MappingRanges, model: dict[int, int]) -> None:
    columns = ranges.columns()
    assert mapped_in(columns) == model
    assert (columns.count > 0).all() and not has_overlap(columns)


@given(steps, steps, st.integers(0, 120))
def test_older_ranges_go_under_newer_ones(
    newer: list[tuple[int, int, int]], older: list[tuple[int, int, int]], begin: int
) -> None:
    ranges, model = filled(newer)
    columns = shifted(filled(older, source=begin)[0].columns(), 10_000)
    ranges.merge_older(columns)
    assert_is(ranges, mapped_in(columns) | model)


@given(steps, st.integers(0, 150), st.integers(0, 150))
def test_forgetting_a_stretch(gaps: list[tuple[int, int, int]], low: int, high: int) -> None:
    ranges, model = filled(gaps)
    ranges.forget(low, high)
    assert_is(ranges, {s: t for s, t in model.items() if not low <= s < high})


@given(steps, st.integers(0, 150), st.integers(0, 150))
def test_clipping(gaps: list[tuple[int, int, int]], low: int, high: int) -> None:
    ranges, model = filled(gaps)
    kept = mapped_in(clip_columns(ranges.columns(), low, high))
    assert kept == {s: t for s, t in model.items() if low <= s < high}


@given(steps, st.randoms(use_true_random=False))
def test_whatever_the_order_of_parts_the_whole_is_the_same(
    gaps: list[tuple[int, int, int]], random: Random
) -> None:
    whole, model = filled(gaps)
    columns = whole.columns()
    rows = list(range(len(columns)))
    random.shuffle(rows)
    made, merged = MappingRanges(), MappingRanges()
    for row in rows:
        one = columns.take(slice(row, row + 1))
        made.put(one)
        merged.merge_older(one)
    assert_is(made, model)
    assert_is(merged, model)


def test_a_count_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="records"):
        append(MappingRanges(), [(0, 0, 2**31)])


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 40), st.integers(0, 10)), max_size=30))
def test_spans_are_sets_of_offsets(changes: list[tuple[bool, int, int]]) -> None:
    spans, model = OffsetIntervals(), set[int]()
    for add, low, size in changes:
        if add:
            spans.add(low, low + size)
            model |= set(range(low, low + size))
        else:
            spans.forget(low, low + size)
            model -= set(range(low, low + size))
    assert {o for low, high in spans.all() for o in range(low, high)} == model
    assert all(a[1] < b[0] for a, b in itertools.pairwise(spans.all()))
    assert spans.touches(9, 20) == any(9 <= offset < 20 for offset in model)
    assert spans.end == max(model, default=-1) + 1
    missing = {o for low, high in spans.missing(5, 45) for o in range(low, high)}
    assert missing == set(range(5, 45)) - model


@given(steps, *(st.integers(0, 150) for _ in range(4)))
def test_records_within_two_intervals_are_counted(
    gaps: list[tuple[int, int, int]], a: int, b: int, c: int, d: int
) -> None:
    ranges, model = filled(gaps)
    sources, targets = (min(a, b), max(a, b)), (min(c, d) + 90, max(c, d) + 90)
    inside = [
        s for s, t in model.items() if sources[0] <= s < sources[1] and targets[0] <= t < targets[1]
    ]
    assert ranges.count_within(sources, targets) == len(inside)
