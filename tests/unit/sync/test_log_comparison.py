"""Walks and patterns against a model of a copy: what is proven is right, whatever is compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k2ktui.engine.mapping.anchors import OffsetAnchor
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.log.content import KafkaRecord, LogBounds, RecordRange
from k2ktui.sync.matching import log_comparison
from k2ktui.sync.matching.comparing import UNSTABLE
from tests.support.schedule.examples import examples

AT = SourcePartition("t", 0)
Log = Mapping[int, bytes]


def stretch(
    log: Log, span: log_comparison.Span, aborted: Log | None = None, end: int = 0
) -> RecordRange:
    (_, _, first), count = span

    def records(of: Log) -> dict[int, KafkaRecord]:
        return {
            offset: KafkaRecord(offset, b"k", value, (), 1)
            for offset, value in of.items()
            if first <= offset < first + count
        }

    end = end or max(log, default=-1) + 1
    bounds = LogBounds(0, end, end)
    left = records(aborted or {})
    return RecordRange(first, count, records(log), bounds, first + count, aborted=left)


def landed(
    source: Log, target: Log, offset: int, low: OffsetAnchor | None, high: OffsetAnchor | None
) -> tuple[int | str, log_comparison.ComparisonJob]:
    position = Position(max(source) + 1, 0, -1, "", 0, -1, "A.t", 0)
    (job,) = log_comparison.plan_jobs(AT, [offset], (low, high), position)
    job, here = read(job, source)
    (offset_found,) = log_comparison.find_target_offsets(
        job, here, stretch(target, job.target_span)
    )
    return offset_found, job


def read(
    job: log_comparison.ComparisonJob, source: Log, aborted: Log | None = None, end: int = 0
) -> tuple[log_comparison.ComparisonJob, RecordRange]:
    """Read the source as far as a job needs it."""
    while True:
        records = stretch(source, job.source_span, aborted, end)
        wider = log_comparison.widen(job, records)
        if wider is None:
            return job, records
        assert wider.source_span[1] > job.source_span[1]
        job = wider


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
    low = OffsetAnchor(data.draw(st.sampled_from(before)), 0)
    low = OffsetAnchor(low.source, where[low.source])
    target_offset, _ = landed(source, target, offset, low, None)
    assert target_offset == right
    behind = [at for at in source if at >= offset]
    if behind:
        at = data.draw(st.sampled_from(behind))
        target_offset, _ = landed(source, target, offset, None, OffsetAnchor(at, where[at]))
        assert target_offset == right


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
    target_offset, _ = landed(
        source, target, offset, OffsetAnchor(min(source), where[min(source)]), None
    )
    assert isinstance(target_offset, str)


def test_a_pattern_must_be_there_once() -> None:
    """Far from any known record, unique neighbours prove a position and repeated ones do not."""
    far = 4 * log_comparison.WALK
    gaps = [(1, 1)] * far
    offset = far // 2
    source, target, where = copied(gaps, far)
    low, high = OffsetAnchor(1, 1), OffsetAnchor(far, where[far])
    target_offset, job = landed(source, target, offset, low, high)
    assert job.forward is None and target_offset == where[offset]
    source, target, where = copied(gaps, 10)
    target_offset, _ = landed(source, target, offset, low, high)
    assert isinstance(target_offset, str) and "identical" in target_offset
    few = {at: source[at] for at in (1, offset, far)}
    target_offset, _ = landed(few, target, offset, low, high)
    assert isinstance(target_offset, str) and "too few" in target_offset


@settings(deadline=None)
@given(steps, st.integers(1, 100), st.data())
def test_one_walk_serves_many_groups(
    gaps: list[tuple[int, int]], values: int, data: st.DataObject
) -> None:
    """Every committed offset between two known records, each by the walk from the nearer one."""
    source, target, where = copied(gaps, values)
    ends = min(source), max(source)
    low, high = OffsetAnchor(ends[0], where[ends[0]]), OffsetAnchor(ends[1], where[ends[1]])
    drawn = st.lists(st.integers(*ends), min_size=1, max_size=20, unique=True)
    wanted = sorted(data.draw(drawn))
    position = Position(ends[1] + 1, 0, -1, "", 0, -1, "A.t", 0)
    jobs = list(log_comparison.plan_jobs(AT, wanted, (low, high), position))
    assert len(jobs) <= 2 and sorted(o for job in jobs for o in job.offsets) == wanted
    for job in jobs:
        target_offsets = log_comparison.find_target_offsets(
            job, stretch(source, job.source_span), stretch(target, job.target_span)
        )
        right = [next(where[at] for at in sorted(source) if at >= o) for o in job.offsets]
        assert target_offsets == right


def test_what_is_read_grows_with_the_log_and_not_with_the_groups() -> None:
    """A thousand groups within reach of each other are two walks; far ones are found by pattern."""
    position = Position(300_001, 0, -1, "", 0, -1, "A.t", 0)
    low, high = OffsetAnchor(0, 0), OffsetAnchor(300_000, 300_000)
    jobs = list(log_comparison.plan_jobs(AT, list(range(100, 40_000, 40)), (low, high), position))
    assert [(job.forward, len(job.offsets)) for job in jobs] == [(True, 998)]
    assert jobs[0].source_span[1] < 40_000 + 100
    jobs = list(
        log_comparison.plan_jobs(AT, [100, 4_000, 20_000, 150_001, 299_000], (low, high), position)
    )
    assert [(job.forward, job.offsets) for job in jobs] == [
        (True, (100, 4_000)),
        (None, (20_000,)),
        (False, (299_000,)),
        (None, (150_001,)),
    ]
    # What is beyond one portion is left for the next round, which begins where this one ended.
    (job,) = log_comparison.plan_jobs(AT, list(range(1_000, 140_001, 1_000)), (low, high), position)
    assert job.offsets[-1] == log_comparison.PORTION


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=4, max_size=60),
    st.randoms(use_true_random=False),
    st.data(),
)
def test_compacted_copies(keys: list[int], dice: Random, data: st.DataObject) -> None:
    """Whatever compaction deleted on either side, a position that is reported is right.

    The last record of each key stays; others continue one side, on the other, or on both.
    """
    log = {offset: b"%d" % offset for offset in range(len(keys))}
    last = {key: offset for offset, key in enumerate(keys)}
    extra = data.draw(st.integers(0, 20))
    where = {offset: offset + extra for offset in log}
    kept = set(last.values())
    source = {o: v for o, v in log.items() if o in kept or dice.random() < 0.6}
    target = {where[o]: v for o, v in log.items() if o in kept or dice.random() < 0.6}
    wanted = data.draw(st.integers(0, len(keys)))
    for low, high in (
        (OffsetAnchor(0, extra), None),
        (None, OffsetAnchor(len(keys), len(keys) + extra)),
    ):
        target_offset, _ = landed(source, target, wanted, low, high)
        if isinstance(target_offset, int):
            there = {at - extra for at in target}
            assert not any(o < wanted and o + extra >= target_offset for o in there), "read again"
            assert not any(o >= wanted and o + extra < target_offset for o in there), "skipped"


def test_neighbours_that_are_left_prove_a_position() -> None:
    """Deleted on the source, on the target, or on both: exact if nothing lies between."""
    log = {offset: b"%d" % offset for offset in range(20)}

    def without(*gone: int) -> dict[int, bytes]:
        return {offset: value for offset, value in log.items() if offset not in gone}

    low = OffsetAnchor(0, 0)
    assert landed(without(3), without(5, 6), 10, low, None)[0] == 10
    assert landed(log, without(9, 10, 11), 10, low, None)[0] == 12
    # Copies of what the source has deleted lie between: on which side they belong is not known.
    assert isinstance(landed(without(9, 10), without(3), 10, low, None)[0], str)


@dataclass
class Transactional:
    """A source of transactions, and its copy by MirrorMaker 2.

    ``where`` is the target offset of every record that is on the copy.
    """

    committed: dict[int, bytes]
    aborted: dict[int, bytes]
    end: int
    target: dict[int, bytes]
    where: dict[int, int]

    def right(self, offset: int, target_offset: int) -> bool:
        """Whether nothing read lies at or behind a target offset, and nothing unread before."""
        there = [(o, at) for o, at in self.where.items() if at in self.target]
        return all((o < offset) == (at < target_offset) for o, at in there)


@st.composite
def transactional(
    draw: st.DrawFn,
    values: st.SearchStrategy[int],
    *,
    compacted: bool = False,
    largest: int = 4,
) -> Transactional:
    """Transactions of a few records each, some aborted; with a marker behind each.

    The copier reads what was committed, or all; it may leave markers of its own on the target.
    """
    sizes = st.one_of(st.integers(1, 4), st.integers(1, largest))
    transactions = draw(st.lists(st.tuples(sizes, st.booleans()), min_size=2, max_size=25))
    reads_all, own_markers = draw(st.booleans()), draw(st.booleans())
    number = draw(values)
    transactional = Transactional({}, {}, 0, {}, {})
    to = draw(st.integers(0, 5))
    dice = draw(st.randoms(use_true_random=False))
    count = 0
    for size, is_committed in [(1, True), *transactions]:
        for _ in range(size):
            value = b"%d" % (count % number)
            (transactional.committed if is_committed else transactional.aborted)[
                transactional.end
            ] = value
            if is_committed or reads_all:
                transactional.where[transactional.end] = to
                transactional.target[to] = value
                to += 1
            transactional.end += 1
            count += 1
        transactional.end += 1
        to += own_markers
    if compacted:
        for log in (transactional.committed, transactional.target):
            for offset in sorted(log)[1:-1]:
                if dice.random() < 0.3:
                    del log[offset]
    return transactional


def proven(
    log: Transactional, offset: int, low: OffsetAnchor | None, high: OffsetAnchor | None
) -> int | str:
    position = Position(log.end, 0, -1, "", 0, -1, "A.t", 0)
    (job,) = log_comparison.plan_jobs(AT, [offset], (low, high), position)
    job, here = read(job, log.committed, log.aborted, log.end)
    return log_comparison.find_target_offsets(job, here, stretch(log.target, job.target_span))[0]


def borders(
    log: Transactional, offset: int
) -> list[tuple[OffsetAnchor | None, OffsetAnchor | None]]:
    known = sorted(log.committed)
    before = [o for o in known if o <= offset]
    behind = [o for o in known if o >= offset]
    low = OffsetAnchor(before[0], log.where[before[0]])
    high = OffsetAnchor(behind[-1], log.where[behind[-1]]) if behind else None
    return [(low, None), (low, high), *([(None, high)] if high else [])]


@settings(deadline=None, max_examples=examples(200))
@given(transactional(st.just(10_000)), st.data())
def test_transactions_leave_nothing_unproven(log: Transactional, data: st.DataObject) -> None:
    """Markers and aborted records, copied or not: every position, also on a marker, is exact."""
    offset = data.draw(st.integers(0, log.end))
    for low, high in borders(log, offset):
        target_offset = proven(log, offset, low, high)
        assert isinstance(target_offset, int), target_offset
        assert log.right(offset, target_offset)


@settings(deadline=None, max_examples=examples(50))
@given(transactional(st.just(100_000), largest=600), st.data())
def test_long_transactions_leave_nothing_unproven(log: Transactional, data: st.DataObject) -> None:
    """However far the committed record before a position is, on the other side of aborted ones."""
    offset = data.draw(st.integers(0, log.end))
    known = sorted(log.committed)
    after = next((o for o in known if o >= offset), None)
    nearest = [] if after is None else [OffsetAnchor(after, log.where[after])]
    first = OffsetAnchor(known[0], log.where[known[0]])
    for low, high in (*borders(log, offset), *((low, h) for h in nearest for low in (first, None))):
        if low is None or low.source <= offset:
            target_offset = proven(log, offset, low, high)
            assert isinstance(target_offset, int), target_offset
            assert log.right(offset, target_offset)


def test_a_group_far_behind_an_aborted_transaction() -> None:
    """Its records were not copied, and no committed one is near: the one before them is found."""
    committed = {offset: b"%d" % offset for offset in (*range(10), *range(500, 600))}
    aborted = {offset: b"x%d" % offset for offset in range(11, 480)}
    target = dict(enumerate(committed.values()))
    where = dict(zip(committed, target, strict=True))
    log = Transactional(committed, aborted, 600, target, where)
    behind = OffsetAnchor(500, where[500])
    for low in (OffsetAnchor(4, 4), OffsetAnchor(10, 10), None):
        assert proven(log, 477, low, behind) == 10


@pytest.mark.parametrize("low", [OffsetAnchor(10, 10), None])
def test_copies_whose_originals_are_gone_prove_nothing(low: OffsetAnchor | None) -> None:
    """Nobody knows any more on which side of the group they were."""
    committed = {offset: b"%d" % offset for offset in range(500, 600)}
    target = {number: b"%d" % number for number in range(20)} | {
        20 + number: value for number, value in enumerate(committed.values())
    }
    log = Transactional(committed, {}, 600, target, {})
    assert isinstance(proven(log, 400, low, OffsetAnchor(500, 20)), str)
    if low is not None:
        assert proven(log, 400, OffsetAnchor(10, 20), OffsetAnchor(500, 20)) == 20


@settings(deadline=None, max_examples=examples(200))
@given(transactional(st.integers(1, 4)), st.data())
def test_records_of_aborted_transactions_are_never_taken_for_others(
    log: Transactional, data: st.DataObject
) -> None:
    """With contents that repeat, committed and aborted: proven and right, or not proven."""
    offset = data.draw(st.integers(0, log.end))
    for low, high in borders(log, offset):
        target_offset = proven(log, offset, low, high)
        assert isinstance(target_offset, str) or log.right(offset, target_offset)


@settings(deadline=None, max_examples=examples(200))
@given(transactional(st.just(10_000), compacted=True), st.data())
def test_compacted_copies_of_transactions(log: Transactional, data: st.DataObject) -> None:
    """Whatever compaction deleted on either side, a position that is reported is right."""
    offset = data.draw(st.integers(0, log.end))
    for low, high in borders(log, offset):
        target_offset = proven(log, offset, low, high)
        assert isinstance(target_offset, str) or log.right(offset, target_offset)


def test_behind_an_open_transaction_nothing_is_proven() -> None:
    """What its reader of uncommitted records has read there cannot be compared yet."""
    log = {offset: b"%d" % offset for offset in range(10)}
    position = Position(10, 0, -1, "", 0, -1, "A.t", 0)
    (job,) = log_comparison.plan_jobs(AT, [5, 9], (OffsetAnchor(0, 0), None), position)
    here = stretch({o: v for o, v in log.items() if o < 7}, job.source_span, end=7)
    assert log_comparison.find_target_offsets(job, here, stretch(log, job.target_span)) == [
        5,
        UNSTABLE,
    ]


def test_a_pattern_is_found_between_markers() -> None:
    """Half of the source's offsets are markers, and the position is far from any known record."""
    records = 40_000
    source = {2 * n: b"%d" % n for n in range(records)}
    target = {n: b"%d" % n for n in range(records)}
    last = 2 * (records - 1)
    target_offset, job = landed(
        source, target, records, OffsetAnchor(0, 0), OffsetAnchor(last, records - 1)
    )
    assert job.forward is None and target_offset == records // 2
