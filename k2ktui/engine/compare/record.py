"""The result of the last comparison in a few numbers, as the state topic keeps it.

See ``docs/internals/record-formats.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from k2ktui.engine.compare.outcomes import Outcome
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.strict_json import (
    LARGEST_INT,
    LARGEST_MS,
    field,
    flag,
    integer,
    mapping,
    rows,
    text,
)
from k2ktui.engine.strict_json import number as read_number
from k2ktui.text import moment

if TYPE_CHECKING:
    from k2ktui.engine.compare.report import ComparisonReport

#: More partitions are counted, and their positions left out: a record must not become too large.
MOST_PARTITIONS = 2_000


@dataclass(frozen=True, slots=True)
class ComparisonKey:
    """Key of the record; a pipeline has one."""


@dataclass(frozen=True, slots=True)
class ComparisonRecord:
    """What the last comparison has found.

    Attributes:
        at_ms: when it ended, epoch milliseconds.
        who: ``user@host``.
        source_cluster, target_cluster: ids of the clusters.
        partitions: number of partitions.
        differences: number of records that must not be as they are.
        unproven: number of records of which nothing is proven.
        counts: number of records of each outcome, by its name.
        sample: share of the offsets.
        is_whole: whether every retained record of every partition was compared.
        positions: the offsets ``[first, end)`` of each source partition; empty if there are many.
    """

    at_ms: int
    who: str
    source_cluster: str
    target_cluster: str
    partitions: int
    differences: int
    unproven: int
    counts: Mapping[str, int]
    sample: float
    is_whole: bool
    positions: Mapping[SourcePartition, tuple[int, int]]

    @property
    def key(self) -> ComparisonKey:
        """Key of the record."""
        return ComparisonKey()

    def describe(self) -> str:
        """Return what was compared when, and what was found, in one sentence."""
        equal = self.counts.get(str(Outcome.EQUAL), 0)
        what = "every record" if self.is_whole else "some records"
        unproven = f", {self.unproven:,} unproven" if self.unproven else ""
        return (
            f"{what} compared at {moment(self.at_ms / 1000)}: {equal:,} equal, "
            f"{self.differences:,} different{unproven}"
        )


def sum_up_comparison(report: ComparisonReport, who: str) -> ComparisonRecord:
    """Return what is kept of a report."""
    few = len(report.results) <= MOST_PARTITIONS
    return ComparisonRecord(
        at_ms=round(report.ended_at * 1000),
        who=who,
        source_cluster=report.source_cluster,
        target_cluster=report.target_cluster,
        partitions=len(report.results),
        differences=report.different,
        unproven=report.unproven,
        counts={str(outcome): count for outcome, count in report.counts.items()},
        sample=report.sample,
        is_whole=report.is_whole,
        positions={at: (one.first, one.end) for at, one in report.results.items() if few},
    )


def comparison_body(record: ComparisonRecord) -> dict[str, Any]:
    """Return the fields of a record's value."""
    return {
        "at": record.at_ms,
        "counts": dict(sorted(record.counts.items())),
        "differences": record.differences,
        "partitions": record.partitions,
        "positions": [
            [at.topic, at.partition, *span] for at, span in sorted(record.positions.items())
        ],
        "sample": record.sample,
        "source": record.source_cluster,
        "target": record.target_cluster,
        "unproven": record.unproven,
        "who": record.who,
        "whole": record.is_whole,
    }


def read_comparison(body: dict[str, Any]) -> ComparisonRecord:
    """Read the fields of a record's value.

    Raises:
        MalformedRecord: it is damaged.
    """
    counts = mapping(field(body, "counts"))
    return ComparisonRecord(
        at_ms=integer(field(body, "at"), high=LARGEST_MS),
        who=text(field(body, "who")),
        source_cluster=text(field(body, "source")),
        target_cluster=text(field(body, "target")),
        partitions=integer(field(body, "partitions"), high=LARGEST_INT),
        differences=integer(field(body, "differences")),
        unproven=integer(field(body, "unproven")),
        counts={text(name): integer(count) for name, count in counts.items()},
        sample=read_number(field(body, "sample"), high=1.0),
        is_whole=flag(field(body, "whole")),
        positions={
            SourcePartition(text(topic), integer(partition, high=LARGEST_INT)): (
                integer(first),
                integer(end),
            )
            for topic, partition, first, end in rows(
                field(body, "positions"), 4, most=MOST_PARTITIONS
            )
        },
    )
