"""Dead-letter topics: target topics that are created where they are missing and allowed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from k2ktui.config.model import PipelineConfig
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.admin.known_settings import KnownSettings
from k2ktui.kafka.admin.topics import TopicSpec, broker_count, topic_settings
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.topic_description import is_missing
from k2ktui.replication.topics.naming import dead_letter_name
from k2ktui.replication.topics.target_settings import (
    CLEANUP_POLICY,
    MAX_MESSAGE_BYTES,
    target_spec,
)
from k2ktui.replication.topics.targets import (
    Refusals,
    TargetPlan,
    TargetTopic,
    carry_out,
    group_topics,
    missing_error,
)
from k2ktui.text import safe_message, safe_text


def plan_dead_letters(
    config: PipelineConfig,
    source: Cluster,
    target: Cluster,
    copied: Mapping[str, Sequence[str]],
    topics: Collection[TopicDescription],
) -> tuple[list[TargetPlan], Refusals]:
    """Plan the dead-letter topics without changing anything.

    Args:
        config: the pipeline.
        source: its source cluster, only read.
        target: its target cluster, only read.
        copied: the target topics of each source topic that is copied.
        topics: the source topics.

    Returns:
        The plans, and the source topics that must not be copied with the reason.

    Raises:
        ConnectionFailed, TimedOut: a cluster did not answer.
    """
    named, refused = group_topics(
        [topic for topic in topics if topic.name in copied],
        lambda topic: filter(None, [dead_letter_name(config, topic)]),
    )
    if not named:
        return [], refused
    for topic, targets in copied.items():
        name = next((target_name for target_name in targets if target_name in named), "")
        if name and topic not in refused:
            refused[topic] = _is_dead_letter(topic, name)
    described = target.describe(named)
    missing = [name for name, here in described.items() if is_missing(here)]
    asked = sorted({topic.name for name in missing for topic in named[name]})
    settings = topic_settings(source, asked)
    brokers = broker_count(target) if missing else 0
    plans = []
    for name, all_sources in named.items():
        sources = [topic for topic in all_sources if topic.name not in refused]
        here = described[name]
        if not sources:
            continue
        if isinstance(here, TopicDescription):
            plans.append(TargetPlan(name, tuple(sources), here))
        elif not is_missing(here):
            refused.update(
                (topic.name, _not_described(topic.name, name, here.str())) for topic in sources
            )
        else:
            spec, _ = target_spec(config, name, sources, settings, brokers)
            spec = _without_compaction(config, spec)
            if config.features.auto_create_topics:
                plans.append(TargetPlan(name, tuple(sources), create=spec))
            else:
                refused.update(
                    (topic.name, missing_error(config, topic, spec, dead_letters=True))
                    for topic in sources
                )
    return plans, refused


def ensure_dead_letters(
    config: PipelineConfig,
    source: Cluster,
    target: Cluster,
    targets: Mapping[str, Sequence[TargetTopic]],
    topics: Collection[TopicDescription],
    refused: Refusals,
    *,
    waits: bool = True,
) -> dict[str, tuple[TargetTopic, ...]]:
    """Create dead-letter topics where allowed; return the targets with them, by source topic.

    Args:
        config, source, target, topics: as for :func:`plan_dead_letters`.
        targets: the target topics of each source topic that is copied.
        refused: gets the source topics that must not be copied, with the reason; they are left out.
        waits: as for ``create_topics``.

    Raises:
        ConnectionFailed, TimedOut: a cluster did not answer.
    """
    names = {name: [topic.name for topic in of_topic] for name, of_topic in targets.items()}
    plans, errors = plan_dead_letters(config, source, target, names, topics)
    made = carry_out(config, target, KnownSettings(target), plans, errors, waits=waits)
    dead = {name: topic for name, (topic,) in made.items()}
    refused.update(errors)
    return {
        name: tuple(replace(topic, dead_letters=dead.get(name)) for topic in of_topic)
        for name, of_topic in targets.items()
        if name not in errors
    }


def _without_compaction(config: PipelineConfig, spec: TopicSpec) -> TopicSpec:
    """Return how to create a dead-letter topic: as the target topic, but never compacted.

    Records of a compacted topic need a key, and only the last one of each key would remain.
    """
    wanted = config.topic_creation.replication.settings_for(spec.name).config
    kept = {key: value for key, value in spec.config.items() if key == MAX_MESSAGE_BYTES}
    return replace(spec, config={CLEANUP_POLICY: "delete", **kept, **wanted})


def _is_dead_letter(topic: str, name: str) -> K2kError:
    return Refused(
        f"topic {safe_text(topic)} is not copied: its target {safe_text(name)} is a dead-letter "
        "topic of this pipeline",
        unchanged="None of its records were written.",
        hint="Remove it from replication.source.topic, or set another deadLetter.topic.",
    )


def _not_described(topic: str, name: str, why: str) -> K2kError:
    return Refused(
        f"topic {safe_text(topic)} is not copied: its dead-letter topic {safe_text(name)} cannot "
        f"be described: {safe_message(why)}",
        unchanged="None of its records were written.",
        hint="Grant the target principal Describe on it, or look at the target's brokers.",
    )
