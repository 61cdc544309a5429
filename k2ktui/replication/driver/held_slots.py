"""The slots that one run holds of a pipeline that several runs share (docs/internals/ownership.md).

Each slot has its own driver on its own thread. The driver takes the slot over as it would a
pipeline, and copies until it is stopped or fenced. The run reports a slot as released only when its
driver has ended. A driver that does not end is abandoned after a time-out, and the slot's next
owner fences it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from time import monotonic

from k2ktui.engine.ownership.slot_owners import SlotOwners
from k2ktui.engine.records.run_record import LARGEST_SHARED_SLOTS
from k2ktui.errors import REFUSALS, ConnectionFailed, K2kError, TimedOut
from k2ktui.replication.driver.slot_driver import SlotDriver
from k2ktui.replication.fencing_errors import LayoutChanged, Superseded, UnreadableRecords
from k2ktui.replication.reports.events import Event, Note
from k2ktui.replication.reports.notes import ThrottledNotifier
from k2ktui.replication.reports.stopped import RETRY_S
from k2ktui.replication.slots import LONGEST_PAUSE_S, pause_s
from k2ktui.text import duration

log = logging.getLogger(__name__)

# These errors only delay a slot. Every run refused unreadable records at its start, so records that
# appear later concern only the slot that is taken over next.
_PASSING = (ConnectionFailed, TimedOut, UnreadableRecords)


@dataclass(slots=True, eq=False)
class _HeldSlot:
    """A slot whose driver has not ended.

    ``stopping_since`` and ``works_since`` are in monotonic seconds.
    """

    layout: str
    driver: SlotDriver
    ended: Future[None]
    stopping_since: float | None = None
    works_since: float | None = None

    @property
    def has_reached(self) -> bool:
        """Whether its driver has ended by itself."""
        return self.stopping_since is None and self.ended.done() and self.ended.exception() is None


@dataclass(slots=True)
class _Failures:
    """Consecutive failures of a slot's drivers; ``not_before`` is in monotonic seconds."""

    number: int = 0
    not_before: float = 0.0


