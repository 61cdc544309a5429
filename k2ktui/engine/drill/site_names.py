"""The clients' names of a site drill: which members share one, who moves it, and when; pure.

A name moves once. The first member of those that share it, by the ids of their drills, runs its
commands when none of the others is held or left out; the others look at what it has done. So the
record of each says what became of the name, and the loss of one leaves the others where they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.hooks import HookRecord, HookRole, HookStatus
from k2ktui.engine.drill.model import DrillStatus, PhaseStatus
from k2ktui.engine.drill.site import MemberState, MemberStatus, SiteDrill
from k2ktui.engine.drill.site_mark import SiteName
from k2ktui.errors import Refused
from k2ktui.text import list_names, safe_text

_NAMED = 5
_UNCHANGED = "Nothing was changed."


@dataclass(frozen=True, slots=True)
class NameUse:
    """What a pipeline's file says about the clients' name.

    Attributes:
        pipeline: name of the pipeline.
        drill: id of its drill; "" if the site drill does not move it.
        target: id of its target cluster; "" if not known.
        name: the name, as the file has it.
        places: addresses of the name, and servers of proxies that lead clients.
        digest: of everything that cuts clients off and moves the name.
    """

    pipeline: str
    drill: str
    target: str
    name: str
    places: frozenset[str]
    digest: str


def plan_names(members: Sequence[NameUse], others: Iterable[NameUse] = ()) -> tuple[SiteName, ...]:
    """Return the names that a site drill moves, each with the members that share it.

    Args:
        members: the pipelines that it moves whose files have the clients' name.
        others: those that leave the same cluster, and that it does not move.

    Raises:
        Refused: two members move one name in two ways or to two clusters, or a pipeline that is
            not moved shares one.
    """
    for number, use in enumerate(members):
        for other in members[number + 1 :]:
            _refuse_two_ways(use, other)
    for use in members:
        for other in others:
            if use.places & other.places:
                raise Refused(
                    f"{_both(use, other)} share the clients' name {safe_text(use.name)}, and "
                    f"{safe_text(other.pipeline)} is not moved: the name does not move for one of "
                    "them",
                    unchanged=_UNCHANGED,
                    hint="Move both, or give each a name of its own in drill.redirect.",
                )
    drills: dict[str, list[str]] = {}
    for use in members:
        drills.setdefault(use.name, []).append(use.drill)
    return tuple(SiteName(name, tuple(sorted(drills[name]))) for name in sorted(drills))


def _refuse_two_ways(use: NameUse, other: NameUse) -> None:
    both = use.places & other.places
    if not both:
        return
    place = safe_text(min(both))
    if use.digest != other.digest:
        raise Refused(
            f"{_both(use, other)} share {place}, and their drill.redirect differs: it is not known "
            "which of them moves it",
            unchanged=_UNCHANGED,
            hint="Give them the same name, commands, haproxy or dns, and time-out in "
            "drill.redirect, or names and servers of their own.",
        )
    if use.target and other.target and use.target != other.target:
        raise Refused(
            f"{_both(use, other)} share the clients' name {safe_text(use.name)}, and go to two "
            "clusters: a name leads to one",
            unchanged=_UNCHANGED,
            hint="Give each a name of its own in drill.redirect, or move one with --only REGEX.",
        )


def _both(use: NameUse, other: NameUse) -> str:
    return f"{safe_text(use.pipeline)} and {safe_text(other.pipeline)}"


class Turn(StrEnum):
    """What a member does about its name now."""

    ACT = "act"
    WAIT = "wait"
    FOLLOW = "follow"
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class NameTurn:
    """What a member does about its name now.

    Attributes:
        turn: it runs the command, waits, looks at what another member has done, or does nothing.
        why: in one line, with the members it is about; "" for one that shares no name.
        addresses: where clients reached the source before another member cut them off.
        leads: whether it is the one that runs the command.
        is_final: whether the name moves only by hand, as a member that shares it goes back.
    """

    turn: Turn
    why: str = ""
    addresses: tuple[str, ...] = ()
    leads: bool = True
    is_final: bool = False


ALONE_TURN = NameTurn(Turn.ACT)


def list_sharers(site: SiteDrill, drill_id: str) -> list[MemberState]:
    """Return the other members that share a member's name, in the order of their ids."""
    ids = {drill for name in site.mark.names if drill_id in name.drills for drill in name.drills}
    return [member for member in site.members if member.member.drill in ids - {drill_id}]


