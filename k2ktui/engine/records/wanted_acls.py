"""The ACLs that the target should have, kept there while the source answers.

Without the source nobody could tell what applications are allowed to do. A drill creates what is
missing when it opens the target. See ``docs/internals/record-formats.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from k2ktui.engine.acl import ALLOW, DENY, LITERAL, OPERATIONS, PREFIXED, Acl, is_fence
from k2ktui.engine.strict_json import LARGEST_MS, MalformedRecord, field, flag, integer, rows, text

_MOST = 100_000
_LONGEST = (1 << 15) - 1  # of a string in Kafka's protocol


@dataclass(frozen=True, slots=True)
class WantedAclsKey:
    """Key of the record: a pipeline has one."""


@dataclass(frozen=True, slots=True)
class WantedAclsRecord:
    """What the target should have.

    Attributes:
        cluster: id of the source cluster.
        at_ms: when its ACLs were read, epoch milliseconds by the writer's clock.
        acls: what applications may do before a failover, too; on the target.
        after_failover: what they need only afterwards.
    """

    cluster: str
    at_ms: int
    acls: tuple[Acl, ...] = ()
    after_failover: tuple[Acl, ...] = ()

    @property
    def key(self) -> WantedAclsKey:
        """Key of the record."""
        return WantedAclsKey()

    @property
    def all(self) -> tuple[Acl, ...]:
        """All of them, denials first: what allows must not be there before what limits it."""
        return tuple(
            sorted({*self.acls, *self.after_failover}, key=lambda a: (a.permission == ALLOW, a))
        )


def wanted_acls_body(record: WantedAclsRecord) -> dict[str, Any]:
    """Return the fields of the record's value."""
    return {
        "acls": [
            *(_row(acl, after_failover=False) for acl in record.acls),
            *(_row(acl, after_failover=True) for acl in record.after_failover),
        ],
        "at": record.at_ms,
        "cluster": record.cluster,
    }


def read_wanted_acls(body: Mapping[str, Any]) -> WantedAclsRecord:
    """Decode the fields of a record's value.

    Raises:
        MalformedRecord: they are damaged, or name what parity never copies.
    """
    pairs = [(_acl(row[:-1]), flag(row[-1])) for row in rows(field(body, "acls"), 8, most=_MOST)]
    return WantedAclsRecord(
        cluster=text(field(body, "cluster"), _LONGEST),
        at_ms=integer(field(body, "at"), high=LARGEST_MS),
        acls=tuple(acl for acl, after_failover in pairs if not after_failover),
        after_failover=tuple(acl for acl, after_failover in pairs if after_failover),
    )


def _row(acl: Acl, *, after_failover: bool) -> list[Any]:
    rule = [acl.principal, acl.host, acl.operation, acl.permission]
    return [acl.kind, acl.name, acl.pattern, *rule, after_failover]


def _acl(row: list[Any]) -> Acl:
    acl = Acl(*(text(value, _LONGEST) for value in row))
    if acl.pattern not in (LITERAL, PREFIXED) or acl.permission not in (ALLOW, DENY):
        raise MalformedRecord("not an ACL")
    if acl.operation not in OPERATIONS.get(acl.kind, ()) or not (acl.name and acl.host):
        raise MalformedRecord("an ACL of something that parity does not copy")
    if ":" not in acl.principal:
        raise MalformedRecord("an ACL of nobody")
    if is_fence(acl):
        raise MalformedRecord("an ACL that would keep clients from the target")
    return acl
