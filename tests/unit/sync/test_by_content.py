"""Which offsets are looked for by comparing records, and from which known anchors."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from k2ktui.engine.mapping.intervals import OffsetIntervals, Span
from k2ktui.engine.mapping.ranges import MappingRanges
from k2ktui.engine.mapping.replica import Replica, TargetLog, make_replica
from k2ktui.engine.mapping.translate import Basis, translate
from k2ktui.engine.records.state import FirstLanded, Landed, Position, SourcePartition
from k2ktui.sync.mapping.by_content import find_anchors, find_unmapped
from tests.support.schedule.examples import examples

AT, LANE = SourcePartition("s", 0), ("t", 0)
START, COUNT = 10, 60


def copied(random: Random) -> tuple[Replica, dict[int, int], OffsetIntervals]:
    """Return a copy, where each of its records landed, and the source offsets still mapped."""
    offsets = sorted(random.sample(range(START, START + COUNT), random.randint(1, COUNT)))
    landed, at = {}, 100
    for offset in offsets:
        at += random.choice([1, 1, 1, 2, 5])
        landed[offset] = at
    bounds = sorted({START, START + COUNT, *random.sample(range(START, START + COUNT), 4)})
    spans: list[Span] = list(pairwise(bounds))
    known = OffsetIntervals(span for span in spans if random.random() < 0.5)
    ranges = MappingRanges()
    for source, target in landed.items():
        if known.touches(source, source + 1):
            one = np.array([1], dtype=np.int64)
            ranges.append(np.array([source]), np.array([target]), one)
    end = Landed(*LANE, at, at + 1)
    first = FirstLanded(*LANE, offsets[0], landed[offsets[0]])
    position = Position(
        *(START + COUNT, START, -1, "", 1, 0, *LANE),
        landed=(end,),
        first_landed=random.choice([None, (first,)]),
    )
    replica = replace(
        make_replica(position, known.all(), unread=False),
        target_ranges={LANE: ranges} if len(ranges) else {},
        source_start=0,
    )
    return replica, landed, known


@settings(deadline=None, max_examples=examples(300))
@given(st.integers(0, 2**32))
def test_an_offset_is_looked_for_exactly_if_its_next_record_may_be_unmapped(seed: int) -> None:
    replica, landed, known = copied(Random(seed))
    position = replica.position
    assert position is not None
    every = range(START - 3, START + COUNT + 3)
    sources = [at for at in landed if known.touches(at, at + 1)]

    def is_unknown(offset: int) -> bool:
        first = min((at for at in sources if at >= offset), default=position.offset - 1)
        return bool(known.missing(offset, first + 1))

    # Up to the first copy, the position says where offsets lead, if it names that.
    begin = min(landed) + 1 if position.first_landed else START
    expected = {at for at in every if begin <= at < START + COUNT and is_unknown(at)}
    assert find_unmapped(replica, every) == expected


@settings(deadline=None, max_examples=examples(300))
@given(st.integers(0, 2**32))
def test_anchors_are_boundaries_and_a_bound_skips_nothing(seed: int) -> None:
    replica, landed, _ = copied(Random(seed))
    anchors = find_anchors(replica)
    for anchor in anchors:
        assert all((at < anchor.source) == (to < anchor.target) for at, to in landed.items())
    replica = replace(replica, compared=anchors)
    log = TargetLog(0, max(landed.values()) + 1)
    for offset in range(START, START + COUNT + 1):
        (row,) = translate({AT: replica}, {AT: offset}, {LANE: log})
        unread = [to for at, to in landed.items() if at >= offset]
        if row.basis is Basis.UNMAPPED:
            continue
        assert row.offset is not None and row.offset <= min(unread, default=log.end)
        if row.basis is Basis.EXACT:
            again = [to for at, to in landed.items() if at < offset and to >= row.offset]
            assert not again
    # The target has lost its last record: what is unread may be lost, too.
    cut = TargetLog(0, max(landed.values()))
    for offset in find_unmapped(replica, range(START, START + COUNT)):
        (row,) = translate({AT: replica}, {AT: offset}, {LANE: cut})
        assert row.basis is Basis.UNMAPPED


def test_nothing_is_known_of_the_end_without_transactions_or_after_a_move() -> None:
    """Repeated records may follow what was acknowledged; an operator's position is not the end."""
    for slot, landed in (
        (0, Landed(*LANE, 40, 40)),
        (-1, Landed(*LANE, 30, 40)),
        (0, Landed("other", 0, 30, 40)),
    ):
        position = Position(9, 0, -1, "", 1, slot, *LANE, landed=(landed,))
        assert len(find_anchors(make_replica(position, (), unread=False))) == 0
