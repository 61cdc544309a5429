"""The drivers of the slots that a run holds: which run, which have ended, and what follows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from k2ktui.engine.ownership.slot_owners import SlotOwners
from k2ktui.errors import ClusterRefused, ConnectionFailed, K2kError, LoginFailed, Refused, TimedOut
from k2ktui.replication.driver.held_slots import HeldSlots
from k2ktui.replication.fencing_errors import UnreadableRecords, layout_changed, superseded
from k2ktui.replication.reports.events import Event, Note, Trouble, report_text
from tests.support.clusters.kafka import TIMEOUT, eventually

RELEASE_S = 45.0


@dataclass
class TestDriver:
    """A driver that copies nothing, until the test ends it."""

    __test__ = False

    slot: int
    layout: str
    stopped: threading.Event = field(default_factory=threading.Event)
    abandoned: threading.Event = field(default_factory=threading.Event)
    may_end: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None
    has_started: bool = False

    def run(self) -> None:
        assert self.may_end.wait(2 * TIMEOUT)  # longer than the test waits
        if self.error is not None:
            raise self.error

    def stop(self) -> None:
        self.stopped.set()

    def abandon(self) -> None:
        self.abandoned.set()

    def end(self, error: Exception | None = None) -> None:
        self.error = error
        self.may_end.set()


class Held:
    """A run's slots, its drivers, and time."""

    def __init__(self, release_s: float = RELEASE_S) -> None:
        self.drivers: list[TestDriver] = []
        self.notes: list[str] = []
        self.now = 0.0
        self.slots = HeldSlots("a", self._make, self._report, release_s, lambda: self.now)

    def _make(self, slot: int, layout: str) -> Any:
        self.drivers.append(TestDriver(slot, layout))
        return self.drivers[-1]

    def _report(self, event: Event) -> None:
        if isinstance(event, Trouble):
            return
        assert isinstance(event, Note)
        self.notes.append(report_text(event))

    def apply(self, *slots: int, layout: str = "l", of: int = 4) -> None:
        owners = {slot: "a" if slot in slots else "b" for slot in range(of)}
        self.slots.apply(SlotOwners(1, "b", layout, owners))

    def end(self, driver: TestDriver, error: Exception | None = None) -> None:
        """Let a driver end; return when its thread has ended."""
        driver.end(error)
        eventually(lambda: driver.slot not in self.slots.holds, "its thread has ended")

    @property
    def started(self) -> list[int]:
        return [driver.slot for driver in self.drivers]


@pytest.fixture
def held() -> Iterator[Held]:
    held = Held()
    yield held
    for driver in held.drivers:
        driver.end()
    held.slots.close()


def test_each_slot_that_it_owns_has_one_driver(held: Held) -> None:
    held.apply(0, 2)
    held.apply(0, 2)
    assert held.started == [0, 2] and held.slots.holds == {0, 2}


def test_a_slot_is_held_until_its_driver_has_ended(held: Held) -> None:
    """It stops once, and is not started again in between, even if the run owns it again."""
    held.apply(0, 1)
    held.apply(1)
    first, other = held.drivers
    assert first.stopped.is_set() and not other.stopped.is_set()
    assert held.slots.holds == {0, 1}
    held.apply(0, 1)
    assert held.started == [0, 1]
    held.end(first)
    held.apply(1)
    assert held.slots.holds == {1}
    held.apply(0, 1)
    assert held.started == [0, 1, 0]


def test_a_driver_that_does_not_end_is_abandoned(held: Held) -> None:
    """Its slot is released: the next owner fences it, which may be this run."""
    held.apply(0, 1)
    held.now += 1000
    held.apply(1)
    stuck, other = held.drivers
    held.now += RELEASE_S - 1
    held.apply(1)
    assert held.slots.holds == {0, 1} and not stuck.abandoned.is_set()
    held.now += 1
    held.apply(1)
    assert held.slots.holds == {1} and stuck.abandoned.is_set() and not other.stopped.is_set()
    assert held.notes == [
        "note: slot 0: driver did not stop within 45 s; the next owner will fence it"
    ]
    held.apply(0, 1)
    assert held.started == [0, 1, 0] and held.slots.holds == {0, 1}
    stuck.end(Refused("a drill has fenced it"))
    held.apply(0, 1)
    assert held.started == [0, 1, 0] and held.slots.holds == {0, 1}
    assert not held.slots.find_reached("l")


