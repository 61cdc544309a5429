"""Whether all runs that share a pipeline have reached the ends that one saw at its start."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from k2ktui.engine.slot_owners import SlotOwners, shared_slot_of
from k2ktui.engine.state import Position, SourcePartition
from k2ktui.errors import TimedOut
from k2ktui.replication.event_text import report_text
from k2ktui.replication.events import Event, Note, Trouble
from k2ktui.replication.shared_ends import PipelineEnds, SharedEnds
from k2ktui.replication.slot_task import Fault, FaultKind
from tests.support.kafka import eventually

SLOTS = 4
PARTITIONS = [SourcePartition("t", number) for number in range(SLOTS)]


class Ends:
    """The run ``a``, which waits until all partitions have reached offset 10."""

    def __init__(self, **more: Any) -> None:
        self.now, self.reads = 0.0, 0
        self.found: dict[SourcePartition, int] = {}
        self.error: Exception | None = None
        self.notes: list[str] = []
        self.may_read = threading.Event()
        self.may_read.set()
        self.topic_ids: dict[SourcePartition, str] = {}
        found = PipelineEnds(dict.fromkeys(PARTITIONS, 10), **more)
        self.ends = SharedEnds(found, self._read, self._report, lambda: self.now)

    def _read(self) -> Mapping[SourcePartition, Position]:
        assert self.may_read.wait(30)
        self.reads += 1
        if self.error is not None:
            raise self.error
        return {
            each: Position(offset, 0, -1, self.topic_ids.get(each, ""), 1, 0, "t", each.partition)
            for each, offset in self.found.items()
        }

    def _report(self, event: Event) -> None:
        if isinstance(event, Note):
            self.notes.append(report_text(event))
        else:
            assert isinstance(event, Trouble)

    def ask(self, owners: SlotOwners, *reached: int) -> bool:
        return self.ends.are_reached("a", owners, frozenset(reached))

    def ask_again(self, owners: SlotOwners, *reached: int) -> bool:
        """Ask until what was read since has been looked at."""
        self.now += 60.0
        before = self.reads
        is_reached = self.ask(owners, *reached)
        eventually(lambda: is_reached or self.reads > before, "read", 10)
        for _ in range(100):
            is_reached = is_reached or self.ask(owners, *reached)
            threading.Event().wait(0.001)
        return is_reached


@pytest.fixture
def ends() -> Iterator[Ends]:
    found = Ends()
    yield found
    found.may_read.set()
    found.ends.close()


def owned(*slots: int) -> SlotOwners:
    owners = {slot: "a" if slot in slots else "b" for slot in range(SLOTS)}
    return SlotOwners(1, "b", "l", owners)


def in_slots(*slots: int) -> list[SourcePartition]:
    return [each for each in PARTITIONS if shared_slot_of(each, SLOTS) in slots]


def test_a_run_alone_ends_when_its_slots_have_reached_their_ends(ends: Ends) -> None:
    """The commit topic is not read: its drivers know, also of partitions that have stopped."""
    everything = owned(0, 1, 2, 3)
    assert not ends.ask(SlotOwners(0, ""))
    assert not ends.ask(everything) and not ends.ask(everything, 0, 1, 3)
    assert ends.ask(everything, 0, 1, 2, 3)
    assert not ends.reads


def test_a_run_waits_for_the_slots_of_others(ends: Ends) -> None:
    """Until their positions are committed, of every partition."""
    others = in_slots(1, 3)
    assert not ends.ask_again(owned(0, 2), 0, 2)
    ends.found = dict.fromkeys(others, 9)
    assert not ends.ask_again(owned(0, 2), 0, 2)
    assert ends.notes and all(str(min(others)) in note for note in ends.notes)
    ends.found[others[0]] = 10
    assert not ends.ask_again(owned(0, 2), 0, 2)
    ends.found = dict.fromkeys(others, 11)
    assert not ends.ask(owned(0, 2), 0), "its own slot comes first"
    assert ends.ask_again(owned(0, 2), 0, 2)


def test_a_run_without_a_slot_waits_for_all(ends: Ends) -> None:
    """Also for slots that are being released, and for those of a run that is gone."""
    moving = SlotOwners(2, "b", "l", {0: "b", 1: "b", 2: "b"}, {3: "b"})
    ends.found = dict.fromkeys(in_slots(0, 1, 2), 10)
    assert not ends.ask_again(moving)
    ends.found = dict.fromkeys(PARTITIONS, 10)
    assert ends.ask_again(moving)


def test_a_slot_that_it_has_copied_and_given_away_is_not_awaited(ends: Ends) -> None:
    ends.found = dict.fromkeys(in_slots(0, 1, 3), 10)
    assert ends.ask_again(owned(0), 0, 2)


def test_it_does_not_wait_for_the_target(ends: Ends) -> None:
    """What was read when it answers counts; a failure is reported, and it reads again."""
    ends.found = dict.fromkeys(PARTITIONS, 10)
    ends.may_read.clear()
    for _ in range(5):
        ends.now += 60.0
        assert not ends.ask(owned())
    ends.error = TimedOut("no answer")
    ends.may_read.set()
    assert not ends.ask_again(owned())
    assert ends.notes == ["note: waiting for other runs to catch up: no answer"]
    ends.error = None
    assert ends.ask_again(owned())


def test_a_position_in_a_topic_that_was_created_again_says_nothing() -> None:
    """It stands far behind the end of the new topic, of which nothing was copied."""
    one = PARTITIONS[2]
    ends = Ends(recreated={one: "new"})
    ends.found, ends.topic_ids = dict.fromkeys(PARTITIONS, 1000), {one: "old"}
    assert not ends.ask_again(owned())
    assert str(one) in ends.notes[-1]
    ends.topic_ids[one] = "new"
    assert ends.ask_again(owned())
    ends.ends.close()


def test_partitions_at_fault_are_not_awaited_and_are_known_at_the_end() -> None:
    """Unless this run has copied their slot: its driver knows better."""
    faults = tuple(
        Fault(source, FaultKind.GONE, "gone", "")
        for source in (PARTITIONS[1], SourcePartition("missing", 0))
    )
    for reached in ((), (shared_slot_of(PARTITIONS[1], SLOTS),)):
        ends = Ends(faults=faults)
        ends.found = {each: 10 for each in PARTITIONS if each != PARTITIONS[1]}
        assert ends.ask_again(owned(*reached), *reached)
        expected = tuple(
            fault for fault in faults if shared_slot_of(fault.source, SLOTS) not in reached
        )
        assert ends.ends.left_faults == expected
        ends.ends.close()
