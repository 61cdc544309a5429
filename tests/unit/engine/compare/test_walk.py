"""The walk over both logs of a partition: random logs, and each damage in them."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from k2ktui.engine.compare.log_items import I64, Absent, AbsentKind, BatchRows, LogBatch, LogItem
from k2ktui.engine.compare.outcomes import (
    DIFFERENCES,
    OF_PAIRS,
    OF_SOURCE,
    OF_TARGET,
    Outcome,
    PartResult,
    join_results,
)
from k2ktui.engine.compare.parts import ComparisonPart, PartitionFacts, divide
from k2ktui.engine.compare.walk import PairVerdict, compare_part
from k2ktui.engine.mapping.ranges import MappingRanges
from k2ktui.engine.mapping.replica import Replica, TargetLog
from k2ktui.engine.records.state import Gap, Position, SourcePartition

SOURCE = SourcePartition("orders", 0)
OTHER = SourcePartition("others", 0)
TARGET = ("orders", 0)
TOMBSTONE = -4
# Values of records of which it is known whether the pipeline makes one.
LEFT_OUT = {-5: True, -6: False}


@dataclass(frozen=True)
class Record:
    key: bytes | None
    value: int


@dataclass
class Rows:
    offsets: I64
    records: list[Record]

    def key(self, row: int) -> bytes | None:
        return self.records[row].key

    def is_tombstone(self, row: int) -> bool:
        return self.records[row].value == TOMBSTONE

    def time_ms(self, row: int) -> int:
        return max(0, self.records[row].value)

    def kept(self) -> NDArray[np.bool_] | None:
        return None

    def is_left_out(self, row: int) -> bool | None:
        return LEFT_OUT.get(self.records[row].value)


@dataclass
class Batch:
    """A batch of the model; ``first`` and ``last`` may be offsets without a record."""

    first: int
    last: int
    held: dict[int, Record]

    @property
    def count(self) -> int:
        return len(self.held)

    def same_bytes(self, other: LogBatch) -> bool:
        assert isinstance(other, Batch)
        mine = [(at - self.first, one) for at, one in self.held.items()]
        return mine == [(at - other.first, one) for at, one in other.held.items()]

    def digest(self) -> int:
        return hash((self.first, tuple(self.held.items()))) & 0xFFFF

    def rows(self) -> Rows:
        return Rows(np.array(list(self.held), dtype=np.int64), list(self.held.values()))


class Comparer:
    """Compares records of the model."""

    def __init__(self, *, trusts_bytes: bool = True) -> None:
        self.trusts_bytes = trusts_bytes

    def compare(self, source: tuple[BatchRows, int], target: tuple[BatchRows, int]) -> PairVerdict:
        one, other = (at[0].records[at[1]] for at in (source, target))  # type: ignore[attr-defined]
        same = one == other
        return PairVerdict(Outcome.EQUAL if same else Outcome.DIFFERS, "" if same else "value")

    def compare_several(
        self,
        source: tuple[BatchRows, int],
        targets: Sequence[tuple[BatchRows, int]],
        *,
        in_order: bool,
    ) -> PairVerdict:
        raise AssertionError("one record is made of one")

    def are_equal(
        self, source: tuple[BatchRows, int], target: tuple[BatchRows, int], count: int
    ) -> bool:
        one, other = (at[0].records[at[1] : at[1] + count] for at in (source, target))  # type: ignore[attr-defined]
        return bool(one == other)

    def digest(self, record: tuple[BatchRows, int]) -> str:
        return str(record[0].records[record[1]].value)  # type: ignore[attr-defined]


@dataclass
class Log:
    """A partition of the model; offsets without a record are markers, or were removed."""

    records: dict[int, Record] = field(default_factory=dict)
    end: int = 0
    start: int = 0
    cuts: set[int] = field(default_factory=set)  # where batches begin

    def append(self, record: Record) -> int:
        self.records[self.end] = record
        self.end += 1
        return self.end - 1

    def items(self, first: int) -> Iterator[LogItem]:
        """Yield what a reader yields from an offset on: whole batches, and what is between."""
        if first < self.start:
            yield Absent(first, self.start - 1, AbsentKind.DELETED)
        edges = sorted({0, self.end} | {at for at in self.cuts if at < self.end})
        seen = max(first, self.start)
        for low, high in itertools.pairwise(edges):
            held = {at: self.records[at] for at in range(low, high) if at in self.records}
            if high <= seen or not held:
                continue
            if low > seen:
                yield Absent(seen, low - 1, AbsentKind.NO_RECORD)
            yield Batch(low, high - 1, held)
            seen = high
        if seen < self.end:
            yield Absent(seen, self.end - 1, AbsentKind.NO_RECORD)


@dataclass
class Pair:
    """A source partition, its target partition with records of others, and the mapping.

    ``has_others`` is whether another source partition feeds the target partition.
    """

    source: Log = field(default_factory=Log)
    target: Log = field(default_factory=Log)
    landed: dict[int, int] = field(default_factory=dict)
    others: list[int] = field(default_factory=list)
    natives: set[int] = field(default_factory=set)
    complete_from: int | None = None
    began_at: int = 0
    skipped: tuple[int, int] = (0, 0)
    compacted: tuple[bool, bool] = (False, False)
    has_others: bool = True
    keeps_keys: bool = True
    keeps_values: bool = True

    def ranges(self, pairs: dict[int, int]) -> MappingRanges:
        ranges = MappingRanges()
        for at, to in sorted(pairs.items()):
            one = np.array([[at], [to], [1]], dtype=np.int64)
            ranges.append(*one)
        return ranges

    def parts(self, size: int, sample: float = 1.0) -> list[ComparisonPart]:
        known = self.complete_from or 0
        position = Position(
            self.source.end, self.began_at, -1, "id", 1, 0, *TARGET,
            gaps=(Gap(*self.skipped, "lost"),) if self.skipped[0] < self.skipped[1] else (),
        )  # fmt: skip
        own = {at: to for at, to in self.landed.items() if at >= known}
        other = Position(len(self.others), 0, -1, "id", 1, 0, *TARGET)
        replicas = {SOURCE: Replica(position, {TARGET: self.ranges(own)}, self.complete_from)}
        if self.has_others:
            replicas[OTHER] = Replica(other, {TARGET: self.ranges(dict(enumerate(self.others)))})
        keeps = {"keeps_keys": self.keeps_keys, "keeps_values": self.keeps_values}
        facts = {SOURCE: PartitionFacts(self.source.start, None, self.compacted[0], **keeps)}
        logs = {TARGET: TargetLog(self.target.start, self.target.end)}
        return divide(replicas, facts, logs, {TARGET[0]: self.compacted[1]}, sample, size)

    def compare(self, size: int = 7, *, trusts_bytes: bool = True) -> PartResult:
        results = [
            compare_part(
                part,
                self.source.items(part.first),
                {span.at: self.target.items(span.first) for span in part.targets},
                Comparer(trusts_bytes=trusts_bytes),
            )
            for part in self.parts(size)
        ]
        result = join_results(results)[SOURCE]
        check_sums(result)
        return result


def check_sums(result: PartResult) -> None:
    """The counts add up to what was read on each side."""
    assert result.count(OF_PAIRS | OF_SOURCE) == result.source_records
    assert result.count(OF_PAIRS | OF_TARGET) == result.target_records
    assert all(result.counts.values())


def make_pair(seed: int, *, keys: int = 5, others: bool = True, natives: bool = False) -> Pair:
    """Make a source log with transactions, and its copy between records of others."""
    dice = random.Random(seed)
    pair = Pair()
    batch: list[int] = []
    for number in range(dice.randrange(60)):
        if dice.random() < 0.1:
            pair.source.end += 1  # a marker
        if dice.random() < 0.3:
            pair.source.cuts.add(pair.source.end)
        key = b"k%d" % dice.randrange(keys) if keys else None
        batch.append(pair.source.append(Record(key, number)))
    pair.source.end += dice.randrange(2)
    pair.target.end = dice.randrange(4)
    for at in batch:
        while dice.random() < 0.15:
            pair.target.cuts |= {pair.target.end, pair.target.end + 1}
            if others and dice.random() < 0.5:
                pair.others.append(pair.target.append(Record(b"other", -1)))
            elif natives:
                pair.natives.add(pair.target.append(Record(b"native", -2)))
            else:
                pair.target.end += 1  # a marker
        if at in pair.source.cuts or dice.random() < 0.1:
            pair.target.cuts.add(pair.target.end)
        pair.landed[at] = pair.target.append(pair.source.records[at])
    pair.target.end += dice.randrange(3)
    return pair


sizes = st.integers(1, 40)
seeds = st.integers(0, 1 << 32)


@given(seeds, sizes, st.booleans())
def test_a_whole_copy_is_equal(seed: int, size: int, trusts_bytes: bool) -> None:
    pair = make_pair(seed)
    result = pair.compare(size, trusts_bytes=trusts_bytes)
    copied = len(pair.source.records)
    assert result.counts == ({Outcome.EQUAL: copied} if copied else {})
    assert result.findings == () and (result.first, result.end) == (0, pair.source.end)


def model(pair: Pair) -> Counter[Outcome]:
    """Return what each record is, from what is known of the logs one by one."""
    counts: Counter[Outcome] = Counter()
    known = pair.complete_from or 0
    source_keys = {one.key: at for at, one in sorted(pair.source.records.items())}
    target_keys = {one.key: at for at, one in sorted(pair.target.records.items())}
    first = min((to for at, to in pair.landed.items() if at >= known), default=1 << 60)
    for at, one in pair.source.records.items():
        to = pair.landed.get(at)
        copy = pair.target.records.get(-1 if to is None else to)
        if at < pair.source.start:
            continue
        if at < pair.began_at or pair.skipped[0] <= at < pair.skipped[1]:
            counts[Outcome.NEVER_COPIED] += 1
        elif at < known:
            counts[Outcome.EXPIRED_ON_SOURCE] += 1
        elif to is None:
            counts[Outcome.MISSING] += 1
        elif to < pair.target.start:
            counts[Outcome.DELETED_ON_TARGET] += 1
        elif copy is not None:
            counts[Outcome.EQUAL if copy == one else Outcome.DIFFERS] += 1
        elif not pair.compacted[1]:
            counts[Outcome.MISSING] += 1
        elif target_keys.get(one.key, -1) > to:
            counts[Outcome.COMPACTED_ON_TARGET] += 1
        else:
            counts[Outcome.UNCLEAR_ON_TARGET] += 1
    back = {to: at for at, to in pair.landed.items() if at >= known}
    for to, one in pair.target.records.items():
        if to < pair.target.start or to in pair.others:
            continue
        origin = back.get(to)
        if origin is None:
            is_unknown = known > pair.began_at and to < first
            counts[Outcome.EXPIRED_ON_TARGET if is_unknown else Outcome.NATIVE] += 1
        elif origin < pair.source.start:
            counts[Outcome.DELETED_ON_SOURCE] += 1
        elif origin not in pair.source.records:
            if not pair.compacted[0]:
                counts[Outcome.MISSING_ON_SOURCE] += 1
            elif source_keys.get(one.key, -1) > origin:
                counts[Outcome.COMPACTED_ON_SOURCE] += 1
            else:
                counts[Outcome.UNCLEAR_ON_SOURCE] += 1
    return counts


def has_records_without_copy(pair: Pair) -> bool:
    """Whether the source has records from the start position on that no known mapping leads to."""
    known = max(pair.began_at, pair.complete_from or 0)
    return any(
        at >= pair.began_at and (at < known or at not in pair.landed) for at in pair.source.records
    )


def join_compacted(counts: Mapping[Outcome, int]) -> Counter[Outcome]:
    """Return the counts with what the source has compacted, or perhaps lost, as one."""
    joined = Counter(counts)
    joined[Outcome.UNCLEAR_ON_SOURCE] += joined.pop(Outcome.COMPACTED_ON_SOURCE, 0)
    return +joined


@given(seeds, sizes, st.booleans(), st.sampled_from([(0, 0), (1, 0), (0, 1), (1, 1)]))
@example(131072, 1, False, (1, 0))
@example(3039564, 1, True, (1, 0))
def test_every_record_gets_its_outcome(
    seed: int, size: int, trusts_bytes: bool, compacted: tuple[int, int]
) -> None:
    """Retention, compaction, lost records, natives, gaps and an expired mapping, all at once."""
    pair = make_pair(seed, natives=True)
    dice = random.Random(seed + 1)
    pair.compacted = bool(compacted[0]), bool(compacted[1])
    end = pair.source.end
    for log in (pair.source, pair.target):
        for at in list(log.records):
            if dice.random() < 0.1:
                del log.records[at]
        log.start = dice.choice([0, dice.randrange(log.end + 1)])
    for at in list(pair.target.records):
        if dice.random() < 0.05 and at not in pair.others:
            pair.target.records[at] = Record(pair.target.records[at].key, -3)
    pair.others = [at for at in pair.others if at in pair.target.records]
    if dice.random() < 0.3:
        pair.began_at = dice.randrange(end + 1)
        pair.landed = {at: to for at, to in pair.landed.items() if at >= pair.began_at}
    if dice.random() < 0.3:
        low = dice.randrange(end + 1)
        pair.skipped = low, min(end, low + 5)
        for at in range(*pair.skipped):
            pair.landed.pop(at, None)
    if dice.random() < 0.3:
        pair.complete_from = dice.randrange(pair.began_at, end + 1)
    elif dice.random() < 0.2 and pair.landed:
        del pair.landed[dice.choice(list(pair.landed))]
    result = pair.compare(size, trusts_bytes=trusts_bytes)
    counts, expected = Counter(result.counts), +model(pair)
    if has_records_without_copy(pair):
        # The walk may pass a newer record that was never copied before the copy of an older one of
        # its key. It does not know then that the source has compacted that.
        assert counts[Outcome.UNCLEAR_ON_SOURCE] >= expected[Outcome.UNCLEAR_ON_SOURCE]
        counts, expected = join_compacted(counts), join_compacted(expected)
    assert counts == expected
    wrong = {outcome: min(result.counts.get(outcome, 0), 20) for outcome in DIFFERENCES}
    assert Counter(one.outcome for one in result.findings) == +Counter(wrong)
    # Those that may be lost have their places, of each key the newest.
    unclear = {Outcome.UNCLEAR_ON_TARGET, Outcome.UNCLEAR_ON_SOURCE}
    assert {one.outcome for one in result.unproven_findings} == unclear & result.counts.keys()
    for one in result.unproven_findings:
        assert one.source_offset is not None and one.target == TARGET
        assert pair.landed[one.source_offset] == one.target_offset
        log, at = pair.target, one.target_offset
        if one.outcome is Outcome.UNCLEAR_ON_SOURCE:
            log, at = pair.source, one.source_offset
        assert at not in log.records


@given(seeds, sizes, st.booleans())
def test_each_damage_is_found_with_its_place(seed: int, size: int, trusts_bytes: bool) -> None:
    dice = random.Random(seed)
    pair = make_pair(seed)
    places = sorted(pair.landed.values())
    if len(places) < 2:
        return
    target, which = pair.target.records, dice.randrange(len(places) - 1)
    at, following = places[which], places[which + 1]
    damage = dice.choice(["changed", "removed", "doubled", "swapped", "stranger"])
    expected: set[tuple[Outcome, int]]
    if damage == "changed":
        target[at] = Record(target[at].key, -9)
        expected = {(Outcome.DIFFERS, at)}
    elif damage == "removed":
        del target[at]
        expected = {(Outcome.MISSING, at)}
    elif damage == "doubled":
        target[following] = target[at]
        expected = {(Outcome.DIFFERS, following)}
    elif damage == "swapped":
        target[at], target[following] = target[following], target[at]
        expected = {(Outcome.DIFFERS, at), (Outcome.DIFFERS, following)}
    else:
        pair.target.cuts.add(pair.target.end)
        at = pair.target.append(Record(b"x", -8))
        expected = {(Outcome.NATIVE, at)}
    result = pair.compare(size, trusts_bytes=trusts_bytes)
    back = {to: source for source, to in pair.landed.items()}
    assert {(one.outcome, one.target_offset) for one in result.findings} == expected
    for one in result.findings:
        assert one.target == TARGET and one.source_offset == back.get(one.target_offset or 0)
    assert result.count([Outcome.EQUAL]) == len(places) - len(expected) + (damage == "stranger")


@pytest.mark.parametrize("size", [7, 1000])
def test_records_of_others_do_not_hide_damage(size: int) -> None:
    """Where both directions are copied, most records of a target partition may be its own."""
    pair = Pair()
    for number in range(30):
        pair.target.append(Record(b"own", -2))
        at = pair.source.append(Record(None, number))
        pair.landed[at] = pair.target.append(Record(None, number))
        pair.source.cuts.add(pair.source.end)
        pair.target.cuts |= {pair.target.end - 1, pair.target.end}
    pair.target.records[pair.landed[29]] = Record(None, -9)
    result = pair.compare(size)
    assert result.counts == {Outcome.EQUAL: 29, Outcome.NATIVE: 30, Outcome.DIFFERS: 1}
    kept = Counter(one.outcome for one in result.findings)
    assert kept == {Outcome.NATIVE: 20, Outcome.DIFFERS: 1}


@given(seeds, sizes, sizes)
def test_digests_do_not_depend_on_parts(seed: int, size: int, other: int) -> None:
    pair = make_pair(seed)
    one, two = pair.compare(size), pair.compare(other)
    assert (one.source_digest, one.target_digest) == (two.source_digest, two.target_digest)
    if pair.landed:
        at = next(iter(pair.landed.values()))
        pair.target.records[at] = Record(None, -7)
        assert pair.compare(size).target_digest != one.target_digest
        assert pair.compare(size).source_digest == one.source_digest


def test_an_unread_source_proves_nothing_of_the_rest() -> None:
    pair = Pair()
    for number in range(10):
        at = pair.source.append(Record(None, number))
        pair.source.cuts.add(at)
        pair.landed[at] = pair.target.append(Record(None, number))
    (part,) = pair.parts(100)
    items = [*list(pair.source.items(0))[:1], Absent(4, 9, AbsentKind.UNREAD, "wrong checksum")]
    result = compare_part(part, iter(items), {TARGET: pair.target.items(0)}, Comparer())
    assert result.unread == "from offset 4 on: wrong checksum"
    assert set(result.counts) == {Outcome.EQUAL}


def test_a_sample_is_the_same_each_time() -> None:
    pair = Pair()
    pair.source.end, pair.source.start = 1_000_000, 12_345
    chosen = [(part.first, part.end) for part in pair.parts(7, 0.3)]
    assert chosen == [(part.first, part.end) for part in pair.parts(99, 0.3)]
    assert 0.2 < sum(end - first for first, end in chosen) / 1_000_000 < 0.4
    # Retention and new records move the ends, not what is chosen between.
    pair.source.end, pair.source.start = 1_100_000, 112_345
    moved = {(part.first, part.end) for part in pair.parts(7, 0.3)}
    assert {one for one in chosen if one[0] > 114_000} <= moved
    # A short partition has at least its last part.
    pair.source.start = pair.source.end - 55
    assert [part.end for part in pair.parts(7, 0.0001)] == [1_100_000]


def expired_pair(seed: int) -> Pair:
    """Make a pair with an expired mapping and preserved partitions."""
    pair = make_pair(seed, others=False)
    pair.has_others = False
    pair.complete_from = random.Random(seed + 2).randrange(pair.source.end + 1)
    return pair


@given(seeds, sizes, st.booleans())
def test_contents_are_matched_where_the_mapping_has_expired(
    seed: int, size: int, trusts_bytes: bool
) -> None:
    pair = expired_pair(seed)
    copied = len(pair.source.records)
    result = pair.compare(size)
    assert result.counts == ({Outcome.EQUAL: copied} if copied else {})
    # Without trust in contents, as where schema ids are mapped, nothing is known of them.
    if not trusts_bytes:
        expired = sum(at < (pair.complete_from or 0) for at in pair.source.records)
        counts = pair.compare(size, trusts_bytes=False).counts
        assert counts.get(Outcome.EXPIRED_ON_SOURCE, 0) == expired
        assert counts.get(Outcome.EXPIRED_ON_TARGET, 0) == expired


@given(seeds, sizes)
def test_damage_where_the_mapping_has_expired(seed: int, size: int) -> None:
    """It is found between records that match; nothing is called equal that is not."""
    dice = random.Random(seed)
    pair = expired_pair(seed)
    places = sorted(pair.landed.values())
    if len(places) < 3:
        return
    at = dice.choice(places[1:-1])
    back = {to: origin for origin, to in pair.landed.items()}
    damage = dice.choice(["changed", "removed"])
    if damage == "changed":
        pair.target.records[at] = Record(pair.target.records[at].key, -9)
    else:
        del pair.target.records[at]
    result = pair.compare(size)
    assert result.counts[Outcome.EQUAL] == len(places) - 1
    is_expired = back[at] < (pair.complete_from or 0)
    known = {(one.outcome, one.source_offset or one.target_offset) for one in result.findings}
    if not is_expired:
        assert known == {
            (Outcome.DIFFERS if damage == "changed" else Outcome.MISSING, back[at] or at)
        }
        return
    wanted = {(Outcome.MISSING, back[at] or None)}
    if damage == "changed":
        wanted.add((Outcome.NATIVE, at))
    assert known == wanted


@given(seeds, sizes, st.booleans())
@example(2097151, 5, False)  # the target's log starts within a batch of the same bytes
def test_retention_where_the_mapping_has_expired(seed: int, size: int, on_source: bool) -> None:
    """What retention has removed on one side leaves the rest to be matched."""
    dice = random.Random(seed)
    pair = expired_pair(seed)
    log = pair.source if on_source else pair.target
    log.start = dice.randrange(log.end + 1)
    result = pair.compare(size)
    alive = [
        (at, to)
        for at, to in pair.landed.items()
        if at >= pair.source.start and to >= pair.target.start
    ]
    assert result.counts.get(Outcome.EQUAL, 0) == len(alive)
    assert not result.count(DIFFERENCES)


class Living:
    """A pair of compacted logs that goes on while it is compared: written, copied and cleaned.

    Args:
        dice: what happens.
        pair: the logs.
        is_quiet: whether nothing happens.
    """

    def __init__(self, dice: random.Random, pair: Pair, *, is_quiet: bool = False) -> None:
        self._dice, self._pair, self._is_quiet = dice, pair, is_quiet

    def go_on(self) -> None:
        dice, pair = self._dice, self._pair
        if self._is_quiet:
            return
        for _ in range(dice.choice([0, 0, 1, 3])):
            value = TOMBSTONE if dice.random() < 0.4 else 1000 + pair.source.end
            record = Record(b"k%d" % dice.randrange(5), value)
            for log in (pair.source, pair.target):
                log.cuts.add(log.end)
                log.append(record)
        for log, is_compacted in zip((pair.source, pair.target), pair.compacted, strict=True):
            if is_compacted and dice.random() < 0.4:
                clean(log, dice)

    def items(self, log: Log, first: int, end: int | None = None) -> Iterator[LogItem]:
        self.go_on()
        for item in log.items(first):
            if end is not None and item.first >= end:
                return
            yield item
            self.go_on()

    def source(self, first: int, end: int | None = None) -> Iterator[LogItem]:
        return self.items(self._pair.source, first, end)

    def target(self, at: tuple[str, int], first: int) -> Iterator[LogItem]:
        assert at == TARGET
        return self.items(self._pair.target, first)

    def compare(self) -> PartResult:
        (part,) = self._pair.parts(1000)
        self.go_on()
        targets = {TARGET: self.target(TARGET, part.targets[0].first)}
        result = compare_part(part, self.source(part.first), targets, Comparer(), self)
        check_sums(result)
        return result


def clean(log: Log, dice: random.Random) -> None:
    """Clean a log up to some offset, as Kafka's LogCleaner does; old tombstones go, too."""
    cut = dice.randrange(log.end + 1)
    newest = {one.key: at for at, one in sorted(log.records.items()) if at < cut}
    for at, one in list(log.records.items()):
        is_old_tombstone = one.value == TOMBSTONE and dice.random() < 0.7
        if at < cut and (newest[one.key] > at or is_old_tombstone):
            del log.records[at]


