"""The pipeline's own topics on the target: positions, mapping ranges, state and metrics.

| topic | cleanup.policy | default partitions | default retention |
|---|---|---|---|
| ``coordination.commit.topic`` | compact | 1, or 1 per slot (6) | the last record of each key |
| ``offsetMapping.topic`` | delete | 6 | 7 days |
| ``metrics.kafka.topic`` | delete | 3 | 30 days |
| ``coordination.state.topic`` | compact | 1 | the last record of each key |
| ``coordination.assignment.topic`` | compact | 1 | the last record of each key |

One commit partition is enough for one pipeline: it has few positions, and every start reads the
partition to its end in one pass. With ``optimizeOffsetCommitPartition: disabled`` each slot
writes to its own partition, so that a transaction left open by one slot does not delay the
positions of the others. Only ``coordination.mode: shared`` uses the assignment topic. With
``exclusive``, copying does not need the state topic, and its first writer creates it
(:func:`ensure_state_topic`).

``topicCreation.control.common`` counts when a topic is created; one that exists with another number
of partitions is used, with a note. Programs with different files share these topics.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig
from k2ktui.config.topic_creation import ControlTopic
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.broker_creation import let_brokers_create
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.control_findings import ControlFinding, inspect_topics, missing_control_topic
from k2ktui.kafka.control_specs import (
    CLEANUP_POLICY,
    HOLDS,
    control_specs,
    is_optional,
    state_spec,
)
from k2ktui.kafka.topics import TopicSpec, alter_topic, await_topics, create_topics, not_ready
from k2ktui.text import safe_text


@dataclass(frozen=True, slots=True)
class ControlTopics:
    """Partition counts of the control topics; 0 when the pipeline does not need the topic."""

    commit_partitions: int
    mapping_partitions: int = 0
    metrics_partitions: int = 0
    created: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def ensure_control_topics(
    config: PipelineConfig, target: Cluster, env: Mapping[str, str] = os.environ
) -> ControlTopics:
    """Create missing control topics, if the configuration allows it, and check existing ones.

    If it does not allow it, the brokers may create them (``auto.create.topics.enable``). They do so
    with their own ``cleanup.policy``, which is corrected while such a topic is empty.

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
    every = control_specs(config, env)
    specs = {role: spec for role, spec in every.items() if not is_optional(config, role)}
    others = {role: spec for role, spec in every.items() if role not in specs}
    allowed = config.features.auto_create_control_topics
    unneeded = inspect_topics(config, target, others) if others else []
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
        notes=tuple(found.note for found in (*findings, *unneeded) if found.note),
    )


def ensure_state_topic(
    config: PipelineConfig, target: Cluster, note: Callable[[str], None] = lambda _: None
) -> int:
    """Create the state topic if it is missing and may be created; return its partition count.

    ``note`` is called if a topic that the brokers created was corrected.

    Raises:
        Refused: it is missing and may not be created, or has unsuitable settings.
        ConfigError: another control topic has its name.
        ConnectionFailed, TimedOut: as for :func:`ensure_control_topics`.
    """
    control_specs(config, {})  # raises ConfigError for a duplicate name
    spec = state_spec(config)
    ((found,), created) = _inspect_or_let_create(config, target, {"state": spec})
    if found.problem:
        raise found.problem
    if created and found.note:
        note(found.note)
    if found.partitions:
        return found.partitions
    if not config.features.auto_create_control_topics:
        raise missing_control_topic(config, found)
    return _create(config, target, [spec])[spec.name].partitions


def create_mapping_application_topics(
    config: PipelineConfig, target: Cluster, env: Mapping[str, str] = os.environ
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Create the missing topics of the mapping application, if allowed.

    Existing ones stay as they are: they may belong to a pipeline with other settings.

    Returns:
        The names of the topics that were created, and how existing ones differ from the file.

    Raises:
        Refused, ConfigError, ConnectionFailed, TimedOut: as for :func:`ensure_control_topics`.
    """
    specs = control_specs(config, env)
    del specs["commit"]
    specs.pop("assignment", None)
    findings = inspect_topics(config, target, specs)
    notes = tuple(found.note for found in findings if found.note)
    if not config.features.auto_create_control_topics:
        return (), notes
    missing = [found for found in findings if not found.partitions]
    problems = [found.problem for found in missing if found.problem]
    if problems:
        raise _all_in_one(problems)
    _create(config, target, [found.spec for found in missing])
    return tuple(found.spec.name for found in missing), notes


def _inspect_or_let_create(
    config: PipelineConfig, target: Cluster, specs: Mapping[ControlTopic, TopicSpec]
) -> tuple[list[ControlFinding], tuple[str, ...]]:
    """Inspect control topics, after the brokers created what this program may not create.

    Returns:
        The findings, and the names of the topics that the brokers created.
    """
    findings = inspect_topics(config, target, specs)
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
    if created:
        findings = inspect_topics(config, target, specs)
        findings = [
            _correct(target, found) if found.spec.name in created else found for found in findings
        ]
        # Another start, which asked for it at the same time, may be correcting it.
        again = {f.role: f.spec for f in findings if f.needs_policy and f.spec.name in created}
        if again:
            time.sleep(waiting.auto_control_topic_creation_check_delay_s)
            anew = {found.role: found for found in inspect_topics(config, target, again)}
            findings = [anew.get(found.role, found) for found in findings]
    return findings, tuple(sorted(created))


def _correct(target: Cluster, found: ControlFinding) -> ControlFinding:
    """Set the ``cleanup.policy`` of a topic that the brokers have just created for this program.

    Only while it is empty: records of another program, which may have created it at the same time,
    could be kept or lost otherwise than that program expects.
    """
    if not found.needs_policy:
        return found
    name = found.spec.name
    where = [(name, partition) for partition in range(found.partitions)]
    ends = target.offsets(where, OffsetSpec.latest())
    if any(ends.get(at) != 0 for at in where):
        return found
    if alter_topic(target, name, CLEANUP_POLICY, found.needs_policy) is not None:
        return found  # its problem says what the operator may do
    text = (
        f"topic {safe_text(name)} for {HOLDS[found.role]} was created by the brokers, with their "
        f"own settings; its {CLEANUP_POLICY} was set to {found.needs_policy}"
    )
    notes = [text, *([found.note] if found.note else [])]
    return replace(found, problem=None, needs_policy="", note="; ".join(notes))


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
