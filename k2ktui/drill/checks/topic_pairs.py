"""The topics of both clusters side by side, for the checks of parity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from k2ktui.drill.checks.context import CheckContext
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.topics import topic_settings
from k2ktui.log.content import ContentReader, KafkaRecord
from k2ktui.replication.naming import target_names
from k2ktui.replication.preflight.rights import selected_topics
from k2ktui.sync.mapping_source import NothingCopied


@dataclass(frozen=True, slots=True)
class TopicPair:
    """A source topic and its target topic; None where it does not exist or is unknown.

    ``settings`` of source and target are empty if they cannot be read; ``unread`` says why.
    """

    source_name: str
    target_name: str
    source: TopicDescription | None
    target: TopicDescription | None
    settings: tuple[Mapping[str, str], Mapping[str, str]] = field(default=({}, {}))
    unread: str = ""


def read_names(context: CheckContext) -> dict[str, tuple[str, ...]]:
    """Return the target topics by source topic, of copied and of selected topics.

    Raises:
        ConnectionFailed, TimedOut: the target does not answer.
    """
    try:
        replicas = context.snapshot().replicas
    except NothingCopied:
        replicas = {}
    found = {at.topic: tuple(r.position.target_topics) for at, r in replicas.items() if r.position}
    if context.down("source") is None and context.flow.pipeline is not None:
        selected = context.read(
            "the source's topics",
            lambda: selected_topics(context.config, context.cluster("source")),
        )
        for topic in selected - found.keys():
            try:
                found[topic] = target_names(context.config, topic)
            except Refused:
                continue  # never copied
    return found


def read_pairs(context: CheckContext) -> list[TopicPair]:
    """Return the topics of both clusters, with their settings; errors as for :func:`read_names`."""
    names = read_names(context)
    target = context.cluster("target")
    source = None if context.down("source") else context.cluster("source")

    def read() -> list[TopicPair]:
        here = _describe(source, names)
        there = _describe(target, (name for each in names.values() for name in each))
        left = topic_settings(source, here) if source else {}
        right = topic_settings(target, there)
        pairs = []
        for topic, to in sorted((topic, to) for topic, each in names.items() for to in each):
            settings = left.get(topic, {}), right.get(to, {})
            pairs.append(
                TopicPair(
                    topic,
                    to,
                    here.get(topic),
                    there.get(to),
                    (_plain(settings[0]), _plain(settings[1])),
                    next((each.message for each in settings if isinstance(each, K2kError)), ""),
                )
            )
        return pairs

    return context.read("the topics of both clusters", read)


def _describe(cluster: Cluster | None, names: Iterable[str]) -> dict[str, TopicDescription]:
    if cluster is None:
        return {}
    found = cluster.describe(sorted(set(names)))
    return {name: each for name, each in found.items() if isinstance(each, TopicDescription)}


def _plain(settings: object) -> dict[str, str]:
    if not isinstance(settings, Mapping):
        return {}
    return {name: entry.value for name, entry in settings.items()}


def newest_records(context: CheckContext, records: int) -> list[tuple[str, int, KafkaRecord]]:
    """Return topic, partition and record of the newest records of some target partitions."""
    snapshot, limits = context.snapshot(), context.limits
    logs = sorted(snapshot.logs.items())
    step = max(1, -(-len(logs) // limits.partitions))
    where = [
        ((*at, max(log.start, log.end - records)), min(records, log.end - log.start))
        for at, log in logs[::step]
        if log.end > log.start
    ]
    cluster = context.cluster("target")

    def read() -> list[tuple[str, int, KafkaRecord]]:
        with ContentReader(cluster) as reader:
            ranges = reader.stretches(where, limits.reading_s / 2)
        return [
            (topic, partition, record)
            for ((topic, partition, _), _), found in zip(where, ranges, strict=True)
            for record in found.records.values()
        ]

    return context.read("the newest records of the target", read)
