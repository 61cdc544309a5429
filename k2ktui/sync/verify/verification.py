"""Inputs and results of a content verification."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from k2ktui.engine.mapping.replica import TargetPartition
from k2ktui.engine.records.state import SourcePartition
from k2ktui.sync.verify.record_comparison import ComparisonOutcome, PositionPair
from k2ktui.text import safe_text


@dataclass(frozen=True, slots=True)
class GroupPosition:
    """A group's committed offsets of one partition, on both clusters."""

    group: str
    source: SourcePartition
    source_offset: int
    target: TargetPartition
    target_offset: int

    @property
    def pair(self) -> PositionPair:
        """The two positions without the group."""
        return PositionPair(self.source, self.source_offset, self.target, self.target_offset)


@dataclass(frozen=True, slots=True)
class VerificationTotals:
    """Counts per outcome."""

    same: int = 0
    different: int = 0
    could_not_check: int = 0
    rereads: int = 0

    def as_json(self) -> dict[str, int]:
        """Return the counts by outcome; only groups' next records can be re-reads."""
        return {
            str(ComparisonOutcome.SAME): self.same,
            str(ComparisonOutcome.REREADS): self.rereads,
            str(ComparisonOutcome.DIFFERENT): self.different,
            str(ComparisonOutcome.COULD_NOT_CHECK): self.could_not_check,
        }


@dataclass(frozen=True, slots=True)
class ContentCheck:
    """One check: a group's next record, or the records of a mapped range.

    Attributes:
        group: the group; empty for a range.
        pair: the positions on both sides; a range's first offsets.
        count: offsets in the range; 1 for a group's next record.
        outcome: a range is ``different`` if one record is, and ``could-not-check`` if none could
            be compared.
        why: the reason; may be empty.
        hashes: SHA-256 of the next record on the source and on the target; empty for a range or
            if there is no record.
        records: outcomes of the range's records.
        unchecked: reasons why records of the range could not be checked, with their counts.
    """

    group: str
    pair: PositionPair
    count: int
    outcome: ComparisonOutcome
    why: str = ""
    hashes: tuple[str, str] = ("", "")
    records: VerificationTotals = field(default_factory=VerificationTotals)
    unchecked: tuple[tuple[str, int], ...] = ()

    @property
    def what(self) -> str:
        """What was checked, safe to print."""
        at = self.pair
        source, target = f"{at.source}", f"{at.target[0]}-{at.target[1]}"
        if self.group:
            text = f"{self.group}: {source} at {at.source_offset}, {target} at {at.target_offset}"
        else:
            text = (
                f"{source} {at.source_offset}…{at.source_offset + self.count - 1}, "
                f"{target} {at.target_offset}…{at.target_offset + self.count - 1}"
            )
        return safe_text(text)

    def as_json(self) -> dict[str, Any]:
        """Return the object for the JSON output."""
        at = self.pair
        return {
            "check": "next-record" if self.group else "range",
            "group": self.group,
            "topic": at.source.topic,
            "partition": at.source.partition,
            "source_offset": at.source_offset,
            "target_topic": at.target[0],
            "target_partition": at.target[1],
            "target_offset": at.target_offset,
            "count": self.count,
            "outcome": str(self.outcome),
            "reason": self.why,
            "source_hash": self.hashes[0],
            "target_hash": self.hashes[1],
            "records": self.records.as_json(),
        }


@dataclass(frozen=True, slots=True)
class Verification:
    """All checks: those of groups in the order of the rows, then those of ranges.

    Attributes:
        checks: the checks.
        sampled_from: number of mapped records from which ranges were drawn: those in memory.
        mapped: number of all mapped records.
    """

    checks: tuple[ContentCheck, ...]
    sampled_from: int = 0
    mapped: int = 0

    @property
    def positions(self) -> VerificationTotals:
        """Outcomes of the groups' next records."""
        return _totals(check.outcome for check in self.checks if check.group)

    @property
    def ranges(self) -> VerificationTotals:
        """Outcomes of the sampled ranges."""
        return _totals(check.outcome for check in self.checks if not check.group)

    @property
    def records(self) -> VerificationTotals:
        """Outcomes of the records of the sampled ranges."""
        every = [check.records for check in self.checks]
        return VerificationTotals(
            sum(one.same for one in every),
            sum(one.different for one in every),
            sum(one.could_not_check for one in every),
        )

    @property
    def has_compared(self) -> bool:
        """Whether a record was compared with another."""
        return any(
            total.same or total.rereads or total.different
            for total in (self.positions, self.records)
        )

    @property
    def unchecked_positions(self) -> Counter[str]:
        """Reasons why next records of groups could not be checked, with their counts."""
        unclear = ComparisonOutcome.COULD_NOT_CHECK
        return Counter(c.why for c in self.checks if c.group and c.outcome is unclear)

    @property
    def unchecked_records(self) -> Counter[str]:
        """Reasons why records of sampled ranges could not be checked, with their counts."""
        reasons: Counter[str] = Counter()
        for check in self.checks:
            reasons.update(dict(check.unchecked))
        return reasons

    def as_json(self) -> dict[str, Any]:
        """Return the object for the JSON output."""
        return {
            "positions": self.positions.as_json(),
            "ranges": self.ranges.as_json(),
            "records": self.records.as_json(),
            "sampled_from": self.sampled_from,
            "mapped": self.mapped,
            "checks": [check.as_json() for check in self.checks],
        }


def _totals(outcomes: Iterable[ComparisonOutcome]) -> VerificationTotals:
    counts = Counter(outcomes)
    return VerificationTotals(
        counts[ComparisonOutcome.SAME],
        counts[ComparisonOutcome.DIFFERENT],
        counts[ComparisonOutcome.COULD_NOT_CHECK],
        counts[ComparisonOutcome.REREADS],
    )
