"""A site drill: several pipelines that leave one cluster together; pure.

Each member is a drill of its own, in the state topic of its target. The site drill is what their
records say together: nothing else is stored. Times are epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.hooks import hook_step
from k2ktui.engine.drill.model import (
    ChangeKind,
    Drill,
    DrillStatus,
    PhaseStatus,
    phases_of,
)
from k2ktui.engine.drill.site_mark import SiteMark, SiteMember, merge_marks
from k2ktui.engine.drill.steps import find_change, next_phase

_OVER = (PhaseStatus.DONE, PhaseStatus.SKIPPED)
BARRIER = DrillPhase.OPEN_TARGET
"""No member begins this phase before each other one is verified or left out."""


class MemberStatus(StrEnum):
    """Where a member is; ``held``: it failed, and does not keep the others from going on."""

    WAITING = "waiting"
    RUNNING = "running"
    HELD = "held"
    READY = "ready"
    OPENED = "opened"
    DONE = "done"
    LEFT_OUT = "left out"
    ABORTING = "aborting"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True)
class MemberState:
    """A member of a site drill as it is now.

    Attributes:
        member: which pipeline it is.
        drill: its drill; None if it was not begun, or its target does not answer.
        left_out: whether it was left out by a typed choice.
        acting: whether a process acts on it now.
        error: why it does not go on, or cannot be read; safe to print.
        file: its file in this directory; "" if it has none.
    """

    member: SiteMember
    drill: Drill | None = None
    left_out: bool = False
    acting: bool = False
    error: str = ""
    file: str = ""

    @property
    def pipeline(self) -> str:
        """Name of the pipeline, as its record or file says."""
        return self.member.pipeline

    @property
    def is_open(self) -> bool:
        """Whether its drill was begun, and something is left to do."""
        return self.drill is not None and not self.drill.is_over

    @property
    def status(self) -> MemberStatus:
        """Where it is, in one word."""
        drill = self.drill
        if self.left_out:
            return MemberStatus.LEFT_OUT
        if drill is None:
            return MemberStatus.HELD if self.error else MemberStatus.WAITING
        if drill.status is DrillStatus.ABORTED:
            return MemberStatus.ABORTED
        if drill.status is DrillStatus.ABORTING:
            return MemberStatus.ABORTING
        if drill.status is DrillStatus.DONE:
            return MemberStatus.DONE
        if self.error or _has_failed(drill):
            return MemberStatus.HELD
        if drill.figures.opened_ms is not None:
            return MemberStatus.OPENED
        if next_phase(drill) is BARRIER:
            return MemberStatus.READY
        return MemberStatus.RUNNING if self.acting else MemberStatus.WAITING


def _has_failed(drill: Drill) -> bool:
    phase = next_phase(drill)
    return phase is not None and drill.record(phase).status is PhaseStatus.FAILED


@dataclass(frozen=True, slots=True)
class SiteDrill:
    """A site drill: its members, in the order of their names.

    Attributes:
        mark: what all records say about it.
        kind: its kind.
        members: its members as they are now.
    """

    mark: SiteMark
    kind: DrillKind
    members: tuple[MemberState, ...]

    @property
    def id(self) -> str:
        """Its id."""
        return self.mark.id

    @property
    def name(self) -> str:
        """The site's name."""
        return self.mark.name

    @property
    def drills(self) -> list[Drill]:
        """The members' drills that could be read."""
        return [member.drill for member in self.members if member.drill is not None]

    @property
    def phases(self) -> tuple[DrillPhase, ...]:
        """The phases of its members; that of the clients' name, too, if one of them moves it."""
        return phases_of(self.kind, redirects=any(drill.redirects for drill in self.drills))

    @property
    def moving(self) -> list[MemberState]:
        """The members that were not left out."""
        return [member for member in self.members if not member.left_out]

    @property
    def status(self) -> DrillStatus:
        """``done`` and ``aborted`` only if no member is left; ``aborting`` if one is."""
        statuses = {member.status for member in self.moving}
        if MemberStatus.ABORTING in statuses:
            return DrillStatus.ABORTING
        if statuses <= {MemberStatus.ABORTED}:
            return DrillStatus.ABORTED
        over = {MemberStatus.DONE, MemberStatus.ABORTED}
        return DrillStatus.DONE if statuses <= over else DrillStatus.OPEN

    @property
    def next_verb(self) -> str:
        """The command that continues it: once an abort has begun, only that can."""
        return "abort" if self.status is DrillStatus.ABORTING else "resume"

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to do."""
        return self.status in (DrillStatus.DONE, DrillStatus.ABORTED)

    @property
    def started_ms(self) -> int:
        """When its first member began; 0 without one."""
        return min((drill.started_ms for drill in self.drills), default=0)

    def find(self, drill_id: str) -> MemberState:
        """Return a member by its drill's id."""
        return next(member for member in self.members if member.member.drill == drill_id)

    def put(self, state: MemberState) -> SiteDrill:
        """Return the site drill with another state of a member."""
        drill_id = state.member.drill
        members = (state if old.member.drill == drill_id else old for old in self.members)
        return replace(self, members=tuple(members))

    def leave_out(self, drill_ids: Iterable[str]) -> SiteDrill:
        """Return the site drill without some of its members."""
        return self.with_mark(self.mark.leave_out(drill_ids))

    def with_mark(self, mark: SiteMark) -> SiteDrill:
        """Return the site drill with what its records say from now on."""
        members = (
            replace(member, left_out=member.member.drill in mark.left_out)
            for member in self.members
        )
        return replace(self, mark=mark, members=tuple(members))


