"""Settings of runs that share a pipeline or wait for each other, and of the topics for it."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field

from k2ktui.config.clusters import Section
from k2ktui.config.scalars import Duration, Name
from k2ktui.engine.records.run_record import LARGEST_SHARED_SLOTS, LARGEST_SLOTS


class CommitCoordination(Section):
    """The topic of replicated positions; the group defaults to the pipeline's name."""

    topic: Name = "__k2k_consumer-offsets"
    group: Name = ""
    sync_timeout_s: Duration = Field(default=30.0, gt=0)
    batch_size: int = Field(default=1000, ge=1)
    batch_timeout_s: Duration = Field(default=2.0, gt=0)


class AssignmentCoordination(Section):
    """The topic by which runs share a pipeline, and how long a run may be silent."""

    topic: Name = "__k2k_assignment"
    grace_window_s: Duration = 15.0
    fencing_max_parallelism: int = Field(default=5, ge=1)


class StateCoordination(Section):
    """Topic of run heartbeats, group commit snapshots and the journal; not a Lenses setting."""

    topic: Name = "__k2k_state"


CoordinationMode = Literal["exclusive", "standby", "shared"]
# A run sends three heartbeats in a grace window, and at most one per second.
SHORTEST_GRACE_S = 3.0


class Coordination(Section):
    """What several runs of the pipeline do, and the topics on the target that hold its state.

    With ``mode: shared``, each run copies a part of the slots; with ``standby``, a new run waits
    until the one before has ended or hangs; with ``exclusive``, it takes over from that one. Where
    the file does not say it, ``mode`` is ``exclusive`` if the others are not possible.
    """

    mode: CoordinationMode = "shared"
    commit: CommitCoordination = CommitCoordination()
    assignment: AssignmentCoordination = AssignmentCoordination()
    state: StateCoordination = StateCoordination()

    @property
    def most_slots(self) -> int:
        """Largest number of slots that a pipeline can have."""
        return LARGEST_SHARED_SLOTS if self.mode == "shared" else LARGEST_SLOTS

    def where_possible(self, *, exactly_once: bool) -> Self:
        """Return these settings, with a mode that is possible if the file does not name one.

        Args:
            exactly_once: ``features.exactlyOnce``; without it, no run can be fenced.
        """
        if "mode" in self.model_fields_set:
            return self
        if exactly_once and self.assignment.grace_window_s >= SHORTEST_GRACE_S:
            return self
        return self.model_copy(update={"mode": "exclusive"})
