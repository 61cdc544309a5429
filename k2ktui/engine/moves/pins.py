"""The target logs that a plan depends on. Pure; ``log_objections`` says whether they match."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from k2ktui.engine.bounded import Count, Number, Text
from k2ktui.engine.mapping.replica import TargetLog, TargetPartition


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


def pin_logs(
    partitions: Iterable[TargetPartition],
    logs: Mapping[TargetPartition, TargetLog],
    topic_ids: Mapping[str, str],
) -> tuple[PinnedLog, ...]:
    """Return the current state of these partitions, sorted."""
    pinned = []
    for topic, partition in sorted(set(partitions)):
        log = logs.get((topic, partition))
        start, end = (log.start, log.end) if log else (None, None)
        pinned.append(PinnedLog(topic, partition, topic_ids.get(topic, ""), start, end))
    return tuple(pinned)
