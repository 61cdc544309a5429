"""Dead-letter topics: created on the target where they are missing and allowed."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from confluent_kafka import KafkaError

from k2ktui.config.model import PipelineConfig
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.admin.topics import (
    TopicSpec,
    await_topics,
    broker_count,
    create_command,
    create_topics,
    not_ready,
    topic_settings,
)
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.replication.topics.naming import dead_letter_name
from k2ktui.replication.topics.target_settings import (
    CLEANUP_POLICY,
    DEFAULT_MAX_MESSAGE_BYTES,
    MAX_MESSAGE_BYTES,
    max_message_bytes,
    target_spec,
)
from k2ktui.text import safe_message, safe_text

log = logging.getLogger(__name__)

_READY_ATTEMPTS = 100
_READY_DELAY_S = 0.1


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    """A dead-letter topic on the target, with the largest batch in bytes that it accepts."""

    name: str
    partitions: int
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES


@dataclass(frozen=True, slots=True)
class DeadLetterPlan:
    """A dead-letter topic and its source topics; ``create`` is None if it exists."""

    name: str
    sources: tuple[str, ...]
    existing: TopicDescription | None = None
    create: TopicSpec | None = None


Refusals = dict[str, K2kError]


def plan_dead_letters(
    config: PipelineConfig,
    source: Cluster,
    target: Cluster,
    copied: Mapping[str, Sequence[str]],
    topics: Collection[TopicDescription],
) -> tuple[list[DeadLetterPlan], Refusals]:
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
    named, refused = _by_name(config, copied)
    if not named:
        return [], refused
    for topic, targets in copied.items():
        name = next((target_name for target_name in targets if target_name in named), "")
        if name and topic not in refused:
            refused[topic] = _is_dead_letter(topic, name)
    by_name = {topic.name: topic for topic in topics}
    described = target.describe(named)
    missing = [name for name, here in described.items() if _is_missing(here)]
    asked = sorted({topic for name in missing for topic in named[name]})
    settings = topic_settings(source, asked) if asked else {}
    brokers = broker_count(target) if missing else 0
    plans = []
    for name, sources in named.items():
        sources = [topic for topic in sources if topic not in refused]
        here = described[name]
        if not sources:
            continue
        if isinstance(here, TopicDescription):
            plans.append(DeadLetterPlan(name, tuple(sources), here))
        elif not _is_missing(here):
            refused.update((topic, _not_described(topic, name, here.str())) for topic in sources)
        else:
            group = [by_name[topic] for topic in sources]
            spec, _ = target_spec(config, name, group, settings, brokers)
            spec = _without_compaction(config, spec)
            if config.features.auto_create_topics:
                plans.append(DeadLetterPlan(name, tuple(sources), create=spec))
            else:
                refused.update((topic, _absent(config, topic, spec)) for topic in sources)
    return plans, refused


def ensure_dead_letters(
    config: PipelineConfig,
    source: Cluster,
    target: Cluster,
    copied: Mapping[str, Sequence[str]],
    topics: Collection[TopicDescription],
    *,
    waits: bool = True,
) -> tuple[dict[str, DeadLetterTopic], Refusals]:
    """Create dead-letter topics where allowed, and describe them by source topic.

    Other arguments and errors are those of ``plan_dead_letters``; ``waits`` is that of
    ``create_topics``.
    """
    plans, refused = plan_dead_letters(config, source, target, copied, topics)
    errors = create_topics(target, [plan.create for plan in plans if plan.create], waits=waits)
    created = {
        plan.name: plan.create.partitions or 1
        for plan in plans
        if plan.create and errors[plan.name] is None
    }
    ready = await_topics(target, created, attempts=_READY_ATTEMPTS, delay_s=_READY_DELAY_S)
    settled = []
    for plan in plans:
        plan = replace(plan, existing=ready.get(plan.name, plan.existing))
        if plan.existing is None:
            error = errors.get(plan.name) or not_ready(target, [plan.name])
            refused.update((topic, error) for topic in plan.sources)
        else:
            if plan.create is not None:
                log.info("dead-letter topic %s created", plan.name)
            settled.append(plan)
    limits = topic_settings(target, [plan.name for plan in settled]) if settled else {}
    made: dict[str, DeadLetterTopic] = {}
    for plan in settled:
        assert plan.existing is not None
        entries = limits[plan.name]
        limit = None if isinstance(entries, K2kError) else max_message_bytes(entries)
        topic = DeadLetterTopic(
            plan.name, plan.existing.partitions, limit or DEFAULT_MAX_MESSAGE_BYTES
        )
        made.update(dict.fromkeys(plan.sources, topic))
    return made, refused


def _by_name(
    config: PipelineConfig, copied: Collection[str]
) -> tuple[dict[str, list[str]], Refusals]:
    named: dict[str, list[str]] = defaultdict(list)
    refused: Refusals = {}
    for topic in sorted(copied):
        try:
            name = dead_letter_name(config, topic)
        except K2kError as error:
            refused[topic] = error
            continue
        if name:
            named[name].append(topic)
    return dict(named), refused


def _without_compaction(config: PipelineConfig, spec: TopicSpec) -> TopicSpec:
    """Return how to create a dead-letter topic: as the target topic, but never compacted.

    Records of a compacted topic need a key, and only the last one of each key would remain.
    """
    wanted = config.topic_creation.replication.settings_for(spec.name).config
    kept = {key: value for key, value in spec.config.items() if key == MAX_MESSAGE_BYTES}
    return replace(spec, config={CLEANUP_POLICY: "delete", **kept, **wanted})


def _is_missing(topic: TopicDescription | KafkaError) -> bool:
    return isinstance(topic, KafkaError) and topic.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


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


def _absent(config: PipelineConfig, topic: str, spec: TopicSpec) -> K2kError:
    return Refused(
        f"topic {safe_text(topic)} is not copied: its dead-letter topic {safe_text(spec.name)} "
        "does not exist, and features.autoCreateTopics is disabled",
        unchanged="None of its records were written.",
        hint="Set features.autoCreateTopics: enabled, or create it: "
        + create_command(config.target, spec),
    )
