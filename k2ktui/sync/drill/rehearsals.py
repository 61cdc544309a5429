"""Read the last rehearsal from the target for the metrics of a running pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.model import Drill, find_last_rehearsal
from k2ktui.engine.drill.objectives import NO_OBJECTIVES, Objectives
from k2ktui.engine.drill.pair_state import find_pair_state
from k2ktui.kafka.clients import target_cluster
from k2ktui.replication.reports.events import Rehearsed
from k2ktui.runtime.background import BackgroundRunner
from k2ktui.sync.store import StateStore

if TYPE_CHECKING:  # watching needs nothing that copies
    from k2ktui.replication.reports.status import RunStatus

_INTERVAL_S = 60.0


def last_rehearsal(
    drills: Iterable[Drill], objectives: Objectives = NO_OBJECTIVES
) -> Rehearsed | None:
    """Return the last rehearsal that has ended, compared with objectives; None without one."""
    last = find_last_rehearsal(drills)
    if last is None:
        return None
    figures, rto_s = last.figures, last.tool_ms / 1000
    missed = objectives.list_missed(
        rpo_records=figures.rpo_records, rpo_s=figures.rpo_s, rto_s=rto_s
    )
    return Rehearsed(
        at=(last.ended_ms or 0) / 1000,
        findings=len(last.blockers),
        rpo_records=figures.rpo_records,
        rpo_s=figures.rpo_s,
        rto_s=rto_s,
        missed=len(missed),
    )


class RehearsalWatcher(BackgroundRunner):
    """Reads the last rehearsal and the state of the pair once a minute.

    Args:
        config: the pipeline.
        report: called when it begins to fail, at growing intervals, and when it works again.
        status: gets the state of the pair, and the last rehearsal.
    """

    failing = "the last rehearsal cannot be read from the target"
    recovered = "the last rehearsal is read from the target again"

    def __init__(
        self, config: PipelineConfig, report: Callable[[str], None], status: RunStatus
    ) -> None:
        super().__init__("rehearsals", _INTERVAL_S, report, immediately=True)
        self._config, self._status = config, status
        self._store: StateStore | None = None

    def work(self) -> None:
        """Read the drills."""
        if self._store is None:
            self._store = StateStore(self._config, target_cluster(self._config))
        drills = self._store.read().drills.values()
        self._status.pair_state = str(find_pair_state(drills).phase)
        self._status.rehearsed = last_rehearsal(drills, self._config.drill.objectives.values)

    def close(self) -> None:
        """Disconnect."""
        if self._store is not None:
            self._store.close()
