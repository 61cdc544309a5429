"""Write the summary of a pipeline: coverage and groups, for a console that watches many pipelines.

The sync application has all it takes in every poll. Where none runs, a run that copies writes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from time import monotonic

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.pair_state import find_pair_state
from k2ktui.engine.moves.agreement import Agreement
from k2ktui.engine.moves.groups import GroupRow, Snapshot, after_failover, make_group_rows
from k2ktui.engine.moves.pipeline_summary import PipelineSummary, summarize_pipeline
from k2ktui.engine.moves.written import OffsetWrite
from k2ktui.errors import REFUSALS
from k2ktui.runtime.background import BackgroundRunner
from k2ktui.sync.flow import Flow
from k2ktui.sync.mapping.source import NoPipelineFound, NothingCopied
from k2ktui.sync.moves.snapshot import SnapshotReader
from k2ktui.sync.store import StateStore

log = logging.getLogger(__name__)

INTERVAL_S = 60.0


class SummaryWriter:
    """Writes a summary at most once a minute; not thread-safe.

    Args:
        store: the state store, used by the same thread.
    """

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._agreement = Agreement()
        self._next = 0.0

    def keep(
        self, snapshot: Snapshot, committed: Collection[OffsetWrite] = ()
    ) -> PipelineSummary | None:
        """Write the summary of a snapshot if it is due; return what was written.

        Without the source, the last summary stays: its age says that it is old.

        Args:
            snapshot: both clusters.
            committed: what was committed on the target since then.

        Raises:
            K2kError: the state topic could not be read or written.
        """
        if snapshot.source_down or monotonic() < self._next:
            return None
        rows = self._agreement.settle(
            _with_commits(make_group_rows(snapshot), committed),
            snapshot.commits_at,
            snapshot.taken_at,
        )
        if find_pair_state(self._store.read().drills.values()).moved:
            rows = after_failover(rows)
        summary = summarize_pipeline(snapshot, rows)
        self._store.put([summary])
        self._next = monotonic() + INTERVAL_S
        log.debug("summary: %s", summary)
        return summary


def _with_commits(
    rows: Iterable[GroupRow], committed: Collection[OffsetWrite]
) -> Iterator[GroupRow]:
    """Yield the rows as they are after the translated offsets were committed."""
    offsets = {(write.group, *write.at): write.after for write in committed}
    for row in rows:
        offset = offsets.get((row.group, row.target_topic, row.target_partition or 0))
        if offset is None or offset != row.translated_offset:
            yield row
        else:
            yield replace(
                row,
                target_offset=offset,
                divergence=0,
                reread_now=row.reread,
                skipped_now=row.skipped,
            )


class SummaryRunner(BackgroundRunner):
    """Writes summaries beside a run that copies, unless another process does.

    Args:
        config: the pipeline.
        report: called when it begins to fail, at growing intervals, and when it works again.
        is_wanted: whether this run writes them now; of runs that share a pipeline, one does.
    """

    failing = "the summary for k2ktui fleet is not written to the target"
    recovered = "the summary for k2ktui fleet is written to the target again"
    refusals = REFUSALS

    def __init__(
        self,
        config: PipelineConfig,
        report: Callable[[str], None],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__("summaries", INTERVAL_S, report)
        self._config, self._is_wanted = config, is_wanted
        self._open: tuple[SnapshotReader, SummaryWriter] | None = None
        self._last: PipelineSummary | None = None

    def work(self) -> None:
        """Write the summary, unless it has changed since the last turn: then another writes it."""
        if not self._is_wanted():
            self.close()
            return
        if self._open is None:
            reader = SnapshotReader(Flow(self._config), for_plans=False, with_choices=True)
            self._open = reader, SummaryWriter(reader.store)
        reader, writer = self._open
        known = reader.store.read().summary
        if known != self._last:
            self._last = known
            return
        try:
            self._last = writer.keep(reader.take()) or known
        except (NothingCopied, NoPipelineFound):
            log.debug("no summary: nothing was copied yet")

    def close(self) -> None:
        """Disconnect from both clusters."""
        if self._open is not None:
            self._open[0].close()
            self._open = None
