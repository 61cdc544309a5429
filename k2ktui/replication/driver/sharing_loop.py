"""Membership loop: once a second, read the group state, lead if elected, change slots, report.

It runs more often until the run has its first slots, as this may be the only run.

``docs/internals/ownership.md`` has the rules.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from time import monotonic

from k2ktui.engine.ownership.slot_sharing import SharingView
from k2ktui.errors import REFUSALS, ConfigError, K2kError, NotInstalled, Refused
from k2ktui.replication.copying.failpoints import failpoint
from k2ktui.replication.driver.held_slots import HeldSlots
from k2ktui.replication.fencing_errors import other_name
from k2ktui.replication.ownership.sharing_member import SharingMember
from k2ktui.replication.reports.events import Event, Note, SlotsAssigned, Trouble, Waiting
from k2ktui.replication.reports.notes import ThrottledNotifier
from k2ktui.replication.reports.stopped import RETRY_S
from k2ktui.runtime.stop_flag import StopFlag
from k2ktui.text import counted, safe_text

_LOOK_S = 1.0
_CAUGHT_UP_S = 0.1  # how often a run asks that ends when all have caught up
# A look without news costs two requests; a start needs about five looks, one after the other.
_FIRST_LOOKS_S, _FIRST_LOOK_S = 5.0, 0.05
_SHOWN_SLOTS = 20
_SHOWN_RUNS = 5
# Another attempt does not change these. Others pass: a broker that restarts reports many.
_LASTING = (Refused, ConfigError, NotInstalled)
_LOOKING = "reading the assignment topic"
_LEADING = "dividing the slots"
_REPORTING = "writing to the assignment topic"
_FILE = "pipeline file"


class SharingLoop:
    """One run's loop; it can run once.

    Args:
        member: the run.
        slots: its slots.
        report: called with notes, and with ``SlotsAssigned`` in each generation of owners.
        clock: monotonic seconds.
        have_caught_up: returns whether all runs have caught up, and this one ends; None for a run
            that ends only by request.

    Attributes:
        leads: whether this run led at its last look.
        has_caught_up: whether it has ended because all runs have caught up.
    """

    def __init__(
        self,
        member: SharingMember,
        slots: HeldSlots,
        report: Callable[[Event], None],
        clock: Callable[[], float] = monotonic,
        have_caught_up: Callable[[], bool] | None = None,
    ) -> None:
        self._member, self._slots, self._report = member, slots, report
        self._clock, self._have_caught_up = clock, have_caught_up
        self._notifier = ThrottledNotifier(report)
        self.leads = self.has_caught_up = False
        self._shown: tuple[frozenset[int], int] | None = None
        self._generation = 0
        self._file = ""
        self._has_copied = self._is_refused = False

    def run(self, stopping: StopFlag) -> None:
        """Share the pipeline until stopped, or until all runs have caught up.

        Raises:
            Exception: what the driver of a slot, or the search for the layout, cannot repeat.
        """
        starts_until = self._clock() + _FIRST_LOOKS_S
        try:
            self._write_record()
            while not self._is_over(stopping):
                if not self.look():
                    is_starting = not self._slots.holds and self._clock() < starts_until
                    pause_s = _FIRST_LOOK_S if is_starting else _LOOK_S
                    self._wait(stopping, RETRY_S if self._is_refused else pause_s)
        finally:
            self._slots.close()
            with suppress(K2kError):  # the others wait for the grace window then
                self._member.leave()

    def _is_over(self, stopping: StopFlag) -> bool:
        if stopping.is_set():
            return True
        if self._have_caught_up is not None and not self.has_caught_up:
            self.has_caught_up = self._have_caught_up()
        return self.has_caught_up

    def _wait(self, stopping: StopFlag, seconds: float) -> None:
        """Wait so many seconds, or until the run has to end."""
        if self._have_caught_up is None:
            stopping.wait(seconds)
            return
        until = monotonic() + seconds
        while not self._is_over(stopping) and (rest_s := until - monotonic()) > 0:
            stopping.wait(min(rest_s, _CAUGHT_UP_S))

    def look(self) -> bool:
        """Look once; return whether to look again at once, as this run has written owners."""
        self._has_copied = self._has_copied or bool(self._slots.holds)
        self._is_refused = False
        try:
            view = self._member.look()
        except K2kError as error:
            self._raise_lasting(error)
            # Slots are taken over only by owners that were just read.
            self.leads = False
            self._notifier.report(_LOOKING, error.message, lasts=self._is_refused)
            self._write_record()
            return False
        self._notifier.over(_LOOKING)
        self._refuse_other_name(view)
        self.leads = view.is_leader
        has_written = self._lead(view)
        self._slots.apply(self._member.owners)
        self._write_record()
        self._show(view)
        self._show_file(view)
        return has_written

    def _refuse_other_name(self, view: SharingView) -> None:
        """End the run if another pipeline has the same commit group: one of the two copies."""
        own, group = self._member.pipeline, self._member.group
        if own and view.pipeline and own != view.pipeline:
            raise other_name(own, view.pipeline, group)

    def _lead(self, view: SharingView) -> bool:
        """Write owners if this run is the leader and they have to change."""
        try:
            owners = self._member.choose_owners(view)
            if owners is not None:
                failpoint("reassigning")
                self._member.write_owners(owners)
                failpoint("reassigned")
            self._member.remove_silent(view)
        except K2kError as error:
            self._raise_lasting(error)
            self._notifier.report(_LEADING, error.message, lasts=self._is_refused)
            return False
        self._notifier.over(_LEADING)
        return owners is not None

    def _write_record(self) -> None:
        try:
            self._member.report(self._slots.holds, self._slots.outdated)
        except K2kError as error:
            self._raise_lasting(error)
            self._notifier.report(_REPORTING, error.message, lasts=self._is_refused)
        else:
            self._notifier.over(_REPORTING)

    def _raise_lasting(self, error: K2kError) -> None:
        """Raise what another attempt does not change; a refusal only before this run has copied."""
        self._is_refused = isinstance(error, REFUSALS)
        if self._is_refused and self._has_copied:
            return
        if isinstance(error, _LASTING) or self._is_refused:
            raise error

    def _show(self, view: SharingView) -> None:
        """Report which slots this run owns, or which runs own all of them, when that changes."""
        owners = self._member.owners
        own = owners.of(self._member.own)
        if owners.generation != self._generation:
            self._generation = owners.generation
            self._report(SlotsAssigned(owners.generation, tuple(sorted(own))))
        if not owners.slots or self._shown == (own, owners.slots):
            return
        self._shown = own, owners.slots
        if not own:
            self._report(Waiting(", ".join(sorted(set(owners.owners.values()))[:_SHOWN_RUNS])))
            return
        shown = ", ".join(map(str, sorted(own)[:_SHOWN_SLOTS]))
        more = ", …" if len(own) > _SHOWN_SLOTS else ""
        runs, leads = counted(len(view.sharing), "run"), "; it leads" if view.is_leader else ""
        self._report(
            Note(
                f"shared by {runs}: this one owns {len(own)} of {owners.slots} slots: "
                f"{shown}{more}{leads}"
            )
        )

    def _show_file(self, view: SharingView) -> None:
        """Report that this run's pipeline file is not the newest one, and what it does."""
        text, own = "", view.own_edition
        if view.edition.digest and view.edition.digest != own.digest:
            copying = ", ".join(map(safe_text, view.sharing[:_SHOWN_RUNS]))
            text = (
                f"it differs from that of the runs that copy ({copying}), and is older: this run "
                f"waits (edition {own.number}, they have {view.edition.number}). Give this host "
                "the newer file and restart the run, or go back to this one with --take-over"
            )
        elif view.edition.digest and own.number < view.newest:
            text = (
                f"it is not the newest one (edition {own.number} of {view.newest}), and no run "
                "with a newer one lives: this run copies by the older file. Give this host the "
                "newer file and restart the run, or keep this one with --take-over"
            )
        if text != self._file:
            self._file = text
            self._report(Note(f"{_FILE}: {text or 'it is the newest one again'}"))
            self._report(Trouble(_FILE, f"{_FILE}: {text}" if text else "", blocks=False))
