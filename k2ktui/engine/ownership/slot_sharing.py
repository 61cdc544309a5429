"""What a run decides that shares a pipeline's slots with others: who leads, and who owns what.

The decisions rest on the records of the assignment topic (docs/internals/ownership.md), and
compare no clocks. A wrong one costs a takeover of slots, never a record: producer epochs decide who
writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from k2ktui.engine.ownership.assignment_records import AssignmentFold, Member
from k2ktui.engine.ownership.silence import SilenceMeter
from k2ktui.engine.ownership.slot_owners import SlotOwners, rebalance
from k2ktui.engine.records.editions import (
    LARGEST_EDITION,
    NO_EDITIONS,
    UNKNOWN_EDITION,
    Edition,
    Editions,
    edition_of_layout,
)
from k2ktui.engine.records.run_record import SharedLayout


@dataclass(frozen=True, slots=True)
class SharingView:
    """What one look at the assignment topic shows.

    Attributes:
        members: the runs that take part and are not silent, sorted.
        sharing: those of them that copy: they have the leader's pipeline file. The first one is the
            leader.
        is_leader: this run is the leader.
        is_outdated: a live run found that the layout of these owners has changed.
        edition: the edition by which the runs copy; unknown while a run of an earlier release,
            whose file is not known, takes part. Then all of them copy.
        own_edition: that of this run, as far as it is known now.
        newest: number of the newest edition that this run knows of.
        pipeline: the leader's name of the pipeline; "" if it is not known, or whether it lives.
    """

    members: tuple[str, ...]
    sharing: tuple[str, ...]
    is_leader: bool
    is_outdated: bool
    edition: Edition = UNKNOWN_EDITION
    own_edition: Edition = UNKNOWN_EDITION
    newest: int = 0
    pipeline: str = ""

    def may_use(self, layout: SharedLayout) -> bool:
        """Return whether a layout is for the file by which the runs copy."""
        return not self.edition.digest or layout.edition.digest == self.edition.digest


class SlotSharing:
    """One run's view of the runs that share a pipeline; not thread-safe.

    Args:
        own: this run's id; of the live runs with the newest edition, the one with the lowest id is
            the leader.
        grace_s: seconds of silence after which a run counts as gone.
        beat_s: seconds between two records of a run.
        release_s: seconds after which a slot that a live run does not release counts as released:
            what copies it is stuck, and is fenced by the next owner.
        edition: that of this run's file; unknown if editions do not count.
        editions: those of earlier runs. If that of this run is not among them, its number is only a
            guess.
    """

    def __init__(
        self,
        own: str,
        grace_s: float,
        beat_s: float,
        release_s: float,
        edition: Edition = UNKNOWN_EDITION,
        editions: Editions = NO_EDITIONS,
    ) -> None:
        self._own, self._grace_s, self._release_s = own, grace_s, release_s
        self._edition, self._is_new = edition, editions.find(edition.digest) is None
        self._newest_number = editions.newest.number
        self._releasing_s: dict[tuple[int, str], float] = {}  # by slot and the run that had it
        self._silence = SilenceMeter(own, beat_s)

    def observe(self, fold: AssignmentFold, now: float) -> SharingView:
        """Take the newest records.

        Args:
            fold: the records of the assignment topic.
            now: monotonic seconds.
        """
        members: Mapping[str, Member] = fold.members
        passed_s = self._silence.observe(members, now)
        self._wait_for_release(fold.owners, passed_s)
        live = sorted(
            name
            for name in members
            if name == self._own or self._silence.silent_s(name) < self._grace_s
        )
        layout = fold.owners.layout
        outdated = any(layout and members[name].outdated == layout for name in live)
        self._adopt(edition_of_layout(layout), [members[name].edition for name in live])
        edition = self._newest([members[name].edition for name in live])
        sharing = [name for name in live if edition.digest in ("", members[name].edition.digest)]
        leader = sharing[0] if sharing else ""
        return SharingView(
            tuple(live),
            tuple(sharing),
            leader == self._own,
            outdated,
            edition,
            self._edition,
            self._newest_number,
            members[leader].pipeline if self._is_seen_alive(leader) else "",
        )

    def _is_seen_alive(self, name: str) -> bool:
        """Return whether a run is this one, or was seen to write; not one that may be dead."""
        return bool(name) and (name == self._own or self._silence.has_changed(name))

    def next_owners(
        self, fold: AssignmentFold, view: SharingView, layout: SharedLayout
    ) -> SlotOwners | None:
        """Return the generation of owners that the leader writes now; None if it writes none.

        Args:
            fold: the records that ``view`` is of.
            view: what this run sees.
            layout: the layout that its run record has.
        """
        if not view.is_leader:
            return None
        owners, members = fold.owners, fold.members
        before = owners
        if owners.layout != layout.id:  # all slots were fenced when the layout changed
            before = SlotOwners(owners.generation, self._own, layout.id)
        released = {
            slot
            for slot, name in before.releasing.items()
            if self._releasing_s.get((slot, name), 0.0) >= self._release_s
            or (
                (member := members.get(name)) is not None
                and member.generation == before.generation
                and slot not in member.holds
            )
        }
        after = rebalance(before, layout.slots, view.sharing, self._own, released)
        return None if after is owners else after

    def used(self, layout: SharedLayout) -> None:
        """Note that this run has found a layout of its own file: it is no longer new."""
        self._adopt(layout.edition, ())

    def _adopt(self, of_layout: Edition, of_members: Iterable[Edition]) -> None:
        """Learn the number of this run's edition from the layout, and from runs with its file.

        Two files may be new at the same time: the one that divides the pipeline later is newer.
        """
        own = self._edition
        self._newest_number = max(self._newest_number, of_layout.number)
        if not own.digest:
            return
        number = own.number
        if of_layout.digest == own.digest:
            number = max(number, of_layout.number)
            self._is_new = False
        elif self._is_new and of_layout.number >= number:
            number = min(of_layout.number + 1, LARGEST_EDITION)
        same = (edition.number for edition in of_members if edition.digest == own.digest)
        self._edition = Edition(max([number, *same]), own.digest)

    def _newest(self, editions: Sequence[Edition]) -> Edition:
        """Return the edition by which live runs copy; unknown if the file of one is not known."""
        if not editions or not all(edition.digest for edition in editions):
            return UNKNOWN_EDITION
        # Of several with one number, each run must choose the same one.
        return max(editions, key=lambda edition: (edition.number, edition.digest))

    def _wait_for_release(self, owners: SlotOwners, passed_s: float) -> None:
        """Add the time that has passed, as for silence, to each slot that is being released."""
        before = self._releasing_s
        self._releasing_s = {
            release: before[release] + passed_s if release in before else 0.0
            for release in owners.releasing.items()
        }
