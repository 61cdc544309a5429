"""What a drill's record says about the site drill that it belongs to; pure.

A site drill has no record of its own: each member's record carries the same mark, so that the loss
of any target loses no other member's. What several records say is merged by :func:`merge_marks`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import FailFast

from k2ktui.engine.bounded import Text


@dataclass(frozen=True, slots=True)
class SiteMember:
    """A pipeline of a site drill.

    Attributes:
        pipeline: its name.
        drill: id of its own drill.
        target: id of its target cluster; empty if it was not known.
        digest: ``salt:digest`` of its files where the drill began; "" if they could not be read.
    """

    pipeline: Text
    drill: Text
    target: Text = ""
    digest: Text = ""


@dataclass(frozen=True, slots=True)
class DeniedTopics:
    """The source topics to which a member's drill denies Write, or is about to."""

    drill: Text
    topics: Annotated[tuple[Text, ...], FailFast()]


@dataclass(frozen=True, slots=True)
class SiteName:
    """A name of clients, with the ids of the members' drills that share it; it moves once."""

    name: Text
    drills: Annotated[tuple[Text, ...], FailFast()]


@dataclass(frozen=True, slots=True)
class SiteMark:
    """A site drill, as each of its members records it.

    Attributes:
        id: its id.
        name: the site's name, which is typed to confirm.
        cluster: id of the cluster that is left.
        members: the pipelines, in the order of their names.
        left_out: ids of the members' drills that were left out by a typed choice.
        ignored: files that were left out when the drill began: their source was not known.
        denied: the members' fences by access rules: if a target is lost, the others know them.
        names: the clients' names that it moves.
    """

    id: Text
    name: Text
    cluster: Text
    members: Annotated[tuple[SiteMember, ...], FailFast()] = ()
    left_out: Annotated[tuple[Text, ...], FailFast()] = ()
    ignored: Annotated[tuple[Text, ...], FailFast()] = ()
    denied: Annotated[tuple[DeniedTopics, ...], FailFast()] = ()
    names: Annotated[tuple[SiteName, ...], FailFast()] = ()

    def deny(self, drill: str, topics: Iterable[str]) -> SiteMark:
        """Return the mark with the topics of one more fence."""
        known = {*self.find_denied(drill), *topics}
        others = (denied for denied in self.denied if denied.drill != drill)
        denied = (*others, DeniedTopics(drill, tuple(sorted(known))))
        return replace(self, denied=tuple(sorted(denied, key=lambda one: one.drill)))

    def find_denied(self, drill: str) -> tuple[str, ...]:
        """Return the topics of a member's fence; none if it set none."""
        return next((denied.topics for denied in self.denied if denied.drill == drill), ())

    def with_names(self, names: Iterable[SiteName]) -> SiteMark:
        """Return the mark with more names; of one that it has, with all members of both."""
        known = {name.name: set(name.drills) for name in self.names}
        for name in names:
            known.setdefault(name.name, set()).update(name.drills)
        merged = (SiteName(name, tuple(sorted(known[name]))) for name in sorted(known))
        return replace(self, names=tuple(merged))

    def leave_out(self, drills: Iterable[str]) -> SiteMark:
        """Return the mark with more members left out."""
        return replace(self, left_out=tuple(sorted({*self.left_out, *drills})))


def member_drill_id(site_id: str, number: int) -> str:
    """Return the id of a member's drill; ``number`` is its place in the site drill, from 1."""
    return f"{site_id}-{number:03}"


def merge_marks(marks: Iterable[SiteMark]) -> SiteMark:
    """Return what the marks of one site drill say together, in any order.

    A process that was killed has written a choice to some records only; a choice is never taken
    back, so it counts if any record has it.
    """
    known = sorted(marks, key=lambda mark: (mark.name, mark.cluster))
    members = {member.drill: member for mark in known for member in mark.members}
    merged = known[0]
    for denied in (denied for mark in known for denied in mark.denied):
        merged = merged.deny(denied.drill, denied.topics)
    merged = merged.with_names(name for mark in known for name in mark.names)
    return replace(
        merged,
        members=tuple(members[drill] for drill in sorted(members)),
        left_out=tuple(sorted({drill for mark in known for drill in mark.left_out})),
        ignored=tuple(sorted({file for mark in known for file in mark.ignored})),
    )
