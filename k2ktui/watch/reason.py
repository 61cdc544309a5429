"""Explain a partition's state to an operator."""

from __future__ import annotations

from k2ktui.engine.records.state import Position
from k2ktui.engine.status import PartitionState, PartitionStatus
from k2ktui.text import counted, moment


def reason_for(status: PartitionStatus, position: Position | None) -> str:
    """Return the reason for a partition's state; empty if the state needs none."""
    match status.state:
        case PartitionState.LOST:
            return _lost(status)
        case PartitionState.RECREATED:
            return "the source topic was deleted and created again; its offsets start over"
        case PartitionState.GONE:
            return "the topic does not exist on the source, or may not be described"
        case PartitionState.NEW if status.target_end:
            return (
                "it has no position, and its target partition has held records; k2ktui check says "
                "whether the position is lost"
            )
        case PartitionState.NEW:
            return "nothing has been copied yet"
        case PartitionState.HELD:
            return f"{status.hold}; not copied until k2ktui release"
        case PartitionState.MOVED:
            return f"{describe_move(status)}; not copied from the source any more"
        case PartitionState.FENCED:
            return "the workload is on the target; its lag here is the past"
        case PartitionState.UNKNOWN if position is None:
            return "the cluster has not responded yet"
        case PartitionState.UNKNOWN:
            return "its log bounds on the source are unavailable"
        case _ if status.held is not None and status.held.too_long:
            return status.held.text()
        case _:
            return ""


def describe_move(status: PartitionStatus) -> str:
    """Return by which drill a topic was moved, and when; not safe to print."""
    return f"moved to the target by drill {status.moved_by} at {moment(status.moved_at or 0)}"


def _lost(status: PartitionStatus) -> str:
    position, start, end = status.position, status.source_start, status.source_end
    if position is not None and start is not None and position < start:
        return f"{counted(start - position, 'offset')} deleted on the source before being copied"
    if position is not None and end is not None and position > end:
        return (
            f"the source log ends at {end:,}, {position - end:,} before the position: it "
            "was truncated"
        )
    return "records were lost on the source"
