"""Fences one slot of a pipeline that runs share (docs/runners.md).

A shared slot is fenced as a pipeline is: it has a lock, an id for its records, and ids that carry
data. A run that takes it over then reads which layout the pipeline has.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from time import monotonic, sleep
from typing import Any, TypeVar

from k2ktui.engine.cluster_pair import ClusterPair
from k2ktui.engine.run_record import Run
from k2ktui.errors import TimedOut
from k2ktui.replication import commit_state
from k2ktui.replication.commit_state import CommitState
from k2ktui.replication.fencing import TransactionFencer
from k2ktui.replication.fencing_errors import Superseded, layout_changed

_T = TypeVar("_T")
_AGAIN_S = 0.2


class SlotFencer(TransactionFencer):
    """Takes over one shared slot, unless the layout is another one.

    Args:
        layout: id of the layout that the slot belongs to.
        limit: entered while epochs are bumped; bounds how many slots are fenced at the same time.
        target, options, settings: as for TransactionFencer; the topic's ``shared_slot`` is the
            slot.

    Attributes:
        pipeline_run: the pipeline's run record, with the layout, as of the last takeover.
    """

    def __init__(
        self,
        target: Any,
        options: Any,
        *,
        layout: str,
        limit: AbstractContextManager[object],
        **settings: Any,
    ) -> None:
        super().__init__(target, options, **settings)
        self._layout_id, self._limit = layout, limit
        self.pipeline_run = Run(0, 0)

    def fence(self) -> None:
        """Fence the run that has the slot, and take nothing over.

        Another run that takes it over at the same time finds that the layout has changed.

        Raises:
            TimedOut: other runs take it over each time.
            TransactionUnfinished, ConnectionFailed, Refused: as ``take_over``.
        """
        self._fence_and(lambda: None)

    def fence_and_read(self) -> dict[str, tuple[int, int]]:
        """Fence the run that has the slot; return producer id and epoch of its transactional ids.

        Raises:
            TimedOut, TransactionUnfinished, ConnectionFailed, Refused: as ``fence``.
        """
        return self._fence_and(lambda: self._run(lambda: self._epochs.read_states(self._renew_s)))

    def _fence_and(self, then: Callable[[], _T]) -> _T:
        self._connect()
        until = monotonic() + self._sync_timeout
        while True:
            try:
                self._fence_others(1)
                return then()
            except Superseded:
                if monotonic() > until:
                    raise _never_fenced(self._name, self.topic.shared_slot) from None
            sleep(_AGAIN_S)

    def _try_to_fence_others(self, slots: int) -> None:
        """Bump the epochs; what follows waits until transactions of other slots have ended."""
        with self._limit:
            super()._try_to_fence_others(slots)

    def _recorded_pair(self, state: CommitState) -> ClusterPair:
        """Return that of the pipeline: the slot's own last run may be of before a restore."""
        return self.pipeline_run.pair

    def _check(self) -> None:
        """Give the slot up unless the newest run record has its layout, ready for use.

        The record counts even if it is not committed yet: the driver that writes it bumps the lock
        of this slot later than this run did, or has bumped it before, which fences this run.
        """
        topic = replace(self.topic, shared_slot=None)
        runs = commit_state.read_written_runs(self._target, topic, self._sync_timeout)
        newest = commit_state.find_newest(runs)
        layout = newest.layout
        if layout is None or not layout.ready or layout.id != self._layout_id:
            raise layout_changed(self._name)
        self.pipeline_run = newest


def _never_fenced(pipeline: str, slot: int | None) -> TimedOut:
    return TimedOut(
        f"slot {slot} of pipeline {pipeline} could not be fenced: other runs take it each time",
        unchanged="No position was changed.",
        hint="Start it again; if it happens again, stop the other runs of the pipeline first.",
    )
