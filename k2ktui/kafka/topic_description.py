"""A topic as its cluster describes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A topic setting; ``is_default`` is true when it is not set on the topic itself."""

    value: str
    is_default: bool


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as its cluster describes it; ``topic_id`` is hex text, empty if it has none.

    ``leaderless`` counts the partitions that have no leader now, ``under_replicated`` those with a
    replica that is not in sync.
    """

    name: str
    topic_id: str
    partitions: int
    replication: int
    leaderless: int = 0
    under_replicated: int = 0


def is_missing(topic: TopicDescription | KafkaError) -> bool:
    """Return whether a cluster that was asked for a topic by name says that there is none."""
    return isinstance(topic, KafkaError) and topic.code() == KafkaError.UNKNOWN_TOPIC_OR_PART


def read_description(description: Any) -> TopicDescription:
    """Return the description that the client library returned, in our form."""
    topic_id = getattr(description, "topic_id", None)
    return TopicDescription(
        name=description.name,
        topic_id=_hex(topic_id),
        partitions=len(description.partitions),
        replication=min((len(p.replicas) for p in description.partitions), default=0),
        leaderless=sum(p.leader is None for p in description.partitions),
        under_replicated=sum(len(p.isr) < len(p.replicas) for p in description.partitions),
    )


def _hex(topic_id: Any) -> str:
    if topic_id is None:
        return ""
    high = topic_id.get_most_significant_bits() & 0xFFFFFFFFFFFFFFFF
    low = topic_id.get_least_significant_bits() & 0xFFFFFFFFFFFFFFFF
    return f"{high:016x}{low:016x}" if high or low else ""
