"""Decisions of drill checks that need no cluster; pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf

from k2ktui.text import safe_text

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
    return sorted(
        (group, topic, partition)
        for group, topic in reads
        for (name, partition), size in sizes.items()
        if name == topic and size != 0 and not placed.get((group, topic, partition), False)
    )


@dataclass(frozen=True, slots=True)
class SettingDrift:
    """A topic setting that differs between the clusters."""

    topic: str
    setting: str
    source: str
    target: str

    def __str__(self) -> str:
        return (
            f"{safe_text(self.topic)} {self.setting} {safe_text(self.target)} on the target, "
            f"{safe_text(self.source)} on the source"
        )


# Settings that decide what is kept, and what is accepted from producers.
COMPARED_SETTINGS = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "max.message.bytes",
    "message.timestamp.type",
    "min.insync.replicas",
)


def find_drift(
    topic: str,
    source: Mapping[str, str],
    target: Mapping[str, str],
    intended: Collection[str] = (),
) -> list[SettingDrift]:
    """Return the settings of a topic that differ in a way that a failover would show.

    A higher ``max.message.bytes`` or ``min.insync.replicas`` on the target is no drift, nor is
    ``CreateTime`` there for a source topic with ``LogAppendTime``: that keeps the timestamps.

    Args:
        topic: the target topic.
        source, target: settings of both topics.
        intended: settings that the pipeline's file sets, or leaves to the target.
    """
    found = []
    for setting in COMPARED_SETTINGS:
        here, there = source.get(setting), target.get(setting)
        if here is None or there is None or setting in intended:
            continue
        if setting == "cleanup.policy":
            same = set(here.split(",")) == set(there.split(","))
        elif setting in ("max.message.bytes", "min.insync.replicas"):
            same = int(there) >= int(here)
        elif setting == "message.timestamp.type":
            same = here == there or there == "CreateTime"
        else:
            same = here == there
        if not same:
            found.append(SettingDrift(topic, setting, here, there))
    return found


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


Entity = tuple[tuple[str, str | None], ...]


def find_lower_quotas(
    source: Mapping[Entity, Mapping[str, float]], target: Mapping[Entity, Mapping[str, float]]
) -> list[tuple[Entity, str, float | None, float]]:
    """Return quotas of the target that are lower than the source's, or that the source lacks.

    Returns:
        Entity, key, the source's value (None: unlimited) and the target's.
    """
    return [
        (entity, key, source.get(entity, {}).get(key), value)
        for entity, values in sorted(target.items(), key=str)
        for key, value in sorted(values.items())
        if value < source.get(entity, {}).get(key, inf)
    ]
