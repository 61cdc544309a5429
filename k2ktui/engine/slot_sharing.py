"""What a run decides that shares a pipeline's slots with others: who leads, and who owns what.

The decisions rest on the records of the assignment topic (docs/runners.md), and compare no clocks.
A wrong one costs a takeover of slots, never a record: producer epochs decide who writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from k2ktui.engine.assignment_records import AssignmentFold, Member
from k2ktui.engine.run_record import SharedLayout
from k2ktui.engine.silence import SilenceMeter
from k2ktui.engine.slot_owners import SlotOwners, rebalance


@dataclass(frozen=True, slots=True)
class SharingView:
    """What one look at the assignment topic shows.

    Attributes:
        members: the runs that take part and are not silent, sorted; the first one is the leader.
        is_leader: this run is the leader.
        is_outdated: a live run found that the layout of these owners has changed.
    """

    members: tuple[str, ...]
    is_leader: bool
    is_outdated: bool


class SlotSharing:
    """One run's view of the runs that share a pipeline; not thread-safe.

    Args:
        own: this run's id; the live run with the lowest id is the leader.
        grace_s: seconds of silence after which a run counts as gone.
        beat_s: seconds between two records of a run.
        release_s: seconds after which a slot that a live run does not release counts as released:
            what copies it is stuck, and is fenced by the next owner.
    """

    def __init__(self, own: str, grace_s: float, beat_s: float, release_s: float) -> None:
        self._own, self._grace_s, self._release_s = own, grace_s, release_s
        self._releasing_s: dict[tuple[int, str], float] = {}  # by slot and the run that had it
        self._silence = SilenceMeter(own, beat_s)

    def observe(self, found: AssignmentFold, now: float) -> SharingView:
        """Take the newest records.

        Args:
            found: the records of the assignment topic.
            now: monotonic seconds.
        """
        members: Mapping[str, Member] = found.members
        passed_s = self._silence.observe(members, now)
        self._wait_for_release(found.owners, passed_s)
        live = sorted(
            name
            for name in members
            if name == self._own or self._silence.silent_s(name) < self._grace_s
        )
        layout = found.owners.layout
        outdated = any(layout and members[name].outdated == layout for name in live)
        return SharingView(tuple(live), bool(live) and live[0] == self._own, outdated)

    def next_owners(
        self, found: AssignmentFold, view: SharingView, layout: SharedLayout
    ) -> SlotOwners | None:
        """Return the generation of owners that the leader writes now; None if it writes none.

        Args:
            found: the records that ``view`` is of.
            view: what this run sees.
            layout: the layout that its run record has.
        """
        if not view.is_leader:
            return None
        owners, members = found.owners, found.members
        before = owners
        if owners.layout != layout.id:  # all slots were fenced when the layout changed
            before = SlotOwners(owners.generation, self._own, layout.id)
        released = {
            slot
            for slot, name in before.releasing.items()
            if self._is_overdue(slot, name)
            or (
                (member := members.get(name)) is not None
                and member.generation == before.generation
                and slot not in member.holds
            )
        }
        after = rebalance(before, layout.slots, view.members, self._own, released)
        return None if after is owners else after

    def _wait_for_release(self, owners: SlotOwners, passed_s: float) -> None:
        """Add the time that has passed, as for silence, to each slot that is being released."""
        before = self._releasing_s
        self._releasing_s = {
            each: before[each] + passed_s if each in before else 0.0
            for each in owners.releasing.items()
        }

    def _is_overdue(self, slot: int, runner: str) -> bool:
        return self._releasing_s.get((slot, runner), 0.0) >= self._release_s