def compacted_pair(seed: int, *, on_source: bool) -> Pair:
    dice = random.Random(seed + 3)
    pair = make_pair(seed, others=False)
    pair.has_others, pair.compacted = False, (on_source, True)
    for at, to in pair.landed.items():
        if dice.random() < 0.3:
            one = Record(pair.source.records[at].key, TOMBSTONE)
            pair.source.records[at] = pair.target.records[to] = one
    for log in (pair.source, pair.target)[not on_source :]:
        for _ in range(dice.randrange(3)):
            clean(log, dice)
    return pair


@given(seeds, st.booleans())
def test_nothing_that_compaction_may_have_removed_is_called_lost(
    seed: int, on_source: bool
) -> None:
    pair = compacted_pair(seed, on_source=on_source)
    result = Living(random.Random(seed), pair).compare()
    assert not result.count(DIFFERENCES), result.findings


@given(seeds, st.booleans())
def test_the_newest_record_of_a_key_is_missing_if_it_is_gone(seed: int, on_source: bool) -> None:
    pair = compacted_pair(seed, on_source=on_source)
    newest = {one.key: at for at, one in sorted(pair.source.records.items())}
    there = [at for at in newest.values() if pair.landed[at] in pair.target.records]
    if not there:
        return
    lost = random.Random(seed).choice(there)
    was_tombstone = pair.target.records.pop(pair.landed[lost]).value == TOMBSTONE
    result = Living(random.Random(seed), pair, is_quiet=True).compare()
    places = [(one.outcome, one.source_offset, one.target_offset) for one in result.findings]
    unproven = {one.source_offset for one in result.unproven_findings}
    if was_tombstone:
        assert not places and lost in unproven
    else:
        assert places == [(Outcome.MISSING, lost, pair.landed[lost])] and lost not in unproven
        assert result.findings[0].source_hash == str(pair.source.records[lost].value)