def test_a_slot_that_this_run_owns_again_gets_another_driver_if_its_last_one_does_not_end(
    held: Held,
) -> None:
    """For example, the run that was to get it has ended."""
    held.apply(0)
    held.apply()
    held.apply(0)
    held.now += RELEASE_S
    held.apply(0)
    stuck, again = held.drivers
    assert stuck.abandoned.is_set() and held.slots.holds == {0}
    held.end(again)


def test_closing_waits_for_abandoned_drivers(held: Held) -> None:
    """They may still write until they are fenced; as long as for the others."""
    held.apply(0)
    held.apply()
    held.now += RELEASE_S
    held.apply()
    assert not held.slots.holds
    closing = threading.Thread(target=held.slots.close)
    closing.start()
    closing.join(0.3)
    assert closing.is_alive()
    held.drivers[0].end()
    closing.join(TIMEOUT)
    assert not closing.is_alive()


def test_closing_ends_although_a_driver_does_not() -> None:
    """A thread that waits for Spark for ever; the slot's next owner fences it."""
    held = Held(release_s=0.3)
    held.apply(0, 1)
    abandoned, stuck = held.drivers
    held.apply(1)
    held.now += 1
    held.apply(1)
    assert abandoned.abandoned.is_set() and not stuck.stopped.is_set()
    closing = threading.Thread(target=held.slots.close, daemon=True)
    closing.start()
    closing.join(TIMEOUT)
    assert not closing.is_alive() and stuck.stopped.is_set() and stuck.abandoned.is_set()
    assert len(held.notes) == 2
    for driver in held.drivers:
        driver.end()


def test_a_slot_that_another_run_took_is_taken_again_only_if_it_is_still_owned(held: Held) -> None:
    held.apply(0, 1)
    for driver in held.drivers:
        held.end(driver, superseded("orders"))
    for _ in range(2):
        held.apply(1)
        held.now += 1
    assert held.started == [0, 1, 1] and held.slots.holds == {1}
    assert held.notes == [
        "note: slot 0: another run has taken it over",
        "note: slot 1: another run has taken it over",
    ]


def test_a_driver_that_failed_is_started_again_after_a_pause_that_grows(held: Held) -> None:
    held.apply(0)
    for pause_s in (0.5, 1.0, 2.0, 5.0, 5.0):
        held.end(held.drivers[-1], ConnectionFailed("no answer"))
        held.apply(0)
        assert not held.slots.holds
        held.now += pause_s - 0.1
        held.apply(0)
        assert not held.slots.holds
        held.now += 0.2
        held.apply(0)
        assert held.slots.holds == {0}
    assert held.notes[0] == "note: slot 0: no answer"


def test_a_slot_that_is_taken_over_at_last_has_recovered(held: Held) -> None:
    """It is reported then, and not when the slot moves to another run days later."""
    held.apply(0)
    held.end(held.drivers[-1], TimedOut("the takeover took too long"))
    held.apply(0)
    held.now += 3
    held.apply(0)
    assert held.notes == ["note: slot 0: the takeover took too long"]
    held.drivers[-1].has_started = True
    for _ in range(3):
        held.apply(0)
    expected = ["note: slot 0: the takeover took too long", "note: slot 0: recovered after 3.0 s"]
    assert held.notes == expected
    held.now += 3 * 86_400
    held.apply()
    held.end(held.drivers[-1])
    held.apply()
    assert held.notes == expected


def test_a_slot_that_moves_before_it_was_taken_over_has_not_recovered(held: Held) -> None:
    held.apply(0)
    held.end(held.drivers[-1], TimedOut("the takeover took too long"))
    held.apply(0)
    held.now += 60
    held.apply()
    assert held.notes == ["note: slot 0: the takeover took too long"]


@pytest.mark.parametrize(("works_s", "pause_s"), [(4.0, 2.0), (5.0, 0.5)])
def test_pauses_are_short_again_once_a_driver_has_worked_for_a_while(
    held: Held, works_s: float, pause_s: float
) -> None:
    """Runs that take a slot from each other at once still pause longer each time."""
    held.apply(0)
    for _ in range(2):
        held.end(held.drivers[-1], superseded("orders"))
        held.apply(0)
        held.now += 1
        held.apply(0)
    assert held.slots.holds == {0}
    held.drivers[-1].has_started = True
    held.apply(0)
    held.now += works_s
    held.apply(0)
    held.end(held.drivers[-1], superseded("orders"))
    held.apply(0)
    held.now += pause_s - 0.1
    held.apply(0)
    assert not held.slots.holds
    held.now += 0.2
    held.apply(0)
    assert held.slots.holds == {0}


