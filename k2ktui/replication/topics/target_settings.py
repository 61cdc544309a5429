"""Settings of a new target topic: those of the source topic, except broker-specific ones.

Settings that were set on the source topic itself are copied; ``topicCreation.replication``
overrides them. Not copied, unless set there: those in ``target.kafka.topicPropsExclusionList``, and

- what MirrorMaker 2 excludes by default: ``follower.`` and ``leader.replication.throttled.
  replicas`` (broker ids), ``min.insync.replicas`` and ``unclean.leader.election.enable`` (the
  target's operators trade safety for availability with another number of brokers),
  ``message.timestamp.type`` (LogAppendTime would replace the records' timestamps) and the limits
  on timestamps (``message.timestamp.*.max.ms``: old records would be refused);
- the old record format and its conversion (``message.format.version``,
  ``message.downconversion.enable``), which Kafka 4 removed (KIP-724);
- tiered storage (``remote.*``, ``local.retention.*``), which the target may not have;
- settings that only one vendor's brokers support (``confluent.*``, ``redpanda.*``).

Two settings are copied even if the source topic inherits them from its brokers, because its records
could not be written otherwise: a ``max.message.bytes`` above Kafka's default, and how far in the
future timestamps may be (``message.timestamp.after.max.ms``, since Kafka 3.6), if the target has
the setting and allows less: one hour since Kafka 4 (KIP-1030).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from k2ktui.config.model import PipelineConfig
from k2ktui.errors import K2kError
from k2ktui.kafka.admin.topics import Settings, TopicSpec, value_of
from k2ktui.kafka.clients import TopicDescription
from k2ktui.text import safe_text

DEFAULT_MAX_MESSAGE_BYTES = 1048588
CLEANUP_POLICY = "cleanup.policy"
MAX_MESSAGE_BYTES = "max.message.bytes"
COMPRESSION_TYPE = "compression.type"
TIMESTAMP_TYPE = "message.timestamp.type"

FUTURE_LIMIT = "message.timestamp.after.max.ms"
PAST_AND_FUTURE_LIMIT = "message.timestamp.difference.max.ms"  # until Kafka 3.9
NO_LIMIT = 2**63 - 1

_EXCLUDED = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "min.insync.replicas",
        "unclean.leader.election.enable",
        TIMESTAMP_TYPE,
        "message.format.version",
        "message.downconversion.enable",
        PAST_AND_FUTURE_LIMIT,
        "message.timestamp.before.max.ms",
        FUTURE_LIMIT,
    }
)
_EXCLUDED_PREFIXES = ("remote.", "local.retention.", "confluent.", "redpanda.")


def max_message_bytes(settings: Settings) -> int | None:
    """Return the largest batch that a topic with these settings accepts, in bytes.

    None if the cluster does not tell it: counted as 0, it would be below every other limit.
    """
    value = value_of(settings, MAX_MESSAGE_BYTES)
    return int(value) if value.isdecimal() else None


def future_limit(settings: Settings) -> int | None:
    """Return how far in the future a record's timestamp may be, in ms; None if that is unknown.

    The rule is that of Kafka's ``LogConfig`` from 3.6 to 3.9: the older setting counts as long as
    the newer one has its default, which is none.
    """
    values = [
        int(value)
        for key in (FUTURE_LIMIT, PAST_AND_FUTURE_LIMIT)
        if (value := value_of(settings, key)).isdecimal()
    ]
    return next((value for value in values if value != NO_LIMIT), NO_LIMIT) if values else None


def size_settings(settings: Settings) -> tuple[int, str]:
    """Return ``max.message.bytes`` and ``compression.type``, empty if it is unknown.

    The second decides what the brokers make of a batch before they compare it with the first.
    """
    limit = max_message_bytes(settings) or DEFAULT_MAX_MESSAGE_BYTES
    return limit, value_of(settings, COMPRESSION_TYPE)


def target_spec(
    config: PipelineConfig,
    name: str,
    topics: Sequence[TopicDescription],
    settings: Mapping[str, Settings | K2kError],
    brokers: int,
    future_ms: int = NO_LIMIT,
) -> tuple[TopicSpec, tuple[str, ...]]:
    """Return how to create the target of one or more source topics, and notes for the operator.

    Args:
        config: the pipeline.
        name: the target topic.
        topics: its source topics.
        settings: settings of the source topics by name; an error if they could not be read.
        brokers: number of brokers of the target cluster.
        future_ms: ``message.timestamp.after.max.ms`` of its new topics; none if it has no such
            setting, or that is unknown.
    """
    wanted = config.topic_creation.replication.settings_for(name)
    copied, notes = _common_settings(config, topics, settings, future_ms)
    replication = wanted.replication
    if replication is None:
        replication, note = _replication(topics, brokers)
        notes += note
    partitions = wanted.partitions or max(topic.partitions for topic in topics)
    return TopicSpec(name, partitions, replication, {**copied, **wanted.config}), notes


def _common_settings(
    config: PipelineConfig,
    topics: Sequence[TopicDescription],
    settings: Mapping[str, Settings | K2kError],
    future_ms: int,
) -> tuple[dict[str, str], tuple[str, ...]]:
    copied: list[dict[str, str]] = []
    for topic in topics:
        entries = settings[topic.name]
        if isinstance(entries, K2kError):
            return {}, (_unread_note(topic.name),)
        copied.append(_select_settings(config, entries, future_ms))
    agreed = {k: v for k, v in copied[0].items() if all(c.get(k) == v for c in copied)}
    disputed = sorted({key for chosen in copied for key in chosen} - agreed.keys())
    if not disputed:
        return agreed, ()
    return agreed, (
        f"its source topics differ in {', '.join(map(safe_text, disputed))}: the target's "
        "default applies; topicCreation.replication can set it",
    )


def _unread_note(topic: str) -> str:
    return (
        f"the settings of {safe_text(topic)} cannot be read on the source (requires "
        "DescribeConfigs): created with the target's defaults and those of "
        "topicCreation.replication; a compacted topic needs cleanup.policy there"
    )


def _select_settings(config: PipelineConfig, settings: Settings, future_ms: int) -> dict[str, str]:
    excluded = _EXCLUDED.union(config.target.kafka.topic_props_exclusion_list)
    copied = {key: entry.value for key, entry in settings.items() if not entry.is_default}
    limit = max_message_bytes(settings)
    if limit is not None and limit > DEFAULT_MAX_MESSAGE_BYTES:
        copied[MAX_MESSAGE_BYTES] = str(limit)
    kept = {
        key: value
        for key, value in copied.items()
        if key not in excluded and not key.startswith(_EXCLUDED_PREFIXES)
    }
    future = future_limit(settings)
    if (
        future
        and future > future_ms
        and FUTURE_LIMIT not in config.target.kafka.topic_props_exclusion_list
    ):
        kept[FUTURE_LIMIT] = str(future)
    return kept


def without_future_limit(config: PipelineConfig, spec: TopicSpec) -> TopicSpec | None:
    """Return how to create a topic without the limit that its source has; None if it has none."""
    if FUTURE_LIMIT in config.topic_creation.replication.settings_for(spec.name).config:
        return None
    left = {key: value for key, value in spec.config.items() if key != FUTURE_LIMIT}
    return replace(spec, config=left) if len(left) < len(spec.config) else None


def _replication(
    topics: Sequence[TopicDescription], brokers: int
) -> tuple[int | None, tuple[str, ...]]:
    copies = max(topic.replication for topic in topics)
    if not copies or copies <= brokers:
        return copies or None, ()
    return None, (
        f"the source keeps {copies} copies and the target has {brokers} "
        f"broker{'s' if brokers != 1 else ''}: created with the target's default replication",
    )
