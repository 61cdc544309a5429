"""Decisions of drill checks that need no cluster; pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

GroupTopic = tuple[str, str]
GroupPartition = tuple[str, str, int]
TopicPartition = tuple[str, int]


class OutOfRange(StrEnum):
    """Why a committed offset is not a position in its log."""

    DELETED = "below the log start offset"
    BEYOND = "beyond the end"
    IN_GAP = "in a recorded gap"


def find_out_of_range(
    offset: int,
    start: int | None,
    high: int | None,
    gaps: Sequence[tuple[int, int]] = (),
) -> OutOfRange | None:
    """Return why a committed offset is out of range; None if it is not, or if that is unknown.

    Args:
        offset: the committed offset.
        start: log start offset.
        high: high watermark.
        gaps: source offsets ``[first, end)`` that were lost before they could be copied.
    """
    if high is not None and offset > high:
        return OutOfRange.BEYOND
    if start is not None and offset < start:
        return OutOfRange.DELETED
    if any(first <= offset < end for first, end in gaps):
        return OutOfRange.IN_GAP
    return None


def find_without_offset(
    reads: Collection[GroupTopic],
    placed: Mapping[GroupPartition, bool],
    sizes: Mapping[TopicPartition, int | None],
) -> list[GroupPartition]:
    """Return the partitions with records on which a group would have no offset after a move.

    Args:
        reads: groups with the source topics that they have committed on.
        placed: whether a group's committed offset on a source partition translates.
        sizes: offsets that the target partition holds, by source partition; None: unknown.
    """
    filled: dict[str, list[int]] = {}
    for (topic, partition), size in sizes.items():
        if size != 0:
            filled.setdefault(topic, []).append(partition)
    return sorted(
        (group, topic, partition)
        for group, topic in reads
        for partition in filled.get(topic, ())
        if not placed.get((group, topic, partition), False)
    )


def find_short_retention(
    source: Mapping[str, str], target: Mapping[str, str], needed_s: float
) -> float | None:
    """Return the target topic's retention in seconds if it is shorter than needed, else None.

    Args:
        source, target: settings of both topics; the source's may be empty.
        needed_s: seconds that the target must keep, or what the source keeps if that is less.
    """
    kept = _retention_s(target)
    if kept is None:
        return None
    own = _retention_s(source) if source else None
    needed = needed_s if own is None else min(needed_s, own)
    return kept if kept < needed else None


def _retention_s(settings: Mapping[str, str]) -> float | None:
    """Return how many seconds a topic keeps records; None if time does not limit it."""
    if "delete" not in settings.get("cleanup.policy", "delete"):
        return None
    milliseconds = int(settings.get("retention.ms") or -1)
    return None if milliseconds < 0 else milliseconds / 1000


def find_behind(
    applied: Mapping[TopicPartition, int], committed: Mapping[TopicPartition, int]
) -> list[TopicPartition]:
    """Return where a group has committed before the offset that was applied, or nothing."""
    return [at for at, offset in applied.items() if committed.get(at, -1) < offset]


@dataclass(frozen=True, slots=True)
class GroupLag:
    """A group on a cluster, in one reading.

    Attributes:
        lag: of all its partitions.
        committed: the sum of its committed offsets.
        behind: partitions on which it has committed before its applied offset.
    """

    lag: int
    committed: int
    behind: Sequence[TopicPartition] = ()


def find_not_catching_up(
    before: Mapping[str, GroupLag], after: Mapping[str, GroupLag]
) -> dict[str, int]:
    """Return the lag of the groups that do not catch up between two readings.

    A group catches up if it has no lag, or if it commits and its lag is not higher than before; but
    not while it reads again what is before its applied offsets.
    """
    return {
        group: now.lag
        for group, now in sorted(after.items())
        if now.behind
        or (
            now.lag
            and (
                group not in before
                or now.committed <= before[group].committed
                or now.lag > before[group].lag
            )
        )
    }


@dataclass(frozen=True, slots=True)
class Route:
    """How one pipeline routes topics.

    Attributes:
        selects: whether it copies a topic.
        targets: target topics of a source topic.
        guard: what keeps records of the opposite direction out; empty without it.
    """

    selects: Callable[[str], bool]
    targets: Callable[[str], Collection[str]]
    guard: str = ""


def find_loops(topics: Iterable[str], forward: Route, reverse: Route) -> list[tuple[str, str]]:
    """Return source topics whose records come back, with the topic in which they arrive.

    Args:
        topics: topics that the forward pipeline copies.
        forward, reverse: the two pipelines. The same guard on both lets no record come back.
    """
    if forward.guard and forward.guard == reverse.guard:
        return []
    return [
        (topic, back)
        for topic in sorted(topics)
        for target in forward.targets(topic)
        if reverse.selects(target)
        for back in reverse.targets(target)
        # Records in a topic of another name are copied again only if that one is selected, too.
        if forward.selects(back)
    ]


def find_unlisted(
    missing: Mapping[TopicPartition, tuple[int, int]],
    listed: Mapping[TopicPartition, tuple[int, int]],
) -> dict[TopicPartition, int]:
    """Return the number of offsets that were not copied and are not listed, by source partition.

    Args:
        missing: source offsets ``[first, end)`` that were not copied.
        listed: the same as the drill listed them.
    """
    unlisted = {}
    for at, (first, end) in missing.items():
        low, high = listed.get(at, (0, 0))
        covered = max(0, min(end, high) - max(first, low))
        if end - first > covered:
            unlisted[at] = end - first - covered
    return unlisted
