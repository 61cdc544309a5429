"""The driver's state of one slot."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from time import monotonic

from k2ktui.engine.state import SourcePartition
from k2ktui.replication.slot_task import SlotResult

_BACKOFF_S = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(slots=True, eq=False)
class SlotState:
    """The driver's state of one slot.

    Attributes:
        number: slot number, from 0.
        sources: the partitions that the slot copies.
        running: the future of the current lap, None between laps.
        deadline: monotonic seconds; a lap that is still running then counts as hung.
        failures: consecutive failures of laps or of attempts to start one.
        broken: the slot must be fenced and its positions read from the target again.
        not_before: monotonic seconds; end of the back-off after a failure.
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
        """The slot's name in messages."""
        return f"slot {self.number}"

    def failed(self) -> None:
        """Count a failure and back off; the delay grows with each consecutive failure."""
        self.not_before = monotonic() + _BACKOFF_S[min(self.failures, len(_BACKOFF_S) - 1)]
        self.failures += 1
