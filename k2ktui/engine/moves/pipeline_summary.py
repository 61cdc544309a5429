"""A pipeline's coverage and groups in a few numbers, for a console that watches many pipelines.

``start`` and ``sync`` write it to the state topic, because to read it anew takes the whole mapping
of each pipeline. See ``docs/internals/record-formats.md``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from k2ktui.engine.mapping.replica import Replica
from k2ktui.engine.moves.failover import estimate_snapshot
from k2ktui.engine.moves.groups import GroupRow, Snapshot
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.severity import Severity
from k2ktui.engine.status import coverage
from k2ktui.engine.strict_json import MalformedRecord, text
from k2ktui.engine.wire import (
    COUNT,
    MILLIS,
    Wire,
    WireType,
    list_of,
    required,
    row_of,
)


@dataclass(frozen=True, slots=True)
class SummaryKey:
    """Key of a summary: a pipeline has one."""


@dataclass(frozen=True, slots=True)
class GroupCount:
    """Number of groups with one rating."""

    severity: Severity
    word: str
    count: int


@dataclass(frozen=True, slots=True)
class PipelineSummary:
    """Coverage and groups of a pipeline at one moment.

    Attributes:
        at_ms: when both clusters were read, epoch milliseconds by the writer's clock.
        retained: source offsets that the source retains, up to the replicated positions.
        covered: those of them that translate exactly.
        groups: number of groups by rating, the worst first.
        lost: records that groups would never read after a move, and that the source still has.
        reread: records that they would read again after a move.
    """

    at_ms: int
    retained: int = 0
    covered: int = 0
    groups: tuple[GroupCount, ...] = ()
    lost: int = 0
    reread: int = 0

    @property
    def key(self) -> SummaryKey:
        """Key of the record."""
        return SummaryKey()

    @property
    def total(self) -> int:
        """Number of groups."""
        return sum(group.count for group in self.groups)

    def coverage(self, lag: int = 0) -> float:
        """Return the share of retained source offsets that translate exactly, 0 to 1.

        Args:
            lag: number of source offsets that are not copied yet.
        """
        retained = self.retained + lag
        return self.covered / retained if retained else 1.0


def _read_severity(value: object) -> Severity:
    name = text(value).upper()
    if name not in Severity.__members__:
        raise MalformedRecord("an unknown severity")
    return Severity[name]


_MOST_RATINGS, _LONGEST_WORD = 100, 100
_WORD = WireType(lambda value: text(value, _LONGEST_WORD))
_SEVERITY = WireType(_read_severity, lambda severity: str(severity.name).lower())
SUMMARY_WIRE = Wire(
    PipelineSummary,
    at_ms=required("at", MILLIS),
    retained=required("retained", COUNT),
    covered=required("covered", COUNT),
    groups=required(
        "groups",
        list_of(row_of(GroupCount, severity=_SEVERITY, word=_WORD, count=COUNT), _MOST_RATINGS),
    ),
    lost=required("lost", COUNT),
    reread=required("reread", COUNT),
)


def summarize_pipeline(snapshot: Snapshot, rows: Iterable[GroupRow]) -> PipelineSummary:
    """Return the summary of a snapshot; of one whose source answered.

    Args:
        snapshot: both clusters.
        rows: its rows, with their findings; a row that is still checked counts as such.
    """
    # Topics that were moved to the target are the past here.
    copied = {at: r for at, r in snapshot.replicas.items() if at.topic not in snapshot.moved}
    retained, covered = _count_offsets(copied)
    groups, moves = estimate_snapshot(snapshot, tuple(rows))
    ratings = Counter(group.rating for group in groups)
    return PipelineSummary(
        at_ms=int(snapshot.taken_at * 1000),
        retained=retained,
        covered=covered,
        groups=tuple(
            GroupCount(rating.severity, rating.word, count)
            for rating, count in sorted(
                ratings.items(), key=lambda item: (-item[0].severity, item[0].word)
            )
        ),
        lost=moves.lost_records,
        reread=moves.reread_records,
    )


def _count_offsets(replicas: Mapping[SourcePartition, Replica]) -> tuple[int, int]:
    """Return the retained source offsets up to the positions, and those that translate exactly."""
    retained = covered = 0
    for replica in replicas.values():
        start, position = replica.source_start, replica.position
        if position is None or start is None or position.offset <= start:
            continue
        size = position.offset - start
        retained += size
        if replica.anchors is not None:  # another program copies
            covered += min(size, len(replica.anchors))
            continue
        lost = sum(
            max(0, min(end, position.offset) - max(first, start, replica.known_from))
            for first, end in replica.holes
        )
        share = coverage(position, start, position.offset, replica.complete_from) or 0.0
        covered += max(0, round(share * size) - lost)
    return retained, covered
