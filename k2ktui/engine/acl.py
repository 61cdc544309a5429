"""An ACL, what it covers, and whether it has the form of a fence; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from k2ktui.text import safe_text

TOPIC, GROUP, TRANSACTIONAL_ID = "TOPIC", "GROUP", "TRANSACTIONAL_ID"
ALLOW, DENY = "ALLOW", "DENY"
LITERAL, PREFIXED = "LITERAL", "PREFIXED"
EVERYONE = "User:*"
ANY = "*"
ALL = "ALL"

READING = ("READ", "DESCRIBE", "DESCRIBE_CONFIGS")
CHANGING = ("WRITE", "CREATE", "DELETE", "ALTER", "ALTER_CONFIGS")
# An authorizer takes ALLOW of the first for ALLOW of the second; DENY implies nothing.
_IMPLIED = {
    "DESCRIBE": ("READ", "WRITE", "DELETE", "ALTER"),
    "DESCRIBE_CONFIGS": ("ALTER_CONFIGS",),
}
OPERATIONS: Mapping[str, frozenset[str]] = {
    TOPIC: frozenset({*READING, *CHANGING, ALL}),
    GROUP: frozenset({"READ", "DESCRIBE", "DELETE", "DESCRIBE_CONFIGS", "ALTER_CONFIGS", ALL}),
    TRANSACTIONAL_ID: frozenset({"WRITE", "DESCRIBE", ALL}),
}
# Denied to everyone, these stop producers or consumers.
_FENCING = {TOPIC: {"WRITE"}, GROUP: {"READ", ALL}, TRANSACTIONAL_ID: {"WRITE", ALL}}


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
        how = " prefixed" if self.pattern == PREFIXED else ""
        where = "" if self.host == ANY else f" from {self.host}"
        what = f"{self.kind} {self.name}{how}"
        return safe_text(f"{self.permission} {self.principal} {self.operation} on {what}{where}")

    def covers(self, other: Acl) -> bool:
        """Whether it includes another ACL: the same one, or on a wider resource or operation."""
        return (
            self.permission == other.permission
            and self.principal in (other.principal, EVERYONE)
            and self.host in (other.host, ANY)
            and self._includes(other.operation)
            and self.covers_resource(other)
        )

    def covers_resource(self, other: Acl) -> bool:
        """Whether its resource includes that of another ACL."""
        if self.kind != other.kind:
            return False
        if self.pattern == PREFIXED:
            return other.name.startswith(self.name) and not other.is_general
        return self.is_general or (self.name, self.pattern) == (other.name, other.pattern)

    @property
    def is_general(self) -> bool:
        """Whether it is for all resources of its kind."""
        return self.name == ANY and self.pattern == LITERAL

    def _includes(self, operation: str) -> bool:
        if self.operation in (operation, ALL):
            return True
        return self.permission == ALLOW and self.operation in _IMPLIED.get(operation, ())


def is_fence(acl: Acl) -> bool:
    """Whether an ACL has the form of a fence: it keeps everyone's clients from working.

    That of a drill denies Write on one topic. Operators who fence by hand write wider ones.
    """
    fencing = _FENCING.get(acl.kind, set[str]())
    return acl.permission == DENY and acl.principal == EVERYONE and acl.operation in fencing
