"""The topics of both clusters side by side, for the checks of parity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain

from k2ktui.drill.checks.context import CheckContext
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.admin.topics import topic_settings
from k2ktui.kafka.clients import TopicDescription, describe_readable
from k2ktui.log.content import ContentReader, KafkaRecord
from k2ktui.replication.preflight.rights import selected_topics
from k2ktui.replication.topics.naming import target_names
from k2ktui.sync.mapping.source import NothingCopied


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
    names = {at.topic: tuple(r.position.target_topics) for at, r in replicas.items() if r.position}
    if context.down("source") is None and context.flow.pipeline is not None:
        selected = selected_topics(context.config, context.topic_names("source"))
        for topic in selected - names.keys():
            try:
                names[topic] = target_names(context.config, topic)
            except Refused:
                continue  # never copied
    return names


def read_pairs(context: CheckContext) -> list[TopicPair]:
    """Return the topics of both clusters, with their settings; errors as for :func:`read_names`."""
    names = read_names(context)
    target = context.cluster("target")
    source = None if context.down("source") else context.cluster("source")

    def read() -> list[TopicPair]:
        source_topics = describe_readable(source, names) if source else {}
        target_topics = describe_readable(target, chain.from_iterable(names.values()))
        left = topic_settings(source, source_topics) if source else {}
        right = topic_settings(target, target_topics)
        pairs = []
        for topic, to in sorted((topic, to) for topic, targets in names.items() for to in targets):
            settings = left.get(topic, {}), right.get(to, {})
            pairs.append(
                TopicPair(
                    topic,
                    to,
                    source_topics.get(topic),
                    target_topics.get(to),
                    (_plain(settings[0]), _plain(settings[1])),
                    next((entry.message for entry in settings if isinstance(entry, K2kError)), ""),
                )
            )
        return pairs

    return context.read("the topics of both clusters", read)


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
            for ((topic, partition, _), _), stretch in zip(where, ranges, strict=True)
            for record in stretch.records.values()
        ]

    return context.read("the newest records of the target", read)
