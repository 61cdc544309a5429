"""The result of the last comparison in a few numbers, as the state topic keeps it.

See ``docs/internals/record-formats.md``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from k2ktui.engine.compare.outcomes import UNPROVEN, Outcome
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.strict_json import items, number, text
from k2ktui.engine.wire import (
    COUNT,
    FLAG,
    MILLIS,
    NUMBER,
    TEXT,
    Wire,
    WireType,
    map_of,
    optional,
    required,
    row_of,
    table_of,
    tuple_of,
)
from k2ktui.text import moment

if TYPE_CHECKING:
    from k2ktui.engine.compare.report import ComparisonReport

#: More partitions are counted, and their positions left out: a record must not become too large.
MOST_PARTITIONS = 2_000
#: Partitions with differences or unproven records that are kept, those with the most first.
MOST_DIFFERENT = 1_000
#: Topics that are kept in place of positions; the partitions of more are only counted.
MOST_TOPICS = 2_000


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
        different: the partitions with differences or unproven records, with the number of both;
            those with the most differences if there are many; empty in records of earlier releases.
        topics: the number of partitions of each topic of which all were compared, if there are too
            many for ``positions``.
        in_part: topics of which some records, or some keys or values, were not compared; of any
            other topic, too, if there are ``MOST_TOPICS``.
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
    different: Mapping[SourcePartition, tuple[int, int]] = field(default_factory=dict)
    topics: Mapping[str, int] = field(default_factory=dict)
    in_part: frozenset[str] = frozenset()

    @property
    def key(self) -> ComparisonKey:
        """Key of the record."""
        return ComparisonKey()

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``k2ktui status --json`` prints."""
        return {
            "ended_at": self.at_ms / 1000,
            "who": self.who,
            "source_cluster": self.source_cluster,
            "target_cluster": self.target_cluster,
            "whole": self.is_whole,
            "sample": self.sample,
            "partitions": self.partitions,
            "differences": self.differences,
            "unproven": self.unproven,
            "counts": dict(sorted(self.counts.items())),
        }

    def describe(self) -> str:
        """Return what was compared when, and what was found, in one sentence."""
        equal = self.counts.get(str(Outcome.EQUAL), 0)
        what = "every record" if self.is_whole else "some records"
        unproven = f", {self.unproven:,} unproven" if self.unproven else ""
        return (
            f"{what} compared at {moment(self.at_ms / 1000)}: {equal:,} equal, "
            f"{self.differences:,} different{unproven}"
        )


@dataclass(frozen=True, slots=True)
class ComparedPartition:
    """What the last comparison has found on one source partition.

    Attributes:
        at_ms: when it ended, epoch milliseconds.
        differences: number of records that must not be as they are.
        unproven: number of records of which nothing is proven.
        is_whole: whether every retained record was compared, with its key and value.
    """

    at_ms: int
    differences: int
    unproven: int
    is_whole: bool = True

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``k2ktui status --json`` prints."""
        return {
            "ended_at": self.at_ms / 1000,
            "differences": self.differences,
            "unproven": self.unproven,
            "whole": self.is_whole,
        }


class ComparedPartitions:
    """What the last comparison has found on each partition, as far as its record tells."""

    def __init__(self, record: ComparisonRecord | None) -> None:
        self._record = record
        # Of partitions that the record leaves out for their number, it does not tell which.
        self._names_all = record is not None and (
            sum(differences for differences, _ in record.different.values()) == record.differences
            and sum(unproven for _, unproven in record.different.values()) == record.unproven
        )

    def __bool__(self) -> bool:
        """Whether there was a comparison."""
        return self._record is not None

    def get(self, key: tuple[str, int]) -> ComparedPartition | None:
        """Return what was found on a partition; None if it was not compared, or that is unknown."""
        record, at = self._record, SourcePartition(*key)
        if record is None:
            return None
        is_whole = len(record.in_part) < MOST_TOPICS and at.topic not in record.in_part
        if at in record.different:
            return ComparedPartition(record.at_ms, *record.different[at], is_whole)
        is_compared = at in record.positions or at.partition < record.topics.get(at.topic, 0)
        if not is_compared or not self._names_all:
            return None
        return ComparedPartition(record.at_ms, 0, 0, is_whole)


def sum_up_comparison(report: ComparisonReport, who: str) -> ComparisonRecord:
    """Return what is kept of a report."""
    few = len(report.results) <= MOST_PARTITIONS
    different = {
        at: (report.differences(result), result.count(UNPROVEN))
        for at, result in sorted(report.results.items())
    }
    most_first = sorted(different.items(), key=lambda item: item[1], reverse=True)
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
        different={at: both for at, both in most_first[:MOST_DIFFERENT] if any(both)},
        topics={} if few else dict(_whole_topics(report)[:MOST_TOPICS]),
        in_part=frozenset(sorted(report.topics_in_part)[:MOST_TOPICS]),
    )


def _whole_topics(report: ComparisonReport) -> list[tuple[str, int]]:
    """Return the topics of which all partitions were compared, with the number of these."""
    numbers: dict[str, list[int]] = defaultdict(list)
    for at in report.results:
        numbers[at.topic].append(at.partition)
    left_out = {at.topic for at in report.left_out}
    return [
        (topic, len(partitions))
        for topic, partitions in sorted(numbers.items())
        if topic not in left_out and max(partitions) < len(partitions)
    ]


def _by_partition(most: int) -> WireType:
    partition = row_of(SourcePartition, topic=TEXT, partition=NUMBER)
    return table_of(partition, tuple_of(COUNT, COUNT), columns=(2, 2), most=most)


COMPARISON_WIRE = Wire(
    ComparisonRecord,
    at_ms=required("at", MILLIS),
    who=required("who", TEXT),
    source_cluster=required("source", TEXT),
    target_cluster=required("target", TEXT),
    partitions=required("partitions", NUMBER),
    differences=required("differences", COUNT),
    unproven=required("unproven", COUNT),
    counts=required("counts", map_of(COUNT)),
    sample=required("sample", WireType(lambda value: number(value, high=1.0))),
    is_whole=required("whole", FLAG),
    positions=required("positions", _by_partition(MOST_PARTITIONS)),
    different=optional("different", _by_partition(MOST_DIFFERENT), {}),
    topics=optional("topics", table_of(TEXT, NUMBER, columns=(1, 1), most=MOST_TOPICS), {}),
    in_part=optional(
        "inPart",
        WireType(lambda value: frozenset(map(text, items(value, MOST_TOPICS))), sorted),
        frozenset(),
    ),
)
