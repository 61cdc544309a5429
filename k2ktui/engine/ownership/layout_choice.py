"""Whether the leader of the runs that share a pipeline divides it into slots, and when.

It rests on the run records that were written, also by transactions that are open or aborted, and on
heartbeats; no clocks are compared. A wrong choice costs a takeover of all slots, never a record
(docs/internals/ownership.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

from k2ktui.engine.moves.journal import Runner
from k2ktui.engine.ownership.standby import StandbyTurn
from k2ktui.engine.records.editions import UNKNOWN_EDITION, Edition
from k2ktui.engine.records.run_record import Run, SharedLayout


class LayoutChoice:
    """Chooses what one run does while it leads; not thread-safe.

    Args:
        own: its runner id.
        slots: number of slots that its file asks for; None for any.
        grace_s: seconds of silence after which a run counts as gone. For this time, the leader does
            not interfere with a run that has begun to divide the pipeline or copies it alone.
        beat_s: seconds between two heartbeats.
    """

    def __init__(self, own: str, slots: int | None, grace_s: float, beat_s: float) -> None:
        self._own, self._slots = own, slots
        self._grace_s, self._beat_s = grace_s, beat_s
        self._turn: StandbyTurn | None = None
        self._waits_for: Run | None = None
        self._own_layouts: set[str] = set()
        self._has_shared = self._is_turn = False

    @property
    def ahead(self) -> tuple[Runner, ...]:
        """The runs that copy the pipeline alone, for which it waits."""
        return self._turn.ahead if self._turn is not None else ()

    @property
    def needs_runs(self) -> bool:
        """Whether the run records have to be read: no other run copies the pipeline alone."""
        waits_for = self._waits_for
        return waits_for is None or waits_for.layout is not None or self._is_turn

    def begin_to_lead(self) -> None:
        """Forget the wait of its previous leadership: another run has led since.

        That run may have divided the pipeline, and the runs that it fenced have ended or share it.
        """
        self._stop_waiting()

    def observe(
        self,
        runners: Iterable[Runner],
        members: Collection[str],
        now: float,
        ended: Collection[str] = (),
    ) -> None:
        """Take the newest heartbeats.

        Args:
            runners: the newest heartbeat of each run of the pipeline.
            members: the runs that share it, also those that are silent or gone.
            now: monotonic seconds.
            ended: runs whose processes have ended.
        """
        turn = self._turn
        self._is_turn = turn is not None and turn.observe(runners, now, members, ended)

    def choose(
        self,
        newest: Run,
        committed: SharedLayout | None,
        outdated: str = "",
        edition: Edition = UNKNOWN_EDITION,
    ) -> Literal["use", "wait", "divide"]:
        """Return what to do with the newest layout: use it, wait, or divide the pipeline again.

        Args:
            newest: the pipeline's newest run record, committed or not; of term 0 if there is none.
            committed: the layout of its newest committed one.
            outdated: id of a layout whose slots runs no longer take over. Its run record may become
                the newest again: compaction removes an aborted record that followed it.
            edition: the edition by which the runs copy; unknown if the layout's edition does not
                count. A layout of a newer edition is left alone for the grace window: one of its
                runs may come back.
        """
        layout = newest.layout
        is_usable = layout is not None and layout.ready and layout.id != outdated
        if layout is not None and is_usable and layout == committed:
            self._has_shared = True
            made_for = layout.edition
            if edition.digest in ("", made_for.digest):
                self._stop_waiting()
                return "use" if self._slots in (None, layout.slots) else "divide"
            if made_for.number < edition.number:
                self._stop_waiting()
                return "divide"
        if self._is_turn and newest == self._waits_for:
            self._stop_waiting()
            return "divide"
        if newest != self._waits_for:
            quiet_s = self._grace_s if self._is_of_another(newest) else 0.0
            self._turn = StandbyTurn(self._own, self._grace_s, self._beat_s, quiet_s)
            self._waits_for, self._is_turn = newest, False
        return "wait"

    def begin(self, layout: SharedLayout | None) -> None:
        """Note a layout that this run has written, to divide again at once if that failed."""
        if layout is not None:
            self._own_layouts.add(layout.id)
            self._has_shared = True

    def _is_of_another(self, newest: Run) -> bool:
        """Return whether another run may be at work on what follows the record."""
        if newest.layout is None:
            return self._has_shared
        return newest.layout.id not in self._own_layouts

    def _stop_waiting(self) -> None:
        self._turn, self._waits_for, self._is_turn = None, None, False
