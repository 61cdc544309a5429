"""Several records made of one, on any target partitions: all are compared, one pair is counted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.compare.log_items import BatchRows
from k2ktui.engine.compare.outcomes import Outcome, PartResult
from k2ktui.engine.compare.parts import ComparisonPart, Offsets, PartitionFacts, TargetSpan
from k2ktui.engine.compare.walk import PairVerdict, compare_part
from k2ktui.engine.mapping.range_columns import RangeColumns
from k2ktui.engine.records.state import SourcePartition
from tests.unit.engine.compare.test_walk import Comparer, Log, Record, check_sums

SOURCE, TARGETS = SourcePartition("orders", 0), (("orders", 0), ("orders", 1))
_NOTHING = Offsets.of([])


class Explode(Comparer):
    """A record with the value 3012 makes 12, 1012 and 2012; how many is its first digit."""

    def __init__(self) -> None:
        super().__init__()
        self.orders: set[bool] = set()

    def compare_several(
        self,
        source: tuple[BatchRows, int],
        targets: Sequence[tuple[BatchRows, int]],
        *,
        in_order: bool,
    ) -> PairVerdict:
        self.orders.add(in_order)
        record = source[0].records[source[1]]  # type: ignore[attr-defined]
        there = [rows.records[row].value for rows, row in targets]  # type: ignore[attr-defined]
        left = Counter(made_of(record.value))
        for number, value in enumerate(there):
            if not left[value]:
                return PairVerdict(Outcome.DIFFERS, "another value", number)
            left[value] -= 1
        return PairVerdict(Outcome.EQUAL if not +left else Outcome.DIFFERS, "too few")


def made_of(value: int) -> list[int]:
    return [1000 * n + value % 1000 for n in range(value // 1000)]


@dataclass
class Exploded:
    """A source partition, and what is made of it on two target partitions."""

    source: Log = field(default_factory=Log)
    targets: list[Log] = field(default_factory=lambda: [Log(), Log()])
    others: list[list[int]] = field(default_factory=lambda: [[], []])
    # Source offset, target, first offset there, and the number of further ones.
    ranges: list[tuple[int, int, int, int]] = field(default_factory=list)
    places: list[tuple[int, int, int]] = field(default_factory=list)

    def part(self) -> ComparisonPart:
        spans = []
        for number, at in enumerate(TARGETS):
            own = [row for row in self.ranges if row[1] == number]
            columns = [np.array([row[n] for row in own], dtype=np.int64) for n in (0, 2, 3)]
            ones = np.ones(len(own), dtype=np.int64)
            ranges = RangeColumns(columns[0], columns[1], ones, columns[2])
            others = Offsets.of([(at, at + 1) for at in self.others[number]])
            end = self.targets[number].end
            spans.append(TargetSpan(at, 0, end, 0, ranges, others, _NOTHING, end, False))
        facts = PartitionFacts(0, leaves_out=True, keeps_keys=False, makes_several=True)
        return ComparisonPart(
            SOURCE, 0, self.source.end, facts, 0, _NOTHING, _NOTHING, is_last=True,
            keeps_partitions=False, targets=tuple(spans),
        )  # fmt: skip

    def compare(self, comparer: Explode) -> PartResult:
        logs = {at: log.items(0) for at, log in zip(TARGETS, self.targets, strict=True)}
        result = compare_part(self.part(), self.source.items(0), logs, comparer)
        check_sums(result)
        return result


def explode(seed: int) -> Exploded:
    """Make records of others, markers, and batches of any size between those of one record."""
    dice, made = random.Random(seed), Exploded()
    for number in range(dice.randrange(1, 25)):
        if dice.random() < 0.4:
            made.source.cuts.add(made.source.end)
        value = 1000 * dice.randrange(4) + number
        offset = made.source.append(Record(b"k", value))
        first: dict[int, int] = {}
        last: dict[int, int] = {}
        for one in made_of(value):
            which = dice.randrange(2)
            log = made.targets[which]
            if dice.random() < 0.2:
                log.cuts |= {log.end, log.end + 1}
                if dice.random() < 0.5:
                    made.others[which].append(log.append(Record(b"other", -1)))
                else:
                    log.end += 1  # a marker
            if dice.random() < 0.2:
                log.cuts.add(log.end)
            last[which] = log.append(Record(b"k", one))
            first.setdefault(which, last[which])
            made.places.append((offset, which, last[which]))
        made.ranges += [(offset, at, first[at], last[at] - first[at]) for at in first]
    return made


seeds = st.integers(0, 1 << 32)


@given(seeds)
def test_all_that_is_made_of_a_record_is_one_pair(seed: int) -> None:
    made, comparer = explode(seed), Explode()
    result = made.compare(comparer)
    values = [one.value for one in made.source.records.values()]
    copied = sum(value >= 1000 for value in values)
    counts = {Outcome.EQUAL: copied, Outcome.NEVER_COPIED: len(values) - copied}
    assert result.counts == {outcome: count for outcome, count in counts.items() if count}
    assert comparer.orders <= {len({row[1] for row in made.ranges}) < 2, True, False}


@given(seeds, st.integers(0, 1 << 16), st.booleans())
def test_any_of_them_that_is_damaged_or_gone_is_found(seed: int, which: int, gone: bool) -> None:
    made = explode(seed)
    if not made.places:
        return
    offset, number, landed = made.places[which % len(made.places)]
    records = made.targets[number].records
    if gone:
        del records[landed]
    else:
        records[landed] = Record(b"k", -7)
    result = made.compare(Explode())
    (finding,) = result.findings
    assert finding.source_offset == offset
    if not gone:
        place = TARGETS[number], landed
        assert (finding.outcome, finding.target, finding.target_offset) == (Outcome.DIFFERS, *place)
    else:
        assert finding.outcome in (Outcome.DIFFERS, Outcome.MISSING)
