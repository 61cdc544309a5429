"""Compare samples of copied records; pure.

A sample is the newest copied stretch of a source partition with its stretch of the target, both
read as a ``read_committed`` consumer sees them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from k2ktui.engine.compare.record import ComparisonRecord
from k2ktui.engine.drill.checks import (
    CheckFinding,
    DrillCheckOutcome,
    could_not_check,
    fails,
    passes,
)
from k2ktui.engine.mapping.replica import TargetPartition
from k2ktui.engine.mapping.strange_records import OtherWriters
from k2ktui.engine.records.state import SourcePartition
from k2ktui.text import counted, join_first, safe_text

_NAMED = 3
_COMPARE_ALL = "Find where they are: k2ktui compare -f FILE -o REPORT."
_STOP_IT = (
    "Find the producer that writes to the target topic, and stop it; groups that read there read "
    "its records too."
)
_COMPARE = "Compare everything and find where it begins: k2ktui verify -f FILE."


@dataclass(frozen=True, slots=True)
class CopySample:
    """The newest copied records of one source partition.

    Attributes:
        source, target: the partitions.
        pairs: target offset by source offset, for the mapped records of the stretch.
        source_digests: content digest of each committed record on the source, by offset.
        aborted: offsets of records of aborted transactions on the source.
        target_digests: content digest of each committed record on the target, by offset.
        foreign: target offsets of the stretch that no mapping of any source partition names.
        compacted: compaction may have removed records on either side.
        unread: why the stretch could not be read on the source, or on the target; empty if it
            could.
    """

    source: SourcePartition
    target: TargetPartition
    pairs: Mapping[int, int]
    source_digests: Mapping[int, str] = field(default_factory=dict)
    aborted: frozenset[int] = frozenset()
    target_digests: Mapping[int, str] = field(default_factory=dict)
    foreign: tuple[int, ...] = ()
    compacted: bool = False
    unread: tuple[str, str] = ("", "")

    @property
    def name(self) -> str:
        """The target partition, safe to print."""
        return safe_text(f"{self.target[0]}-{self.target[1]}")


def decide_counts(samples: Sequence[CopySample]) -> CheckFinding:
    """D35: as many committed records on the source as copies on the target."""

    def judge(sample: CopySample) -> str:
        copies = sum(at in sample.target_digests for at in sample.pairs.values())
        if len(sample.source_digests) == copies:
            return ""
        return f"{len(sample.source_digests):,} on the source, {copies:,} on the target"

    on_source = sum(len(sample.source_digests) for sample in samples)
    on_target = sum(sum(at in s.target_digests for at in s.pairs.values()) for s in samples)
    text = f"{counted(on_source, 'record')} on the source, {on_target:,} on the target"
    return _decide(samples, judge, text, _COMPARE, exact=False)


def decide_checksums(samples: Sequence[CopySample]) -> CheckFinding:
    """D36: the same checksum over the records that both sides hold."""

    def judge(sample: CopySample) -> str:
        both = [
            (offset, at)
            for offset, at in sorted(sample.pairs.items())
            if offset in sample.source_digests and at in sample.target_digests
        ]
        left = checksum(sample.source_digests[offset] for offset, _ in both)
        right = checksum(sample.target_digests[at] for _, at in both)
        if left == right:
            return ""
        first = next(
            pair
            for pair in both
            if sample.source_digests[pair[0]] != sample.target_digests[pair[1]]
        )
        return f"{left[:12]} and {right[:12]}, first difference at {first[0]} and {first[1]}"

    records = sum(
        offset in sample.source_digests and at in sample.target_digests
        for sample in samples
        for offset, at in sample.pairs.items()
    )
    whole = checksum(digest for s in samples for _, digest in sorted(s.source_digests.items()))
    text = f"{counted(records, 'record')} compared, SHA-256 {whole[:16]}"
    return _decide(samples, judge, text, _COMPARE)


def add_comparison(sampled: CheckFinding, comparison: ComparisonRecord | None) -> CheckFinding:
    """D36: a comparison of all records tells more than the sample, if that finds nothing."""
    if comparison is None or sampled.outcome is not DrillCheckOutcome.PASS:
        return sampled
    evidence = f"{sampled.evidence}; {comparison.describe()}"
    return fails(evidence, _COMPARE_ALL) if comparison.differences else passes(evidence)


def decide_order(samples: Sequence[CopySample], *, others_write: bool) -> CheckFinding:
    """D37: copies in source order, once, and nothing else between them.

    Args:
        samples: the samples.
        others_write: records of others are expected on the target, as when both sides are written.
    """

    def judge(sample: CopySample) -> str:
        landed = [at for _, at in sorted(sample.pairs.items())]
        if any(after <= before for before, after in pairwise(landed)):
            return "copies are not in source order"
        known = {sample.target_digests[at] for at in landed if at in sample.target_digests}
        twice = [at for at in sample.foreign if sample.target_digests.get(at) in known]
        if twice:
            return f"{counted(len(twice), 'duplicate')} of copied records, the first at {twice[0]}"
        if sample.foreign and not others_write:
            where = sample.foreign[0]
            return f"{counted(len(sample.foreign), 'record')} not from the source, from {where} on"
        return ""

    foreign = sum(len(sample.foreign) for sample in samples)
    copies = sum(len(sample.pairs) for sample in samples)
    text = f"{copies:,} copied records in order, {foreign:,} others between them"
    return _decide(samples, judge, text, _STOP_IT, sides=(False, True))


def add_writers(sampled: CheckFinding, writers: OtherWriters | None) -> CheckFinding:
    """D37: who has written to the copies tells more than the sample, if that finds nothing."""
    if writers is None or sampled.outcome is not DrillCheckOutcome.PASS:
        return sampled
    if writers.records:
        return fails(f"{sampled.evidence}; {join_first(writers.describe(), _NAMED)}", _STOP_IT)
    unclear = [why for why in (writers.why, *writers.unread, *writers.untold) if why]
    if unclear:
        text = f"other writers cannot be told from all copies: {join_first(unclear, _NAMED)}"
    elif writers.expected:
        text = f"other writers are expected ({writers.expected})"
    else:
        text = "no record of another writer in any copy"
    return passes(f"{sampled.evidence}; {text}")


def decide_aborted(samples: Sequence[CopySample]) -> CheckFinding:
    """D38: no record of an aborted transaction is mapped."""

    def judge(sample: CopySample) -> str:
        copied = sorted(sample.aborted & sample.pairs.keys())
        if not copied:
            return ""
        return f"{counted(len(copied), 'aborted record')} mapped, the first at {copied[0]}"

    aborted = sum(len(sample.aborted) for sample in samples)
    text = f"0 of {counted(aborted, 'aborted record')} copied"
    return _decide(samples, judge, text, _COMPARE, sides=(True, False))


def checksum(digests: Iterable[str]) -> str:
    """Return the SHA-256 of content digests in order, as hex text."""
    total = hashlib.sha256()
    for digest in digests:
        total.update(digest.encode())
    return total.hexdigest()


def _decide(
    samples: Sequence[CopySample],
    judge: Callable[[CopySample], str],
    text: str,
    hint: str,
    *,
    sides: tuple[bool, bool] = (True, True),
    exact: bool = True,
) -> CheckFinding:
    """Judge each sample: a text is a failure.

    Args:
        samples: the samples.
        judge: returns why a sample fails; empty if it passes.
        text: the figures over all samples.
        hint: how to fix a failure.
        sides: whether the source, and the target, had to be read.
        exact: whether compacted topics can be judged.
    """
    if not samples:
        return could_not_check("nothing with a complete mapping is copied yet")
    failed, unread, left_out = [], [], 0
    for sample in samples:
        reasons = [why for why, needed in zip(sample.unread, sides, strict=True) if why and needed]
        if reasons:
            unread.append(f"{sample.name}: {reasons[0]}")
        elif sample.compacted and not exact:
            left_out += 1
        elif why := judge(sample):
            failed.append(f"{sample.name}: {why}")
    figures = f"{counted(len(samples), 'partition')} sampled; {text}"
    if left_out:
        figures += f"; {counted(left_out, 'compacted partition')} left out"
    if failed:
        return fails(f"{figures}; {join_first(failed, _NAMED)}", hint)
    if unread:
        return could_not_check(f"{figures}; {'; '.join(unread[:_NAMED])}")
    if left_out == len(samples):
        return could_not_check(f"{figures}: counts of compacted topics may differ")
    return passes(figures)
