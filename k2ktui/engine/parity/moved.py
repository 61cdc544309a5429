"""Topics that drills moved to the target: parity leaves their settings and ACLs alone; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from k2ktui.engine.acl import PREFIXED, TOPIC, Acl
from k2ktui.engine.parity.acl_items import read_acl
from k2ktui.engine.parity.acls import WantedAcl
from k2ktui.engine.parity.model import Difference, ParityAction, ParityItem
from k2ktui.engine.parity.rules import ParityKind
from k2ktui.engine.strict_json import MalformedRecord

COVERS_MOVED = "it covers topics that were moved to the target: change it there yourself"


def leave_moved_alone(rows: Iterable[Difference], moved: Collection[str]) -> list[Difference]:
    """Return the differences without those of moved topics; what covers them is only reported.

    Args:
        rows: the differences.
        moved: the moved topics, by their names on either cluster.
    """
    left = []
    for row in rows:
        if _is_own(row.item, moved):
            continue
        if row.changes and concerns_moved(row.item, moved):
            row = replace(row, action=ParityAction.REPORT, why=COVERS_MOVED)
        left.append(row)
    return left


def concerns_moved(item: ParityItem, moved: Collection[str]) -> bool:
    """Return whether a value is of a moved topic, or of an ACL that covers one."""
    return _is_own(item, moved) or ((acl := _read(item)) is not None and _covers(acl, moved))


def drop_moved_acls(wanted: Iterable[WantedAcl], moved: Collection[str]) -> list[WantedAcl]:
    """Return the wanted ACLs without those of a moved topic; others need what covers it, too."""
    return [entry for entry in wanted if not _names(entry.acl, moved)]


def _is_own(item: ParityItem, moved: Collection[str]) -> bool:
    if item.kind is ParityKind.TOPIC_CONFIG:
        return item.name in moved
    acl = _read(item)
    return acl is not None and _names(acl, moved)


def _names(acl: Acl, moved: Collection[str]) -> bool:
    return acl.kind == TOPIC and acl.pattern != PREFIXED and acl.name in moved


def _covers(acl: Acl, moved: Collection[str]) -> bool:
    if acl.pattern == PREFIXED:
        return any(name.startswith(acl.name) for name in moved)
    return acl.is_general and bool(moved)


def _read(item: ParityItem) -> Acl | None:
    """Return the ACL of topics that an item is; None if it is something else."""
    if item.kind is not ParityKind.ACL:
        return None
    try:
        acl = read_acl(item)
    except MalformedRecord:
        return None
    return acl if acl.kind == TOPIC else None
