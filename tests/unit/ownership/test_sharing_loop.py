"""What a run does every second that shares a pipeline, and what it does when it cannot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from k2ktui.engine.ownership.assignment_records import (
    AssignmentFold,
    Member,
    owners_key,
    owners_value,
)
from k2ktui.engine.ownership.slot_owners import SlotOwners
from k2ktui.engine.records.editions import (
    NO_EDITIONS,
    UNKNOWN_EDITION,
    Edition,
    Editions,
    layout_id,
)
from k2ktui.engine.records.run_record import SharedLayout
from k2ktui.errors import ClusterRefused, ConnectionFailed, K2kError, Refused, TimedOut
from k2ktui.replication.driver.sharing_loop import SharingLoop
from k2ktui.replication.ownership.sharing_member import SharingMember
from k2ktui.replication.reports.events import (
    Event,
    Note,
    SlotsAssigned,
    Trouble,
    Waiting,
    report_text,
)
from k2ktui.runtime.stop_flag import StopFlag
from tests.support.model.sharing_runs import BEAT_S, GRACE_S, GROUP, RELEASE_S, AssignmentTopic

LAYOUT = SharedLayout("l", 4, ready=True)


@dataclass
class Log:
    """An assignment topic that cannot always be read or written."""

    topic: AssignmentTopic
    next: int = 0
    unreadable: bool = False
    unwritable: bool = False
    failure: K2kError | None = None

    def read(self, fold: AssignmentFold) -> None:
        if self.failure is not None:
            raise self.failure
        if self.unreadable:
            raise ConnectionFailed("no broker answers")
        for record in self.topic.records[self.next :]:
            assert record is not None
            fold.take(*record)
        self.next = len(self.topic.records)

    def put(self, key: bytes, value: bytes | None) -> None:
        if self.failure is not None:
            raise self.failure
        if self.unwritable:
            raise TimedOut("not acknowledged")
        self.topic.put(key, value)


@dataclass
class Slots:
    """Slots that are taken and released at once."""

    own: str
    outdated: str = ""
    holds: frozenset[int] = frozenset()
    applied: int = 0
    is_closed: bool = False
    error: Exception | None = None

    def apply(self, owners: SlotOwners) -> None:
        if self.error is not None:
            raise self.error
        self.applied += 1
        self.holds = owners.of(self.own)

    def close(self) -> None:
        self.holds, self.is_closed = frozenset(), True


@dataclass
class Rounds(StopFlag):
    """Lets a loop look so many times; ``between`` is called after each."""

    left: int
    between: Callable[[], None] = lambda: None
    waited: list[float] = field(default_factory=list)

    def is_set(self) -> bool:
        return self.left <= 0

    def wait(self, timeout: float) -> bool:
        self.waited.append(timeout)
        self.left -= 1
        self.between()
        return self.is_set()


@dataclass
class One:
    """One run."""

    topic: AssignmentTopic
    name: str = "a"
    find: Callable[[], SharedLayout | None] = lambda: LAYOUT
    notes: list[str] = field(default_factory=list)
    assigned: list[SlotsAssigned] = field(default_factory=list)
    now: float = 0.0
    edition: Edition = UNKNOWN_EDITION
    editions: Editions = NO_EDITIONS
    pipeline: str = ""
    troubles: list[Trouble] = field(default_factory=list)

    def __post_init__(self) -> None:
        log: Any = Log(self.topic)
        slots: Any = Slots(self.name)
        self.log, self.slots = log, slots
        self.member = SharingMember(
            Member(self.name, edition=self.edition, pipeline=self.pipeline),
            GROUP,
            log,
            self.find,
            GRACE_S,
            BEAT_S,
            RELEASE_S,
            lambda pid, space, birth: False,
            lambda: self.now,
            editions=self.editions,
        )
        self.loop = SharingLoop(self.member, slots, self._report, lambda: self.now)

    def _report(self, event: Event) -> None:
        if isinstance(event, SlotsAssigned):
            self.assigned.append(event)
            return
        if isinstance(event, Trouble):
            self.troubles.append(event)
            return
        assert isinstance(event, Note | Waiting)
        self.notes.append(report_text(event))


@pytest.fixture
def topic() -> AssignmentTopic:
    return AssignmentTopic()


def members(topic: AssignmentTopic) -> set[str]:
    fold = AssignmentFold(GROUP)
    for record in topic.records:
        assert record is not None
        fold.take(*record)
    return set(fold.members)


def test_the_only_run_owns_all_slots_at_its_second_look(topic: AssignmentTopic) -> None:
    """The second one follows at once: it has just written the owners."""
    run = One(topic)
    run.loop.run(Rounds(1))
    assert run.slots.applied == 2 and run.slots.is_closed
    assert run.notes == ["note: shared by 1 run: this one owns 4 of 4 slots: 0, 1, 2, 3; it leads"]
    assert members(topic) == set(), "it has left"


def test_two_runs_share_the_slots(topic: AssignmentTopic) -> None:
    first, second = One(topic, "a"), One(topic, "b")
    first.member.report((), "")
    second.member.report((), "")
    for _ in range(4):
        first.loop.look()
        second.loop.look()
    assert first.slots.holds | second.slots.holds == set(range(4))
    assert len(first.slots.holds) == len(second.slots.holds) == 2
    assert second.notes == ["note: shared by 2 runs: this one owns 2 of 4 slots: 1, 3"]


def test_each_generation_of_owners_is_reported_once(topic: AssignmentTopic) -> None:
    """Also one in which this run owns what it owned before."""
    first, second = One(topic, "a"), One(topic, "b")
    first.member.report((), "")
    while first.loop.look():
        """Until it owns all slots."""
    first.loop.look()
    assert first.assigned == [SlotsAssigned(1, (0, 1, 2, 3))]
    second.member.report((), "")
    for _ in range(4):
        first.loop.look()
        second.loop.look()
    assert [owners.generation for owners in first.assigned] == [1, 2, 3]
    assert first.assigned[-1].slots == first.assigned[-2].slots and len(second.assigned) == 2
    owned = {*first.assigned[-1].slots, *second.assigned[-1].slots}
    assert owned == {0, 1, 2, 3} and second.assigned[0].slots == ()


def test_a_run_without_a_slot_is_a_standby(topic: AssignmentTopic) -> None:
    """Until another one ends."""
    one = SharedLayout("l", 1, ready=True)
    first, second = One(topic, "a", lambda: one), One(topic, "b", lambda: one)
    for _ in range(3):
        first.loop.look()
        second.loop.look()
    assert second.notes == ["standby: waits for a"] and not second.slots.holds
    first.member.leave()
    for _ in range(2):
        second.loop.look()
    assert second.notes[1:] == ["note: shared by 1 run: this one owns 1 of 1 slots: 0; it leads"]


def test_one_run_leads_as_far_as_it_can_see(topic: AssignmentTopic) -> None:
    first, second = One(topic, "a"), One(topic, "b")
    first.member.report((), "")
    second.member.report((), "")
    assert not first.loop.leads
    first.loop.look()
    second.loop.look()
    assert first.loop.leads and not second.loop.leads
    first.log.unreadable = True
    first.loop.look()
    assert not first.loop.leads


def test_owners_that_were_not_read_just_now_are_not_applied(topic: AssignmentTopic) -> None:
    """A run that was fenced may no longer own its slots; its record is still written."""
    run = One(topic)
    while run.loop.look():
        """Until there are owners."""
    applied, run.log.unreadable = run.slots.applied, True
    run.now += BEAT_S
    written = len(topic.records)
    assert not run.loop.look()
    assert run.slots.applied == applied and len(topic.records) == written + 1
    assert run.notes[-1] == "note: reading the assignment topic: no broker answers"
    run.log.unreadable = False
    run.loop.look()
    assert run.slots.applied == applied + 1


def test_a_run_whose_record_cannot_be_written_continues(topic: AssignmentTopic) -> None:
    run = One(topic)
    while run.loop.look():
        """Until there are owners."""
    run.now += BEAT_S
    run.log.unwritable = True
    applied = run.slots.applied
    assert not run.loop.look() and run.slots.applied == applied + 1
    assert run.notes[-1] == "note: writing to the assignment topic: not acknowledged"


def test_what_passes_by_itself_ends_no_run(topic: AssignmentTopic) -> None:
    """Brokers that restart report many errors; a run that ended would not be started again."""
    run = One(topic)
    for _ in range(3):
        run.loop.look()
    run.now += BEAT_S
    run.log.failure = K2kError("the broker does not lead this partition")
    assert not run.loop.look()
    run.log.failure = None
    assert "note: writing to the assignment topic: the broker does not lead this partition" in (
        run.notes
    )
    run.loop.look()
    assert run.slots.holds == {0, 1, 2, 3} and not run.slots.is_closed


def test_a_leader_without_a_layout_asks_again(topic: AssignmentTopic) -> None:
    layouts: list[SharedLayout | None] = [None, None, LAYOUT]
    run = One(topic, find=lambda: layouts.pop(0) if layouts else LAYOUT)
    run.loop.run(Rounds(3))
    assert "owns 4 of 4 slots" in run.notes[0]


def test_it_looks_more_often_at_first_until_it_has_slots(topic: AssignmentTopic) -> None:
    layouts: list[SharedLayout | None] = [None, None, LAYOUT]
    run, rounds = One(topic, find=lambda: layouts.pop(0) if layouts else LAYOUT), Rounds(4)
    run.loop.run(rounds)
    assert rounds.waited == [0.05, 0.05, 1.0, 1.0]


def test_a_run_that_gets_no_slots_does_not_look_more_often_for_long(topic: AssignmentTopic) -> None:
    def pass_time() -> None:
        waits.now += rounds.waited[-1]

    waits = One(topic, find=lambda: None)
    rounds = Rounds(120, pass_time)
    waits.loop.run(rounds)
    first = rounds.waited.count(0.05)
    assert rounds.waited == [0.05] * first + [1.0] * (120 - first)
    assert 0.05 * first == pytest.approx(5.0, abs=0.1)


def test_a_search_for_the_layout_that_fails_is_repeated(topic: AssignmentTopic) -> None:
    failures = [TimedOut("the last transaction does not end"), K2kError("no leader")]

    def find() -> SharedLayout:
        if failures:
            raise failures.pop(0)
        return LAYOUT

    run = One(topic, find=find)
    run.loop.run(Rounds(3))
    assert run.notes[0] == "note: dividing the slots: the last transaction does not end"
    assert "owns 4 of 4 slots" in run.notes[-1]


def test_a_refusal_ends_a_start(topic: AssignmentTopic) -> None:
    run = One(topic)
    run.log.failure = ClusterRefused("no right")
    with pytest.raises(ClusterRefused):
        run.loop.run(Rounds(3))


def test_a_refusal_in_a_run_that_has_copied_is_tried_again_every_30_seconds(
    topic: AssignmentTopic,
) -> None:
    def change_right() -> None:
        refusal = ClusterRefused("no right") if rounds.left in (4, 3) else None
        run.log.failure = refusal

    run, rounds = One(topic), Rounds(6, change_right)
    run.loop.run(rounds)
    assert rounds.waited.count(30.0) == 2 and rounds.waited[-1] == 1.0
    assert "note: reading the assignment topic: no right" in run.notes


@pytest.mark.parametrize("where", ["layout", "slots"])
def test_what_another_attempt_does_not_change_ends_the_run(
    topic: AssignmentTopic, where: str
) -> None:
    """It releases its slots and leaves before."""

    def find() -> SharedLayout:
        if where == "layout":
            raise Refused("a drill has fenced it")
        return LAYOUT

    run = One(topic, find=find)
    run.slots.error = Refused("a drill has fenced it") if where == "slots" else None
    with pytest.raises(Refused, match="a drill has fenced it"):
        run.loop.run(Rounds(5))
    assert run.slots.is_closed and members(topic) == set()


def test_a_run_that_cannot_leave_ends_anyway(topic: AssignmentTopic) -> None:
    run = One(topic)

    def cut() -> None:
        run.log.unreadable = run.log.unwritable = True

    run.loop.run(Rounds(3, cut))
    assert run.slots.is_closed and members(topic) == {"a"}


OLDER, NEWER = Edition(1, "a" * 16), Edition(2, "b" * 16)


def with_file(topic: AssignmentTopic, name: str, edition: Edition) -> One:
    layout = SharedLayout(layout_id(f"{edition.number}", edition), 4, ready=True)
    known = Editions((NEWER, OLDER))
    return One(topic, name, lambda: layout, edition=edition, editions=known)


def look(*runs: One) -> None:
    for _ in range(4):
        for run in runs:
            run.loop.look()


def test_a_run_with_an_older_file_waits_and_says_so_once(topic: AssignmentTopic) -> None:
    """Also if its id is the lowest. Nothing keeps records from being copied."""
    older, newer = with_file(topic, "a", OLDER), with_file(topic, "b", NEWER)
    for run in (older, newer):
        run.member.report((), "")
    look(older, newer)
    assert newer.slots.holds == {0, 1, 2, 3} and not older.slots.holds
    assert newer.loop.leads and not older.loop.leads
    assert newer.notes == [
        "note: shared by 1 run: this one owns 4 of 4 slots: 0, 1, 2, 3; it leads"
    ]
    assert newer.troubles == []
    text = (
        "pipeline file: it differs from that of the runs that copy (b), and is older: this run "
        "waits (edition 1, they have 2). Give this host the newer file and restart the run, or go "
        "back to this one with --take-over"
    )
    assert sorted(older.notes) == [f"note: {text}", "standby: waits for b"]
    assert older.troubles == [Trouble("pipeline file", text, blocks=False)]


def test_a_run_that_copies_by_an_older_file_says_so_until_a_newer_one_is_back(
    topic: AssignmentTopic,
) -> None:
    older = with_file(topic, "a", OLDER)
    older.member.report((), "")
    look(older)
    assert older.slots.holds == {0, 1, 2, 3}
    (trouble,) = older.troubles
    assert "it is not the newest one (edition 1 of 2), and no run with a newer one" in trouble.text
    newer = with_file(topic, "b", NEWER)
    newer.member.report((), "")
    look(older, newer)
    assert not older.slots.holds and "this run waits" in older.troubles[-1].text


def test_the_newest_file_again(topic: AssignmentTopic) -> None:
    """A host went back to it with --take-over: its number has grown, for all runs that have it."""
    older, newer = with_file(topic, "a", OLDER), with_file(topic, "b", NEWER)
    for run in (older, newer):
        run.member.report((), "")
    look(older, newer)
    back = with_file(topic, "c", Edition(3, OLDER.digest))
    back.member.report((), "")
    look(older, newer, back)
    assert len(older.slots.holds) == len(back.slots.holds) == 2 and not newer.slots.holds
    assert older.notes.count("note: pipeline file: it is the newest one again") == 1
    assert older.troubles[-1] == Trouble("pipeline file", "", blocks=False)
    assert "shared by 2 runs" in older.notes[-2] + older.notes[-1]


def test_another_pipeline_with_the_same_group_ends(topic: AssignmentTopic) -> None:
    """Both have started at once, when neither could see the other."""
    first, second = One(topic, "a", pipeline="orders"), One(topic, "b", pipeline="payments")
    unnamed = One(topic, "c")
    for run in (first, second, unnamed):
        run.member.report((), "")
    look(first, unnamed)
    second.loop.look()
    assert not second.slots.is_closed, "the other one may be dead"

    def beat() -> None:
        first.now += BEAT_S
        first.loop.look()

    with pytest.raises(Refused, match="pipeline orders is running with the same") as refused:
        second.loop.run(Rounds(3, beat))
    assert "coordination.commit.group" in str(refused.value.hint)
    assert second.slots.is_closed and members(topic) == {"a", "c"}
    look(first, unnamed)
    assert len(first.slots.holds) == len(unnamed.slots.holds) == 2


def test_the_layout_says_that_a_file_was_put_first_again(topic: AssignmentTopic) -> None:
    """The run that did so has died, before this one could see its record."""
    older, newer = with_file(topic, "b", OLDER), with_file(topic, "a", NEWER)
    for run in (older, newer):
        run.member.report((), "")
    look(older, newer)
    layout = layout_id("0", Edition(3, OLDER.digest))
    owners = SlotOwners(9, "c", layout, dict.fromkeys(range(4), "c"))
    topic.put(owners_key(GROUP), owners_value(owners))
    look(older, newer)
    assert older.loop.leads and older.slots.holds == {0, 1, 2, 3} and not newer.slots.holds


def test_a_layout_of_another_file_is_not_used(topic: AssignmentTopic) -> None:
    """The search for it may have begun when another file counted."""
    layouts = [layout_id("0", NEWER), layout_id("1", UNKNOWN_EDITION), layout_id("2", OLDER)]

    def find() -> SharedLayout:
        return SharedLayout(layouts.pop(0) if len(layouts) > 1 else layouts[0], 4, ready=True)

    run = One(topic, "a", find, edition=OLDER, editions=Editions((OLDER,)))
    run.member.report((), "")
    assert [run.loop.look() for _ in range(3)] == [False, False, True]
    look(run)
    assert run.slots.holds == {0, 1, 2, 3} and run.member.owners.layout == layouts[0]
