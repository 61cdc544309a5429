"""What became of each record that a comparison read, and how much of each there was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from k2ktui.engine.records.state import SourcePartition

if TYPE_CHECKING:
    from k2ktui.engine.mapping.replica import TargetPartition

#: Findings of each outcome that a partition keeps with their places; the counts have them all. A
#: bound for all outcomes together would hide damage behind records that others wrote to the target.
KEPT_FINDINGS = 20
_DIGEST_MASK = (1 << 128) - 1


class Outcome(StrEnum):
    """What a record is, of those that were read on either side."""

    EQUAL = "equal"
    DIFFERS = "differs"
    NOT_COMPARED = "not compared"
    MISSING = "missing on the target"
    DELETED_ON_TARGET = "deleted by retention on the target"
    COMPACTED_ON_TARGET = "compacted on the target"
    UNCLEAR_ON_TARGET = "compacted or lost on the target"
    UNREAD_ON_TARGET = "not read on the target"
    NEVER_COPIED = "never copied"
    EXPIRED_ON_SOURCE = "mapping expired, on the source"
    NATIVE = "native to the target"
    MISSING_ON_SOURCE = "missing on the source"
    DELETED_ON_SOURCE = "deleted by retention on the source"
    COMPACTED_ON_SOURCE = "compacted on the source"
    UNCLEAR_ON_SOURCE = "compacted or lost on the source"
    EXPIRED_ON_TARGET = "mapping expired, on the target"


#: Outcomes of a source record with its copy: each counts as one record read on both sides.
OF_PAIRS = frozenset({Outcome.EQUAL, Outcome.DIFFERS, Outcome.NOT_COMPARED})
#: Outcomes of records on the target without a source record.
OF_TARGET = frozenset(
    {
        Outcome.NATIVE,
        Outcome.MISSING_ON_SOURCE,
        Outcome.DELETED_ON_SOURCE,
        Outcome.COMPACTED_ON_SOURCE,
        Outcome.UNCLEAR_ON_SOURCE,
        Outcome.EXPIRED_ON_TARGET,
    }
)
#: Outcomes of source records without a copy that was read.
OF_SOURCE = frozenset(Outcome) - OF_PAIRS - OF_TARGET
#: Outcomes that must not be.
DIFFERENCES = frozenset(
    {
        Outcome.DIFFERS,
        Outcome.MISSING,
        Outcome.MISSING_ON_SOURCE,
        Outcome.NATIVE,
        Outcome.UNREAD_ON_TARGET,
    }
)
#: Outcomes that prove nothing.
UNPROVEN = frozenset(
    {
        Outcome.NOT_COMPARED,
        Outcome.UNCLEAR_ON_TARGET,
        Outcome.UNCLEAR_ON_SOURCE,
        Outcome.EXPIRED_ON_SOURCE,
        Outcome.EXPIRED_ON_TARGET,
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One record that is not as it must be.

    Attributes:
        outcome: one of ``DIFFERENCES`` or of ``UNPROVEN``.
        source_offset: its offset on the source, None if it has none.
        target: the target partition, None if the record has no place there.
        target_offset: its offset there, None likewise.
        why: the difference, or what is known of it.
        source_hash, target_hash: SHA-256 of the contents as hex text, "" where there is no record.
    """

    outcome: Outcome
    source_offset: int | None
    target: TargetPartition | None
    target_offset: int | None
    why: str = ""
    source_hash: str = ""
    target_hash: str = ""


@dataclass(frozen=True, slots=True)
class PartResult:
    """What a comparison has found in a part of one source partition, or in all of it.

    Attributes:
        source: the source partition.
        first, end: the source offsets ``[first, end)``.
        counts: number of records of each outcome.
        source_records, target_records: records read on each side, those of other source partitions
            left out.
        source_digest, target_digest: sums of the digests of the batches on each side: two runs over
            the same offsets of an unchanged log have the same.
        findings: the first ones of each outcome.
        unproven_findings: the first records that are absent on one side, compacted or lost; of each
            key the newest.
        unread: why the source could not be read to ``end``; "" if it was.
    """

    source: SourcePartition
    first: int
    end: int
    counts: Mapping[Outcome, int] = field(default_factory=dict)
    source_records: int = 0
    target_records: int = 0
    source_digest: int = 0
    target_digest: int = 0
    findings: tuple[Finding, ...] = ()
    unread: str = ""
    unproven_findings: tuple[Finding, ...] = ()

    def count(self, outcomes: Iterable[Outcome]) -> int:
        """Return the number of records with any of these outcomes."""
        return sum(self.counts.get(outcome, 0) for outcome in outcomes)


def add_digests(one: int, other: int) -> int:
    """Return the digest of the batches of both; their order does not matter."""
    return (one + other) & _DIGEST_MASK


def join_results(parts: Iterable[PartResult]) -> dict[SourcePartition, PartResult]:
    """Return the results of whole partitions; parts of one that are missing are left out."""
    joined: dict[SourcePartition, PartResult] = {}
    for part in sorted(parts, key=lambda part: (part.source, part.first)):
        before = joined.get(part.source)
        joined[part.source] = part if before is None else _join(before, part)
    return joined


def _join(before: PartResult, part: PartResult) -> PartResult:
    return replace(
        before,
        end=max(before.end, part.end),
        counts=dict(Counter(before.counts) + Counter(part.counts)),
        source_records=before.source_records + part.source_records,
        target_records=before.target_records + part.target_records,
        source_digest=add_digests(before.source_digest, part.source_digest),
        target_digest=add_digests(before.target_digest, part.target_digest),
        findings=_first_of_each(*before.findings, *part.findings),
        unread=before.unread or part.unread,
        unproven_findings=(*before.unproven_findings, *part.unproven_findings)[:KEPT_FINDINGS],
    )


def _first_of_each(*findings: Finding) -> tuple[Finding, ...]:
    kept: Counter[Outcome] = Counter()
    first = []
    for finding in findings:
        kept[finding.outcome] += 1
        if kept[finding.outcome] <= KEPT_FINDINGS:
            first.append(finding)
    return tuple(first)
