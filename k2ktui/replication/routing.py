"""The route of every source partition, and the reason for it.

Batches are copied whole (verbatim) unless the records or their partition must change:

| setting | path |
|---|---|
| none of the settings below | verbatim |
| ``replication.sink.partition: producer`` | record: the key determines the partition |
| ``features.headerReplication: disabled`` | record: headers are dropped |
| ``features.tracingHeaders`` | record: headers are added |
| ``bidirectional.mode: pipeline`` or ``cluster`` | record: a header marks the origin |
| ``features.keepRecordCreationTimestamp: disabled`` | record: new timestamps; verbatim where the \
target uses LogAppendTime |

Several source topics with one target (static mapping) still use the verbatim path: Kafka keeps the
order of each source partition within the shared target partition.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from k2ktui.config.model import PipelineConfig
from k2ktui.kafka.clients import TopicDescription
from k2ktui.replication.client_settings import compression_codec
from k2ktui.replication.slot_task import CopyPath, HeaderRules, Route
from k2ktui.replication.targets import TargetTopic

APPEND_TIME = "LogAppendTime"
_COORDINATES = ("topic", "partition", "offset", "pipeline")


@dataclass(frozen=True, slots=True)
class Choice:
    """A copy path and its reason, worded for operators."""

    path: CopyPath
    reason: str


def routes_for(config: PipelineConfig, topic: TopicDescription, target: TargetTopic) -> list[Route]:
    """Return the route of each partition of a source topic, in order.

    With ``partition: source`` the list is cut to the target's number of partitions; the remaining
    source partitions cannot be copied, and ``target.short`` says why.
    """
    by_key = config.replication.sink.partition == "producer"
    choice = choose_path(config, target.timestamp_type)
    verbatim = choice.path is CopyPath.VERBATIM
    return [
        Route(
            path=choice.path,
            topic=target.name,
            partition=None if by_key else number,
            partitions=target.partitions,
            headers=HeaderRules() if verbatim else header_rules(config),
            codec=None if verbatim else compression_codec(config),
            now_timestamps=not verbatim and not config.features.keep_record_creation_timestamp,
        )
        for number in range(topic.partitions)
        if by_key or number < target.partitions
    ]


def header_rules(config: PipelineConfig) -> HeaderRules:
    """Return the rules for record headers: whether to drop them and which to add."""
    wanted, names = config.features.tracing_headers, config.tracing.headers
    return HeaderRules(
        drop=not config.features.header_replication,
        added=tuple((what, getattr(names, what)) for what in _COORDINATES if getattr(wanted, what)),
    )


def choose_path(
    config: PipelineConfig, timestamp_type: str = "", others: Collection[str] = ()
) -> Choice:
    """Choose the path of a topic.

    Args:
        config: the pipeline.
        timestamp_type: the target topic's message.timestamp.type, empty if unknown.
        others: further source topics with the same target; they affect only the reason.
    """
    why = _record_reasons(config, timestamp_type)
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


def _record_reasons(config: PipelineConfig, timestamp_type: str) -> list[str]:
    features, rules = config.features, header_rules(config)
    why: list[str] = []
    if config.replication.sink.partition == "producer":
        why.append("partition: producer chooses the partition by key")
    if rules.drop:
        why.append("headerReplication: disabled drops headers")
    if rules.added:
        added = ", ".join(what for what, _ in rules.added)
        why.append(f"tracingHeaders adds headers ({added})")
    if config.bidirectional_mode in ("pipeline", "cluster"):
        why.append(f"bidirectional.mode: {config.bidirectional_mode} marks records by a header")
    if not features.keep_record_creation_timestamp and timestamp_type != APPEND_TIME:
        why.append("keepRecordCreationTimestamp: disabled stamps the time of copying")
    return why