def gather_site(
    drills: Iterable[Drill],
    errors: Mapping[str, str],
    acting: Iterable[str] = (),
    files: Mapping[str, str] | None = None,
) -> SiteDrill:
    """Return the site drill that records of its members describe; at least one.

    Args:
        drills: the members' drills that could be read.
        errors: why others could not, by the name of the pipeline.
        acting: ids of the drills on which a process acts.
        files: the files of this directory, by the name of the pipeline.
    """
    by_id = {drill.id: drill for drill in drills if drill.site is not None}
    mark = merge_marks(drill.site for drill in by_id.values() if drill.site is not None)
    acting = frozenset(acting)
    members = tuple(
        MemberState(
            member,
            by_id.get(member.drill),
            member.drill in mark.left_out,
            member.drill in acting,
            "" if member.drill in by_id else errors.get(member.pipeline, ""),
            (files or {}).get(member.pipeline, ""),
        )
        for member in mark.members
    )
    kinds = {drill.kind for drill in by_id.values()}
    # One that was turned into a disaster takes the others with it.
    kind = DrillKind.DISASTER if DrillKind.DISASTER in kinds else next(iter(kinds))
    return SiteDrill(mark, kind, members)


def is_verified(drill: Drill) -> bool:
    """Return whether a drill is through ``verify``, or needs it no more: its target is open."""
    if drill.status in (DrillStatus.ABORTING, DrillStatus.ABORTED):
        return False
    opened = drill.figures.opened_ms is not None
    return opened or drill.record(DrillPhase.VERIFY).status in _OVER


def find_unverified(site: SiteDrill) -> list[MemberState]:
    """Return the members because of which no other one may open its target."""
    return [
        member for member in site.moving if member.drill is None or not is_verified(member.drill)
    ]


def needs_fence(member: MemberState) -> bool:
    """Return whether a member needs the source's producers to stay fenced.

    One that cannot be read may need it.
    """
    if member.left_out:
        return False
    status = member.drill.status if member.drill is not None else DrillStatus.OPEN
    return status not in (DrillStatus.ABORTING, DrillStatus.ABORTED)


def list_fence_users(site: SiteDrill, *, but: str = "") -> list[MemberState]:
    """Return the members that need the fence of the source, but one by its drill's id."""
    return [member for member in site.members if member.member.drill != but and needs_fence(member)]


def may_restore_fence(member: MemberState, kind: ChangeKind) -> bool:
    """Return whether a member has recorded the fence of the source; one that is not read may have.

    A fence is never kept for one that has not: its abort would restore nothing.
    """
    if member.drill is None:
        return bool(member.error)
    return find_change(member.drill, kind) is not None


def find_question(
    kind: DrillKind, waiting: Mapping[str, str], running: Mapping[str, DrillPhase | None]
) -> str | None:
    """Return what can be confirmed for all now; None if a member may still come to it.

    Args:
        kind: kind of the drill.
        waiting: the phases, and the hooks before or after one, that members ask about, by drill.
        running: the phases that the other ones run, which have not ended; None if unknown.
    """
    if not waiting:
        return None
    place: dict[str, int] = {}
    for number, phase in enumerate(phases_of(kind, redirects=True)):
        steps = (hook_step(phase, after=False), str(phase), hook_step(phase, after=True))
        place |= {step: 3 * number + nth for nth, step in enumerate(steps)}
    first = min(waiting.values(), key=lambda step: place.get(step, 0))
    for running_phase in running.values():
        # Where in its phase a member is, is not known: it may come to the hooks before it.
        at = None if running_phase is None else place.get(str(running_phase), 0) - 1
        if at is None or at <= place.get(first, 0):
            return None
    return first


def can_all_go_back(site: SiteDrill) -> bool:
    """Return whether an abort restores everything: no member has opened its target."""
    return all(drill.figures.opened_ms is None for drill in site.drills)
