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

import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import ControlTopic, PipelineConfig
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.admin.broker_creation import let_brokers_create
from k2ktui.kafka.admin.topics import (
    TopicSpec,
    alter_topics,
    await_topics,
    create_topics,
    not_ready,
)
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.control.findings import ControlFinding, inspect_topics, missing_control_topic
from k2ktui.kafka.control.specs import CLEANUP_POLICY, HOLDS, control_specs, is_optional, state_spec
from k2ktui.text import safe_text

log = logging.getLogger(__name__)


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
        finding.problem or missing_control_topic(config, finding)
        for finding in findings
        if finding.problem or not (finding.partitions or allowed)
    ]
    if problems:
        raise _all_in_one(problems)
    missing = [finding.spec for finding in findings if not finding.partitions]
    counts = {finding.role: finding.partitions for finding in findings}
    made = _create(config, target, missing)
    for finding in findings:
        if not finding.partitions:
            counts[finding.role] = made[finding.spec.name].partitions
    return ControlTopics(
        commit_partitions=counts["commit"],
        mapping_partitions=counts.get("offset_mapping", 0),
        metrics_partitions=counts.get("metrics", 0),
        created=(*by_brokers, *(spec.name for spec in missing)),
        notes=tuple(finding.note for finding in (*findings, *unneeded) if finding.note),
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
    ((finding,), created) = _inspect_or_let_create(config, target, {"state": spec})
    if finding.problem:
        raise finding.problem
    if created and finding.note:
        note(finding.note)
    if finding.partitions:
        return finding.partitions
    if not config.features.auto_create_control_topics:
        raise missing_control_topic(config, finding)
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
    notes = tuple(finding.note for finding in findings if finding.note)
    if not config.features.auto_create_control_topics:
        return (), notes
    missing = [finding for finding in findings if not finding.partitions]
    problems = [finding.problem for finding in missing if finding.problem]
    if problems:
        raise _all_in_one(problems)
    _create(config, target, [finding.spec for finding in missing])
    return tuple(finding.spec.name for finding in missing), notes


def _inspect_or_let_create(
    config: PipelineConfig, target: Cluster, specs: Mapping[ControlTopic, TopicSpec]
) -> tuple[list[ControlFinding], tuple[str, ...]]:
    """Inspect control topics, after the brokers created what this program may not create.

    Returns:
        The findings, and the names of the topics that the brokers created.
    """
    findings = inspect_topics(config, target, specs)
    missing = sorted(finding.spec.name for finding in findings if not finding.partitions)
    if config.features.auto_create_control_topics or any(finding.problem for finding in findings):
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
            _correct(target, finding) if finding.spec.name in created else finding
            for finding in findings
        ]
        # Another start, which asked for it at the same time, may be correcting it.
        again = {f.role: f.spec for f in findings if f.needs_policy and f.spec.name in created}
        if again:
            time.sleep(waiting.auto_control_topic_creation_check_delay_s)
            anew = {finding.role: finding for finding in inspect_topics(config, target, again)}
            findings = [anew.get(finding.role, finding) for finding in findings]
    return findings, tuple(sorted(created))


def _correct(target: Cluster, finding: ControlFinding) -> ControlFinding:
    """Set the ``cleanup.policy`` of a topic that the brokers have just created for this program.

    Only while it is empty: records of another program, which may have created it at the same time,
    could be kept or lost otherwise than that program expects.
    """
    if not finding.needs_policy:
        return finding
    name = finding.spec.name
    where = [(name, partition) for partition in range(finding.partitions)]
    ends = target.offsets(where, OffsetSpec.latest())
    if any(ends.get(at) != 0 for at in where):
        return finding
    if alter_topics(target, {name: {CLEANUP_POLICY: finding.needs_policy}}):
        return finding  # its problem says what the operator may do
    text = (
        f"topic {safe_text(name)} for {HOLDS[finding.role]} was created by the brokers, with their "
        f"own settings; its {CLEANUP_POLICY} was set to {finding.needs_policy}"
    )
    notes = [text, *([finding.note] if finding.note else [])]
    return replace(finding, problem=None, needs_policy="", note="; ".join(notes))


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
    if specs:
        log.info("control topics created: %s", ", ".join(safe_text(spec.name) for spec in specs))
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