def find_turn(site: SiteDrill, drill_id: str, phase: DrillPhase) -> NameTurn:
    """Return what a member does about its name in a phase: the redirect, or one that cuts off.

    Args:
        site: the site drill as it is now.
        drill_id: id of the member's drill.
        phase: the phase that it is in.
    """
    others = list_sharers(site, drill_id)
    if not others:
        return ALONE_TURN
    role = HookRole.REDIRECT if phase is DrillPhase.REDIRECT else HookRole.CUT_OFF
    first = others[0]
    leads = drill_id < first.member.drill
    if not leads and (record := _find_done(first, role)) is not None:
        why = f"{safe_text(first.pipeline)} has run it, which shares the name"
        return NameTurn(Turn.FOLLOW, why, record.addresses, leads=False)
    if why := _explain_stay(site, drill_id, others, opened_is_enough=role is HookRole.REDIRECT):
        return NameTurn(Turn.HOLD, why, leads=leads, is_final=any(map(_is_back, others)))
    return _lead(others, role, phase) if leads else _follow(first, phase)


def _follow(first: MemberState, phase: DrillPhase) -> NameTurn:
    """Return what a member does whose name another one moves that has not done it."""
    name = f"{safe_text(first.pipeline)}, which runs it for all that share the name"
    if not first.acting or _has_passed(first, phase):
        return NameTurn(Turn.HOLD, f"not done by {name}", leads=False)
    return NameTurn(Turn.WAIT, f"waits for {name}", leads=False)


def _lead(others: Sequence[MemberState], role: HookRole, phase: DrillPhase) -> NameTurn:
    """Return what the member does that moves the name for the others, too."""
    missing = [
        other.pipeline
        for other in others
        if not (_has_come(other, role) or _has_passed(other, phase))
    ]
    if missing:
        at = DrillPhase.OPEN_TARGET if role is HookRole.REDIRECT else phase
        why = f"waits for {at} of {list_names(missing, _NAMED)}, which shares the name"
        return NameTurn(Turn.WAIT, why)
    return NameTurn(Turn.ACT, f"for {_names(others)}, too")


def _has_passed(member: MemberState, phase: DrillPhase) -> bool:
    """Return whether a member has gone on; without the source, a cut-off that fails stops none."""
    return member.drill is not None and member.drill.record(phase).status is PhaseStatus.DONE


def _has_come(member: MemberState, role: HookRole) -> bool:
    """Return whether a member has recorded that the name may be cut off, or has opened its target.

    Whoever records it can undo the cut-off: the member that runs it may be lost.
    """
    if role is HookRole.REDIRECT:
        return _has_opened(member)
    record = _find_part(member, role)
    return record is not None and record.status in (HookStatus.RUNNING, HookStatus.DONE)


def _find_part(member: MemberState, role: HookRole) -> HookRecord | None:
    hooks = member.drill.hooks if member.drill is not None else ()
    return next((record for record in hooks if record.role is role), None)


def _find_done(member: MemberState, role: HookRole) -> HookRecord | None:
    record = _find_part(member, role)
    return record if record is not None and record.status is HookStatus.DONE else None


def _has_opened(member: MemberState) -> bool:
    return member.drill is not None and member.drill.figures.opened_ms is not None


def explain_no_opening(site: SiteDrill, drill_id: str) -> str:
    """Return why a member must not open its target, as its name would not move; "" if it may."""
    others = list_sharers(site, drill_id)
    return _explain_stay(site, drill_id, others, opened_is_enough=True)


def _explain_stay(
    site: SiteDrill, drill_id: str, others: Iterable[MemberState], *, opened_is_enough: bool
) -> str:
    """Return why a name stays where it is: a member that shares it is held or left out."""
    why = {}
    for other in others:
        if _is_back(other):
            why[other.pipeline] = str(other.status)
        elif not other.acting and not (opened_is_enough and _has_opened(other)):
            why[other.pipeline] = str(MemberStatus.HELD)
    if not why:
        return ""
    listed = list_names([f"{safe_text(name)} ({state})" for name, state in why.items()], _NAMED)
    return f"the name {safe_text(_name_of(site, drill_id))} is shared with {listed}"


