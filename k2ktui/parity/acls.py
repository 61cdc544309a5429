"""Parity of ACLs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from k2ktui.engine.acl import ALLOW, DENY, Acl, is_fence
from k2ktui.engine.parity.acl_items import (
    PRESENT,
    acl_differences,
    acl_item,
    find_denied,
    read_acl,
)
from k2ktui.engine.parity.acls import AclMapping, compare_acls, map_acls
from k2ktui.engine.parity.model import ParityFindings, ParityItem, ParityWrite
from k2ktui.engine.parity.rules import ParityKind
from k2ktui.engine.strict_json import MalformedRecord
from k2ktui.errors import Refused
from k2ktui.kafka.admin.acls import NoAuthorizer, create_acls, delete_acls, read_acls
from k2ktui.kafka.clients import Cluster
from k2ktui.parity.part import ParityContext, Part


def compare(context: ParityContext) -> ParityFindings:
    """Return the ACLs that the target lacks, and those that it should not have."""
    acls: list[frozenset[Acl]] = []
    for cluster in (context.source, context.target):
        try:
            acls.append(read_acls(cluster))
        except NoAuthorizer:
            return ParityFindings(notes=(f"acls: the {cluster.label} cluster has no authorizer",))
        except Refused as error:
            why = f"{error.message}. Grant the principal Describe on that cluster"
            return ParityFindings(notes=(f"acls are not compared: {why}",))
    source, target = acls
    mapping = AclMapping(
        context.topics,
        context.target.topic_names(),
        context.config.consumer_groups.matches,
        find_denied(context.drills),
    )
    mapped = map_acls(source, mapping)
    created = {read_acl(item) for item in context.memory.created if item.kind is ParityKind.ACL}
    section = context.config.parity.acls
    rows = acl_differences(
        compare_acls(mapped, target, mapping, created),
        mapped.not_copied,
        target,
        section.compares,
        section.write,
        find_denied(context.opposite_drills),
    )
    wanted = (entry for entry in mapped.wanted if section.compares(entry.acl.principal))
    return ParityFindings(tuple(rows), wanted_acls=tuple(wanted))


def read(target: Cluster, items: Collection[ParityItem]) -> Mapping[ParityItem, str | None]:
    """Return which of these ACLs the target has."""
    present = {acl_item(acl) for acl in read_acls(target)}
    return {item: PRESENT if item in present else None for item in items}


def write(
    target: Cluster, writes: Sequence[ParityWrite], *, only_ask: bool
) -> Mapping[ParityItem, str]:
    """Create and delete ACLs; return those that were refused.

    A cluster cannot be asked about ACLs without changing them: only to ask refuses none.
    What allows is never there without what limits it: denials are created first and deleted last.
    """
    if only_ask:
        return {}
    refused: dict[ParityItem, str] = {}
    creates: list[Acl] = []
    deletes: list[Acl] = []
    for one in writes:
        try:
            acl = read_acl(one.item)
        except MalformedRecord as error:
            refused[one.item] = str(error)
            continue
        if one.after is None:
            deletes.append(acl)
        elif is_fence(acl):
            refused[one.item] = "it would keep clients from the target"
        else:
            creates.append(acl)
    left = _in_order(target, create_acls, creates, (DENY, ALLOW))
    left |= _in_order(target, delete_acls, deletes, (ALLOW, DENY))
    return {**refused, **{acl_item(acl): why for acl, why in left.items()}}


def _in_order(
    target: Cluster,
    change: Callable[[Cluster, list[Acl]], dict[Acl, str]],
    acls: Sequence[Acl],
    permissions: tuple[str, str],
) -> dict[Acl, str]:
    """Change ACLs by permission; return what was refused, and all of the second one with it."""
    first, second = ([a for a in acls if a.permission == permission] for permission in permissions)
    refused = change(target, first)
    if refused:
        why = f"not tried: {next(iter(refused))} was refused"
        return {**refused, **dict.fromkeys(second, why)}
    return change(target, second)


ACLS = Part(ParityKind.ACL, compare, read, write)
