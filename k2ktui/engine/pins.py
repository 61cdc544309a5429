"""The target logs that a plan depends on, and whether they still match it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from k2ktui.engine.bounded import Count, Number, Text
from k2ktui.engine.replica import TargetLog, TargetPartition


@dataclass(frozen=True, slots=True)
class PinnedLog:
    """A target partition as it was when a plan was made.

    Attributes:
        topic, partition: the target partition.
        topic_id: topic id (KIP-516) as hex text, empty if the brokers have none.
        start: log start offset, None if unknown.
        end: last stable offset, None if unknown.
    """

    topic: Text
    partition: Number
    topic_id: Text
    start: Count | None
    end: Count | None

    @property
    def at(self) -> TargetPartition:
        """Topic and partition."""
        return self.topic, self.partition


class Proposal(Protocol):
    """The fields of a plan row that this module needs."""

    @property
    def group(self) -> str:
        """The consumer group."""

    @property
    def topic(self) -> str:
        """The target topic."""

    @property
    def partition(self) -> int:
        """The target partition."""

    @property
    def proposed(self) -> int | None:
        """The offset to commit, None if there is none."""


def pin_logs(
    partitions: Iterable[TargetPartition],
    logs: Mapping[TargetPartition, TargetLog],
    topic_ids: Mapping[str, str],
) -> tuple[PinnedLog, ...]:
    """Return the current state of these partitions, sorted."""
    found = []
    for topic, partition in sorted(set(partitions)):
        log = logs.get((topic, partition))
        start, end = (log.start, log.end) if log else (None, None)
        found.append(PinnedLog(topic, partition, topic_ids.get(topic, ""), start, end))
    return tuple(found)


def log_objections(
    rows: Iterable[Proposal],
    pins: Sequence[PinnedLog],
    logs: Mapping[TargetPartition, TargetLog],
    topic_ids: Mapping[str, str],
) -> dict[tuple[str, str, int], str]:
    """Return why rows must no longer be applied, by group, topic and partition.

    Args:
        rows: the rows to apply.
        pins: the partitions as they were when the plan was made.
        logs: current bounds of these partitions.
        topic_ids: ids of the topics that exist now.
    """
    by_place = {pin.at: pin for pin in pins}
    found = {}
    for row in rows:
        at = (row.topic, row.partition)
        why = _objection(by_place.get(at), row.proposed, logs.get(at), topic_ids.get(row.topic))
        if why:
            found[row.group, row.topic, row.partition] = why
    return found


def _objection(
    pin: PinnedLog | None, proposed: int | None, log: TargetLog | None, topic_id: str | None
) -> str:
    if pin is None:
        return "the plan has no log bounds for it"
    if topic_id is None:
        return "the topic no longer exists"
    if pin.topic_id and topic_id and pin.topic_id != topic_id:
        return "the topic was deleted and created again: its offsets start over"
    if log is None:
        return "its log bounds are unavailable"
    if pin.end is not None and log.end < pin.end:
        return f"its log ends at {log.end:,}, before its end of {pin.end:,} in the plan"
    if proposed is None:
        return ""
    if proposed > log.end:
        return f"its log ends at {log.end:,}, before the proposed offset"
    if proposed < log.start and (pin.start is None or log.start > pin.start):
        return (
            f"records were deleted up to {log.start:,} since: the group would skip "
            f"{log.start - max(proposed, pin.start or 0):,} more than was shown"
        )
    return ""
