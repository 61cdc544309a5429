"""Clients of a drill: who was in each group on the source, and who came to the target; pure.

A client keeps its instance id, its client id or its host on the other cluster, and seldom all of
them. Who is missing is named by what was seen of it on the source.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from k2ktui.engine.bounded import Millis, Text
from k2ktui.engine.members import (
    GroupMember,
    describe_assigned,
    name_member,
    sort_members,
)
from k2ktui.text import counted, duration, join_first, list_texts, safe_text

# A drill is one record: of more clients of a group, and of the drill, the others are only counted.
MOST_OF_GROUP, MOST_CLIENTS = 20, 500
_NAMED_GROUPS, _NAMED = 3, 4


@dataclass(frozen=True, slots=True)
class GroupClient:
    """A member of a group on the source.

    Attributes:
        client_id, host, instance_id: as of :class:`GroupMember`.
        reads: what it was assigned, in words; "" if it is not known.
        left_ms: when it was last seen on the source.
        came_ms: when it was first seen on the target; None if it was not.
    """

    client_id: Text
    host: Text
    instance_id: Text
    reads: Text
    left_ms: Millis
    came_ms: Millis | None = None

    @property
    def name(self) -> str:
        """Who it is, safe to print."""
        return name_member(self.member)

    @property
    def member(self) -> GroupMember:
        """The member that it was."""
        return GroupMember(self.client_id, self.host, self.instance_id)

    @property
    def gap_s(self) -> float | None:
        """Seconds for which it was on neither cluster, at most; None if it has not come."""
        return None if self.came_ms is None else max(0, self.came_ms - self.left_ms) / 1000


Clients = tuple[GroupClient, ...]
_Key = Callable[[GroupMember], Hashable]
# A static member is known by its instance id, which is its own; others by what they have kept.
_KEYS: tuple[_Key, ...] = (
    lambda m: m.instance_id or None,
    lambda m: (m.client_id, m.host),
    lambda m: m.client_id,
)


def see_on_source(
    known: Clients, members: Iterable[GroupMember], now_ms: int, room: int = MOST_OF_GROUP
) -> Clients:
    """Return the clients of a group after its members on the source were read.

    Of a group with as many members as before, those that are not among them were replaced.

    Args:
        known: the clients so far.
        members: its members now.
        now_ms: when they were read.
        room: number of further clients that may be recorded.
    """
    seen = sort_members(members)
    matched = _match([client.member for client in known], seen, _KEYS[:2])
    stay = tuple(
        replace(client, left_ms=now_ms, reads=describe_assigned(member.assigned) or client.reads)
        if (member := matched.get(number)) is not None
        else client
        for number, client in enumerate(known)
        if number in matched or len(seen) < len(known)
    )
    taken = {id(member) for member in matched.values()}
    new = [member for member in seen if id(member) not in taken]
    most = max(0, min(room + len(known) - len(stay), MOST_OF_GROUP - len(stay)))
    return stay + tuple(
        GroupClient(m.client_id, m.host, m.instance_id, describe_assigned(m.assigned), now_ms)
        for m in new[:most]
    )


def see_on_target(known: Clients, members: Iterable[GroupMember], now_ms: int) -> Clients:
    """Return the clients of a group after its members on the target were read."""
    matched = _match([client.member for client in known], sort_members(members), _KEYS)
    return tuple(
        replace(client, came_ms=now_ms) if number in matched and client.came_ms is None else client
        for number, client in enumerate(known)
    )


def find_missing(known: Clients, number: int) -> Clients:
    """Return the clients that have not come; none if a group has as many members as before.

    Args:
        known: the clients of a group.
        number: number of its members on the target: those that changed all their names count.
    """
    if number >= len(known):
        return ()
    return tuple(client for client in known if client.came_ms is None)


def describe_come(groups: Mapping[str, Clients], missing: Mapping[str, Clients]) -> str:
    """Return how many clients have come, and who has not; "" if none was seen on the source.

    Args:
        groups: the clients of each group.
        missing: those of them that are missing.
    """
    clients = [client for of in groups.values() for client in of]
    if not clients:
        return ""
    gaps = [client.gap_s for client in clients if client.gap_s is not None]
    text = f"{len(gaps):,} of {counted(len(clients), 'client')} came"
    if gaps:
        text += f", gap at most {duration(max(gaps), tenths=True)}"
    absent = [
        f"{safe_text(name)}: {list_texts([client.name for client in of], _NAMED)}"
        for name in sorted(groups)
        if (of := missing.get(name, ()))
    ]
    return text + (f"; not yet: {join_first(absent, _NAMED_GROUPS)}" if absent else "")


def _match(
    known: Sequence[GroupMember], seen: Sequence[GroupMember], keys: Sequence[_Key]
) -> dict[int, GroupMember]:
    """Return which of the known members each seen one is; each counts once."""
    matched: dict[int, GroupMember] = {}
    left = list(seen)
    for key in keys:
        for number, member in enumerate(known):
            wanted = key(member)
            if number in matched or wanted is None:
                continue
            same = next((one for one in left if key(one) == wanted), None)
            if same is not None:
                matched[number] = same
                left.remove(same)
    return matched
