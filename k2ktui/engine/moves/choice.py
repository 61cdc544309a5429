"""What an operator chooses for a row of a plan instead of the translated offset.

A choice belongs to the source commit that it was made against (``Choice.source``): it says nothing
about what the group reads on the source afterwards. This module does not access Kafka: a time is
looked up by the caller, and becomes an offset.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from k2ktui.engine.bounded import Millis, Text
from k2ktui.engine.mapping.replica import TargetLog

RowKey = tuple[str, str, int]
"""Consumer group, target topic and target partition."""

LEAVE_OUT = "leave-out"


class ValueKind(StrEnum):
    """How a chosen value leads to an offset."""

    OFFSET = "offset"
    TIME = "time"
    EARLIEST = "earliest"
    LATEST = "latest"
    SHIFT = "shift"
    LEAVE_OUT = LEAVE_OUT


@dataclass(frozen=True, slots=True)
class RowValue:
    """A value for a row.

    Attributes:
        kind: how it leads to an offset.
        text: as the operator wrote it.
        number: an offset, a time in epoch milliseconds, or by how many offsets to shift.
    """

    kind: ValueKind
    text: str
    number: int = 0


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen for a row.

    Attributes:
        by: ``user@host``.
        value: as the operator wrote it.
        source: the source commit that it was made against, as in ``PlanRow.source``.
        at_ms: when the clusters were read for it, epoch milliseconds.
    """

    by: Text
    value: Text
    source: Text
    at_ms: Millis

    @property
    def text(self) -> str:
        """The choice in words, for a reason."""
        return f"chosen by {self.by}: {self.value}"

    @property
    def leaves_out(self) -> bool:
        """Whether the committed offset stays as it is."""
        return self.value == LEAVE_OUT


def chosen_offset(
    value: RowValue, proposed: int | None, log: TargetLog | None, side: str = "target"
) -> int:
    """Return the offset that a value leads to.

    Args:
        value: not to leave out; of a time, the caller looks up the offset.
        proposed: the translated offset, None if there is none.
        log: bounds of the partition, None if unknown.
        side: the cluster whose group is written.

    Raises:
        ValueError: there is no such offset, with the reason.
    """
    if log is None:
        raise ValueError(f"the bounds of the {side} partition are unavailable")
    if value.kind is ValueKind.EARLIEST:
        return log.start
    if value.kind is ValueKind.LATEST:
        return log.end
    if value.kind is ValueKind.TIME:
        raise ValueError(f"the {side} did not say which record follows this time")
    offset = value.number
    if value.kind is ValueKind.SHIFT:
        if proposed is None:
            raise ValueError("no offset is proposed that could be shifted")
        offset += proposed
    if not log.start <= offset <= log.end:
        raise ValueError(
            f"offset {offset:,} is outside the {side}'s log, which holds {log.start:,} to "
            f"{log.end:,}"
        )
    return offset
