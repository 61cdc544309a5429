"""Runs that share slots through an assignment topic, in simulated time.

What a run does between two requests is one step, so that others can act in between. Who may write
is decided by a ``SlotRegister``: a simple one here, the model of the coordinator in
``tests/unit/ownership/test_sharing_model.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from k2ktui.engine.ownership.assignment_records import AssignmentFold, Member
from k2ktui.engine.ownership.slot_owners import SlotOwners
from k2ktui.engine.records.editions import NO_EDITIONS, UNKNOWN_EDITION, Edition, Editions
from k2ktui.engine.records.run_record import SharedLayout
from k2ktui.replication.ownership.sharing_member import SharingMember

GROUP = "g"
LOOK_S, BEAT_S, GRACE_S = 1.0, 5.0, 15.0
RELEASE_S = 45.0  # a slot that is not released until then is taken from its owner
STEPS_A_LOOK = 60
RELEASE_LOOKS = 2  # until the lap of a released slot has ended


class AssignmentTopic:
    """A compacted topic of one partition."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None] | None] = []

    def put(self, key: bytes, value: bytes | None) -> None:
        self.records.append((key, value))

    def compact(self) -> None:
        """Remove each record that has a later one of its key."""
        newest = {record[0]: at for at, record in enumerate(self.records) if record is not None}
        self.records = [
            record if record is not None and newest[record[0]] == at else None
            for at, record in enumerate(self.records)
        ]


class SlotRegister(Protocol):
    """Who may write each slot."""

    @property
    def layout(self) -> SharedLayout:
        """The newest layout."""

    def take(self, runner: str, slot: int, layout: str) -> bool:
        """Fence the owner before; return False if the layout is not the current one."""

    def is_owner(self, runner: str, slot: int) -> bool:
        """Return whether no other run has taken the slot since this one did."""

    def release(self, runner: str, slot: int) -> None:
        """The run writes no more."""


@dataclass
class EpochRegister:
    """The last run that took a slot is its owner."""

    layout: SharedLayout
    owners: dict[int, str] = field(default_factory=dict)
    takeovers: int = 0
    stolen: int = 0  # from a run that had not released it

    def take(self, runner: str, slot: int, layout: str) -> bool:
        if layout != self.layout.id:
            return False
        self.stolen += self.owners.get(slot, runner) != runner
        self.owners[slot] = runner
        self.takeovers += 1
        return True

    def is_owner(self, runner: str, slot: int) -> bool:
        return self.owners.get(slot) == runner

    def release(self, runner: str, slot: int) -> None:
        if self.is_owner(runner, slot):
            del self.owners[slot]

    def change_layout(self, layout: SharedLayout) -> None:
        self.layout, self.owners = layout, {}


class _Reader:
    """How far a run has read the topic."""

    def __init__(self, topic: AssignmentTopic) -> None:
        self.put, self._topic, self._next = topic.put, topic, 0

    def read(self, fold: AssignmentFold) -> None:
        for record in self._topic.records[self._next :]:
            if record is not None:
                fold.take(*record)
        self._next = len(self._topic.records)


