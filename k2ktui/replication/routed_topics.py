"""The target topics among which an expression chooses, on the routes and in the positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from k2ktui.engine.state import Position


@dataclass(frozen=True, slots=True)
class RoutedTopic:
    """A target topic that an expression may choose; the id is empty if the broker has none."""

    name: str
    partitions: int
    topic_id: str = ""


def with_topics(
    position: Position, topics: Sequence[RoutedTopic], partition: int | None
) -> Position:
    """Return a position that names all of these target topics; unchanged if there are none.

    Args:
        position: the position of a source partition.
        topics: the target topics, in the order of their declaration.
        partition: the target partition if there is one, None if records go to several.
    """
    if not topics:
        return position
    first, *further = topics
    return replace(
        position,
        target_topic=first.name,
        target_partition=None if further else partition,
        target_topic_id=first.topic_id,
        further_targets=tuple((each.name, each.topic_id) for each in further),
    )
