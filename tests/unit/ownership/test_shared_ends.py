"""Whether all runs that share a pipeline have reached the ends that one saw at its start."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from concurrent.futures import wait
from typing import Any

import pytest

from k2ktui.engine.deleted_logs import DeletedLog
from k2ktui.engine.ownership.slot_owners import SlotOwners, shared_slot_of
from k2ktui.engine.records.hold import NO_HOLDS, Hold, Holds
from k2ktui.engine.records.state import Position, Run, SourcePartition
from k2ktui.errors import TimedOut
from k2ktui.replication.copying.slot_task import Fault, FaultKind
from k2ktui.replication.ownership.commit_state import CommitState
from k2ktui.replication.ownership.shared_ends import SharedEnds
from k2ktui.replication.reports.events import Event, Note, Trouble, report_text
from tests.support.clusters.kafka import TIMEOUT

SLOTS = 4
PARTITIONS = [SourcePartition("t", number) for number in range(SLOTS)]


class Ends:
    """The run ``a``, which waits until all partitions have reached offset 10."""

    def __init__(self, **more: Any) -> None:
        self.now, self.reads = 0.0, 0
        self.positions: dict[SourcePartition, int] = {}
        self.error: Exception | None = None
        self.notes: list[str] = []
        self.may_read = threading.Event()
        self.may_read.set()
        self.topic_ids: dict[SourcePartition, str] = {}
        self.missing: set[str] = set()
        self.logs: dict[SourcePartition, DeletedLog] = {}
        offsets = dict.fromkeys(PARTITIONS, 10)
        self.ends = SharedEnds(
            offsets, self._read, self._find, self._report, lambda: self.now, **more
        )

    def _find(self, topics: Collection[str]) -> Collection[str]:
        return self.missing & set(topics)

    def _read(self) -> CommitState:
        assert self.may_read.wait(TIMEOUT)
        self.reads += 1
        if self.error is not None:
            raise self.error
        positions = {
            partition: Position(
                offset, 0, -1, self.topic_ids.get(partition, ""), 1, 0, "t", partition.partition
            )
            for partition, offset in self.positions.items()
        }
        return CommitState(Run(0, 0), positions, deleted=self.logs)

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
        is_reached = self.ask(owners, *reached)
        for _ in range(2):  # what was being read before comes first
            if not is_reached:
                if (reading := self.ends._reading) is not None:  # noqa: SLF001 - no other sign
                    wait([reading], TIMEOUT)
                is_reached = self.ask(owners, *reached)
        return is_reached


@pytest.fixture
def ends() -> Iterator[Ends]:
    ends = Ends()
    yield ends
    ends.may_read.set()
    ends.ends.close()


def owned(*slots: int) -> SlotOwners:
    owners = {slot: "a" if slot in slots else "b" for slot in range(SLOTS)}
    return SlotOwners(1, "b", "l", owners)


def in_slots(*slots: int) -> list[SourcePartition]:
    return [partition for partition in PARTITIONS if shared_slot_of(partition, SLOTS) in slots]


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
    ends.positions = dict.fromkeys(others, 9)
    assert not ends.ask_again(owned(0, 2), 0, 2)
    assert ends.notes and all(str(min(others)) in note for note in ends.notes)
    ends.positions[others[0]] = 10
    assert not ends.ask_again(owned(0, 2), 0, 2)
    ends.positions = dict.fromkeys(others, 11)
    assert not ends.ask(owned(0, 2), 0), "its own slot comes first"
    assert ends.ask_again(owned(0, 2), 0, 2)


def test_a_run_without_a_slot_waits_for_all(ends: Ends) -> None:
    """Also for slots that are being released, and for those of a run that is gone."""
    moving = SlotOwners(2, "b", "l", {0: "b", 1: "b", 2: "b"}, {3: "b"})
    ends.positions = dict.fromkeys(in_slots(0, 1, 2), 10)
    assert not ends.ask_again(moving)
    ends.positions = dict.fromkeys(PARTITIONS, 10)
    assert ends.ask_again(moving)


def test_a_slot_that_it_has_copied_and_given_away_is_not_awaited(ends: Ends) -> None:
    ends.positions = dict.fromkeys(in_slots(0, 1, 3), 10)
    assert ends.ask_again(owned(0), 0, 2)


def test_it_does_not_wait_for_the_target(ends: Ends) -> None:
    """What was read when it answers counts; a failure is reported, and it reads again."""
    ends.positions = dict.fromkeys(PARTITIONS, 10)
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
    ends.positions, ends.topic_ids = dict.fromkeys(PARTITIONS, 1000), {one: "old"}
    assert not ends.ask_again(owned())
    assert str(one) in ends.notes[-1]
    ends.topic_ids[one] = "new"
    assert ends.ask_again(owned())
    ends.ends.close()


def test_partitions_that_are_held_are_not_awaited_and_are_known_at_the_end() -> None:
    """Unless they have reached their ends; once they are released, they are awaited."""
    operator = [Holds([Hold("t", 1, "ann@bastion", 0), Hold("t", 2, "ann@bastion", 0)])]
    ends = Ends(holds=lambda: operator[0])
    ends.positions = {at: 9 if at == PARTITIONS[1] else 10 for at in PARTITIONS}
    assert ends.ask_again(owned())
    (fault,) = ends.ends.left_faults
    assert (fault.source, fault.kind, fault.offset) == (PARTITIONS[1], FaultKind.HELD, 9)
    operator[0] = NO_HOLDS
    assert not ends.ask_again(owned())
    ends.ends.close()


def test_partitions_at_fault_are_not_awaited_and_are_known_at_the_end() -> None:
    """Unless this run has copied their slot: its driver knows better."""
    faults = tuple(
        Fault(source, FaultKind.GONE, "gone", "")
        for source in (PARTITIONS[1], SourcePartition("missing", 0))
    )
    for reached in ((), (shared_slot_of(PARTITIONS[1], SLOTS),)):
        ends = Ends(faults=faults)
        ends.positions = {partition: 10 for partition in PARTITIONS if partition != PARTITIONS[1]}
        assert ends.ask_again(owned(*reached), *reached)
        expected = tuple(
            fault for fault in faults if shared_slot_of(fault.source, SLOTS) not in reached
        )
        assert ends.ends.left_faults == expected
        ends.ends.close()


def test_partitions_of_topics_that_were_deleted_are_not_awaited() -> None:
    """They will not reach their ends in slots of other runs either, and records of them are lost.

    A topic that is missing once may be that of a broker that has just started.
    """
    log = DeletedLog("t", PARTITIONS[1].partition, 4, 9, acknowledged="ops@bastion")
    for continues in (False, True):
        ends = Ends(continues=continues)
        ends.positions = {
            partition: 4 if partition in PARTITIONS[:2] else 10 for partition in PARTITIONS
        }
        ends.logs = {PARTITIONS[1]: log}
        assert not ends.ask_again(owned())
        ends.missing = {"t"}
        assert not ends.ask_again(owned())
        ends.missing = set()
        assert not ends.ask_again(owned())
        ends.missing = {"t"}
        assert not ends.ask_again(owned())
        assert ends.ask_again(owned())
        faults = ends.ends.left_faults
        assert [fault.source for fault in faults] == ([] if continues else [PARTITIONS[0]])
        assert all("ended at offset 10" in fault.message for fault in faults)
        ends.ends.close()