class SharingRun:
    """One run; its clock starts at ``began``, and means nothing to the others.

    Args:
        pid, host: its process; a host "" is one that it shares with no other run.
        birth: of its process, which no other one has.
        ended: births of the processes that have ended, which the runs of a host see.
        digest: of its pipeline file; "" for a run of an earlier release.
        editions: those of the run record when it started.
    """

    def __init__(
        self,
        name: str,
        topic: AssignmentTopic,
        register: SlotRegister,
        began: float,
        find_layout: Callable[[], SharedLayout | None] | None = None,
        *,
        pid: int = 0,
        host: str = "",
        birth: str = "",
        ended: Container[str] = (),
        digest: str = "",
        editions: Editions = NO_EDITIONS,
    ) -> None:
        self.name, self.now = name, began
        self.digest = digest
        self.pid, self.birth = pid, birth
        self._register = register
        reader: Any = _Reader(topic)
        self._member = SharingMember(
            Member(
                name,
                pid=pid,
                pid_space=host,
                birth=birth,
                edition=editions.edition_of(digest) if digest else UNKNOWN_EDITION,
            ),
            GROUP,
            reader,
            find_layout or (lambda: register.layout),
            GRACE_S,
            BEAT_S,
            RELEASE_S,
            lambda pid, space, born: space == host != "" and born in ended,
            lambda: self.now,
            editions=editions,
        )
        self.holds: set[int] = set()
        self._releasing: dict[int, int] = {}
        self.outdated = ""
        self.awake_in = 0  # looks until it is no longer suspended
        self.is_dead = self.is_leaving = False
        self.is_stuck = False  # it notes what it owns, and ends nothing that copies
        self._steps = self._loop()

    @property
    def owners(self) -> SlotOwners:
        return self._member.owners

    @property
    def members(self) -> frozenset[str]:
        return self._member.members

    @property
    def known_members(self) -> frozenset[str]:
        return self._member.known_members

    @property
    def leaderships(self) -> int:
        return self._member.leaderships

    @property
    def outdated_layout(self) -> str:
        return self._member.outdated_layout

    @property
    def edition(self) -> Edition:
        return self._member.edition

    def step(self) -> None:
        if not self.is_dead:
            next(self._steps, None)

    def look(self) -> None:
        """Continue until one look at the topic has been dealt with, a second later."""
        if self.is_dead:
            return
        for _ in range(STEPS_A_LOOK):
            if next(self._steps, True):
                return

    def _loop(self) -> Iterator[bool]:
        """Yield after each step; True at the end of a look."""
        self._member.report(self.holds, self.outdated)
        yield False
        while not self.is_leaving:
            view = self._member.look()
            yield False
            owners = self._member.choose_owners(view)
            yield False
            if owners is not None:
                self._member.write_owners(owners)
                yield False
            self._member.remove_silent(view)
            yield False
            yield from self._apply()
            self._member.report(self.holds, self.outdated)
            yield False
            yield True
        for slot in sorted(self.holds):
            self._release(slot)
            yield False
        self._member.leave()
        self.is_dead = True
        yield True

    def _apply(self) -> Iterator[bool]:
        """Take over what this run owns, and release the rest."""
        owners = self.owners
        wanted = owners.of(self.name)
        for slot in () if self.is_stuck else sorted(self.holds):
            if not self._register.is_owner(self.name, slot):
                self._release(slot)
                yield False
            elif slot not in wanted:
                left = self._releasing.get(slot, RELEASE_LOOKS)
                self._releasing[slot] = left - 1
                if not left:
                    self._release(slot)
                yield False
        for slot in sorted(wanted - self.holds):
            if self.outdated == owners.layout:
                break
            if self._register.take(self.name, slot, owners.layout):
                self.holds.add(slot)
            else:
                self.outdated = owners.layout
            yield False

    def _release(self, slot: int) -> None:
        self._register.release(self.name, slot)
        self.holds.discard(slot)
        self._releasing.pop(slot, None)


@dataclass
class SharingRuns:
    """All runs of one pipeline."""

    register: SlotRegister
    topic: AssignmentTopic = field(default_factory=AssignmentTopic)
    runs: list[SharingRun] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)

    @property
    def live(self) -> list[SharingRun]:
        return [run for run in self.runs if not run.is_dead]

    def join(self, number: int) -> SharingRun:
        """Start a run; its id is higher or lower than those of the others, its clock hours off."""
        run = self._make(f"{number % 10}-{len(self.runs)}", began=number * 3600.0)
        self.runs.append(run)
        return run

    def join_on(self, host: str, number: int, pid: int = 0) -> SharingRun:
        """Start a run on a host, whose runs see which processes have ended there."""
        birth = str(len(self.runs) + 1)
        run = SharingRun(
            f"{number}-{birth}",
            self.topic,
            self.register,
            number * 3600.0,
            pid=pid or int(birth),
            host=host,
            birth=birth,
            ended=self.ended,
        )
        self.runs.append(run)
        return run

    def kill(self, run: SharingRun) -> None:
        run.is_dead = True
        self.ended.add(run.birth)

    def _make(self, name: str, began: float) -> SharingRun:
        return SharingRun(name, self.topic, self.register, began)

    def pass_second(self) -> None:
        for run in self.live:
            run.now += LOOK_S
            if run.awake_in:
                run.awake_in -= 1
            else:
                run.look()

    def act(self, action: tuple[str, int, int]) -> None:
        """Let one thing happen; numbers choose among what there is."""
        kind, one, other = action
        run = self.live[one % len(self.live)] if self.live else None
        if kind == "join" and len(self.live) < 5:
            self.join(one)
        elif kind == "seconds":
            for _ in range(other):
                self.pass_second()
        elif kind == "compact":
            self.topic.compact()
        elif run is None:
            return
        elif kind == "step":
            for _ in range(other):
                run.step()
        elif kind == "kill" and len(self.live) > 1:
            run.is_dead = True
        elif kind == "leave" and len(self.live) > 1:
            run.is_leaving = True
        elif kind == "suspend":
            run.awake_in = other * 3

    def settle(self) -> None:
        """Nothing more happens: the live runs soon hold all slots, and keep them."""
        if not any(not run.is_leaving for run in self.live):
            self.join(0)
        for run in self.live:
            run.awake_in = 0
        for _ in range(int(4 * GRACE_S)):
            self.pass_second()
