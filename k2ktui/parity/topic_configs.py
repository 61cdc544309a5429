"""Parity of topic settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from k2ktui.engine.drill.model import Drill
from k2ktui.engine.parity.model import (
    Difference,
    ParityAction,
    ParityFindings,
    ParityItem,
    ParityWrite,
)
from k2ktui.engine.parity.rules import ParityKind
from k2ktui.engine.parity.topic_configs import (
    MIN_INSYNC,
    TIERED,
    Setting,
    Settings,
    TargetLimits,
    TopicPair,
    apply_limits,
    compare_topics,
)
from k2ktui.errors import K2kError
from k2ktui.kafka.admin.broker_settings import broker_values
from k2ktui.kafka.admin.topics import alter_topics, topic_settings
from k2ktui.kafka.clients import Cluster, describe_readable
from k2ktui.parity.part import ParityContext, Part
from k2ktui.text import counted, safe_text

_TIERED_STORAGE = "remote.log.storage.system.enable"


def compare(context: ParityContext) -> ParityFindings:
    """Return the settings of replicated topics that differ."""
    config, topics = context.config, context.topics
    sources: dict[str, list[str]] = {}
    for topic, targets in topics.items():
        for target in targets:
            sources.setdefault(target, []).append(topic)
    on_source = topic_settings(context.source, sorted(topics))
    on_target = topic_settings(context.target, sorted(sources))
    pairs, unread = [], list[str]()
    for target, names in sorted(sources.items()):
        settings = [on_target[target], *(on_source[name] for name in names)]
        failed = [entry for entry in settings if isinstance(entry, K2kError)]
        if failed:
            unread.append(failed[0].message)
            continue
        given = config.topic_creation.replication.settings_for(target).config
        by_name = {name: _settings(on_source[name]) for name in names}
        pairs.append(TopicPair(target, by_name, _settings(on_target[target]), given))
    excluded = config.target.kafka.topic_props_exclusion_list
    rows = compare_topics(pairs, config.parity.topic_configs.compares, context.memory, excluded)
    limits = _limits(context, rows)
    rows = apply_limits(rows, limits, {pair.name: pair.target for pair in pairs})
    notes: tuple[str, ...] = ()
    if unread:
        notes = (f"settings of {counted(len(unread), 'topic')} cannot be read: {unread[0]}",)
    return ParityFindings(tuple(rows), notes)


def _settings(entries: object) -> Settings:
    if not isinstance(entries, Mapping):
        return {}
    return {name: Setting(e.value, is_own=not e.is_default) for name, e in entries.items()}


def _limits(context: ParityContext, rows: Sequence[Difference]) -> TargetLimits:
    """Read what the target cannot take, only where a difference depends on it."""
    wanted = [row.item for row in rows if row.action is ParityAction.SET]
    in_sync = sorted({item.name for item in wanted if item.key == MIN_INSYNC})
    on_target = describe_readable(context.target, in_sync)
    replicas = {name: topic.replication for name, topic in on_target.items()}
    tiered = None
    if any(item.key.startswith(TIERED) for item in wanted):
        values = broker_values(context.target, _TIERED_STORAGE, most=1)
        tiered = None if values is None else "true" in values.values()
    return TargetLimits(replicas, tiered, last_rpo_s(context.drills))


def last_rpo_s(drills: Sequence[Drill]) -> float:
    """Return the RPO in seconds that the newest drill has measured; 0 without one."""
    measured = [drill for drill in drills if drill.figures.rpo_s is not None]
    newest = max(measured, key=lambda drill: drill.started_ms, default=None)
    return 0.0 if newest is None else newest.figures.rpo_s or 0.0


def read(target: Cluster, items: Collection[ParityItem]) -> Mapping[ParityItem, str | None]:
    """Return the values that are set on the topics themselves."""
    settings = topic_settings(target, sorted({item.name for item in items}))
    values: dict[ParityItem, str | None] = {}
    for item in items:
        entries = settings[item.name]
        if isinstance(entries, K2kError):
            raise entries
        entry = entries.get(item.key)
        values[item] = None if entry is None or entry.is_default else entry.value
    return values


def write(
    target: Cluster, writes: Sequence[ParityWrite], *, only_ask: bool
) -> Mapping[ParityItem, str]:
    """Set and delete settings, or only ask about them; return those that are refused."""
    changes: dict[str, dict[str, str | None]] = {}
    for one in writes:
        changes.setdefault(one.item.name, {})[one.item.key] = one.after
    refused = alter_topics(target, changes, validate_only=only_ask)
    return {
        ParityItem(ParityKind.TOPIC_CONFIG, *at): safe_text(error.message, 300)
        for at, error in refused.items()
    }


TOPIC_CONFIGS = Part(ParityKind.TOPIC_CONFIG, compare, read, write)
