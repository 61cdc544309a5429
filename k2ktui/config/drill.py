"""The section ``drill``: failovers of the pipeline; not a Lenses setting."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from k2ktui.config.clusters import Section
from k2ktui.config.drill_hooks import MOST_HOOKS, DrillHook, require_different
from k2ktui.config.scalars import Duration
from k2ktui.engine.drill.hooks import Hook
from k2ktui.engine.drill.objectives import Objectives
from k2ktui.engine.strict_json import LARGEST, LARGEST_MS

_LONGEST_S = LARGEST_MS / 1000


class DrillObjectives(Section):
    """The largest loss and duration of a failover; none by default."""

    rpo_records: Annotated[int, Field(ge=0, le=LARGEST)] | None = None
    rpo_time_s: Annotated[Duration, Field(le=_LONGEST_S)] | None = None
    rto_time_s: Annotated[Duration, Field(le=_LONGEST_S)] | None = None

    @property
    def values(self) -> Objectives:
        """Return them without the file's types."""
        return Objectives(self.rpo_records, self.rpo_time_s, self.rto_time_s)


class DrillSettings(Section):
    """Failover drills of the pipeline."""

    objectives: DrillObjectives = DrillObjectives()
    hooks: Annotated[
        tuple[DrillHook, ...], Field(max_length=MOST_HOOKS), AfterValidator(require_different)
    ] = ()

    @property
    def hook_list(self) -> tuple[Hook, ...]:
        """The hooks without the file's types."""
        return tuple(section.hook for section in self.hooks)
