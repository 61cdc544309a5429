"""Content verification: compare groups' next records, and copied ranges, on both clusters.

The target is read before the source: a record that arrives in between can then only be missing on
the target, which is lag, and never appear as an extra record there.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

import numpy as np

from k2ktui.engine.mapping.opposite_copy import find_pair
from k2ktui.engine.mapping.replica import Replica, TargetPartition
from k2ktui.engine.moves.groups import Snapshot
from k2ktui.engine.records.state import SourcePartition
from k2ktui.kafka.clients import Cluster, source_cluster, target_cluster
from k2ktui.log.content import (
    AbsenceReason,
    Answer,
    ContentReader,
    KafkaRecord,
    RecordRange,
    Where,
)
from k2ktui.progress import long_step
from k2ktui.sync.flow import Flow
from k2ktui.sync.matching.log_comparison import divide_work
from k2ktui.sync.moves.snapshot import take_snapshot
from k2ktui.sync.verify.record_comparison import (
    Compaction,
    Comparison,
    ComparisonOutcome,
    PositionPair,
    RecordComparator,
    RecordComparison,
)
from k2ktui.sync.verify.verification import (
    ContentCheck,
    GroupPosition,
    Verification,
    VerificationTotals,
)

__all__ = [
    "PIECE_RECORDS",
    "ComparisonOutcome",
    "ContentCheck",
    "GroupPosition",
    "PositionPair",
    "Verification",
    "VerificationTotals",
    "verify",
]

PIECE_RECORDS = 1000
# Memory bounds: both sides' records of this many positions, or offsets, are held at once.
_POSITIONS_AT_ONCE = 1000
_OFFSETS_AT_ONCE = 20_000
_NEIGHBOURS = 64
_EXAMPLES = 3


def verify(
    source: Cluster,
    target: Cluster,
    rows: Sequence[GroupPosition],
    *,
    replicas: Mapping[SourcePartition, Replica] | None = None,
    sample: int = 0,
    seed: int = 0,
    records: RecordComparison | None = None,
    both_ways: Collection[TargetPartition] = (),
    timeout: float = 120.0,
) -> Verification:
    """Compare each group's next record on both sides, and the records of sampled ranges.

    Args:
        source: the source cluster; only read.
        target: the target cluster; only read.
        rows: committed offsets. Positions that several groups share are read once.
        replicas: the mapping, read before this call. It decides what a difference means: without
            it, lag and a skipped record, or compaction and an error, may look the same.
        sample: number of chunks of mapped ranges, of up to ``PIECE_RECORDS`` records each, to
            compare record by record; all of them if there are fewer.
        seed: the same seed picks the same chunks of the same ranges.
        records: how a record and its copy are compared; without it, in every part.
        both_ways: target partitions with records of both directions; rows there are of one record.
        timeout: seconds for everything; what is not read in time counts as could-not-check.

    Raises:
        ConnectionFailed: a cluster did not answer, or rejected the connection.
        ConfigError: client properties cannot be used.
    """
    known, records = replicas or {}, records or RecordComparison()
    until = monotonic() + timeout
    compacted = Compaction(source), Compaction(target)
    pairs = sorted({row.pair for row in rows})
    judge = RecordComparator(known, pairs, (compacted[0].may, compacted[1].may), records, both_ways)
    with ContentReader(source) as left, ContentReader(target) as right:
        reader = _Reader(left, right, records, compacted[1], until)
        verdicts: dict[PositionPair, tuple[Comparison, tuple[str, str]]] = {}
        with long_step("next records of groups compared", len(pairs)) as advance:
            for some in _in_turn(pairs):
                advance(len(verdicts))
                verdicts |= reader.compare_next(some, judge)
        pieces = sample_ranges(known, sample, seed)
        foreign = [p for p in pieces if known[p.pair.source].unusable_reason]
        ranges = [
            _foreign_check(piece, known[piece.pair.source].unusable_reason) for piece in foreign
        ]
        with long_step("sampled ranges compared", len(pieces)) as advance:
            usable = [p for p in pieces if not known[p.pair.source].unusable_reason]
            for batch in divide_work(usable, lambda piece: piece.count, _OFFSETS_AT_ONCE):
                advance(len(ranges))
                ranges += reader.compare_ranges(batch)
    checks = [
        ContentCheck(row.group, row.pair, 1, verdict.outcome, verdict.why, hashes)
        for row, (verdict, hashes) in ((row, verdicts[row.pair]) for row in rows)
    ]
    held = {source: count_mapped_in_memory(replica) for source, replica in known.items()}
    mapped = sum(max(held[source], replica.mapped) for source, replica in known.items())
    return Verification((*checks, *ranges), sum(held.values()), mapped)


def count_mapped_in_memory(replica: Replica) -> int:
    """Return the number of mapped records whose ranges are in memory."""
    return sum(int(ranges.columns().count.sum()) for ranges in replica.target_ranges.values())


def _in_turn(pairs: Sequence[PositionPair]) -> Iterator[list[PositionPair]]:
    """Yield the pairs in batches; each has runs of adjacent positions from many partitions.

    So adjacent positions are read together, and every request serves many partitions.
    """
    seen: Counter[SourcePartition] = Counter()
    ordered = []
    for pair in pairs:
        ordered.append((seen[pair.source] // _NEIGHBOURS, pair))
        seen[pair.source] += 1
    ordered.sort()
    for at in range(0, len(ordered), _POSITIONS_AT_ONCE):
        yield [pair for _, pair in ordered[at : at + _POSITIONS_AT_ONCE]]


def _source_at(pair: PositionPair) -> Where:
    return pair.source.topic, pair.source.partition, pair.source_offset


def _target_at(pair: PositionPair) -> Where:
    return (*pair.target, pair.target_offset)


@dataclass(frozen=True, slots=True)
class RangeSample:
    """``count`` records that landed consecutively."""

    pair: PositionPair
    count: int


def sample_ranges(
    replicas: Mapping[SourcePartition, Replica], sample: int, seed: int
) -> list[RangeSample]:
    """Choose chunks of mapped ranges with equal probability, in the order of the log."""
    copies = [
        (source, target, ranges.columns())
        for source, replica in sorted(replicas.items())
        for target, ranges in sorted(replica.target_ranges.items())
        if len(ranges)
    ]
    ends = [np.cumsum(-(-columns.count // PIECE_RECORDS)) for _, _, columns in copies]
    totals = np.cumsum([0, *(int(end[-1]) for end in ends)])
    count = min(sample, int(totals[-1]))
    chosen = sorted(random.Random(seed).sample(range(int(totals[-1])), count))  # noqa: S311
    pieces = []
    for number in chosen:
        index = int(np.searchsorted(totals, number, side="right")) - 1
        source, target, columns = copies[index]
        inside = number - int(totals[index])
        row = int(np.searchsorted(ends[index], inside, side="right"))
        before = int(ends[index][row - 1]) if row else 0
        skip = (inside - before) * PIECE_RECORDS
        pair = PositionPair(
            source, int(columns.source[row]) + skip, target, int(columns.target[row]) + skip
        )
        pieces.append(RangeSample(pair, min(PIECE_RECORDS, int(columns.count[row]) - skip)))
    return pieces


def _foreign_check(piece: RangeSample, why: str) -> ContentCheck:
    totals = VerificationTotals(could_not_check=piece.count)
    unclear = ComparisonOutcome.COULD_NOT_CHECK
    return ContentCheck(
        "", piece.pair, piece.count, unclear, why, ("", ""), totals, ((why, piece.count),)
    )


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads records of both clusters until a time, and compares them.

    ``compacted`` is which topics of the target may be compacted.
    """

    source: ContentReader
    target: ContentReader
    records: RecordComparison
    compacted: Compaction
    until: float

    @property
    def _left_s(self) -> float:
        return max(0.0, self.until - monotonic())

    def compare_next(
        self, pairs: Sequence[PositionPair], judge: RecordComparator
    ) -> dict[PositionPair, tuple[Comparison, tuple[str, str]]]:
        """Return what the next records of positions are, with their digests."""
        on_target = self.target.next_records({_target_at(pair) for pair in pairs}, self._left_s)
        on_source = self.source.next_records({_source_at(pair) for pair in pairs}, self._left_s)
        verdicts = {}
        for pair in pairs:
            one, other = on_source[_source_at(pair)], on_target[_target_at(pair)]
            verdict = judge.judge(pair, one, other, self.target.bounds)
            topic = pair.source.topic
            verdicts[pair] = verdict, (self._digest(topic, one), self._digest(topic, other))
        return verdicts

    def _digest(self, topic: str, answer: Answer) -> str:
        return self.records.digest(topic, answer) if isinstance(answer, KafkaRecord) else ""

    def compare_ranges(self, pieces: Sequence[RangeSample]) -> list[ContentCheck]:
        """Return what the records of sampled ranges are."""
        places = [(_target_at(piece.pair), piece.count) for piece in pieces]
        on_target = self.target.stretches(places, self._left_s)
        places = [(_source_at(piece.pair), piece.count) for piece in pieces]
        on_source = self.source.stretches(places, self._left_s)
        return [self._check_range(*one) for one in zip(pieces, on_source, on_target, strict=True)]

    def _check_range(
        self, piece: RangeSample, source: RecordRange, target: RecordRange
    ) -> ContentCheck:
        different: list[str] = []
        unchecked: Counter[str] = Counter()
        for step in range(piece.count):
            verdict = self._compare_one(piece.pair, source, target, step)
            if verdict.outcome is ComparisonOutcome.DIFFERENT:
                different.append(f"source offset {source.first + step}: {verdict.why}")
            elif verdict.outcome is ComparisonOutcome.COULD_NOT_CHECK:
                unchecked[verdict.why] += 1
        same = piece.count - len(different) - unchecked.total()
        outcome = ComparisonOutcome.SAME if same else ComparisonOutcome.COULD_NOT_CHECK
        said = different[:_EXAMPLES]
        if len(different) > _EXAMPLES:
            said.append(f"{len(different) - _EXAMPLES:,} more differ")
        said += [f"{count:,} could not be checked: {why}" for why, count in unchecked.most_common()]
        return ContentCheck(
            "",
            piece.pair,
            piece.count,
            ComparisonOutcome.DIFFERENT if different else outcome,
            "; ".join(said),
            records=VerificationTotals(same, len(different), unchecked.total()),
            unchecked=tuple(unchecked.items()),
        )

    def _compare_one(
        self, pair: PositionPair, source: RecordRange, target: RecordRange, step: int
    ) -> Comparison:
        """Compare one record of a mapped range with its copy."""
        source_offset, target_offset = source.first + step, target.first + step
        copy, original = target.records.get(target_offset), source.records.get(source_offset)
        if copy is None:
            why = target.absence(target_offset)
            # The mapping is committed with its record: without compaction the record must exist.
            lost = why is AbsenceReason.BEYOND or (
                why is AbsenceReason.NONE and not self.compacted.may(pair.target[0])
            )
            if lost:
                said = f"on the target, at {target_offset}: {why}"
                return Comparison(ComparisonOutcome.DIFFERENT, said)
            said = _reason("target", why, target.unread)
            return Comparison(ComparisonOutcome.COULD_NOT_CHECK, said)
        if original is None:
            said = _reason("source", source.absence(source_offset), source.unread)
            return Comparison(ComparisonOutcome.COULD_NOT_CHECK, said)
        return self.records.compare(pair.source.topic, original, copy)


