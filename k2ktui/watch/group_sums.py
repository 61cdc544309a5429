"""Sums of a group over its partitions; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter

from k2ktui.engine.audit import Audit, AuditRow, estimate_by_checkpoints, estimate_by_translation
from k2ktui.engine.groups import Finding, GroupRow, GroupView, outcome
from k2ktui.engine.translate import Basis
from k2ktui.watch.facts import GroupFacts
from k2ktui.watch.model import GroupSide, GroupSummary, PartitionRow

_Ends = Mapping[tuple[str, int], int | None]
_TargetEnds = Mapping[tuple[str, int | None], int | None]


def counts(words: Sequence[str]) -> dict[str, int]:
    """Return the number of occurrences of each word, sorted by word."""
    found: dict[str, int] = {}
    for word in words:
        found[word] = found.get(word, 0) + 1
    return dict(sorted(found.items()))


def summarize_groups(
    groups: GroupFacts, rows: Sequence[PartitionRow], audit: Audit | None = None
) -> tuple[GroupSummary, ...]:
    """Return every group with the sums of its rows, sorted by name."""
    by_group = {name: list(found) for name, found in groupby(groups.rows, attrgetter("group"))}
    others = {name: list(found) for name, found in groupby(_of(audit), attrgetter("group"))}
    ends = {row.key: row.status.source_end for row in rows}
    there = {
        (row.status.target_topic, row.status.target_partition): row.status.target_end
        for row in rows
    }
    names = sorted(set(groups.source) | by_group.keys())
    return tuple(
        _summary(
            name,
            by_group.get(name, []),
            groups,
            (ends, there),
            others.get(name, []) if audit else None,
        )
        for name in names
    )


def _of(audit: Audit | None) -> tuple[AuditRow, ...]:
    return audit.rows if audit else ()


def _summary(
    name: str,
    found: Sequence[GroupRow],
    groups: GroupFacts,
    ends: tuple[_Ends, _TargetEnds],
    audited: Sequence[AuditRow] | None,
) -> GroupSummary:
    sums = outcome(found)
    settled = [row for row in found if row.finding is Finding.SETTLED]
    checking = [row for row in found if row.finding is Finding.CHECKING]
    moved = [row for row in found if row.finding is Finding.MOVED]
    left = [row for row in found if row.finding is not Finding.MOVED]
    return GroupSummary(
        group=name,
        source=_side(groups.source.get(name)),
        target=_side(groups.target.get(name)),
        partitions=len(found),
        bases=counts([str(row.basis) for row in found]),
        missing=sum(row.target_offset is None for row in found),
        skips=sums.skips,
        rereads=sums.rereads,
        lag=_sum(_lag(left, ends[0]), _lag_on_target(moved, ends[1])),
        ours=estimate_by_translation(found),
        theirs=None if audited is None else estimate_by_checkpoints(audited, len(found)),
        unknown=sum(_unknown(row) for row in found),
        ahead=sum((row.divergence or 0) > 0 for row in settled),
        behind=sum((row.divergence or 0) < 0 for row in settled),
        moved_skips=sums.moved_skips,
        moved_rereads=sums.moved_rereads,
        unknown_now=sum(row.skipped_now is None for row in left),
        unknown_moved=sum(row.basis is Basis.UNMAPPED or row.skipped is None for row in left),
        checking=len(checking),
        checking_unmapped=sum(row.basis is Basis.UNMAPPED for row in checking),
        moved=len(moved),
        moved_unmapped=sum(row.basis is Basis.UNMAPPED for row in moved),
    )


def _unknown(row: GroupRow) -> bool:
    """Whether the difference between the target's commit and the translation is unknown."""
    if row.finding is Finding.MOVED:
        return False
    certain = row.basis is not Basis.UNMAPPED and row.basis is not Basis.BOUNDED
    return certain and row.target_offset is not None and row.divergence is None


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second


def _lag_on_target(moved: Sequence[GroupRow], ends: _TargetEnds) -> int | None:
    """Return the records that a group has not read where it was moved."""
    total = 0
    offsets = {(row.target_topic, row.target_partition): row.target_offset for row in moved}
    for at, offset in offsets.items():
        end = ends.get(at)
        if end is None or offset is None:
            return None
        total += max(0, end - offset)
    return total


def _lag(found: Sequence[GroupRow], ends: _Ends) -> int | None:
    total = 0
    for row in found:
        end = ends.get((row.topic, row.partition))
        if end is None or row.source_offset is None:
            return None
        total += max(0, end - row.source_offset)
    return total


def _side(view: GroupView | None) -> GroupSide:
    return GroupSide() if view is None else GroupSide(view.state, view.members, view.error)