def test_what_a_stranger_has_overwritten_is_not_lost() -> None:
    """Its newer record of the key may be behind the end that was planned."""
    pair = Pair(has_others=False, compacted=(True, True))
    pair.landed[0] = pair.target.append(Record(b"k", 1))
    pair.source.append(pair.target.records.pop(0))
    (part,) = pair.parts(1000)
    pair.target.append(Record(b"k", 2))
    logs = Living(random.Random(0), pair, is_quiet=True)
    targets = {TARGET: pair.target.items(0)}
    result = compare_part(part, pair.source.items(0), targets, Comparer(), logs)
    assert result.counts == {Outcome.COMPACTED_ON_TARGET: 1}


def test_compaction_is_not_proven_by_keys_or_values_that_a_transform_changes() -> None:
    pair = Pair(has_others=False, compacted=(True, True))
    for number in range(3):
        at = pair.source.append(Record(b"k", number))
        pair.landed[at] = pair.target.append(pair.source.records[at])
    del pair.target.records[0], pair.target.records[2]
    pair.target.records[1] = Record(b"another key", 1)
    pair.keeps_keys = False
    result = Living(random.Random(0), pair, is_quiet=True).compare()
    assert result.counts == {Outcome.DIFFERS: 1, Outcome.UNCLEAR_ON_TARGET: 2}
    # The copy of a value may have been a tombstone, which compaction removes.
    pair.keeps_keys, pair.keeps_values = True, False
    result = Living(random.Random(0), pair, is_quiet=True).compare()
    assert result.counts == {Outcome.DIFFERS: 1, Outcome.UNCLEAR_ON_TARGET: 2}
    pair.keeps_values = True
    result = Living(random.Random(0), pair, is_quiet=True).compare()
    assert result.counts[Outcome.MISSING] == 1


