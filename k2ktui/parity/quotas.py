"""Parity of client quotas."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from k2ktui.engine.drill.changes import Entity
from k2ktui.engine.parity.model import ParityFindings, ParityItem, ParityWrite
from k2ktui.engine.parity.quotas import compare_quotas, rate_text, read_entity, read_rate
from k2ktui.engine.parity.rules import ParityKind
from k2ktui.kafka.admin.quotas import alter_client_quotas, client_quotas
from k2ktui.kafka.clients import Cluster
from k2ktui.parity.part import ParityContext, Part
from k2ktui.text import safe_message


def compare(context: ParityContext) -> ParityFindings:
    """Return the quotas of users and client ids that differ."""
    differences = compare_quotas(
        client_quotas(context.source),
        client_quotas(context.target),
        context.config.parity.quotas.compares,
        context.memory,
        (context.drills, context.opposite_drills),
    )
    return ParityFindings(tuple(differences))


def read(target: Cluster, items: Collection[ParityItem]) -> Mapping[ParityItem, str | None]:
    """Return the quotas that the target has."""
    quotas = client_quotas(target)
    values: dict[ParityItem, str | None] = {}
    for item in items:
        value = quotas.get(read_entity(item.name), {}).get(item.key)
        values[item] = None if value is None else rate_text(value)
    return values


def write(
    target: Cluster, writes: Sequence[ParityWrite], *, only_ask: bool
) -> Mapping[ParityItem, str]:
    """Set and delete quotas, or only ask about them; return those that are refused."""
    changes: dict[Entity, dict[str, float | None]] = {}
    for one in writes:
        value = None if one.after is None else read_rate(one.after)
        changes.setdefault(read_entity(one.item.name), {})[one.item.key] = value
    refused = alter_client_quotas(target, changes, validate_only=only_ask)
    return {
        one.item: safe_message(refused[entity][1])
        for one in writes
        if (entity := read_entity(one.item.name)) in refused
    }


QUOTAS = Part(ParityKind.QUOTA, compare, read, write)
