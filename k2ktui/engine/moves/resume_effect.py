"""Effect of resuming from the committed offset on the target, compared with a move.

A group resumes at the higher of its commit and the log start offset. Records at or after that
offset that it consumed on the source are read again; unconsumed records before it are never read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from k2ktui.engine.mapping.opposite_copy import OppositeCopy
from k2ktui.engine.mapping.range_columns import count_consumed
from k2ktui.engine.mapping.replica import Replica, TargetLog, is_mapping_complete
from k2ktui.engine.mapping.translate import Basis, Translation
from k2ktui.engine.records.state import SourcePartition


@dataclass(frozen=True, slots=True)
class Standing:
    """Effect of a group's current commit on one target partition; None is unknown.

    Attributes:
        divergence: the committed offset minus the translated one, in source records. Positive: the
            group would miss records that it would not miss after a move; negative: it would read
            records again.
        reread: upper bound of the records read again.
        skipped: upper bound of the records never read, including those that no move recovers.
    """

    divergence: int | None = None
    reread: int | None = None
    skipped: int | None = None


UNKNOWN = Standing()


def standing(
    replicas: Mapping[SourcePartition, Replica],
    translation: Translation,
    commits: Mapping[SourcePartition, int],
    current: int | None,
    log: TargetLog | None,
    opposite: OppositeCopy | None = None,
) -> Standing:
    """Compare the committed offset on the target with the translation.

    Args:
        replicas: copies of the source partitions.
        translation: the group's translated offset and the effect of a move there.
        commits: the source commits behind the translation.
        current: committed offset on the target, None if there is none.
        log: bounds of the target partition, None if unknown.
        opposite: what the opposite pipeline copied from it; None in one direction.
    """
    offset = translation.offset
    if current is None or offset is None:
        return UNKNOWN
    if current == offset:
        return Standing(0, translation.reread, translation.skipped)
    copies = [(replicas[at], commits.get(at, -1)) for at in translation.sources]
    between = _count(copies, translation, opposite, commits, *sorted((current, offset)))
    if between is None:
        return UNKNOWN
    if current > offset:
        again = _less(translation.reread, between.consumed)
        return Standing(between.unread, again, _more(translation.skipped, between.unread))
    start = log.start if log else 0
    behind = _count(copies, translation, opposite, commits, max(current, start), offset)
    again = None if behind is None else _more(translation.reread, behind.consumed)
    return Standing(-(between.consumed + between.unread), again, translation.skipped)


def in_both(earlier: Standing, later: Standing) -> Standing:
    """Combine two readings of the source, made before and after that of the target.

    If a group is active on both clusters, the cluster that was read later shows the higher commit.
    So a difference counts only if both readings agree on it.
    """
    one, other = earlier.divergence, later.divergence
    divergence = None
    if one is not None and other is not None:
        divergence = min(one, other, key=abs) if one * other > 0 else 0
    return Standing(
        divergence, _least(earlier.reread, later.reread), _least(earlier.skipped, later.skipped)
    )


def _least(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else min(one, other)


def _more(count: int | None, more: int) -> int | None:
    return None if count is None else count + more


def _less(count: int | None, less: int) -> int | None:
    return None if count is None else max(0, count - less)


@dataclass(frozen=True, slots=True)
class _Between:
    """Records between two target offsets: consumed and not consumed on the source."""

    consumed: int = 0
    unread: int = 0


def _count(
    copies: Iterable[tuple[Replica, int]],
    translation: Translation,
    opposite: OppositeCopy | None,
    commits: Mapping[SourcePartition, int],
    low: int,
    high: int,
) -> _Between | None:
    """Count the records of both directions at the target offsets ``[low, high)``."""
    between = _records(copies, translation, low, high)
    if between is None or opposite is None or low >= high:
        return between
    returned = opposite.count_between(commits, low, high)
    if returned is None:
        return None
    return _Between(between.consumed + returned[0], between.unread + returned[1])


def _records(
    copies: Iterable[tuple[Replica, int]], translation: Translation, low: int, high: int
) -> _Between | None:
    """Count the records at the target offsets ``[low, high)``; None if unknown."""
    consumed = unread = 0
    if low >= high:
        return _Between()
    for replica, commit in copies:
        if replica.anchors is not None:
            return _by_cuts(replica, translation, commit, low, high)
        if not is_mapping_complete(replica, translation.target, low, high):
            return None
        ranges = replica.target_ranges.get(translation.target)
        if ranges is not None and ranges.goes_back:
            return None  # of the records at these offsets, some were lost and replaced
        if ranges is not None:
            total = ranges.target_records_between(low, high)
            old = count_consumed(ranges.columns(), commit, low, high)
            consumed, unread = consumed + old, unread + total - old
    return _Between(consumed, unread)


def _by_cuts(
    replica: Replica, translation: Translation, commit: int, low: int, high: int
) -> _Between | None:
    """Count every offset: anchors do not say which offsets between them hold records."""
    if high == translation.offset:
        return _Between(consumed=high - low)
    if translation.basis is not Basis.BOUNDED:
        return _Between(unread=high - low)
    # The first unread record may be anywhere up to the next anchor.
    assert replica.anchors is not None
    behind = replica.anchors.at_or_after(commit)
    if behind is None or high <= behind.target:
        return None
    return _Between(behind.target - low, high - behind.target)
