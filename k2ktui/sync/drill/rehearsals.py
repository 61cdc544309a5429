"""Read the last rehearsal from the target for the metrics of a running pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.model import Drill, find_last_rehearsal
from k2ktui.engine.drill.objectives import NO_OBJECTIVES, Objectives
from k2ktui.engine.drill.pair_state import find_pair_state
from k2ktui.kafka.clients import target_cluster
from k2ktui.replication.reports.events import PairSeen, Rehearsed
from k2ktui.runtime.background import BackgroundRunner
from k2ktui.sync.store import StateStore

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
    """Reports the last rehearsal and the state of the pair once a minute.

    Args:
        config: the pipeline.
        report: called when it begins to fail, at growing intervals, and when it works again.
        feed: called with the state of the pair, and with the last rehearsal.
    """

    failing = "the last rehearsal cannot be read from the target"
    recovered = "the last rehearsal is read from the target again"

    def __init__(
        self,
        config: PipelineConfig,
        report: Callable[[str], None],
        feed: Callable[[Rehearsed | PairSeen], None],
    ) -> None:
        super().__init__("rehearsals", _INTERVAL_S, report, immediately=True)
        self._config, self._feed = config, feed
        self._store: StateStore | None = None

    def work(self) -> None:
        """Read the drills."""
        if self._store is None:
            self._store = StateStore(self._config, target_cluster(self._config))
        drills = self._store.read().drills.values()
        self._feed(PairSeen(str(find_pair_state(drills).phase)))
        rehearsal = last_rehearsal(drills, self._config.drill.objectives.values)
        if rehearsal is not None:
            self._feed(rehearsal)

    def close(self) -> None:
        """Disconnect."""
        if self._store is not None:
            self._store.close()
