"""Walks and patterns against a model of a copy: what is proven is right, whatever is compared."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from k2ktui.engine.cuts import Cut
from k2ktui.engine.state import Position, SourcePartition
from k2ktui.mm2 import proving
from k2ktui.sync.content import LogBounds, Record, Stretch

AT = SourcePartition("t", 0)
Log = Mapping[int, bytes]


def stretch(log: Log, span: proving.Span) -> Stretch:
    (_, _, first), count = span
    records = {
        offset: Record(offset, b"k", value, (), 1)
        for offset, value in log.items()
        if first <= offset < first + count
    }
    end = max(log, default=-1) + 1
    return Stretch(first, count, records, LogBounds(0, end, end), first + count)


def landed(
    source: Log, target: Log, offset: int, low: Cut | None, high: Cut | None
) -> tuple[int | str, proving._Job]:
    position = Position(max(source) + 1, 0, -1, "", 0, -1, "A.t", 0)
    job = proving._job(AT, offset, low, high, position)
    return proving._landed(job, stretch(source, job.here), stretch(target, job.there)), job


def copied(
    gaps: list[tuple[int, int]], values: int
) -> tuple[dict[int, bytes], dict[int, bytes], dict[int, int]]:
    source, target, where = {}, {}, {}
    at = to = 0
    for number, (forward, landing) in enumerate(gaps):
        at, to = at + forward, to + landing
        value = b"%d" % (number % values)
        source[at], target[to], where[at] = value, value, to
    return source, target, where


steps = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 2)), min_size=3, max_size=80)


@settings(deadline=None)
@given(steps, st.integers(1, 100), st.data())
def test_a_walk_finds_the_next_record(
    gaps: list[tuple[int, int]], values: int, data: st.DataObject
) -> None:
    """From a record before, or back from one behind, whatever gaps there are on either side."""
    source, target, where = copied(gaps, values)
    offset = data.draw(st.integers(min(source), max(source) + 1))
    right = next((where[at] for at in sorted(source) if at >= offset), max(target) + 1)
    before = [at for at in source if at <= offset]
    low = Cut(data.draw(st.sampled_from(before)), 0)
    low = Cut(low.source, where[low.source])
    found, _ = landed(source, target, offset, low, None)
    assert found == right
    behind = [at for at in source if at >= offset]
    if behind:
        at = data.draw(st.sampled_from(behind))
        found, _ = landed(source, target, offset, None, Cut(at, where[at]))
        assert found == right


@settings(deadline=None)
@given(steps, st.data())
def test_a_difference_proves_nothing(gaps: list[tuple[int, int]], data: st.DataObject) -> None:
    """A record that was changed, or is missing, between the known one and the position."""
    source, target, where = copied(gaps, 1000)
    offset = max(source) + 1
    spoiled = data.draw(st.sampled_from(sorted(target)))
    if data.draw(st.booleans()):
        target[spoiled] = b"other"
    else:
        del target[spoiled]
    found, _ = landed(source, target, offset, Cut(min(source), where[min(source)]), None)
    assert isinstance(found, str)


def test_a_pattern_must_be_there_once() -> None:
    """Far from any known record, unique neighbours prove a position and repeated ones do not."""
    far = 4 * proving._WALK
    gaps = [(1, 1)] * far
    offset = far // 2
    source, target, where = copied(gaps, far)
    low, high = Cut(1, 1), Cut(far, where[far])
    found, job = landed(source, target, offset, low, high)
    assert job.forward is None and found == where[offset]
    source, target, where = copied(gaps, 10)
    found, _ = landed(source, target, offset, low, high)
    assert isinstance(found, str) and "alike" in found
    few = {at: source[at] for at in (1, offset, far)}
    found, _ = landed(few, target, offset, low, high)
    assert isinstance(found, str) and "too few" in found
