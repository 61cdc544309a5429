"""What a failover may cost at most, as the pipeline's file says, and what misses it; pure."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from k2ktui.engine.bounded import Count, Seconds
from k2ktui.text import counted, duration


@dataclass(frozen=True, slots=True)
class Objectives:
    """Largest loss and duration of a failover; None where there is no objective.

    Attributes:
        rpo_records: records that may be on the source only.
        rpo_s: age of the oldest of them in seconds.
        rto_s: seconds until applications continue on the target.
    """

    rpo_records: Count | None = None
    rpo_s: Seconds | None = None
    rto_s: Seconds | None = None

    def __bool__(self) -> bool:
        """Whether there is any objective."""
        return any(value is not None for value in (self.rpo_records, self.rpo_s, self.rto_s))

    def as_json(self) -> dict[str, Any]:
        """Return the object that commands print."""
        return asdict(self)

    def describe(self) -> str:
        """Return them as a phrase: ``RPO at most 500 records, 30 s; RTO at most 15 m 0 s``."""
        rpo = [] if self.rpo_records is None else [counted(self.rpo_records, "record")]
        rpo += [] if self.rpo_s is None else [objective_time(self.rpo_s)]
        parts = [f"RPO at most {', '.join(rpo)}"] if rpo else []
        parts += [] if self.rto_s is None else [f"RTO at most {objective_time(self.rto_s)}"]
        return "; ".join(parts)

    def list_missed(
        self, *, rpo_records: int | None, rpo_s: float | None, rto_s: float | None
    ) -> list[str]:
        """Return what is above its objective; what is not known (None) is not.

        Args:
            rpo_records, rpo_s, rto_s: the measured values, or lower bounds of them.
        """
        missed = []
        if self.rto_s is not None and (rto_s or 0.0) > self.rto_s:
            missed.append(f"RTO above {objective_time(self.rto_s)}")
        if self.rpo_records is not None and (rpo_records or 0) > self.rpo_records:
            missed.append(f"RPO above {counted(self.rpo_records, 'record')}")
        if self.rpo_s is not None and rpo_records != 0 and (rpo_s or 0.0) > self.rpo_s:
            missed.append(f"RPO above {objective_time(self.rpo_s)}")
        return missed

    def list_unknown(
        self, *, rpo_records: int | None, rpo_s: float | None, rto_s: float | None
    ) -> list[str]:
        """Return which objectives cannot be compared, because the value (None) is not known."""
        unknown = ["RTO"] if self.rto_s is not None and rto_s is None else []
        if self.rpo_records is not None and rpo_records is None:
            unknown.append("RPO in records")
        if self.rpo_s is not None and rpo_records != 0 and rpo_s is None:
            unknown.append("RPO in seconds")
        return unknown


NO_OBJECTIVES = Objectives()


def objective_time(seconds: float) -> str:
    """Return a time as it is configured: with all its digits if it is no whole second."""
    return duration(seconds) if seconds == int(seconds) else f"{seconds:g} s"
