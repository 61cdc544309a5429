"""The route of every source partition, and the reason for it.

Batches are copied whole (verbatim) unless the records or their partition must change:

| setting | path |
|---|---|
| none of the settings below | verbatim |
| ``replication.sink.partition: producer`` | record: the key determines the partition |
| ``features.headerReplication: disabled`` | record: headers are dropped |
| ``features.tracingHeaders`` | record: headers are added |
| an expression in ``replication.sink`` | record: Spark SQL chooses the topic or the partition |
| ``replication.transform`` | record: Spark SQL changes the records, by topic |
| ``features.schemaMapping`` | record: schema ids are replaced in place, by topic |
| ``replication.headers`` | record: headers are dropped, renamed or added, by topic |
| ``bidirectional.mode: pipeline`` or ``cluster`` | record: a header marks the origin |
| ``features.keepRecordCreationTimestamp: disabled`` | record: new timestamps; verbatim where the \
target uses LogAppendTime |

Several source topics with one target (static mapping) still use the verbatim path: Kafka keeps the
order of each source partition within the shared target partition.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.transforms.header_names import HeaderRules
from k2ktui.errors import K2kError
from k2ktui.kafka.clients import TopicDescription
from k2ktui.replication.copying.slot_settings import compression_codec
from k2ktui.replication.copying.slot_task import CopyPath, DeadLetterTarget, Route, RoutedTopic
from k2ktui.replication.topics.naming import dead_letter_name
from k2ktui.replication.topics.targets import TargetTopic
from k2ktui.text import safe_text

APPEND_TIME = "LogAppendTime"
# Room for the batch header and the per-record overhead when a batch is rebuilt.
BATCH_OVERHEAD_BYTES = 512
_COORDINATES = ("topic", "partition", "offset", "pipeline")


@dataclass(frozen=True, slots=True)
class Choice:
    """A copy path and its reason, worded for operators."""

    path: CopyPath
    reason: str


def routes_for(
    config: PipelineConfig, topic: TopicDescription, targets: Sequence[TargetTopic]
) -> list[Route]:
    """Return the route of each partition of a source topic, in order.

    With ``partition: source`` the list is cut to the target's number of partitions; the remaining
    source partitions cannot be copied, and ``short`` of a target says why.
    """
    sink, target = config.replication.sink, targets[0]
    keeps, partitions = sink.keeps_partitions, min(target.partitions for target in targets)
    choice = choose_path(config, target.timestamp_type, topic=topic.name)
    verbatim = choice.path is CopyPath.VERBATIM
    schemas = config.schema_rule_for(topic.name)
    codec = None if verbatim else compression_codec(config)
    reasons = _record_reasons(config, target.timestamp_type, topic.name)
    of_topic = Route(
        path=choice.path,
        topic=target.name,
        partition=None,
        partitions=target.partitions,
        headers=HeaderRules() if verbatim else header_rules(config, topic.name),
        codec=codec,
        transform=config.replication.transform_for(topic.name),
        schemas=schemas,
        keeps_batches=schemas is not None and len(reasons) == 1 and codec is None,
        now_timestamps=not verbatim and not config.features.keep_record_creation_timestamp,
        choices=()
        if sink.routing is None
        else tuple(
            RoutedTopic(target.name, target.partitions, target.topic_id) for target in targets
        ),
    )
    return [
        replace(
            of_topic,
            partition=number if keeps else None,
            dead_letters=_dead_letters(target, number),
        )
        for number in range(topic.partitions)
        if not keeps or number < partitions
    ]


def _dead_letters(target: TargetTopic, partition: int) -> DeadLetterTarget | None:
    dead = target.dead_letters
    if dead is None:
        return None
    limit = max(1024, dead.sizes[0] - BATCH_OVERHEAD_BYTES)
    return DeadLetterTarget(dead.name, partition % dead.partitions, limit)


def header_rules(config: PipelineConfig, topic: str | None = None) -> HeaderRules:
    """Return the rules for record headers: whether to drop them and which to add.

    Args:
        config: the pipeline.
        topic: a source topic; None for what applies to every topic.
    """
    wanted, names = config.features.tracing_headers, config.tracing.headers
    added = tuple((what, getattr(names, what)) for what in _COORDINATES if getattr(wanted, what))
    drop = not config.features.header_replication
    rule = config.replication.header_rule(topic) if topic is not None else None
    if rule is None:
        return HeaderRules(drop, added)
    return HeaderRules(drop, added + rule.added, rule.names, tuple((rule.add or {}).items()))


def choose_path(
    config: PipelineConfig,
    timestamp_type: str = "",
    others: Collection[str] = (),
    *,
    topic: str | None = None,
) -> Choice:
    """Choose the path of a topic.

    Args:
        config: the pipeline.
        timestamp_type: the target topic's message.timestamp.type, empty if unknown.
        others: further source topics with the same target; they affect only the reason.
        topic: the source topic; None for a topic without a rule of its own.
    """
    why = _record_reasons(config, timestamp_type, topic)
    if why:
        return Choice(CopyPath.RECORD, "; ".join(why))
    reason = "records and partitions are unchanged"
    if compression_codec(config) is not None:
        reason += "; batches keep the source's compression, whatever compression.type says"
    if others:
        reason += (
            f"; shares its target with {len(others)} other source "
            f"topic{'s' if len(others) > 1 else ''}, and each keeps its order in the same partition"
        )
    if timestamp_type == APPEND_TIME:
        reason += f"; the target replaces timestamps ({APPEND_TIME})"
    return Choice(CopyPath.VERBATIM, reason)


def _record_reasons(config: PipelineConfig, timestamp_type: str, topic: str | None) -> list[str]:
    features, rules = config.features, header_rules(config)
    why: list[str] = []
    if config.replication.sink.partition == "producer":
        why.append("partition: producer chooses the partition by key")
    if rules.drop:
        why.append("headerReplication: disabled drops headers")
    if rules.added:
        added = ", ".join(what for what, _ in rules.added)
        why.append(f"tracingHeaders adds headers ({added})")
    transform = config.replication.transform_for(topic) if topic is not None else None
    if transform is not None and transform.words:
        why.append(f"replication.transform {transform.words}{_on_error_words(config, topic)}")
    schemas = config.schema_rule_for(topic) if topic is not None else None
    if schemas is not None:
        words = f"schemaMapping replaces schema ids in {' and '.join(schemas.parts)}"
        if schemas.on_unknown == "deadLetter":
            words += _dead_letter_words(config, topic, "with unknown ids")
        why.append(words)
    routing = config.replication.sink.routing
    if routing is not None:
        why.append(f"replication.sink {routing.words}")
    own = header_rules(config, topic)
    if own != rules:
        why.append(f"replication.headers {_header_words(own, len(rules.added))}")
    if config.bidirectional_mode in ("pipeline", "cluster"):
        why.append(f"bidirectional.mode: {config.bidirectional_mode} marks records by a header")
    if not features.keep_record_creation_timestamp and timestamp_type != APPEND_TIME:
        why.append("keepRecordCreationTimestamp: disabled stamps the time of copying")
    return why


def _on_error_words(config: PipelineConfig, topic: str | None) -> str:
    """Return where the records go that fail the transform; its default needs no words."""
    transform = config.replication.transform_for(topic) if topic is not None else None
    if topic is None or transform is None or transform.on_error == "fail":
        return ""
    if transform.on_error == "skip":
        return ", skips records that fail"
    return _dead_letter_words(config, topic, "that fail")


def _dead_letter_words(config: PipelineConfig, topic: str | None, which: str) -> str:
    try:
        return f", writes records {which} to {safe_text(dead_letter_name(config, topic or ''))}"
    except K2kError:
        return ""  # reported as the topic's own error


def _header_words(rules: HeaderRules, common: int) -> str:
    """Return what a rule does to headers; ``common`` tracing headers are those of every topic."""
    words = []
    if rules.names.keep is not None:
        words.append(f"keeps only headers that match {rules.names.keep}")
    if rules.names.drop is not None:
        words.append(f"drops headers that match {rules.names.drop}")
    if rules.names.rename:
        words.append(f"renames headers that match {', '.join(p for p, _ in rules.names.rename)}")
    added = [name for name, _ in (*rules.constants, *((n, w) for w, n in rules.added[common:]))]
    if added:
        words.append(f"adds headers ({', '.join(added)})")
    return ", ".join(words)
