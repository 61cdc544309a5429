"""What the driver knows of one slot."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic

from k2ktui.engine.state import SourcePartition
from k2ktui.replication.slot_task import SlotResult

_BACKOFF_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(slots=True, eq=False)
class SlotState:
    """One slot.

    Attributes:
        number: 0 and up.
        sources: the partitions it copies.
        running: its lap.
        deadline: monotonic seconds; a lap that runs longer hangs.
        failures: laps, or attempts to begin one, that failed in a row.
        broken: it must be fenced, and its positions be read from the target.
        not_before: monotonic seconds; nothing is tried earlier.
    """

    number: int
    sources: list[SourcePartition] = field(default_factory=list)
    running: Future[list[SlotResult]] | None = None
    deadline: float = 0.0
    failures: int = 0
    broken: bool = False
    not_before: float = 0.0

    @property
    def name(self) -> str:
        """For messages."""
        return f"slot {self.number}"

    def failed(self) -> None:
        """Wait before the next attempt, longer after each failure in a row."""
        self.not_before = monotonic() + _BACKOFF_S[min(self.failures, len(_BACKOFF_S) - 1)]
        self.failures += 1
