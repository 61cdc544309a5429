"""Differences of topic settings; pure.

Compared are the settings that are set on a topic of either cluster, and those that
``topicCreation`` sets. What both topics inherit from their brokers is the clusters' business.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from k2ktui.engine.parity.model import (
    Difference,
    ParityAction,
    ParityItem,
    ParityMemory,
)
from k2ktui.engine.parity.rules import ParityKind
from k2ktui.text import duration, safe_text

CLEANUP_POLICY, RETENTION_MS = "cleanup.policy", "retention.ms"
MAX_MESSAGE_BYTES, DEFAULT_MAX_MESSAGE_BYTES = "max.message.bytes", 1048588
MIN_INSYNC = "min.insync.replicas"
TIERED = ("remote.", "local.retention.")
_THROTTLES = frozenset(
    {"follower.replication.throttled.replicas", "leader.replication.throttled.replicas"}
)
_TIMESTAMP_TYPE = "message.timestamp.type"


@dataclass(frozen=True, slots=True)
class Setting:
    """The value of a setting that is in force; ``is_own`` if it is set on the topic itself."""

    value: str
    is_own: bool


Settings = Mapping[str, Setting]


@dataclass(frozen=True, slots=True)
class TopicPair:
    """A target topic, and the source topics that are copied to it.

    Attributes:
        name: the target topic.
        sources: settings by source topic, at least one.
        target: settings of the target topic.
        wanted: settings that the pipeline's file sets for it.
    """

    name: str
    sources: Mapping[str, Settings]
    target: Settings
    wanted: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TargetLimits:
    """What the target cannot take.

    Attributes:
        replicas: by topic, its number of replicas; a topic that is missing is unknown.
        has_tiered_storage: None if it is unknown.
        rpo_s: seconds of records that were missing on the target at the last drill.
    """

    replicas: Mapping[str, int] = field(default_factory=dict)
    has_tiered_storage: bool | None = None
    rpo_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Drift:
    """A setting that differs, with its values on both clusters."""

    item: ParityItem
    source: str
    target: str


def compare_topics(
    pairs: Sequence[TopicPair],
    compares: Callable[[str], bool],
    memory: ParityMemory,
    excluded: Sequence[str] = (),
) -> list[Difference]:
    """Return the settings that differ, before the target's limits are known.

    Args:
        pairs: the topics.
        compares: which settings are compared.
        memory: what parity has created.
        excluded: further settings that are left to the target.
    """
    return [
        difference
        for pair in pairs
        for key in sorted(_keys(pair))
        if compares(key) and key not in excluded
        for difference in _compare(pair, key, memory)
    ]


def apply_limits(
    differences: Sequence[Difference], limits: TargetLimits, targets: Mapping[str, Settings]
) -> list[Difference]:
    """Return the differences; those that would endanger the target are only reported.

    Args:
        differences: those of :func:`compare_topics`.
        limits: what the target cannot take.
        targets: settings of the target topics.
    """
    planned = {
        (row.item.name, row.item.key): row.wanted
        for row in differences
        if row.action is ParityAction.SET
    }
    return [
        report(row, danger)
        if row.action is ParityAction.SET and (danger := _danger(row, limits, targets, planned))
        else row
        for row in differences
    ]


def report(difference: Difference, why: str) -> Difference:
    """Return a difference that is only reported, with the reason."""
    return replace(difference, action=ParityAction.REPORT, why=why)


# Settings that decide what is kept, and what is accepted from producers.
_OF_A_FAILOVER = (
    CLEANUP_POLICY,
    RETENTION_MS,
    "retention.bytes",
    MAX_MESSAGE_BYTES,
    _TIMESTAMP_TYPE,
    MIN_INSYNC,
)


def find_drift(
    topic: str,
    source: Mapping[str, str],
    target: Mapping[str, str],
    intended: Collection[str] = (),
) -> list[Drift]:
    """Return the settings of a topic that differ in a way that a failover would show.

    A higher ``max.message.bytes`` or ``min.insync.replicas`` on the target is no drift, nor is
    ``CreateTime`` there for a source topic with ``LogAppendTime``: that keeps the timestamps.

    Args:
        topic: the target topic.
        source, target: values of both topics.
        intended: settings that the pipeline's file sets, or leaves to the target.
    """
    return [
        Drift(ParityItem(ParityKind.TOPIC_CONFIG, topic, key), source[key], target[key])
        for key in _OF_A_FAILOVER
        if key in source and key in target and key not in intended
        if not is_same(key, source[key], target[key])
        if not _is_wider(key, source[key], target[key])
    ]


def _is_wider(key: str, source: str, target: str) -> bool:
    """Whether the target takes all that the source does, and keeps its timestamps."""
    if key in (MAX_MESSAGE_BYTES, MIN_INSYNC):
        return int(target) > int(source)
    return key == _TIMESTAMP_TYPE and target == "CreateTime"


def is_same(key: str, one: str, other: str) -> bool:
    """Whether two values of a setting mean the same."""
    if one == other:
        return True
    if key == CLEANUP_POLICY:
        return _policies(one) == _policies(other)
    try:
        return float(one) == float(other)
    except ValueError:
        return False


def _policies(value: str) -> set[str]:
    return {policy.strip() for policy in value.split(",")}


def _keys(pair: TopicPair) -> set[str]:
    keys = {key for key, setting in pair.target.items() if setting.is_own} | pair.wanted.keys()
    for settings in pair.sources.values():
        keys |= {key for key, setting in settings.items() if setting.is_own}
        # Larger records could not be written, whoever has raised the limit.
        limit = settings.get(MAX_MESSAGE_BYTES)
        if limit is not None and _number(limit.value) > DEFAULT_MAX_MESSAGE_BYTES:
            keys.add(MAX_MESSAGE_BYTES)
    return keys


def _compare(pair: TopicPair, key: str, memory: ParityMemory) -> Iterator[Difference]:
    item = ParityItem(ParityKind.TOPIC_CONFIG, pair.name, key)
    present = pair.target.get(key)
    target = None if present is None else present.value
    before = present.value if present is not None and present.is_own else None
    known = {name: settings[key] for name, settings in pair.sources.items() if key in settings}
    values = {setting.value for setting in known.values()}
    source = next(iter(values)) if len(values) == 1 else None
    origin = ", ".join(sorted(pair.sources)) if set(pair.sources) != {pair.name} else ""

    def difference(wanted: str | None, action: ParityAction, why: str) -> Difference:
        return Difference(item, source, target, before, wanted, action, why, origin)

    if key in pair.wanted:
        wanted = pair.wanted[key]
        if target is None or not is_same(key, target, wanted):
            yield _set_or_name(difference(wanted, ParityAction.SET, "topicCreation sets it"))
        return
    if source is None:
        if len(values) > 1 and any(not is_same(key, value, target or "") for value in values):
            shown = "; ".join(f"{name}: {s.value}" for name, s in sorted(known.items()))
            why = f"its source topics differ ({safe_text(shown, 120)}): set it in topicCreation"
            yield difference(None, ParityAction.REPORT, why)
        return
    if target is not None and is_same(key, target, source):
        return
    inherited = all(not setting.is_own for setting in known.values())
    if inherited and memory.has_created(item, before):
        why = "the source no longer sets it, and parity had created it"
        yield difference(None, ParityAction.REMOVE, why)
        return
    why = "the source's default" if inherited else "the source's value"
    yield _set_or_name(difference(source, ParityAction.SET, why))


def _set_or_name(difference: Difference) -> Difference:
    key, wanted, target = difference.item.key, difference.wanted or "", difference.target
    if target is None:
        return report(difference, "the target's brokers do not know this setting")
    if key in _THROTTLES:
        return report(difference, "it names brokers of the source: a replication throttle")
    if key == _TIMESTAMP_TYPE and wanted == "LogAppendTime":
        return report(difference, "it would replace the records' timestamps on the target")
    if key == MAX_MESSAGE_BYTES and _number(wanted) < _number(target):
        return report(difference, "a lower limit could refuse records that the source still has")
    return difference


def _danger(
    row: Difference,
    limits: TargetLimits,
    targets: Mapping[str, Settings],
    planned: Mapping[tuple[str, str], str | None],
) -> str:
    topic, key, wanted = row.item.name, row.item.key, row.wanted or ""
    if key == MIN_INSYNC:
        replicas = limits.replicas.get(topic)
        if replicas is None:
            return "the number of its replicas on the target is unknown"
        if _number(wanted) > replicas:
            return (
                f"the target topic has {replicas:,} replica{'s' * (replicas != 1)}: producers with "
                "acks=all could not write"
            )
    if key.startswith(TIERED) and limits.has_tiered_storage is not True:
        unknown = limits.has_tiered_storage is None
        return (
            "whether the target has tiered storage cannot be read"
            if unknown
            else "the target has no tiered storage"
        )
    if key == RETENTION_MS:
        present = targets.get(topic, {}).get(CLEANUP_POLICY, Setting("delete", is_own=False))
        policy = planned.get((topic, CLEANUP_POLICY)) or present.value
        kept_s = _number(wanted) / 1000
        if "delete" in _policies(policy) and 0 <= kept_s < limits.rpo_s:
            return (
                f"{duration(kept_s)} is shorter than the RPO of the last drill "
                f"({duration(limits.rpo_s)}): records would be deleted before they are read"
            )
    return ""


def _number(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return 0.0