def test_at_most_twenty_are_proven_lost_and_named() -> None:
    pair = Pair(has_others=False, compacted=(True, True))
    for number in range(50):
        at = pair.source.append(Record(b"%d" % number, number))
        pair.landed[at] = pair.target.append(pair.source.records[at])
    pair.target.records.clear()
    result = Living(random.Random(0), pair, is_quiet=True).compare()
    assert result.counts == {Outcome.MISSING: 20, Outcome.UNCLEAR_ON_TARGET: 30}
    assert [one.source_offset for one in result.findings] == list(range(20))
    # Where others write, too, a tombstone of theirs may have been there.
    pair.has_others = True
    result = Living(random.Random(0), pair, is_quiet=True).compare()
    assert result.counts == {Outcome.UNCLEAR_ON_TARGET: 50}
    assert [one.source_offset for one in result.unproven_findings] == list(range(20))


def test_what_a_transform_makes_of_a_record_without_a_mapping() -> None:
    """It is missing if one is made of it, whatever the pipeline may leave out otherwise."""
    pair = Pair(has_others=False)
    for value in (-5, -6, 1):
        pair.source.append(Record(b"k", value))
    (part,) = pair.parts(100)
    for leaves_out in (True, False):
        changed = replace(part, facts=replace(part.facts, leaves_out=leaves_out))
        result = compare_part(changed, pair.source.items(0), {TARGET: iter(())}, Comparer())
        missing = 1 if leaves_out else 2
        assert result.counts == {Outcome.MISSING: missing, Outcome.NEVER_COPIED: 3 - missing}
