"""Compare the ACLs of two clusters for what a failover moves; pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from k2ktui.text import safe_text

_LITERAL, _PREFIXED = "LITERAL", "PREFIXED"
_ANY, _EVERYONE = "*", "User:*"


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    """An ACL with the words of ``kafka-acls.sh``, in capitals.

    Attributes:
        kind: type of the resource: ``TOPIC``, ``GROUP``, ``TRANSACTIONAL_ID``, …
        name: name or prefix of the resource, ``*`` for all.
        pattern: ``LITERAL`` or ``PREFIXED``.
        permission: ``ALLOW`` or ``DENY``.
    """

    kind: str
    name: str
    pattern: str
    principal: str
    host: str
    operation: str
    permission: str

    def __str__(self) -> str:
        how = " prefixed" if self.pattern == _PREFIXED else ""
        where = "" if self.host == _ANY else f" from {self.host}"
        what = f"{self.kind} {self.name}{how}"
        return safe_text(f"{self.permission} {self.principal} {self.operation} on {what}{where}")

    def covers(self, other: Acl) -> bool:
        """Whether it includes another ACL: the same one, or on a wider resource or operation."""
        if (self.kind, self.permission) != (other.kind, other.permission):
            return False
        if self.principal not in (other.principal, _EVERYONE):
            return False
        if self.host not in (other.host, _ANY) or self.operation not in (other.operation, "ALL"):
            return False
        if self.pattern == _PREFIXED:
            return other.name.startswith(self.name)
        return self.name == _ANY or (self.name, self.pattern) == (other.name, other.pattern)


@dataclass(frozen=True, slots=True)
class AclDifference:
    """ACLs that the target lacks, and denials that only the target has.

    ``compared`` is the number of the source's ACLs that concern a failover.
    """

    compared: int
    missing: tuple[Acl, ...]
    denied: tuple[Acl, ...]


def compare_acls(
    source: Iterable[Acl],
    target: Iterable[Acl],
    topics: Mapping[str, Sequence[str]],
    is_moved: Callable[[str], bool],
) -> AclDifference:
    """Compare the ACLs on replicated topics, moved groups and transactional ids.

    Args:
        source, target: all ACLs of both clusters.
        topics: target topics by source topic.
        is_moved: whether a consumer group is moved.
    """
    concerned = [acl for acl in source if _concerns(acl, topics, is_moved)]
    wanted = {each for acl in concerned for each in _rename(acl, topics)}
    there = [
        acl
        for acl in target
        if _concerns(acl, {name for names in topics.values() for name in names}, is_moved)
    ]
    denials = [acl for acl in there if acl.permission == "DENY"]
    missing, denied = _find_uncovered(wanted, there), _find_uncovered(denials, wanted)
    return AclDifference(len(concerned), missing, denied)


def _find_uncovered(acls: Iterable[Acl], by: Iterable[Acl]) -> tuple[Acl, ...]:
    """Return the ACLs that none of the others includes, sorted."""
    present = set(by)
    by_principal: dict[str, list[Acl]] = {}
    for each in present:
        by_principal.setdefault(each.principal, []).append(each)
    return tuple(
        sorted(
            acl
            for acl in acls
            if acl not in present
            and not any(
                each.covers(acl)
                for principal in (acl.principal, _EVERYONE)
                for each in by_principal.get(principal, ())
            )
        )
    )


def _concerns(acl: Acl, topics: Collection[str], is_moved: Callable[[str], bool]) -> bool:
    if acl.kind == "TOPIC":
        if acl.pattern == _PREFIXED:
            return any(name.startswith(acl.name) for name in topics)
        return acl.name == _ANY or acl.name in topics
    if acl.kind == "GROUP":
        # Which groups begin with a prefix is unknown until they exist.
        return acl.name == _ANY or acl.pattern == _PREFIXED or is_moved(acl.name)
    return acl.kind == "TRANSACTIONAL_ID"


def _rename(acl: Acl, topics: Mapping[str, Sequence[str]]) -> list[Acl]:
    """Return the ACLs that an ACL of the source needs on the target's topics."""
    if acl.kind != "TOPIC" or acl.name == _ANY:
        return [acl]
    if acl.pattern != _PREFIXED:
        return [replace(acl, name=to) for to in topics[acl.name]]
    covered = {name: to for name, to in topics.items() if name.startswith(acl.name)}
    if all(tuple(to) == (name,) for name, to in covered.items()):
        return [acl]
    # No prefix is certain to cover the new names.
    named = sorted({name for to in covered.values() for name in to})
    return [replace(acl, name=name, pattern=_LITERAL) for name in named]
