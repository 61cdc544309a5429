"""Decide whether a partition continues after one of its clusters was restored under another id.

Its position belongs to the log that was copied. A restored log counts as that log only if it still
reaches the last offset that was read from it or written to it, and if the last copied record is the
same on both clusters. Otherwise the partition stops, and the operator decides.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from k2ktui.engine.mapping.replica import TargetPartition
from k2ktui.engine.moves.positions import MoveEffect, PositionMove, SourceLog
from k2ktui.engine.records.cluster_pair import Side
from k2ktui.engine.records.state import Position, SourcePartition

_LONGEST = 400


def find_doubt(
    position: Position,
    log: SourceLog | None,
    topics: Collection[str],
    ends: Mapping[TargetPartition, int],
    doubt_of_last: str | None,
    unmapped: str = "",
) -> str:
    """Return why a partition may not be the one that was copied; "" if it is shown to be.

    Args:
        position: its position.
        log: its log on the source; None if it does not exist there.
        topics: the target topics that exist.
        ends: high watermarks of its target partitions.
        doubt_of_last: why the last record that was copied is not shown to be the same on both
            clusters; "" if it is, None if the mapping names none.
        unmapped: why the mapping does not name the last record; "" if it is complete at its end.
    """
    if log is None:
        return "it does not exist on the source"
    if position.offset < log.start:
        return (
            f"it begins at offset {log.start} on the source, and the position is {position.offset}"
        )
    if position.offset > log.end:
        return (
            f"it ends at offset {log.end} on the source, and the position is {position.offset}: "
            "what was copied from there on was not restored"
        )
    for topic in position.target_topics:
        if topic not in topics:
            return f"its target topic {topic} does not exist"
    if (at := position.beyond(ends)) is not None:
        return (
            f"{at.topic}-{at.partition} ends at offset {ends[at.topic, at.partition]} on the "
            f"target, and it was written up to offset {at.end}: the records in between were not "
            "restored"
        )
    if unmapped:
        return f"that it is the same on both clusters cannot be shown: {unmapped}"
    if doubt_of_last is not None:
        return doubt_of_last
    if position.offset == position.start and position.offset <= log.start:
        return ""  # nothing was copied, and everything that is there will be
    return (
        "that it is the same on both clusters cannot be shown: none of its records was copied "
        f"since offset {position.start}"
    )


def plan_acceptance(
    source: SourcePartition,
    position: Position,
    doubt: str,
    log: SourceLog | None,
    target_ids: Mapping[str, str],
    sides: Collection[Side],
) -> PositionMove:
    """Return the move of a partition when clusters are accepted; its offset stays.

    Args:
        source: the partition.
        position: its position.
        doubt: as ``find_doubt`` returns it.
        log: its log on the source.
        target_ids: ids of the target's topics.
        sides: the clusters that were restored. Topics there may have other ids, and the epochs of
            their leaders may begin again; those of the other cluster stay as they were.
    """
    if doubt or log is None:
        after = replace(position, stopped=doubt[:_LONGEST])
        return PositionMove(source, MoveEffect.STOP, position, after, position.offset, why=doubt)
    after = replace(position, stopped="")
    if "source" in sides:
        after = replace(after, leader_epoch=-1, topic_id=log.topic_id)
    if "target" in sides:
        after = replace(
            after,
            target_topic_id=target_ids.get(position.target_topic, ""),
            further_targets=tuple(
                (name, target_ids.get(name, "")) for name, _ in position.further_targets
            ),
        )
    return PositionMove(source, MoveEffect.ACCEPT, position, after, position.offset)