def _is_back(member: MemberState) -> bool:
    """Return whether a member goes back, or has gone back, to the source."""
    statuses = (DrillStatus.ABORTING, DrillStatus.ABORTED)
    return member.left_out or (member.drill is not None and member.drill.status in statuses)


def advise_stay(site: SiteDrill, drill_id: str) -> str:
    """Return what to do about a name that stays because of members that share it."""
    back = [other.pipeline for other in list_sharers(site, drill_id) if _is_back(other)]
    if _has_opened(site.find(drill_id)):
        first = "" if back else "Correct why they are held, and resume. Or move"
        return f"{first or 'Move'} the name by hand, and resume: the drill looks where it leads."
    if not back:
        return "Correct why they are held, and resume; or abort the drill."
    name = safe_text(site.find(drill_id).pipeline)
    return f"The name never moves in this drill: leave {name} out, too (--leave-out)."


def explain_kept_cut(site: SiteDrill, drill_id: str) -> str:
    """Return why an abort must not lead clients to the source again; "" if it may.

    Clients of a member whose target is open would write to the cluster that it has left.
    """
    opened = [other for other in list_sharers(site, drill_id) if _has_opened(other)]
    return f"{_names(opened)} shares the name, and its target is open" if opened else ""


def _names(members: Sequence[MemberState]) -> str:
    return list_names([member.pipeline for member in members], _NAMED)


def _name_of(site: SiteDrill, drill_id: str) -> str:
    return next(name.name for name in site.mark.names if drill_id in name.drills)


def describe_sharing(site: SiteDrill, drill_id: str) -> str:
    """Return who moves a member's name, and when; "" if it shares none."""
    others = list_sharers(site, drill_id)
    if not others:
        return ""
    first = min([site.find(drill_id), *others], key=lambda member: member.member.drill)
    return (
        f"Shared with {_names(others)}: {safe_text(first.pipeline)} runs it, once for all, and the "
        "name moves when the targets of all are open"
    )


def list_users(site: SiteDrill, name: SiteName) -> list[MemberState]:
    """Return the members whose clients have a name."""
    return [member for member in site.members if member.member.drill in name.drills]


def describe_name(site: SiteDrill, name: SiteName) -> str:
    """Return a name, whose it is, where it is, and when it moves, in one line; safe to print."""
    users = _names(list_users(site, name))
    return f"Name {safe_text(name.name)} of {users}: {describe_place(site, name)}"


def describe_place(site: SiteDrill, name: SiteName) -> str:
    """Return where a name is, and when it moves; safe to print."""
    members = list_users(site, name)
    when = "the targets of all are open" if len(members) > 1 else "its target is open"
    if any(_find_done(member, HookRole.REDIRECT) for member in members):
        return "moved to the target"
    back = [member for member in members if _is_back(member)]
    if back:
        return f"not moved; left out or aborted: {_names(back)}"
    held = [member for member in members if member.status is MemberStatus.HELD]
    if held:
        return f"not moved; held: {_names(held)}"
    is_cut = any(_find_done(member, HookRole.CUT_OFF) for member in members)
    return f"clients are cut off; moves once {when}" if is_cut else f"moves once {when}"


def describe_lost_names(site: SiteDrill, left_out: Collection[str]) -> list[str]:
    """Return what leaving members out means for those that share a name with them."""
    lines = []
    for member in site.moving:
        drill_id = member.member.drill
        shared = [one for one in list_sharers(site, drill_id) if one.member.drill in left_out]
        if shared and drill_id not in left_out and not _has_opened(member):
            name = safe_text(_name_of(site, drill_id))
            lines.append(
                f"{safe_text(member.pipeline)} shares the name {name} with {_names(shared)}: the "
                "name does not move then, and its target is not opened"
            )
    return lines


def list_covering(site: SiteDrill, drill_id: str) -> list[MemberState]:
    """Return the other members whose topics and groups move, too: a cut-off may meet them."""
    return [
        member
        for member in site.members
        if member.member.drill != drill_id
        and not _is_back(member)
        and (member.acting or member.status is not MemberStatus.HELD)
    ]