class HeldSlots:
    """Starts and ends the drivers of the slots that a run owns; not thread-safe.

    Args:
        own: id of this run.
        make_driver: returns the driver of a slot of a layout.
        report: called with notes.
        release_s: seconds after which a driver that was stopped and has not ended is abandoned.
        clock: monotonic seconds.

    Attributes:
        outdated: id of a layout that is no longer the pipeline's, "" if none was found.
    """

    def __init__(
        self,
        own: str,
        make_driver: Callable[[int, str], SlotDriver],
        report: Callable[[Event], None],
        release_s: float,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._own, self._make_driver, self._clock = own, make_driver, clock
        self._release_s = release_s
        self._report, self._notifier = report, ThrottledNotifier(report, clock)
        self._threads = ThreadPoolExecutor(LARGEST_SHARED_SLOTS, thread_name_prefix="slot")
        self._held: dict[int, _HeldSlot] = {}
        self._abandoned: list[Future[None]] = []
        self._failures: dict[int, _Failures] = {}
        self._reached: dict[int, str] = {}
        self._has_copied = False
        self.outdated = ""

    @property
    def holds(self) -> frozenset[int]:
        """The slots that this run has not released."""
        return frozenset(slot for slot, held in self._held.items() if not held.ended.done())

    def find_reached(self, layout: str) -> frozenset[int]:
        """Return the slots of a layout whose drivers have caught up, in a run that ends then."""
        ended = {s: h.layout for s, h in self._held.items() if h.has_reached}
        return frozenset(
            s for s, layout_of_slot in (self._reached | ended).items() if layout_of_slot == layout
        )

    def apply(self, owners: SlotOwners) -> None:
        """Take over what this run owns, release the rest, and start again what has failed.

        Call it with owners that were read just before: a run that another one has fenced takes the
        slot over again only if it still owns it.

        Raises:
            Exception: a driver failed for a reason that another attempt does not change.
        """
        self._collect()
        self._note_recovered()
        self._abandon_stuck()
        owned = owners.of(self._own) if owners.layout != self.outdated else frozenset()
        owned -= self.find_reached(owners.layout)
        for slot, held in self._held.items():
            is_running = held.stopping_since is None
            if is_running and (slot not in owned or held.layout != owners.layout):
                log.info("slot %d: releasing it", slot)
                held.stopping_since = self._clock()
                held.driver.stop()
        for slot in self._failures.keys() - owned:
            self._forget(slot)
        for slot in sorted(owned - self._held.keys()):
            failures = self._failures.get(slot)
            if failures is None or self._clock() >= failures.not_before:
                log.info("slot %d: taking it over, layout %s", slot, owners.layout)
                driver = self._make_driver(slot, owners.layout)
                ended = self._threads.submit(driver.run)
                self._held[slot] = _HeldSlot(owners.layout, driver, ended)

    def close(self) -> None:
        """Stop all drivers and wait until they have ended; their errors no longer matter.

        Those that do not end in time are left behind, as those that were abandoned before: the next
        owners of their slots fence them, and this run must end.
        """
        drivers = [held.ended for held in self._held.values()]
        for held in self._held.values():
            held.driver.stop()
        wait([*drivers, *self._abandoned], timeout=self._release_s)
        for slot, held in self._held.items():
            if not held.ended.done():
                self._abandon(slot, held)
        self._held.clear()
        has_stuck = not all(ended.done() for ended in self._abandoned)
        self._threads.shutdown(wait=not has_stuck)

    def _collect(self) -> None:
        """Note which drivers have ended, and why."""
        for slot, held in list(self._held.items()):
            if not held.ended.done():
                continue
            del self._held[slot]
            self._has_copied = self._has_copied or held.driver.has_started
            error, others = held.ended.exception(), self._held.values()
            if isinstance(error, LayoutChanged):
                self.outdated = held.layout
            elif isinstance(error, Superseded):
                self._report(Note(f"slot {slot}: another run has taken it over"))
                self._back_off(slot)
            elif isinstance(error, REFUSALS):
                if not (self._has_copied or any(h.driver.has_started for h in others)):
                    raise error
                self._notifier.report(_subject(slot), error.message, lasts=True)
                self._back_off(slot, RETRY_S)
            elif isinstance(error, _PASSING) or type(error) is K2kError:
                self._notifier.report(_subject(slot), error.message)
                self._back_off(slot)
            elif error is not None:
                raise error
            else:
                if held.has_reached:
                    self._reached[slot] = held.layout
                    self._notifier.over(_subject(slot), always=True)
                self._forget(slot)

    def _note_recovered(self) -> None:
        """Report slots that were taken over after failures; forget these once it has lasted.

        Runs that take a slot from each other in turn pause longer each time.
        """
        for slot in self._failures.keys() & self._held.keys():
            held = self._held[slot]
            if not held.driver.has_started:
                continue
            if held.works_since is None:
                held.works_since = self._clock()
                self._notifier.over(_subject(slot), always=True)
            elif self._clock() - held.works_since >= LONGEST_PAUSE_S:
                del self._failures[slot]

    def _abandon_stuck(self) -> None:
        """Release the slots whose drivers have not ended for too long."""
        for slot, held in list(self._held.items()):
            since = held.stopping_since
            if since is not None and self._clock() - since >= self._release_s:
                del self._held[slot]
                self._abandon(slot, held)

    def _abandon(self, slot: int, held: _HeldSlot) -> None:
        log.warning("slot %d: driver did not stop, abandoning it", slot)
        self._abandoned.append(held.ended)
        held.driver.abandon()
        limit = duration(self._release_s)
        text = f"slot {slot}: driver did not stop within {limit}; the next owner will fence it"
        self._report(Note(text))

    def _back_off(self, slot: int, least_s: float = 0.0) -> None:
        failures = self._failures.setdefault(slot, _Failures())
        failures.number += 1
        log.info("slot %d: driver failed %d times", slot, failures.number)
        # A takeover costs more requests than a lap, so it begins with a longer pause.
        seconds = max(least_s, pause_s(failures.number + 1))
        failures.not_before = self._clock() + seconds

    def _forget(self, slot: int) -> None:
        """Forget failures of a slot that this run no longer copies, whether or not they ended."""
        self._failures.pop(slot, None)
        self._notifier.forget(_subject(slot))


def _subject(slot: int) -> str:
    return f"slot {slot}"
