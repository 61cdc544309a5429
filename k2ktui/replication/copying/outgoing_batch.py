"""A batch on its way from its source partition to a target partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from k2ktui.engine.records.state import SourcePartition
from k2ktui.log.records import I64

TargetPartition = tuple[str, int]


class BatchOwner(Protocol):
    """The origin of a batch; it is notified of the acknowledgment."""

    @property
    def source(self) -> SourcePartition:
        """The source partition of its records."""

    def acknowledge(self, outgoing: OutgoingBatch, base: int) -> None:
        """Record that the batch's first record has target offset ``base``."""


@dataclass(slots=True, eq=False)
class OutgoingBatch:
    """One batch for a target partition.

    ``sources`` are the records' source offsets, None if they are consecutive from
    ``first_source``. ``owner`` is None for state records. ``rebuilt`` says that its bytes are not
    those of a batch of the source. ``checksum_known`` says that the checksum in it is right: the
    one after stamping follows from it. ``sequence`` is -1 until the batch is first sent, at
    ``first_sent`` (monotonic seconds).
    """

    target: TargetPartition
    data: memoryview
    count: int
    first_source: int = -1
    sources: I64 | None = None
    owner: BatchOwner | None = None
    rebuilt: bool = False
    checksum_known: bool = False
    sequence: int = -1
    first_sent: float = 0.0
