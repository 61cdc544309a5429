"""Decide what a comparison reads: which partitions, and where their copies are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.compare.parts import ComparisonPart, PartitionFacts, divide
from k2ktui.engine.mapping.replica import Replica, target_partitions_of
from k2ktui.engine.records.moved_topic import MovedTopics
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.transforms.model import Transform
from k2ktui.errors import ConfigError, ConnectionFailed
from k2ktui.kafka.clients import Cluster, source_cluster, target_cluster
from k2ktui.log.record import RecordPart
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.snapshot import CheckedCopies, SnapshotReader
from k2ktui.sync.verify.changed_records import ignored_parts, leaves_records_out
from k2ktui.sync.verify.record_comparison import Compaction
from k2ktui.text import counted, safe_text

_COMPARED = (RecordPart.KEY, RecordPart.VALUE, RecordPart.HEADERS, RecordPart.TIMESTAMP)
_KEYS = (RecordPart.KEY, RecordPart.KEY_SCHEMA_ID)
_IDS_ARE_MAPPED = "schema ids are mapped there, too"


@dataclass(frozen=True, slots=True)
class ComparisonChoice:
    """What an operator wants compared.

    Attributes:
        topics: whether a source topic is compared.
        pattern: what ``topics`` was made of; "" for all topics.
        since_ms: timestamp of the first records to compare; None for all.
        sample: share of the offsets.
    """

    topics: Callable[[str], bool]
    pattern: str = ""
    since_ms: int | None = None
    sample: float = 1.0


@dataclass(frozen=True, slots=True)
class ComparisonPlan:
    """What a comparison reads.

    Attributes:
        parts: in order.
        source_cluster, target_cluster: ids of the clusters.
        left_out: partitions that are not compared, and why.
        ignored: parts of records that are not compared, by source topic.
        both_ways: whether records of the target's own are as they must be.
        notes: messages for the operator.
        transforms: those that are run again, by source topic.
    """

    parts: tuple[ComparisonPart, ...]
    source_cluster: str
    target_cluster: str
    left_out: Mapping[SourcePartition, str]
    ignored: Mapping[str, tuple[str, ...]]
    both_ways: bool
    notes: tuple[str, ...]
    transforms: Mapping[str, Transform]


def plan_comparison(
    flow: Flow, choice: ComparisonChoice, why_no_spark: Callable[[], str]
) -> ComparisonPlan:
    """Read positions, mappings and the bounds of both logs, and divide them into parts.

    Args:
        flow: the pipeline.
        choice: what an operator wants compared.
        why_no_spark: asked if a topic has a transform: why none can be run; "" if one can.

    Raises:
        ConnectionFailed, TimedOut: a cluster does not answer, or the source is another one.
        NothingCopied: nothing has been replicated yet.
        UnreadableRecords: it is not known which topics drills have moved.
        ConfigError: no topic that is copied is chosen.
    """
    config = flow.config
    source, target = source_cluster(config), target_cluster(config)
    snapshots = SnapshotReader(flow, source, target, for_plans=False)
    try:
        checked = snapshots.find_whole_copies(choice.topics)
    finally:
        snapshots.close()
    copies, moved = checked.copies, checked.copies.copier.find_moved()
    chosen = {at: r for at, r in copies.replicas.items() if choice.topics(at.topic)}
    if not chosen:
        raise ConfigError(
            "no topic that is copied has a name that matches --topics",
            hint="k2ktui status -f FILE lists the topics that are copied.",
        )
    left_out = {
        at: why
        for at, replica in chosen.items()
        if (why := _why_left_out(at, replica, checked, moved))
    }
    compared = sorted(chosen.keys() - left_out.keys())
    since = _since(source, compared, choice.since_ms)
    on_source, on_target = Compaction(source), Compaction(target)
    leaves_out = {
        topic: bool(config.bidirectional_mode) or leaves_records_out(config, topic)
        for topic in {at.topic for at in compared}
    }
    changed = {topic: ignored_parts(config, topic) for topic in leaves_out}
    transforms, notes = _choose_transforms(config, leaves_out, why_no_spark)
    ignored = {
        topic: ignored_parts(config, topic, transforms=topic in transforms) for topic in leaves_out
    }
    facts = {
        at: PartitionFacts(
            checked.starts[at],
            since.get(at),
            on_source.may(at.topic),
            leaves_out[at.topic],
            keeps_keys=changed[at.topic].isdisjoint(_KEYS),
            keeps_values=RecordPart.VALUE not in changed[at.topic],
            makes_several=_makes_several(config, at.topic),
        )
        for at in compared
    }
    names = {name for at in compared for name, _ in target_partitions_of(chosen[at])}
    usable = {
        at: replica
        for at, replica in copies.replicas.items()
        if replica.position is not None and replica.anchors is None
    }
    parts = divide(
        usable, facts, checked.logs, {name: on_target.may(name) for name in names}, choice.sample
    )
    return ComparisonPlan(
        tuple(parts),
        source.cluster_id(),
        target.cluster_id(),
        left_out,
        {
            topic: tuple(str(part) for part in _COMPARED if part in parts)
            for topic, parts in ignored.items()
        },
        bool(config.bidirectional_mode),
        (*copies.notes, *notes),
        transforms,
    )


def _makes_several(config: PipelineConfig, topic: str) -> bool:
    transform = config.replication.transform_for(topic)
    return transform is not None and transform.explode is not None


def _choose_transforms(
    config: PipelineConfig, topics: Iterable[str], why_no_spark: Callable[[], str]
) -> tuple[dict[str, Transform], list[str]]:
    """Return the transforms that are run again, by source topic, and notes about the others."""
    transforms = {
        topic: transform
        for topic in topics
        if (transform := config.replication.transform_for(topic)) is not None
    }
    mapped = {topic for topic in transforms if config.schema_rule_for(topic) is not None}
    why = why_no_spark() if transforms.keys() - mapped else ""
    left = transforms.keys() if why else mapped
    notes = [
        f"the transforms of {counted(len(left), 'topic')} are not run again, so what they change "
        f"or leave out is not compared: {why or _IDS_ARE_MAPPED}"
    ]
    ran = {topic: how for topic, how in transforms.items() if topic not in left}
    return ran, notes if left else []


def _why_left_out(
    at: SourcePartition,
    replica: Replica,
    checked: CheckedCopies,
    moved: MovedTopics,
) -> str:
    """Return why a partition is not compared; "" if it is."""
    if replica.position is None or replica.anchors is not None:
        return "no pipeline of k2ktui copies it"
    move = moved.get(at.topic)
    if move is not None:
        return move.describe()
    if at not in checked.starts:
        return "the source has no such partition any more, or its leader does not answer"
    if not target_partitions_of(replica) <= checked.logs.keys():
        return replica.unusable_reason or "the leader of its target partition does not answer"
    return replica.unusable_reason


def _since(
    source: Cluster, partitions: list[SourcePartition], since_ms: int | None
) -> dict[SourcePartition, int]:
    """Return the offset of the first record at or after a time; the log's end without one.

    Raises:
        ConnectionFailed: a partition's leader does not answer.
    """
    if since_ms is None:
        return {}
    where = [(at.topic, at.partition) for at in partitions]
    stamped = source.offsets(where, OffsetSpec.for_timestamp(since_ms))
    ends = source.offsets(where, OffsetSpec.latest())
    silent = [at for at in where if at not in stamped or at not in ends]
    if silent:
        raise ConnectionFailed(
            f"the source cluster does not say which offsets {safe_text(silent[0][0])}-"
            f"{silent[0][1]} has at this time"
        )
    return {
        SourcePartition(*at): ends[at] if offset < 0 else offset for at, offset in stamped.items()
    }
