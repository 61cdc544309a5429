"""The report of a comparison, and the results of its parts, as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from k2ktui.engine.compare.outcomes import (
    DIFFERENCES,
    UNPROVEN,
    Finding,
    Outcome,
    PartResult,
)
from k2ktui.engine.mapping.replica import TargetPartition
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.strict_json import (
    MalformedRecord,
    field,
    integer,
    items,
    mapping,
    text,
)

_LARGEST_DIGEST = (1 << 128) - 1
_CONTENT = frozenset({"key", "value"})


@dataclass(frozen=True, slots=True)
class ComparisonReport:
    """What a comparison has found.

    Attributes:
        pipeline: its name.
        source_cluster, target_cluster: ids of the clusters.
        began_at, ended_at: epoch seconds.
        since_ms: timestamp of the first records that were compared; None for all.
        sample: share of the offsets that was compared.
        both_ways: whether records of the target's own are as they must be.
        results: by source partition.
        left_out: partitions that were not compared, and why.
        ignored: parts of records that were not compared, by source topic.
        read_bytes: bytes read on both sides, without those of a run before that was resumed.
        notes: messages for the operator.
        topics: regular expression of the topics that were chosen; "" for all.
    """

    pipeline: str
    source_cluster: str
    target_cluster: str
    began_at: float
    ended_at: float
    since_ms: int | None
    sample: float
    both_ways: bool
    results: Mapping[SourcePartition, PartResult]
    left_out: Mapping[SourcePartition, str]
    ignored: Mapping[str, tuple[str, ...]]
    read_bytes: int
    notes: tuple[str, ...] = ()
    topics: str = ""

    @property
    def counts(self) -> Counter[Outcome]:
        """Number of records of each outcome."""
        counts: Counter[Outcome] = Counter()
        for result in self.results.values():
            counts.update(result.counts)
        return counts

    @property
    def has_records(self) -> bool:
        """Whether any record was read, or any partition could not be read to its end."""
        return any(
            result.source_records or result.target_records or result.unread
            for result in self.results.values()
        )

    @property
    def is_whole(self) -> bool:
        """Whether every retained record was compared, up to the replicated positions."""
        is_whole = not self.topics and not self.left_out and not self.topics_in_part
        return is_whole and not any(result.unread for result in self.results.values())

    @property
    def topics_in_part(self) -> frozenset[str]:
        """Source topics of which some records, or some keys or values, were not compared."""
        if self.sample < 1 or self.since_ms is not None:
            return frozenset(at.topic for at in self.results)
        return frozenset(
            topic for topic, parts in self.ignored.items() if not _CONTENT.isdisjoint(parts)
        )

    def differences(self, result: PartResult) -> int:
        """Return the number of a partition's records that must not be as they are.

        A source that could not be read is one more.
        """
        differences = result.count(DIFFERENCES) + bool(result.unread)
        return differences - (result.counts.get(Outcome.NATIVE, 0) if self.both_ways else 0)

    def findings(self, result: PartResult) -> tuple[Finding, ...]:
        """Return the first findings of a partition, without records that are as they must be."""
        return tuple(
            finding
            for finding in result.findings
            if not (self.both_ways and finding.outcome is Outcome.NATIVE)
        )

    @property
    def different(self) -> int:
        """Number of records, on all partitions, that must not be as they are."""
        return sum(map(self.differences, self.results.values()))

    @property
    def unproven(self) -> int:
        """Number of records of which nothing is proven."""
        return sum(result.count(UNPROVEN) for result in self.results.values())

    def as_json(self) -> dict[str, Any]:
        """Return the report; it has offsets and hashes, and no content."""
        return {
            "pipeline": self.pipeline,
            "source_cluster": self.source_cluster,
            "target_cluster": self.target_cluster,
            "started_at": self.began_at,
            "ended_at": self.ended_at,
            "since_ms": self.since_ms,
            "sample": self.sample,
            "topics": self.topics,
            "both_ways": self.both_ways,
            "read_bytes": self.read_bytes,
            "differences": self.different,
            "unproven": self.unproven,
            "counts": _counts_json(self.counts),
            "partitions": [
                {
                    **result_json(result),
                    "findings": list(map(_finding_object, self.findings(result))),
                    "unproven_findings": list(map(_finding_object, result.unproven_findings)),
                    "differences": self.differences(result),
                }
                for _, result in sorted(self.results.items())
            ],
            "left_out": [
                {"topic": at.topic, "partition": at.partition, "reason": why}
                for at, why in sorted(self.left_out.items())
            ],
            "ignored": {topic: list(parts) for topic, parts in sorted(self.ignored.items())},
            "notes": list(self.notes),
        }


def _counts_json(counts: Mapping[Outcome, int]) -> dict[str, int]:
    return {str(outcome): counts[outcome] for outcome in Outcome if counts.get(outcome)}


def result_json(result: PartResult) -> dict[str, Any]:
    """Return the result of a partition, or of a part of it."""
    return {
        "topic": result.source.topic,
        "partition": result.source.partition,
        "first": result.first,
        "end": result.end,
        "source_records": result.source_records,
        "target_records": result.target_records,
        "source_digest": f"{result.source_digest:032x}",
        "target_digest": f"{result.target_digest:032x}",
        "counts": _counts_json(result.counts),
        "findings": [_finding_json(finding) for finding in result.findings],
        "unproven_findings": [_finding_json(finding) for finding in result.unproven_findings],
        "unread": result.unread,
    }


def _finding_json(finding: Finding) -> dict[str, Any]:
    topic, partition = finding.target or (None, None)
    return {
        "outcome": str(finding.outcome),
        "source_offset": finding.source_offset,
        "target_topic": topic,
        "target_partition": partition,
        "target_offset": finding.target_offset,
        "why": finding.why,
        "source_hash": finding.source_hash,
        "target_hash": finding.target_hash,
    }


def _finding_object(finding: Finding) -> dict[str, Any]:
    """Return a finding as it is printed: files of stopped comparisons have its first names."""
    shown = _finding_json(finding)
    return {"reason" if name == "why" else name: value for name, value in shown.items()}


def read_result(body: dict[str, Any]) -> PartResult:
    """Read what ``result_json`` has returned.

    Raises:
        MalformedRecord: it is damaged, or of another release.
    """
    counts = {
        _outcome(name): integer(count) for name, count in mapping(field(body, "counts")).items()
    }
    return PartResult(
        SourcePartition(text(field(body, "topic")), integer(field(body, "partition"))),
        integer(field(body, "first")),
        integer(field(body, "end")),
        counts,
        integer(field(body, "source_records")),
        integer(field(body, "target_records")),
        _digest(field(body, "source_digest")),
        _digest(field(body, "target_digest")),
        _findings(body, "findings"),
        text(field(body, "unread")),
        _findings(body, "unproven_findings"),
    )


def _outcome(value: object) -> Outcome:
    try:
        return Outcome(text(value))
    except ValueError as error:
        raise MalformedRecord("an unknown outcome") from error


def _digest(value: object) -> int:
    try:
        digest = int(text(value), 16)
    except ValueError as error:
        raise MalformedRecord("a damaged digest") from error
    if not 0 <= digest <= _LARGEST_DIGEST:
        raise MalformedRecord("a damaged digest")
    return digest


def _findings(body: dict[str, Any], name: str) -> tuple[Finding, ...]:
    return tuple(_finding(mapping(one)) for one in items(field(body, name), most=1000))


def _finding(body: dict[str, Any]) -> Finding:
    topic = field(body, "target_topic")
    target: TargetPartition | None = None
    if topic is not None:
        target = text(topic), integer(field(body, "target_partition"))
    return Finding(
        _outcome(field(body, "outcome")),
        _or_none(field(body, "source_offset")),
        target,
        _or_none(field(body, "target_offset")),
        text(field(body, "why")),
        text(field(body, "source_hash")),
        text(field(body, "target_hash")),
    )


def _or_none(value: object) -> int | None:
    return None if value is None else integer(value)
