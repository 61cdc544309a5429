"""Inspects a pipeline's own topics on the target: missing, suitable, or what is wrong with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError

from k2ktui.config.model import ControlTopic, PipelineConfig
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.admin.topics import (
    Settings,
    TopicSpec,
    alter_command,
    create_command,
    topic_settings,
    value_of,
)
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.control.specs import CLEANUP_POLICY, COMPACTED, HOLDS, SECTIONS
from k2ktui.kafka.topic_description import is_missing
from k2ktui.text import counted, safe_text


@dataclass(frozen=True, slots=True)
class ControlFinding:
    """The state on the target of one control topic that the pipeline needs.

    Attributes:
        role: the purpose of the topic.
        spec: settings to create it with.
        partitions: partition count; 0 while the topic is missing.
        problem: what is wrong with it and how to fix it; None also for a missing topic.
        note: how an existing topic that is used differs from the configuration.
        needs_policy: the ``cleanup.policy`` that an existing topic lacks; "" if it has it.
    """

    role: ControlTopic
    spec: TopicSpec
    partitions: int
    problem: K2kError | None = None
    note: str = ""
    needs_policy: str = ""


def inspect_topics(
    config: PipelineConfig, target: Cluster, specs: Mapping[ControlTopic, TopicSpec]
) -> list[ControlFinding]:
    """Inspect control topics, without changing anything.

    Raises:
        ConnectionFailed, TimedOut: the cluster did not answer.
    """
    described = target.describe([spec.name for spec in specs.values()])
    present = [name for name, topic in described.items() if isinstance(topic, TopicDescription)]
    settings = topic_settings(target, present) if _is_validated(config) else {}
    return [
        _inspect(config, role, spec, described[spec.name], settings.get(spec.name, {}))
        for role, spec in specs.items()
    ]


def missing_control_topic(config: PipelineConfig, finding: ControlFinding) -> K2kError:
    """Return the error for a missing topic that this program is not allowed to create."""
    return Refused(
        f"topic {safe_text(finding.spec.name)} for {HOLDS[finding.role]} does not exist on the "
        "target cluster, and features.autoCreateControlTopics is disabled",
        hint="Set features.autoCreateControlTopics: enabled, or create it: "
        + create_command(config.target, finding.spec),
    )


def _is_validated(config: PipelineConfig) -> bool:
    return config.features.validate_control_topic_settings


def _inspect(
    config: PipelineConfig,
    role: ControlTopic,
    spec: TopicSpec,
    topic: TopicDescription | KafkaError,
    settings: Settings | K2kError,
) -> ControlFinding:
    if isinstance(topic, KafkaError):
        missing = is_missing(topic)
        problem = None if missing else _describe_error(role, spec, topic)
        if missing and _is_validated(config) and config.features.auto_create_control_topics:
            problem = _wrong_policy(
                config, role, spec, spec.config.get(CLEANUP_POLICY, ""), made=False
            )
        return ControlFinding(role, spec, 0, problem)
    other = _wrong_count(config, role, topic)
    note = f"{other.message}: it is used as it is" if other else ""
    if not _is_validated(config):
        return ControlFinding(role, spec, topic.partitions, note=note)
    if isinstance(settings, K2kError):
        return ControlFinding(role, spec, topic.partitions, _unread(role, spec, settings))
    wrong = _wrong_policy(config, role, spec, value_of(settings, CLEANUP_POLICY), made=True)
    needed = _needed_policy(role) if wrong else ""
    # ``common`` is for creating topics. It differs between the files of a replicator and a mapping
    # application: whichever runs first creates the topics that both use.
    if _own_count(config, role) is not None:
        return ControlFinding(role, spec, topic.partitions, wrong or other, needs_policy=needed)
    return ControlFinding(role, spec, topic.partitions, wrong, note, needed)


def _needed_policy(role: ControlTopic) -> str:
    return "compact" if role in COMPACTED else "delete"


def _wrong_policy(
    config: PipelineConfig, role: ControlTopic, spec: TopicSpec, policy: str, *, made: bool
) -> K2kError | None:
    policies = {part.strip() for part in policy.split(",")}
    wanted = _needed_policy(role)
    if policies == {"compact"} if role in COMPACTED else "compact" not in policies:
        return None
    loss = COMPACTED.get(role, "compaction would drop all but the newest record of each key")
    setting = f'{SECTIONS[role]}.config "{CLEANUP_POLICY}": {wanted}'
    name = safe_text(spec.name)
    return Refused(
        f"topic {name} for {HOLDS[role]} {'has' if made else 'would get'} {CLEANUP_POLICY} "
        f"{safe_text(policy)}; it needs {wanted}: {loss}",
        unchanged="Its settings were not changed." if made else "It was not created.",
        hint=f"Run: {alter_command(config.target, spec.name, CLEANUP_POLICY, wanted)}"
        if made
        else f"Set {setting} in the configuration.",
    )


def _wrong_count(
    config: PipelineConfig, role: ControlTopic, topic: TopicDescription
) -> K2kError | None:
    wanted = config.topic_creation.control_for(role).partitions
    own = _own_count(config, role)
    section = "topicCreation.control.common" if own is None else SECTIONS[role]
    if wanted is None or wanted == topic.partitions:
        return None
    return Refused(
        f"topic {safe_text(topic.name)} for {HOLDS[role]} has "
        f"{counted(topic.partitions, 'partition')}; {section}.partitions is {wanted}",
        unchanged="It was not changed: other pipelines may use it.",
        hint=f"Set {SECTIONS[role]}.partitions: {topic.partitions}, name another topic, or set "
        "features.validateControlTopicSettings: disabled.",
    )


def _own_count(config: PipelineConfig, role: ControlTopic) -> int | None:
    """Return the partition count in the section of this topic, not that of all of them."""
    partitions: int | None = getattr(config.topic_creation.control, role).partitions
    return partitions


def _describe_error(role: ControlTopic, spec: TopicSpec, error: KafkaError) -> K2kError:
    return Refused(
        f"topic {safe_text(spec.name)} for {HOLDS[role]} cannot be described on the target "
        f"cluster: {safe_text(error.str())}",
        unchanged="Nothing was changed.",
        hint="Grant the target principal Describe, Read and Write on it.",
    )


def _unread(role: ControlTopic, spec: TopicSpec, error: K2kError) -> K2kError:
    return Refused(
        f"the settings of topic {safe_text(spec.name)} for {HOLDS[role]} cannot be checked: "
        f"{error.message}",
        unchanged="Nothing was changed.",
        hint="Grant the target principal DescribeConfigs on it, or, if its cleanup.policy is "
        "known to be correct, set features.validateControlTopicSettings: disabled.",
    )
