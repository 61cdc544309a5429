"""Which topics of its own a pipeline needs on the target, and the settings to create them with."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from k2ktui.config.model import ControlTopic, PipelineConfig, TopicSettings
from k2ktui.errors import ConfigError
from k2ktui.kafka.admin.topics import TopicSpec
from k2ktui.text import safe_text

_DAY_MS = 86_400_000
_SLOT_PARTITIONS = 6
CLEANUP_POLICY = "cleanup.policy"

DEFAULTS: Mapping[ControlTopic, TopicSettings] = {
    # Small segments: only closed ones are compacted, and every start reads the whole topic.
    "commit": TopicSettings(
        partitions=1, config={CLEANUP_POLICY: "compact", "segment.bytes": str(50 << 20)}
    ),
    "offset_mapping": TopicSettings(
        partitions=6, config={CLEANUP_POLICY: "delete", "retention.ms": str(7 * _DAY_MS)}
    ),
    "metrics": TopicSettings(
        partitions=3, config={CLEANUP_POLICY: "delete", "retention.ms": str(30 * _DAY_MS)}
    ),
    # Heartbeats arrive every few seconds: small segments limit the obsolete records to read.
    "state": TopicSettings(
        partitions=1, config={CLEANUP_POLICY: "compact", "segment.bytes": str(10 << 20)}
    ),
    # Each run writes a record every few seconds, and reads the whole topic when it starts.
    "assignment": TopicSettings(
        partitions=1, config={CLEANUP_POLICY: "compact", "segment.bytes": str(10 << 20)}
    ),
}
COMPACTED: Mapping[ControlTopic, str] = {
    "commit": "records of idle partitions would expire",
    "state": "snapshots and the journal would expire",
    "assignment": "it would be lost which run owns which slot",
}
SECTIONS: Mapping[ControlTopic, str] = {
    "commit": "topicCreation.control.commit",
    "offset_mapping": "topicCreation.control.offsetMapping",
    "metrics": "topicCreation.control.metrics",
    "state": "topicCreation.control.state",
    "assignment": "topicCreation.control.assignment",
}
HOLDS: Mapping[ControlTopic, str] = {
    "commit": "replicated positions",
    "offset_mapping": "offset mappings",
    "metrics": "metrics",
    "state": "heartbeats, snapshots and the journal",
    "assignment": "which run copies which slot",
}


def control_specs(
    config: PipelineConfig, env: Mapping[str, str] = os.environ
) -> dict[ControlTopic, TopicSpec]:
    """Return the creation settings of each control topic that the pipeline uses.

    This is the only list of them. A run needs all but those that are :func:`is_optional`.

    Raises:
        ConfigError: two control topics have the same name.
    """
    names: dict[ControlTopic, str] = {"commit": config.coordination.commit.topic}
    if config.features.offset_mapping:
        names["offset_mapping"] = config.offset_mapping.topic
    if "kafka" in [part.strip() for part in env.get("OTEL_METRICS_EXPORTER", "").split(",")]:
        names["metrics"] = config.metrics.kafka.topic
    assignment = config.coordination.assignment.topic
    if config.coordination.mode == "shared" and assignment != names["commit"]:
        names["assignment"] = assignment
    _require_different(config, [*names.values(), config.coordination.state.topic])
    specs = {role: control_spec(config, role, name) for role, name in names.items()}
    return {**specs, "state": state_spec(config)}


def is_optional(config: PipelineConfig, role: ControlTopic) -> bool:
    """Whether a run copies without this control topic: a run alone needs no heartbeats."""
    return role == "state" and config.coordination.mode == "exclusive"


def _require_different(config: PipelineConfig, names: list[str]) -> None:
    if len(set(names)) == len(names):
        return
    is_shared = config.coordination.mode == "shared"
    keys = ["coordination.commit.topic", "coordination.state.topic", "offsetMapping.topic"]
    keys += ["coordination.assignment.topic"] if is_shared else []
    raise ConfigError(
        f"{', '.join(keys)} and metrics.kafka.topic must be different topics, found "
        + ", ".join(map(safe_text, names)),
        unchanged="Nothing was created.",
        hint="Give each its own name; only commit and assignment may share one.",
    )


def state_spec(config: PipelineConfig) -> TopicSpec:
    """Return the settings to create the state topic with.

    Lenses does not know this topic: a ``cleanup.policy`` that a file has for all control topics was
    not written for it.
    """
    spec = control_spec(config, "state", config.coordination.state.topic)
    own = config.topic_creation.control.state.config.get(CLEANUP_POLICY)
    policy = own or DEFAULTS["state"].config[CLEANUP_POLICY]
    return replace(spec, config={**spec.config, CLEANUP_POLICY: policy})


def control_spec(config: PipelineConfig, role: ControlTopic, name: str) -> TopicSpec:
    """Return the settings to create a control topic with."""
    wanted = config.topic_creation.control_for(role).over(DEFAULTS[role])
    partitions = wanted.partitions
    one_a_slot = role == "commit" and not config.features.optimize_offset_commit_partition
    if one_a_slot and config.topic_creation.control_for(role).partitions is None:
        partitions = config.slots or _SLOT_PARTITIONS
    return TopicSpec(name, partitions, wanted.replication, wanted.config)