def _reason(side: str, why: AbsenceReason, unread: str) -> str:
    if why is AbsenceReason.NONE:
        return f"{side}: no longer there (compaction)"
    return f"{side}: {unread if why is AbsenceReason.UNREAD and unread else why}"


def open_verification(
    flow: Flow,
    offsets: Mapping[SourcePartition, Collection[int]],
    snapshot: Snapshot | None = None,
) -> tuple[Snapshot, Cluster, Cluster]:
    """Return both clusters and a snapshot, or the given one, with these source offsets.

    Errors as for ``SnapshotReader.take``.
    """
    sides = source_cluster(flow.config), target_cluster(flow.config)
    return snapshot or take_snapshot(flow, offsets, for_plans=False, with_choices=True), *sides


def pair_positions(snapshot: Snapshot, rows: Sequence[GroupPosition]) -> list[GroupPosition]:
    """Return the positions, those in both directions with one record on both clusters.

    Where no copied record follows, the position stays as it is: then both clusters should have
    none.
    """
    paired = []
    for row in rows:
        copy = snapshot.opposite.get(row.target)
        if copy is not None:
            pair = find_pair(row.target, row.target_offset, snapshot.replicas, copy)
            if pair is not None:
                target = row.target, pair.target_offset
                row = GroupPosition(row.group, pair.source, pair.source_offset, *target)
        paired.append(row)
    return paired
