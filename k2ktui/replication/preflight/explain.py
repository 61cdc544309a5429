"""Explains the copy path of each topic without changing anything."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.groups import describe_move
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import K2kError
from k2ktui.kafka.admin.topics import topic_settings
from k2ktui.kafka.clients import TopicDescription, source_cluster, target_cluster
from k2ktui.replication.copying.slot_task import CopyPath
from k2ktui.replication.preflight.committed import read_committed
from k2ktui.replication.preflight.rights import left_out_topics, selected_topics
from k2ktui.replication.preflight.topics import find_lost
from k2ktui.replication.topics.dead_letters import plan_dead_letters
from k2ktui.replication.topics.naming import target_names
from k2ktui.replication.topics.routing import choose_path
from k2ktui.replication.topics.target_settings import TIMESTAMP_TYPE
from k2ktui.replication.topics.targets import TargetPlan, plan_targets, targets_by_source
from k2ktui.text import counted, safe_text


@dataclass(frozen=True, slots=True)
class Explanation:
    """How one source topic is copied and why; ``path`` is None if it is not copied.

    ``left_out`` says that a pattern matches it, and that it belongs to another program.
    ``moved_by`` is the drill that moved its clients to the target, "" if none has.
    """

    topic: str
    target: str
    path: CopyPath | None
    reason: str
    left_out: bool = False
    moved_by: str = ""


def explain_pipeline(config: PipelineConfig) -> list[Explanation]:
    """Read both clusters and explain every selected topic, sorted by name.

    Raises:
        ConfigError: the pipeline enables an unsupported feature.
        ConnectionFailed, TimedOut: a cluster did not answer.
    """
    source, target = source_cluster(config), target_cluster(config)
    committed = read_committed(config, target)
    positions, moved = committed.positions, committed.moved
    replicated = {at.topic for at in positions}
    listed = source.topic_names()
    selected = selected_topics(config, listed, replicated)
    described = source.describe(sorted(topic for topic in selected if topic not in moved))
    topics = [topic for topic in described.values() if isinstance(topic, TopicDescription)]
    plans, refused = plan_targets(config, source, target, topics, replicated, moved)
    lost, _ = find_lost(config, source, target, committed, plans)
    existing = topic_settings(target, [plan.name for plan in plans if plan.existing])
    names = targets_by_source(plans)
    _, unfit = plan_dead_letters(config, source, target, names, topics)
    refused = {**refused, **unfit}
    types = {
        name: settings[TIMESTAMP_TYPE].value
        for name, settings in existing.items()
        if not isinstance(settings, K2kError) and TIMESTAMP_TYPE in settings
    }
    absent = [
        Explanation(
            name,
            _target_or_blank(config, name),
            None,
            f"it cannot be described on the source: {safe_text(error.str())}",
        )
        for name, error in described.items()
        if not isinstance(error, TopicDescription)
    ]
    left_out = [
        Explanation(name, "", None, f"it holds the state of {program}", left_out=True)
        for name, program in left_out_topics(config, listed, replicated).items()
    ]
    on_target = [
        Explanation(
            move.topic,
            _target_or_blank(config, move.topic),
            None,
            f"{describe_move(move)}; not copied from the source any more",
            moved_by=move.drill,
        )
        for move in moved.all
    ]
    explained = explain(config, topics, plans, refused, types)
    rows = absent + left_out + on_target + [_with_lost(row, lost) for row in explained]
    return sorted(rows, key=lambda row: row.topic)


def _with_lost(row: Explanation, lost: Collection[SourcePartition]) -> Explanation:
    """Return the row of a topic, with how many of its partitions are not copied any more."""
    count = sum(at.topic == row.topic for at in lost)
    if not count:
        return row
    what = f"{counted(count, 'partition')} not copied: the position is lost (k2ktui check)"
    return replace(row, reason=f"{what}; {row.reason}")


def explain(
    config: PipelineConfig,
    topics: Iterable[TopicDescription],
    plans: Iterable[TargetPlan],
    refused: Mapping[str, K2kError],
    timestamp_types: Mapping[str, str],
) -> list[Explanation]:
    """Explain each source topic, sorted by name.

    Args:
        config: the pipeline.
        topics: the selected source topics.
        plans: the plans of their target topics.
        refused: source topics that are not copied, and why.
        timestamp_types: message.timestamp.type of the target topics that exist.
    """
    by_source: dict[str, list[TargetPlan]] = defaultdict(list)
    for plan in plans:
        for topic in plan.sources:
            by_source[topic.name].append(plan)
    rows = []
    for topic in sorted(topics, key=lambda topic: topic.name):
        error, plans_of_topic = refused.get(topic.name), by_source.get(topic.name)
        if error is not None or not plans_of_topic:
            what = error.message if error else "not selected"
            rows.append(Explanation(topic.name, _target_or_blank(config, topic.name), None, what))
            continue
        others = [other.name for other in plans_of_topic[0].sources if other != topic]
        stamps = timestamp_types.get(plans_of_topic[0].name, "")
        choice = choose_path(config, stamps, others, topic=topic.name)
        words = [
            f"{safe_text(plan.name)}: {text}" if len(plans_of_topic) > 1 else text
            for plan in plans_of_topic
            for text in _plan_words(plan, topic)
        ]
        target = ", ".join(plan.name for plan in plans_of_topic)
        rows.append(
            Explanation(topic.name, target, choice.path, "; ".join([choice.reason, *words]))
        )
    return rows


def _plan_words(plan: TargetPlan, topic: TopicDescription) -> list[str]:
    words = list(plan.notes)
    if plan.create is not None:
        words.insert(0, f"the target will be created with {counted(plan.partitions, 'partition')}")
    if plan.grow_to:
        words.append(f"the target will be grown to {counted(plan.grow_to, 'partition')}")
    if topic.name in plan.short:
        words.append(plan.short[topic.name].message)
    return words


def _target_or_blank(config: PipelineConfig, topic: str) -> str:
    try:
        return ", ".join(target_names(config, topic))
    except K2kError:
        return ""
