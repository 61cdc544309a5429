"""ACLs as items of parity: their differences, and their texts; pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from k2ktui.engine.acl import ALLOW, ANY, DENY, LITERAL, OPERATIONS, PREFIXED, Acl
from k2ktui.engine.drill.changes import read_denied_topics
from k2ktui.engine.drill.model import ChangeKind, ChangeStatus, Drill
from k2ktui.engine.parity.acls import AclDifference, AclNotCopied, AclWrite, WantedAcl
from k2ktui.engine.parity.model import Difference, ParityAction, ParityItem, ParityWrite
from k2ktui.engine.parity.rules import ParityKind
from k2ktui.engine.strict_json import MalformedRecord
from k2ktui.text import safe_text

PRESENT = "yes"
_LATER = {
    "report": "applications need it after a failover, and parity.acls.write is report",
    "afterFailover": "a drill creates it when it opens the target",
}


def acl_item(acl: Acl) -> ParityItem:
    """Return an ACL as the item of a difference; :func:`read_acl` reads it back."""
    name = f"{acl.kind} {acl.pattern} {acl.name}"
    key = f"{acl.permission} {acl.operation} {acl.host} {acl.principal}"
    return ParityItem(ParityKind.ACL, name, key)


def read_acl(item: ParityItem) -> Acl:
    """Return the ACL of an item.

    Raises:
        MalformedRecord: it is not the item of an ACL.
    """
    resource, rule = item.name.split(" ", 2), item.key.split(" ", 3)
    if len(resource) < 3 or len(rule) < 4:
        raise MalformedRecord("not an ACL")
    (kind, pattern, name), (permission, operation, host, principal) = resource, rule
    if permission not in (ALLOW, DENY) or pattern not in (LITERAL, PREFIXED):
        raise MalformedRecord("not an ACL")
    if operation not in OPERATIONS.get(kind, ()):
        raise MalformedRecord("an ACL of something that parity does not copy")
    return Acl(kind, name, pattern, principal, host, operation, permission)


def acl_creation(acl: Acl) -> ParityWrite:
    """Return the write that creates an ACL."""
    return ParityWrite(acl_item(acl), None, PRESENT)


def find_denied(drills: Iterable[Drill]) -> dict[str, str]:
    """Return the topics on which a drill has denied Write, with the drill's id."""
    denied: dict[str, str] = {}
    for drill in drills:
        for change in drill.changes:
            if change.kind is not ChangeKind.ACLS or change.status is ChangeStatus.UNDONE:
                continue
            try:
                denied |= dict.fromkeys(read_denied_topics(change), drill.id)
            except MalformedRecord:
                continue  # its rules have the form of a fence
    return denied


def acl_differences(
    difference: AclDifference,
    not_copied: Sequence[AclNotCopied],
    target: Collection[Acl],
    compares: Callable[[str], bool],
    write: AclWrite,
    denied: Collection[str] = (),
) -> list[Difference]:
    """Return what differs as rows of a plan, denials that are wanted first.

    Args:
        difference: how the target's ACLs differ.
        not_copied: what the target should not have.
        target: all ACLs of the target.
        compares: which principals are compared.
        write: what is done with rights that applications need only after a failover.
        denied: topics of the target on which a drill has denied Write.
    """
    rows = [
        *(_missing(wanted, write) for wanted in difference.missing),
        *(_stale(acl) for acl in difference.stale),
        *(_denied(acl, denied) for acl in difference.denied),
        *(_not_copied(left.acl, left.why, left.acl in target) for left in not_copied),
    ]
    # What is left out for several reasons is one row; what is wanted is no other row.
    by_item: dict[ParityItem, Difference] = {}
    for row in rows:
        if compares(read_acl(row.item).principal):
            by_item.setdefault(row.item, row)
    return list(by_item.values())


def _missing(wanted: WantedAcl, write: AclWrite) -> Difference:
    action, why = ParityAction.SET, "the source has it"
    if wanted.after_failover and write != "now":
        action, why = ParityAction.REPORT, _LATER[write]
    origin = "" if wanted.acl == wanted.source else str(wanted.source)
    return Difference(acl_item(wanted.acl), PRESENT, None, None, PRESENT, action, why, origin)


def _stale(acl: Acl) -> Difference:
    why = "nothing on the source asks for it any more, and parity had created it"
    return Difference(acl_item(acl), None, PRESENT, PRESENT, None, ParityAction.REMOVE, why)


def _denied(acl: Acl, denied: Collection[str]) -> Difference:
    why = "only the target denies it, and parity has not created it: remove it there yourself"
    if acl.name in denied:
        why = "a drill has set it on the target to fence producers"
    return Difference(acl_item(acl), None, PRESENT, PRESENT, None, ParityAction.REPORT, why)


def _not_copied(acl: Acl, why: str, present: bool) -> Difference:
    value = PRESENT if present else None
    return Difference(
        acl_item(acl), PRESENT, value, value, value, ParityAction.REPORT, f"not copied: {why}"
    )


def describe_acls(acls: Iterable[Acl]) -> list[str]:
    """Return ACLs as lines, one for each principal and what it may do, safe to print."""
    names: dict[tuple[str, ...], list[str]] = {}
    for acl in acls:
        how = " prefixed" if acl.pattern == PREFIXED else ""
        rest = acl.permission, acl.principal, acl.host, acl.operation, acl.kind
        names.setdefault(rest, []).append(f"{acl.name}{how}")
    lines = []
    for (permission, principal, host, operation, kind), resources in names.items():
        where = "" if host == ANY else f" from {host}"
        which = ", ".join(sorted(resources))
        lines.append(safe_text(f"{permission} {principal} {operation} on {kind} {which}{where}"))
    return lines
