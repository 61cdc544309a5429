"""The pipeline's own topics on the target: positions, mapping ranges, state and metrics.

| topic | cleanup.policy | default partitions | default retention |
|---|---|---|---|
| ``coordination.commit.topic`` | compact | 1, or 1 per slot (6) | the last record of each key |
| ``offsetMapping.topic`` | delete | 6 | 7 days |
| ``metrics.kafka.topic`` | delete | 3 | 30 days |
| ``coordination.state.topic`` | compact | 1 | the last record of each key |

One commit partition is enough for one pipeline: it has few positions, and every start reads the
partition to its end in one pass. With ``optimizeOffsetCommitPartition: disabled`` each slot
writes to its own partition, so that a transaction left open by one slot does not delay the
positions of the others. The assignment topic of Lenses K2K is not used: the driver issues fencing
tokens instead. The first writer creates the state topic (:func:`ensure_state_topic`): copying does
not need it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError

from k2ktui.config.model import PipelineConfig
from k2ktui.config.topic_creation import ControlTopic, TopicSettings
from k2ktui.errors import ConfigError, K2kError, Refused
from k2ktui.kafka.broker_creation import let_brokers_create
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.topics import (
    Settings,
    TopicSpec,
    alter_command,
    await_topics,
    create_command,
    create_topics,
    not_ready,
    topic_settings,
)
from k2ktui.text import counted, safe_text

_DAY_MS = 86_400_000
_SLOT_PARTITIONS = 6
_POLICY = "cleanup.policy"

_DEFAULTS: Mapping[ControlTopic, TopicSettings] = {
    # Small segments: only closed ones are compacted, and every start reads the whole topic.
    "commit": TopicSettings(
        partitions=1, config={_POLICY: "compact", "segment.bytes": str(50 << 20)}
    ),
    "offset_mapping": TopicSettings(
        partitions=6, config={_POLICY: "delete", "retention.ms": str(7 * _DAY_MS)}
    ),
    "metrics": TopicSettings(
        partitions=3, config={_POLICY: "delete", "retention.ms": str(30 * _DAY_MS)}
    ),
    # Heartbeats arrive every few seconds: small segments limit the obsolete records to read.
    "state": TopicSettings(
        partitions=1, config={_POLICY: "compact", "segment.bytes": str(10 << 20)}
    ),
}
_COMPACTED: Mapping[ControlTopic, str] = {
    "commit": "records of idle partitions would expire",
    "state": "snapshots and the journal would expire",
}
_SECTION: Mapping[ControlTopic, str] = {
    "commit": "topicCreation.control.commit",
    "offset_mapping": "topicCreation.control.offsetMapping",
    "metrics": "topicCreation.control.metrics",
    "state": "topicCreation.control.state",
}
_HOLDS: Mapping[ControlTopic, str] = {
    "commit": "replicated positions",
    "offset_mapping": "offset mappings",
    "metrics": "metrics",
    "state": "heartbeats, snapshots and the journal",
}


@dataclass(frozen=True, slots=True)
class ControlTopics:
    """Partition counts of the control topics; 0 when the pipeline does not need the topic."""

    commit_partitions: int
    mapping_partitions: int = 0
    metrics_partitions: int = 0
    created: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ControlFinding:
    """The state on the target of one control topic that the pipeline needs.

    Attributes:
        role: the purpose of the topic.
        spec: settings to create it with.
        partitions: partition count; 0 while the topic is missing.
        problem: what is wrong with it and how to fix it; None also for a missing topic.
        note: how it differs from the configuration, if its settings are not validated.
    """

    role: ControlTopic
    spec: TopicSpec
    partitions: int
    problem: K2kError | None = None
    note: str = ""


def ensure_control_topics(
    config: PipelineConfig, target: Cluster, env: Mapping[str, str] = os.environ
) -> ControlTopics:
    """Create missing control topics, if the configuration allows it, and check existing ones.

    If it does not allow it, the brokers may create them (``auto.create.topics.enable``).

    Args:
        config: the pipeline.
        target: its target cluster.
        env: environment; ``OTEL_METRICS_EXPORTER`` decides whether the metrics topic is needed.

    Raises:
        Refused: a topic is missing and may not be created, or has unsuitable settings; names
            every such topic with its fix. No topic was created.
        ConfigError: two control topics have the same name.
        ConnectionFailed, TimedOut: the target did not answer, or the topics got no leaders in
            time.
    """
    specs = control_specs(config, env)
    allowed = config.features.auto_create_control_topics
    findings, by_brokers = _inspect_or_let_create(config, target, specs)
    problems = [
        found.problem or missing_control_topic(config, found)
        for found in findings
        if found.problem or not (found.partitions or allowed)
    ]
    if problems:
        raise _all_in_one(problems)
    missing = [found.spec for found in findings if not found.partitions]
    counts = {found.role: found.partitions for found in findings}
    made = _create(config, target, missing)
    for found in findings:
        if not found.partitions:
            counts[found.role] = made[found.spec.name].partitions
    return ControlTopics(
        commit_partitions=counts["commit"],
        mapping_partitions=counts.get("offset_mapping", 0),
        metrics_partitions=counts.get("metrics", 0),
        created=(*by_brokers, *(spec.name for spec in missing)),
        notes=tuple(found.note for found in findings if found.note),
    )


def ensure_state_topic(config: PipelineConfig, target: Cluster) -> int:
    """Create the state topic if it is missing and may be created; return its partition count.

    Raises:
        Refused: it is missing and may not be created, or has unsuitable settings.
        ConfigError: another control topic has its name.
        ConnectionFailed, TimedOut: as for :func:`ensure_control_topics`.
    """
    control_specs(config, {})  # raises ConfigError for a duplicate name
    spec = _spec(config, "state", config.coordination.state.topic)
    ((found,), _) = _inspect_or_let_create(config, target, {"state": spec})
    if found.problem:
        raise found.problem
    if found.partitions:
        return found.partitions
    if not config.features.auto_create_control_topics:
        raise missing_control_topic(config, found)
    return _create(config, target, [spec])[spec.name].partitions


def create_mapping_application_topics(
    config: PipelineConfig, target: Cluster, env: Mapping[str, str] = os.environ
) -> tuple[str, ...]:
    """Create the missing topics of the mapping application, if allowed; return their names.

    Existing ones stay as they are: they may belong to a pipeline with other settings.

    Raises:
        Refused, ConfigError, ConnectionFailed, TimedOut: as for :func:`ensure_control_topics`.
    """
    if not config.features.auto_create_control_topics:
        return ()
    specs = control_specs(config, env)
    del specs["commit"]
    specs["state"] = _spec(config, "state", config.coordination.state.topic)
    missing = [found for found in _inspect_all(config, target, specs) if not found.partitions]
    problems = [found.problem for found in missing if found.problem]
    if problems:
        raise _all_in_one(problems)
    _create(config, target, [found.spec for found in missing])
    return tuple(found.spec.name for found in missing)


def inspect_control_topics(
    config: PipelineConfig, target: Cluster, env: Mapping[str, str] = os.environ
) -> list[ControlFinding]:
    """Inspect the control topics that the pipeline needs, without changing anything.

    Raises:
        ConfigError, ConnectionFailed, TimedOut: as for :func:`ensure_control_topics`.
    """
    return _inspect_all(config, target, control_specs(config, env))


def _inspect_or_let_create(
    config: PipelineConfig, target: Cluster, specs: Mapping[ControlTopic, TopicSpec]
) -> tuple[list[ControlFinding], tuple[str, ...]]:
    """Inspect control topics, after the brokers created what this program may not create.

    Returns:
        The findings, and the names of the topics that the brokers created.
    """
    findings = _inspect_all(config, target, specs)
    missing = sorted(found.spec.name for found in findings if not found.partitions)
    if config.features.auto_create_control_topics or any(found.problem for found in findings):
        return findings, ()
    waiting = config.configuration
    created = let_brokers_create(
        target,
        missing,
        attempts=waiting.auto_control_topic_creation_max_attempts,
        delay_s=waiting.auto_control_topic_creation_check_delay_s,
    )
    return (_inspect_all(config, target, specs) if created else findings), tuple(sorted(created))


def _inspect_all(
    config: PipelineConfig, target: Cluster, specs: Mapping[ControlTopic, TopicSpec]
) -> list[ControlFinding]:
    described = target.describe([spec.name for spec in specs.values()])
    present = [name for name, topic in described.items() if isinstance(topic, TopicDescription)]
    settings = topic_settings(target, present) if _is_validated(config) else {}
    return [
        _inspect(config, role, spec, described[spec.name], settings.get(spec.name, {}))
        for role, spec in specs.items()
    ]


def control_specs(
    config: PipelineConfig, env: Mapping[str, str] = os.environ
) -> dict[ControlTopic, TopicSpec]:
    """Return the creation settings of each control topic that the pipeline needs.

    Raises:
        ConfigError: two control topics have the same name.
    """
    names: dict[ControlTopic, str] = {"commit": config.coordination.commit.topic}
    if config.features.offset_mapping:
        names["offset_mapping"] = config.offset_mapping.topic
    if "kafka" in [part.strip() for part in env.get("OTEL_METRICS_EXPORTER", "").split(",")]:
        names["metrics"] = config.metrics.kafka.topic
    all_names = [*names.values(), config.coordination.state.topic]
    if len(set(all_names)) < len(all_names):
        raise ConfigError(
            "coordination.commit.topic, coordination.state.topic, offsetMapping.topic and "
            "metrics.kafka.topic must be different topics, found "
            + ", ".join(map(safe_text, all_names)),
            unchanged="Nothing was created.",
            hint="Give each its own name; only commit and assignment may share one.",
        )
    return {role: _spec(config, role, name) for role, name in names.items()}


def _spec(config: PipelineConfig, role: ControlTopic, name: str) -> TopicSpec:
    wanted = config.topic_creation.control_for(role).over(_DEFAULTS[role])
    partitions = wanted.partitions
    one_a_slot = role == "commit" and not config.features.optimize_offset_commit_partition
    if one_a_slot and config.topic_creation.control_for(role).partitions is None:
        partitions = config.slots or _SLOT_PARTITIONS
    return TopicSpec(name, partitions, wanted.replication, wanted.config)


def missing_control_topic(config: PipelineConfig, found: ControlFinding) -> K2kError:
    """Return the error for a missing topic that this program is not allowed to create."""
    return Refused(
        f"topic {safe_text(found.spec.name)} for {_HOLDS[found.role]} does not exist on the target "
        "cluster, and features.autoCreateControlTopics is disabled",
        hint="Set features.autoCreateControlTopics: enabled, or create it: "
        + create_command(config.target, found.spec),
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
        missing = topic.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        problem = None if missing else _describe_error(role, spec, topic)
        if missing and _is_validated(config) and config.features.auto_create_control_topics:
            problem = _wrong_policy(config, role, spec, spec.config.get(_POLICY, ""), made=False)
        return ControlFinding(role, spec, 0, problem)
    if not _is_validated(config):
        other = _wrong_count(config, role, topic)
        note = other.message if other else ""
        return ControlFinding(role, spec, topic.partitions, note=note)
    if isinstance(settings, K2kError):
        return ControlFinding(role, spec, topic.partitions, _unread(role, spec, settings))
    entry = settings.get(_POLICY)
    wrong = _wrong_policy(config, role, spec, entry.value if entry else "", made=True)
    return ControlFinding(role, spec, topic.partitions, wrong or _wrong_count(config, role, topic))


def _wrong_policy(
    config: PipelineConfig, role: ControlTopic, spec: TopicSpec, policy: str, *, made: bool
) -> K2kError | None:
    policies = {part.strip() for part in policy.split(",")}
    wanted = "compact" if role in _COMPACTED else "delete"
    if policies == {"compact"} if role in _COMPACTED else "compact" not in policies:
        return None
    loss = _COMPACTED.get(role, "compaction would drop all but the newest record of each key")
    setting = f'{_SECTION[role]}.config "{_POLICY}": {wanted}'
    name = safe_text(spec.name)
    return Refused(
        f"topic {name} for {_HOLDS[role]} {'has' if made else 'would get'} {_POLICY} "
        f"{safe_text(policy)}; it needs {wanted}: {loss}",
        unchanged="Its settings were not changed." if made else "It was not created.",
        hint=f"Run: {alter_command(config.target, spec.name, _POLICY, wanted)}"
        if made
        else f"Set {setting} in the configuration.",
    )


def _wrong_count(
    config: PipelineConfig, role: ControlTopic, topic: TopicDescription
) -> K2kError | None:
    wanted = config.topic_creation.control_for(role).partitions
    own = getattr(config.topic_creation.control, role).partitions is not None
    section = _SECTION[role] if own else "topicCreation.control.common"
    if wanted is None or wanted == topic.partitions:
        return None
    return Refused(
        f"topic {safe_text(topic.name)} for {_HOLDS[role]} has "
        f"{counted(topic.partitions, 'partition')}; {section}.partitions is {wanted}",
        unchanged="It was not changed: other pipelines may use it.",
        hint=f"Set {_SECTION[role]}.partitions: {topic.partitions}, name another topic, or set "
        "features.validateControlTopicSettings: disabled.",
    )


def _describe_error(role: ControlTopic, spec: TopicSpec, error: KafkaError) -> K2kError:
    return Refused(
        f"topic {safe_text(spec.name)} for {_HOLDS[role]} cannot be described on the target "
        f"cluster: {safe_text(error.str())}",
        hint="Grant the target principal Describe, Read and Write on it.",
    )


def _unread(role: ControlTopic, spec: TopicSpec, error: K2kError) -> K2kError:
    return Refused(
        f"the settings of topic {safe_text(spec.name)} for {_HOLDS[role]} cannot be checked: "
        f"{error.message}",
        hint="Grant the target principal DescribeConfigs on it, or, if its cleanup.policy is "
        "known to be correct, set features.validateControlTopicSettings: disabled.",
    )


def _create(
    config: PipelineConfig, target: Cluster, specs: list[TopicSpec]
) -> dict[str, TopicDescription]:
    errors = [error for error in create_topics(target, specs).values() if error]
    if errors:
        raise _all_in_one(errors)
    waiting = config.configuration
    ready = await_topics(
        target,
        {spec.name: 1 for spec in specs},
        attempts=waiting.auto_control_topic_creation_max_attempts,
        delay_s=waiting.auto_control_topic_creation_check_delay_s,
    )
    late = {spec.name for spec in specs} - ready.keys()
    if late:
        raise not_ready(target, late)
    return ready


def _all_in_one(problems: list[K2kError]) -> K2kError:
    if len(problems) == 1:
        return problems[0]
    kept = dict.fromkeys(problem.unchanged for problem in problems if problem.unchanged)
    return Refused(
        "\n".join(problem.message for problem in problems),
        unchanged="\n".join(kept),
        hint="\n".join(problem.hint for problem in problems),
    )
