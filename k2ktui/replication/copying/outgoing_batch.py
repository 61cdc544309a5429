"""A batch between its source partition's feed and the lane of its target partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from k2ktui.engine.state import SourcePartition
from k2ktui.log.records import I64

TargetPartition = tuple[str, int]


class BatchOwner(Protocol):
    """Who handed a batch over, and is told where it landed."""

    source: SourcePartition

    def landed(self, outgoing: OutgoingBatch, target: TargetPartition, base: int) -> None:
        """Take note that the batch's first record has the offset ``base``."""


@dataclass(slots=True, eq=False)
class OutgoingBatch:
    """One batch on its way to a lane.

    ``sources`` are the records' source offsets, None where they are consecutive from
    ``first_source`` on; ``feed`` is None for state records.
    """

    data: memoryview
    count: int
    first_source: int = -1
    sources: I64 | None = None
    feed: BatchOwner | None = None
    sequence: int = -1
    first_sent: float = 0.0
