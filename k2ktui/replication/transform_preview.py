"""What a transform does to records of the source; nothing is written."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig, SparkSettings
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.transforms.model import OnError, Transform, plan_steps
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.clients import Cluster, TopicDescription, source_cluster, target_cluster
from k2ktui.log.content import ContentReader
from k2ktui.log.record import KafkaRecord, TimestampType, record_at
from k2ktui.log.record_headers import change_headers
from k2ktui.replication.preview_records import Preview, PreviewOutcome, PreviewRow
from k2ktui.replication.spark.session import SparkRuntime
from k2ktui.replication.topics.naming import target_names
from k2ktui.replication.topics.routing import header_rules
from k2ktui.replication.transforms.json_columns import ID_BYTES
from k2ktui.replication.transforms.rows import PARTITION, TOPIC, join_records
from k2ktui.replication.transforms.schemas import TransformSchemas
from k2ktui.replication.transforms.show_values import show_decoded, show_encoded
from k2ktui.replication.transforms.transformed import Transformed
from k2ktui.text import safe_message, safe_text

_READ_S = 30.0
_FAILED: Mapping[OnError, PreviewOutcome] = {
    "fail": PreviewOutcome.STOPS,
    "skip": PreviewOutcome.SKIPPED,
    "deadLetter": PreviewOutcome.DEAD_LETTER,
}


def preview_transform(config: PipelineConfig, topic: str, limit: int) -> Preview:
    """Read the newest records of a source topic and transform them on Spark, on this host.

    Raises:
        Refused: no rule is for the topic, or it does not exist.
        ConfigError: Spark rejects an expression.
        ConnectionFailed, TimedOut: a cluster did not answer.
    """
    transform = config.replication.transform_for(topic)
    if transform is None:
        raise Refused(
            f"no rule of replication.transform changes the records of {safe_text(topic)}",
            unchanged="Nothing was read.",
            hint="Name a topic that a rule's pattern matches; k2ktui explain lists the topics.",
        )
    target = ", ".join(target_names(config, topic))
    schemas = TransformSchemas(config)
    codecs = schemas.codecs(transform, "replication.transform")
    newest = read_newest(source_cluster(config), topic, limit)
    partitions = [(source, join_records(records)) for source, records in newest]
    counts = partition_counts(config, topic)
    spark = _spark_for(config, schemas)
    try:
        spark.start()
        made = spark.transforms.preview(transform, partitions, counts)
    finally:
        spark.stop()
    newest = [
        (source, _without_ids(show_decoded(records, codecs), transform))
        for source, records in newest
    ]
    steps = plan_steps(transform)
    shown: list[PreviewRow] = []
    for number, (source, records) in enumerate(newest):
        result = show_encoded(made.get(number, Transformed()), codecs)
        after = _after(config, transform, source, result)
        chosen = _targets(config, source, result)
        failed = {failure.offset: steps[failure.step] for failure in result.failures}
        for record in records:
            row = _row(source, record, after.get(record.offset, ()), failed, transform)
            shown.append(replace(row, target=chosen.get(record.offset, "")))
    shown.sort(key=lambda row: (row.before.timestamp_ms, row.source, row.before.offset))
    words = [transform.words, transform.routing.words if transform.routing else ""]
    return Preview(topic, target, ", ".join(filter(None, words)), tuple(shown[-limit:]))


@dataclass(frozen=True, slots=True)
class InferredSchema:
    """The schema (DDL) of JSON keys or values, and the records that it was inferred from.

    ``has_id`` says whether a schema's id stands before each; the sample is without them.
    """

    ddl: str
    sample: tuple[tuple[SourcePartition, KafkaRecord], ...]
    has_id: bool = False


def infer_schema(
    config: PipelineConfig, topic: str, limit: int, *, part: str = "value"
) -> InferredSchema:
    """Return the schema of the newest keys or values of a topic, of those that are JSON objects.

    Raises:
        Refused: the topic does not exist, or has no key or value that is a JSON object.
        ConnectionFailed, TimedOut: the source did not answer.
    """
    newest = read_newest(source_cluster(config), topic, limit)
    records_read = [(source, record) for source, records in newest for record in records]
    parts = [_part(record, part) for _, record in records_read]
    texts = [_json_object(data or b"") for data in parts]
    has_id = not any(texts)
    if has_id:
        texts = [_json_object(_after_id(data) or b"") for data in parts]
    if not any(texts):
        raise Refused(
            f"none of {sum(map(bool, parts))} {part}s of {safe_text(topic)} is a JSON object",
            unchanged="Nothing was written.",
            hint="Read more with --limit, or write the schema by hand.",
        )
    spark = _spark_for(config)
    try:
        spark.start()
        ddl = spark.transforms.infer_schema([text for text in texts if text])
    finally:
        spark.stop()
    sample = tuple(
        (source, _with_part(record, part, text.encode()))
        for (source, record), text in zip(records_read, texts, strict=True)
        if text
    )
    return InferredSchema(ddl, sample, has_id)


def _without_ids(records: Sequence[KafkaRecord], transform: Transform) -> list[KafkaRecord]:
    """Return records whose JSON has no schema ids before it, for operators."""
    for part in ("key", "value"):
        how = transform.format_of(part)
        if how.kind == "json" and how.source is not None:
            records = [
                _with_part(record, part, _after_id(_part(record, part))) for record in records
            ]
    return list(records)


def _part(record: KafkaRecord, part: str) -> bytes | None:
    return record.key if part == "key" else record.value


def _with_part(record: KafkaRecord, part: str, data: bytes | None) -> KafkaRecord:
    return replace(record, key=data) if part == "key" else replace(record, value=data)


def _after_id(data: bytes | None) -> bytes | None:
    return data[ID_BYTES:] if data is not None and data[:1] == b"\0" else data


def _spark_for(config: PipelineConfig, schemas: TransformSchemas | None = None) -> SparkRuntime:
    settings = SparkSettings(master="local[1]")
    name = f"k2ktui {config.name}"
    return SparkRuntime(settings, name, {}, {}, transforms=True, schemas=schemas)


def _json_object(value: bytes) -> str:
    try:
        text = value.decode()
        return text if isinstance(json.loads(text), dict) else ""
    except ValueError:
        return ""


def read_newest(
    cluster: Cluster, topic: str, limit: int
) -> list[tuple[SourcePartition, list[KafkaRecord]]]:
    """Return the newest committed records of each partition, at most ``limit`` per partition.

    Raises:
        Refused: the topic does not exist.
        ConnectionFailed, TimedOut: the cluster did not answer.
    """
    described = cluster.describe([topic])[topic]
    if not isinstance(described, TopicDescription):
        raise Refused(
            f"topic {safe_text(topic)} cannot be described on the source: "
            f"{safe_text(described.str())}",
            unchanged="Nothing was read.",
            hint="Check the name of the topic, and the right to describe it.",
        )
    where = [(topic, number) for number in range(described.partitions)]
    starts = cluster.offsets(where, OffsetSpec.earliest())
    ends = cluster.offsets(where, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
    asked = {
        at: max(starts.get(at, 0), end - limit)
        for at, end in ends.items()
        if starts.get(at, 0) < end
    }
    spans = [((*at, first), ends[at] - first) for at, first in asked.items()]
    with ContentReader(cluster) as reader:
        stretches = reader.stretches(spans, _READ_S)
    unread = next((stretch.unread for stretch in stretches if stretch.unread), "")
    if unread:
        raise K2kError(
            f"{safe_text(topic)} cannot be read: {safe_message(unread)}",
            unchanged="Nothing was written.",
            hint="Check the source cluster and the right to read the topic.",
        )
    return [
        (SourcePartition(*at), [record for _, record in sorted(stretch.records.items())])
        for at, stretch in zip(asked, stretches, strict=True)
    ]


def _row(
    source: SourcePartition,
    record: KafkaRecord,
    after: Sequence[KafkaRecord],
    failed: dict[int, str],
    transform: Transform,
) -> PreviewRow:
    step = failed.get(record.offset, "")
    if step:
        return PreviewRow(source, record, None, _FAILED[transform.on_error], step)
    if not after:
        steps = _leaving_steps(transform)
        return PreviewRow(source, record, None, PreviewOutcome.LEFT_OUT, steps)
    first, *further = after
    return PreviewRow(source, record, first, PreviewOutcome.COPIED, further=tuple(further))


def _leaving_steps(transform: Transform) -> str:
    """Return the names of the steps that may leave a record out."""
    names = {"filter", "sql WHERE"}
    if transform.explode is not None:
        names |= {f"{kind} {transform.explode[0]}" for kind in ("explode", "sql")}
    return " or ".join(step for step in plan_steps(transform) if step in names)


def partition_counts(config: PipelineConfig, topic: str) -> list[int | None]:
    """Return the numbers of partitions of the target topics if an expression chooses one.

    None is that of a topic that does not exist yet.
    """
    routing = config.replication.sink.routing
    if routing is None or not routing.partition:
        return []
    names = target_names(config, topic)
    described = target_cluster(config).describe(names)
    return [
        topic_now.partitions if isinstance(topic_now := described[name], TopicDescription) else None
        for name in names
    ]


def _targets(
    config: PipelineConfig, source: SourcePartition, transformed: Transformed
) -> dict[int, str]:
    """Return where expressions send records, by source offset."""
    sink = config.replication.sink
    routing = sink.routing
    if routing is None:
        return {}
    names = target_names(config, source.topic)
    where = {}
    for offset, topic, partition in zip(
        *(transformed.column(name) for name in ("offset", TOPIC, PARTITION)), strict=True
    ):
        number = source.partition if sink.keeps_partitions else partition
        name = names[topic or 0]
        where[offset] = name if number is None else f"{name}-{number}"
    return where


def _after(
    config: PipelineConfig, transform: Transform, source: SourcePartition, transformed: Transformed
) -> Mapping[int, Sequence[KafkaRecord]]:
    """Return the records as they would be written, by source offset."""
    records = transformed.written(transform)
    changed = change_headers(records, header_rules(config, source.topic), source, config.name)
    made: dict[int, list[KafkaRecord]] = defaultdict(list)
    for row in range(len(changed)):
        record = record_at(changed, row, TimestampType.CREATE)
        made[record.offset].append(record)
    return made
