"""Differences of client quotas; pure.

What a drill has set to fence producers is never copied: a fence would lock them out of the new
primary. It is known by the drill's record, and by its form, 1 byte per second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from urllib.parse import quote, unquote

from k2ktui.engine.drill.changes import EVERYONE, LOWERED_RATE, Entity, read_quota_rates
from k2ktui.engine.drill.model import ChangeKind, ChangeStatus, Drill
from k2ktui.engine.parity.model import Difference, ParityAction, ParityItem, ParityMemory
from k2ktui.engine.parity.rules import ParityKind
from k2ktui.engine.strict_json import MalformedRecord
from k2ktui.text import safe_text

PRODUCER_RATE = "producer_byte_rate"
ENTITY_KINDS = frozenset({"client-id", "user"})
_DEFAULT = "<default>"
# Everything printable but what has a meaning in the text of an entity.
_PLAIN = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) not in "%,=<")

Quotas = Mapping[Entity, Mapping[str, float]]
Values = tuple[float | None, float | None]


def entity_text(entity: Entity) -> str:
    """Return an entity as text, such as ``client-id=app,user=billing``; it can be read back."""
    return ",".join(
        f"{kind}={_DEFAULT if name is None else quote(name, safe=_PLAIN)}" for kind, name in entity
    )


def read_entity(raw: str) -> Entity:
    """Return the entity of a text.

    Raises:
        MalformedRecord: it is no text of an entity.
    """
    parts: list[tuple[str, str | None]] = []
    for part in raw.split(","):
        kind, separator, name = part.partition("=")
        if kind not in ENTITY_KINDS or not separator or not name:
            raise MalformedRecord("not an entity of quotas")
        parts.append((kind, None if name == _DEFAULT else unquote(name)))
    if len({kind for kind, _ in parts}) < len(parts):
        raise MalformedRecord("an entity with the same kind twice")
    return tuple(sorted(parts, key=lambda part: part[0]))


def rate_text(rate: float) -> str:
    """Return a quota's value as text; it can be read back."""
    return str(int(rate)) if rate.is_integer() else repr(rate)


def read_rate(raw: str) -> float:
    """Return the value of a text.

    Raises:
        MalformedRecord: it is no positive number.
    """
    try:
        rate = float(raw)
    except ValueError as error:
        raise MalformedRecord("not a number") from error
    if not isfinite(rate) or rate <= 0:
        raise MalformedRecord("not a positive number")
    return rate


def find_fenced(drills: Iterable[Drill]) -> dict[Entity, str]:
    """Return the entities whose producer quota a drill has set, with the drill's id."""
    fenced: dict[Entity, str] = {}
    for drill in drills:
        for change in drill.changes:
            if change.kind is not ChangeKind.QUOTAS or change.status is ChangeStatus.UNDONE:
                continue
            try:
                entities = set(read_quota_rates(change).after)
            except MalformedRecord:
                entities = {EVERYONE}
            fenced |= dict.fromkeys(entities, drill.id)
    return fenced


def compare_quotas(
    source: Quotas,
    target: Quotas,
    compares: Callable[[str], bool],
    memory: ParityMemory,
    drills: tuple[Iterable[Drill], Iterable[Drill]] = ((), ()),
) -> list[Difference]:
    """Return the quotas of users and client ids that differ.

    Args:
        source, target: all quotas of both clusters.
        compares: which entities are compared.
        memory: what parity has created.
        drills: those that may have set quotas on the source, and on the target.
    """
    fenced = find_fenced(drills[0]), find_fenced(drills[1])
    differences = []
    for entity, key, values in _list_different(source, target):
        name = entity_text(entity)
        if not ({kind for kind, _ in entity} <= ENTITY_KINDS and compares(name)):
            continue
        fences = [
            _fence(key, value, of_side.get(entity, ""), side)
            for value, of_side, side in zip(values, fenced, ("source", "target"), strict=True)
        ]
        item = ParityItem(ParityKind.QUOTA, name, key)
        differences.append(_difference(item, values, "; ".join(filter(None, fences)), memory))
    return sorted(differences, key=lambda row: (row.item.name, row.item.key))


def _list_different(source: Quotas, target: Quotas) -> Iterator[tuple[Entity, str, Values]]:
    """Yield entity, key and both values of the quotas that differ; None is no quota."""
    for entity in {*source, *target}:
        on_source, on_target = source.get(entity, {}), target.get(entity, {})
        for key in {*on_source, *on_target}:
            values = on_source.get(key), on_target.get(key)
            if values[0] != values[1]:
                yield entity, key, values


@dataclass(frozen=True, slots=True)
class LowerQuota:
    """A quota of the target that is lower than the source's; None is unlimited."""

    entity: Entity
    key: str
    source: float | None
    target: float


def find_lower(source: Quotas, target: Quotas) -> list[LowerQuota]:
    """Return the quotas of the target that are lower than the source's, or not on the source."""
    lower = [
        LowerQuota(entity, key, on_source, on_target)
        for entity, key, (on_source, on_target) in _list_different(source, target)
        if on_target is not None and (on_source is None or on_target < on_source)
    ]
    return sorted(lower, key=lambda quota: (str(quota.entity), quota.key))


def _difference(item: ParityItem, values: Values, fence: str, memory: ParityMemory) -> Difference:
    source, target = (None if value is None else rate_text(value) for value in values)
    wanted = source
    if fence:
        action, why, wanted = ParityAction.REPORT, fence, target
    elif source is not None:
        action, why = ParityAction.SET, "the source's value"
    elif memory.has_created(item, target):
        action, why = ParityAction.REMOVE, "the source no longer has it, and parity had created it"
    else:
        action, wanted = ParityAction.REPORT, target
        why = "only the target has it, and parity has not created it: remove it there yourself"
    return Difference(item, source, target, target, wanted, action, why)


def _fence(key: str, value: float | None, drill: str, side: str) -> str:
    if key != PRODUCER_RATE or value is None:
        return ""
    if drill:
        return f"drill {safe_text(drill)} has set it on the {side} to fence producers"
    if value == LOWERED_RATE:
        return f"1 byte/s on the {side} is what a drill sets to fence producers: never copied"
    return ""
