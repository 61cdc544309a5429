"""Walks and patterns against a model of a copy: what is proven is right, whatever is compared."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

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
    (job,) = proving._jobs(AT, [offset], (low, high), position)
    (found,) = proving._landed(job, stretch(source, job.here), stretch(target, job.there))
    return found, job


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


@settings(deadline=None)
@given(steps, st.integers(1, 100), st.data())
def test_one_walk_serves_many_groups(
    gaps: list[tuple[int, int]], values: int, data: st.DataObject
) -> None:
    """Every committed offset between two known records, each by the walk from the nearer one."""
    source, target, where = copied(gaps, values)
    ends = min(source), max(source)
    low, high = Cut(ends[0], where[ends[0]]), Cut(ends[1], where[ends[1]])
    drawn = st.lists(st.integers(*ends), min_size=1, max_size=20, unique=True)
    wanted = sorted(data.draw(drawn))
    position = Position(ends[1] + 1, 0, -1, "", 0, -1, "A.t", 0)
    jobs = list(proving._jobs(AT, wanted, (low, high), position))
    assert len(jobs) <= 2 and sorted(o for job in jobs for o in job.offsets) == wanted
    for job in jobs:
        found = proving._landed(job, stretch(source, job.here), stretch(target, job.there))
        right = [next(where[at] for at in sorted(source) if at >= o) for o in job.offsets]
        assert found == right


def test_what_is_read_grows_with_the_log_and_not_with_the_groups() -> None:
    """A thousand groups within reach of each other are two walks; far ones are found by pattern."""
    position = Position(300_001, 0, -1, "", 0, -1, "A.t", 0)
    low, high = Cut(0, 0), Cut(300_000, 300_000)
    jobs = list(proving._jobs(AT, list(range(100, 40_000, 40)), (low, high), position))
    assert [(job.forward, len(job.offsets)) for job in jobs] == [(True, 998)]
    assert jobs[0].here[1] < 40_000 + 100
    jobs = list(proving._jobs(AT, [100, 4_000, 20_000, 150_001, 299_000], (low, high), position))
    assert [(job.forward, job.offsets) for job in jobs] == [
        (True, (100, 4_000)),
        (None, (20_000,)),
        (False, (299_000,)),
        (None, (150_001,)),
    ]
    # What is beyond one portion is left for the next round, which begins where this one ended.
    (job,) = proving._jobs(AT, list(range(1_000, 140_001, 1_000)), (low, high), position)
    assert job.offsets[-1] == proving._PORTION


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=4, max_size=60),
    st.randoms(use_true_random=False),
    st.data(),
)
def test_compacted_copies(keys: list[int], dice: Random, data: st.DataObject) -> None:
    """Whatever compaction deleted on either side, a position that is told is right.

    The last record of each key stays; others go on one side, on the other, or on both.
    """
    log = {offset: b"%d" % offset for offset in range(len(keys))}
    last = {key: offset for offset, key in enumerate(keys)}
    extra = data.draw(st.integers(0, 20))
    where = {offset: offset + extra for offset in log}
    kept = set(last.values())
    source = {o: v for o, v in log.items() if o in kept or dice.random() < 0.6}
    target = {where[o]: v for o, v in log.items() if o in kept or dice.random() < 0.6}
    wanted = data.draw(st.integers(0, len(keys)))
    for low, high in ((Cut(0, extra), None), (None, Cut(len(keys), len(keys) + extra))):
        found, _ = landed(source, target, wanted, low, high)
        if isinstance(found, int):
            there = {at - extra for at in target}
            assert not any(o < wanted and o + extra >= found for o in there), "read again"
            assert not any(o >= wanted and o + extra < found for o in there), "skipped"


def test_neighbours_that_are_left_prove_a_position() -> None:
    """Deleted on the source, on the target, or on both: exact if nothing lies between."""
    log = {offset: b"%d" % offset for offset in range(20)}
    without = lambda *gone: {o: v for o, v in log.items() if o not in gone}  # noqa: E731
    low = Cut(0, 0)
    assert landed(without(3), without(5, 6), 10, low, None)[0] == 10
    assert landed(log, without(9, 10, 11), 10, low, None)[0] == 12
    # Copies of what the source has deleted lie between: on which side they belong is not known.
    assert isinstance(landed(without(9, 10), without(3), 10, low, None)[0], str)
