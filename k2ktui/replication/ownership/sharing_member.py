"""One run's part among those that share a pipeline: it looks, leads if it is its turn, and reports.

The caller repeats ``look``, ``lead``, the change of its slots, and ``report``. Nothing here decides
who may write: a run that is wrong about the others, or is suspended between two of these steps, is
fenced by those that take its slots over (docs/internals/ownership.md).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from time import monotonic

from k2ktui.engine.ownership.assignment_records import (
    AssignmentFold,
    Member,
    member_key,
    member_value,
    owners_key,
    owners_value,
)
from k2ktui.engine.ownership.slot_owners import SlotOwners
from k2ktui.engine.ownership.slot_sharing import SharingView, SlotSharing
from k2ktui.engine.records.editions import NO_EDITIONS, UNKNOWN_EDITION, Editions
from k2ktui.engine.records.run_record import SharedLayout
from k2ktui.replication.ownership.assignment_topic import AssignmentTopic

log = logging.getLogger(__name__)


class SharingMember:
    """A run that takes part; not thread-safe.

    Args:
        own: its first record, which says which run and process it is.
        group: ``coordination.commit.group``.
        log: the assignment topic.
        find_layout: returns the pipeline's layout, and divides the pipeline if it has none; called
            by the leader only. None if that is not possible now.
        grace_s: seconds of silence after which another run counts as gone.
        beat_s: seconds between two records of a run.
        release_s: seconds after which a slot that a live run does not release counts as released.
        has_ended: whether a process, given by its id, ``pid_space`` and birth, was of this host
            and has ended.
        clock: monotonic seconds.
        editions: those of earlier runs, by the run record.

    Attributes:
        own: its runner id.
        group: ``coordination.commit.group``.
        leaderships: how many times this run has begun to lead, as far as it has seen.
        edition: the edition by which the runs copy, as of the last look; unknown if it does not
            count.
    """

    def __init__(
        self,
        own: Member,
        group: str,
        log: AssignmentTopic,
        find_layout: Callable[[], SharedLayout | None],
        grace_s: float,
        beat_s: float,
        release_s: float,
        has_ended: Callable[[int, str, str], bool],
        clock: Callable[[], float] = monotonic,
        *,
        editions: Editions = NO_EDITIONS,
    ) -> None:
        self.own, self.group, self._log = own.runner, group, log
        self._find_layout, self._has_ended = find_layout, has_ended
        self._beat_s, self._clock = beat_s, clock
        self._record, self._own_edition = own, own.edition
        self._fold = AssignmentFold(group)
        self._sharing = SlotSharing(own.runner, grace_s, beat_s, release_s, own.edition, editions)
        self.edition = UNKNOWN_EDITION
        self._reported_at: float | None = None
        self._layout: SharedLayout | None = None
        self._outdated = ""
        self._known_members: set[str] = set()
        self._leads = False
        self.leaderships = 0

    @property
    def owners(self) -> SlotOwners:
        """Who owns which slot, as of the last look."""
        return self._fold.owners

    @property
    def pipeline(self) -> str:
        """This run's name of the pipeline."""
        return self._record.pipeline

    @property
    def members(self) -> frozenset[str]:
        """The runs that take part, as of the last look, also those that are silent."""
        return frozenset(self._fold.members)

    @property
    def known_members(self) -> frozenset[str]:
        """The runs that take part, and those that did at an earlier look.

        The heartbeats of a run whose record was removed still say that it works.
        """
        return frozenset(self._known_members)

    @property
    def outdated_layout(self) -> str:
        """Id of the layout of the owners, if a live run found that it has changed; otherwise ""."""
        return self._outdated

    @property
    def malformed(self) -> int:
        """Number of records of this pipeline that could not be read."""
        return self._fold.malformed

    def look(self) -> SharingView:
        """Read what the others have written, and remove the records of processes that have ended.

        No run waits for the silence of a run that was killed if another one is on its host.

        Raises:
            ConnectionFailed, TimedOut, Refused: the topic could not be read, or a record could not
                be removed; nothing else has changed.
        """
        self._log.read(self._fold)
        self._known_members |= self._fold.members.keys()
        ended = sorted(name for name, member in self._fold.members.items() if self._is_over(member))
        for name in ended:
            log.info("run %s has ended on this host, removing its record", name)
            self._log.put(member_key(self.group, name), None)
        if ended:
            self._log.read(self._fold)
        view = self._sharing.observe(self._fold, self._clock())
        self.leaderships += view.is_leader and not self._leads
        if self._leads != view.is_leader:
            log.info("this run %s", "leads" if view.is_leader else "leads no more")
        self._leads = view.is_leader
        self._outdated = self._fold.owners.layout if view.is_outdated else ""
        self.edition, self._own_edition = view.edition, view.own_edition
        return view

    def choose_owners(self, view: SharingView) -> SlotOwners | None:
        """Return the owners that this run has to write as the leader; None if there are none.

        Raises:
            K2kError: the layout could not be found.
        """
        if not view.is_leader:
            return None
        layout = self._layout
        is_known = layout is not None and self._fold.owners.layout == layout.id
        if layout is None or not is_known or view.is_outdated or not view.may_use(layout):
            self._layout = layout = self._find_layout()
        # What is found may be the answer to an earlier look, when another file counted.
        if layout is None or not view.may_use(layout):
            return None
        self._sharing.used(layout)
        return self._sharing.next_owners(self._fold, view, layout)

    def write_owners(self, owners: SlotOwners) -> None:
        """Write owners; all runs, this one included, follow them from their next look on.

        Raises:
            ConnectionFailed, TimedOut, Refused: they may or may not have been written.
        """
        log.info("assigning slots, generation %d: %s", owners.generation, _assigned(owners))
        self._log.put(owners_key(self.group), owners_value(owners))

    def remove_silent(self, view: SharingView) -> None:
        """Remove the records of runs that are gone, as the leader; one that is not writes again.

        Otherwise every run that starts later would wait for them.

        Raises:
            ConnectionFailed, TimedOut, Refused: they are removed later.
        """
        if view.is_leader:
            for name in sorted(self.members - set(view.members)):
                log.info("run %s is silent, removing its record", name)
                self._log.put(member_key(self.group, name), None)

    def report(self, holds: Collection[int], outdated: str) -> None:
        """Write this run's record if it has changed or is due.

        Args:
            holds: the slots that it has not released.
            outdated: id of a layout that it found to be outdated, "" for none.

        Raises:
            ConnectionFailed, TimedOut, Refused: the record may or may not have been written.
        """
        generation = self._fold.owners.generation
        now = replace(
            self._record,
            generation=generation,
            holds=frozenset(holds),
            outdated=outdated,
            edition=self._own_edition,
        )
        at = self._reported_at
        if at is not None and self._record == now and self._clock() - at < self._beat_s:
            return
        now = replace(now, beat=now.beat + 1)
        self._log.put(member_key(self.group, self.own), member_value(now))
        self._record, self._reported_at = now, self._clock()

    def _is_over(self, member: Member) -> bool:
        process = member.pid, member.pid_space, member.birth
        return member.runner != self.own and self._has_ended(*process)

    def leave(self) -> None:
        """Remove this run's record: the others share its slots at once.

        Raises:
            ConnectionFailed, TimedOut, Refused: they may wait for the grace window.
        """
        self._log.put(member_key(self.group, self.own), None)


def _assigned(owners: SlotOwners) -> str:
    """Return who owns what, for the log."""
    owned = (
        f"{runner} owns {len(owners.of(runner))}" for runner in sorted({*owners.owners.values()})
    )
    moving = f", {len(owners.releasing)} being released" if owners.releasing else ""
    return f"{', '.join(owned)} of {owners.slots}{moving}"
