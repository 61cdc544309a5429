"""Members of consumer groups by name: who they are, where they run and what they read; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from k2ktui.engine.bounded import Number, Text
from k2ktui.text import join_first, list_texts, safe_text

# What a client calls itself is text of any length.
_LONGEST, _SHOWN = 200, 60
# No topic has a longer name: what assigns one was made up.
_LONGEST_TOPIC = 249
_NAMED_TOPICS, _NAMED_SPANS = 3, 6
_NAMED_GROUPS, _NAMED_MEMBERS = 3, 4

Assigned = tuple[tuple[Text, tuple[Number, ...]], ...]


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a consumer group, as its coordinator describes it.

    Attributes:
        client_id: what the client calls itself; librdkafka's default is ``rdkafka``.
        host: the address that the broker sees.
        instance_id: ``group.instance.id`` of a static member; "" for others.
        assigned: topics with partitions; None if it is not known, as while a group rebalances.
    """

    client_id: Text
    host: Text
    instance_id: Text = ""
    assigned: Assigned | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the object that ``--json`` prints of it."""
        return asdict(self)


def make_member(
    client_id: str,
    host: str,
    instance_id: str = "",
    assigned: Mapping[str, Iterable[int]] | None = None,
) -> GroupMember:
    """Return a member from what a broker says of it, which a client may have made up."""
    return GroupMember(
        client_id[:_LONGEST],
        host.removeprefix("/")[:_LONGEST],
        instance_id[:_LONGEST],
        None
        if assigned is None or any(len(topic) > _LONGEST_TOPIC for topic in assigned)
        else tuple(
            (topic, tuple(sorted({number for number in assigned[topic] if number >= 0})))
            for topic in sorted(assigned)
        ),
    )


def sort_members(members: Iterable[GroupMember]) -> list[GroupMember]:
    """Return members in the order in which they are shown."""
    return sorted(members, key=lambda m: (m.client_id, m.instance_id, m.host, m.assigned or ()))


def name_member(member: GroupMember) -> str:
    """Return a member's client id, instance id and host, safe to print."""
    text = safe_text(member.client_id, _SHOWN) or "a client without an id"
    if member.instance_id:
        text += f" (instance {safe_text(member.instance_id, _SHOWN)})"
    return f"{text} on {safe_text(member.host, _SHOWN) or 'an unknown host'}"


def describe_member(member: GroupMember) -> str:
    """Return who a member is and what it reads, safe to print."""
    reads = describe_assigned(member.assigned)
    return f"{name_member(member)} reads {reads}" if reads else name_member(member)


def describe_assigned(assigned: Assigned | None) -> str:
    """Return partitions as text, such as ``orders 0-3,7 + payments 1``; "" if not known."""
    if assigned is None:
        return ""
    texts = [
        f"{safe_text(topic, _SHOWN)} {_join_spans(numbers)}"
        for topic, numbers in assigned
        if numbers
    ]
    return list_texts(texts, _NAMED_TOPICS, " + ") or "nothing"


def describe_members(members: Iterable[GroupMember], most: int = _NAMED_MEMBERS) -> str:
    """Return the first members of a group, and the number of further ones; "" for none."""
    return list_texts([describe_member(member) for member in sort_members(members)], most)


def name_groups(groups: Mapping[str, Collection[GroupMember]]) -> str:
    """Return the first groups, each with its members, and the number of further groups."""
    texts = []
    for name, members in sorted(groups.items()):
        known = describe_members(members)
        texts.append(safe_text(name) + (f": {known}" if known else ""))
    return join_first(texts, _NAMED_GROUPS)


def _join_spans(numbers: Sequence[int]) -> str:
    spans = [*_spans(numbers)]
    return list_texts(spans, _NAMED_SPANS, ",")


def _spans(numbers: Sequence[int]) -> Iterator[str]:
    first = last = -1
    for number in (*numbers, -1):
        if number == last + 1 and last >= 0:
            last = number
            continue
        if first >= 0:
            yield str(first) if first == last else f"{first}-{last}"
        first = last = number