def test_no_slot_of_an_outdated_layout_is_taken_again(held: Held) -> None:
    held.apply(0, 1)
    first, second = held.drivers
    held.end(first, layout_changed("orders"))
    held.apply(0, 1)
    assert held.slots.outdated == "l" and second.stopped.is_set()
    held.end(second)
    held.apply(0, 1)
    assert not held.slots.holds and held.started == [0, 1]
    held.apply(0, layout="m")
    assert held.slots.holds == {0} and held.drivers[-1].layout == "m"


def test_a_slot_of_another_layout_is_another_slot(held: Held) -> None:
    held.apply(0)
    held.apply(0, layout="m")
    (first,) = held.drivers
    assert first.stopped.is_set()
    held.end(first)
    held.apply(0, layout="m")
    assert [driver.layout for driver in held.drivers] == ["l", "m"]


@pytest.mark.parametrize(
    "error", [UnreadableRecords("1 record cannot be read"), K2kError("no leader")]
)
def test_what_concerns_one_slot_or_passes_leaves_the_others_alone(
    held: Held, error: Exception
) -> None:
    held.apply(0, 1)
    held.end(held.drivers[0], error)
    held.apply(0, 1)
    assert held.notes == [f"note: slot 0: {error}"] and held.slots.holds == {1}
    held.now += 60.0
    held.apply(0, 1)
    assert held.started == [0, 1, 0]


@pytest.mark.parametrize("error", [Refused("a drill has fenced it"), ValueError("a defect")])
def test_what_another_attempt_does_not_change_ends_the_run(held: Held, error: Exception) -> None:
    held.apply(0)
    held.end(held.drivers[0], error)
    with pytest.raises(type(error), match=str(error)):
        held.apply(0)


def test_closing_waits_for_all_drivers(held: Held) -> None:
    held.apply(0, 1)
    closing = threading.Thread(target=held.slots.close)
    closing.start()
    for driver in held.drivers:
        assert driver.stopped.wait(TIMEOUT)
    assert closing.is_alive()
    held.drivers[0].end(ConnectionFailed("no answer"))
    held.drivers[1].end()
    closing.join(TIMEOUT)
    assert not closing.is_alive() and not held.slots.holds


def test_a_slot_that_has_caught_up_is_not_started_again_in_its_layout(held: Held) -> None:
    """Its driver has ended by itself, which it does in runs that end when all have caught up."""
    held.apply(0, 1, 2)
    first, second, third = held.drivers
    held.end(first)
    assert held.slots.find_reached("l") == {0}, "at once"
    held.apply(0, 1)
    held.end(third)
    held.end(second, ConnectionFailed("no answer"))
    held.apply(0, 1)
    assert held.slots.find_reached("l") == {0}, "others were stopped, or failed"
    held.now += 60
    held.apply(0, 1, 2)
    assert held.started == [0, 1, 2, 1, 2]
    held.apply(0, layout="m")
    assert held.started[-1] == 0 and not held.slots.find_reached("m")


@pytest.mark.parametrize("refused", [ClusterRefused("no right"), LoginFailed("no login")])
def test_a_refusal_ends_a_start(held: Held, refused: K2kError) -> None:
    held.apply(0)
    held.end(held.drivers[0], refused)
    with pytest.raises(type(refused)):
        held.apply(0)


@pytest.mark.parametrize("refused", [ClusterRefused("no right"), LoginFailed("no login")])
def test_a_refusal_in_a_run_that_has_copied_is_tried_again_after_30_seconds(
    held: Held, refused: K2kError
) -> None:
    held.apply(0, 1)
    first, other = held.drivers
    other.has_started = True
    held.end(first, refused)
    held.apply(0, 1)
    assert held.notes == [f"note: slot 0: {refused.message}"] and held.started == [0, 1]
    held.now += 29
    held.apply(0, 1)
    assert held.started == [0, 1]
    held.now += 1
    held.apply(0, 1)
    assert held.started == [0, 1, 0] and held.slots.holds == {0, 1}
