"""Batches of which a transform keeps some records are compared many at a time, with one result."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from k2ktui.engine.compare.log_items import BatchRows, LogItem
from k2ktui.engine.compare.outcomes import Outcome, PartResult, join_results
from k2ktui.engine.compare.walk import compare_part
from tests.unit.engine.compare.test_walk import (
    SOURCE,
    Batch,
    Comparer,
    Log,
    Pair,
    Record,
    Rows,
    check_sums,
    make_pair,
)

OUT = -5


class FilteredRows(Rows):
    """Those with the value ``OUT`` are left out."""

    def kept(self) -> NDArray[np.bool_] | None:
        return np.array([not self.is_left_out(row) for row in range(len(self.records))], dtype=bool)

    def is_left_out(self, row: int) -> bool | None:
        return self.records[row].value == OUT


class FilteredBatch(Batch):
    def rows(self) -> Rows:
        rows = super().rows()
        return FilteredRows(rows.offsets, rows.records)


class FilteredComparer(Comparer):
    """Counts how many records it is asked about at once."""

    def __init__(self) -> None:
        super().__init__()
        self.at_once: list[int] = []

    def are_equal(
        self, source: tuple[BatchRows, int], target: tuple[BatchRows, int], count: int
    ) -> bool:
        (rows, row), (copies, copy) = source, target
        assert isinstance(rows, Rows) and isinstance(copies, Rows)
        self.at_once.append(count)
        made = [one for one in rows.records[row:] if one.value != OUT][:count]
        return made == copies.records[copy : copy + count]


def filtered(log: Log, first: int) -> Iterator[LogItem]:
    for item in log.items(first):
        if isinstance(item, Batch):
            item = FilteredBatch(item.first, item.last, item.held)
        yield item


def compare(pair: Pair, size: int, comparer: FilteredComparer, *, fast: bool) -> PartResult:
    results = [
        compare_part(
            replace(part, facts=replace(part.facts, leaves_out=True)),
            filtered(pair.source, part.first) if fast else pair.source.items(part.first),
            {span.at: pair.target.items(span.first) for span in part.targets},
            comparer,
        )
        for part in pair.parts(size)
    ]
    result = join_results(results)[SOURCE]
    check_sums(result)
    return result


def leave_out(pair: Pair, dice: random.Random, share: float) -> None:
    """Leave some records out: what follows them lands where they would have."""
    for at in [at for at in pair.landed if dice.random() < share]:
        gone = pair.landed.pop(at)
        pair.source.records[at] = Record(pair.source.records[at].key, OUT)
        del pair.target.records[gone]
    moved = {to: number for number, to in enumerate(sorted(pair.target.records))}
    # Without the markers, so that what is kept is in a row.
    pair.target.records = {moved[to]: one for to, one in sorted(pair.target.records.items())}
    pair.landed = {at: moved[to] for at, to in pair.landed.items()}
    pair.others = [moved[to] for to in pair.others]
    pair.target.end = len(moved)
    pair.target.cuts = {at for at in range(len(moved)) if dice.random() < 0.2}


seeds = st.integers(0, 1 << 32)


@given(seeds, st.integers(1, 40), st.booleans())
def test_filtered_batches_have_the_result_of_single_records(
    seed: int, size: int, compacted: bool
) -> None:
    """With lost, changed and deleted records, on compacted topics too."""
    pair, dice = make_pair(seed), random.Random(seed + 1)
    leave_out(pair, dice, dice.choice([0.0, 0.2, 0.9]))
    pair.compacted = compacted, compacted
    for log in (pair.source, pair.target):
        for at in list(log.records):
            if dice.random() < 0.05 and at not in pair.others:
                del log.records[at]
            elif dice.random() < 0.05 and log is pair.target and at not in pair.others:
                log.records[at] = Record(b"k0", -3)
        if dice.random() < 0.3:
            log.start = dice.randrange(log.end + 1)
    pair.others = [at for at in pair.others if at in pair.target.records]
    if dice.random() < 0.2:
        pair.began_at = dice.randrange(pair.source.end + 1)
        pair.landed = {at: to for at, to in pair.landed.items() if at >= pair.began_at}
    slow = compare(pair, size, FilteredComparer(), fast=False)
    fast = compare(pair, size, FilteredComparer(), fast=True)
    if compacted:
        # A record that is left out has no copy, so that more may be proven.
        unclear = fast.counts.get(Outcome.UNCLEAR_ON_TARGET, 0)
        assert unclear <= slow.counts.get(Outcome.UNCLEAR_ON_TARGET, 0)
    else:
        assert fast == slow


def test_what_is_kept_is_compared_at_once() -> None:
    pair = Pair(has_others=False)
    for number in range(100):
        kept = number % 5 != 0
        at = pair.source.append(Record(b"k", number if kept else OUT))
        if kept:
            pair.landed[at] = pair.target.append(pair.source.records[at])
    pair.target.cuts = {30}
    comparer = FilteredComparer()
    result = compare(pair, 1000, comparer, fast=True)
    assert result.counts == {Outcome.EQUAL: 80, Outcome.NEVER_COPIED: 20}
    assert comparer.at_once == [30, 50]
