"""Faults that stop one partition: what the source or the target answered, as a fault with a fix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from k2ktui.engine.deleted_logs import DeletedLog
from k2ktui.engine.records.hold import Hold
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.engine.schemas.ids import SchemaId, SchemaPart, describe_schema_id
from k2ktui.errors import K2kError, LoginFailed, Refused
from k2ktui.kafka.wire.codes import TOO_LARGE, Code, code_name
from k2ktui.log.batch import COMPRESSION_MASK, HEADER_BYTES, CorruptBatch, split_batches
from k2ktui.log.plain import read_payload
from k2ktui.replication.copying.batch_sender import (
    BatchRefused,
    RecordTooLargeToSend,
    TargetEndsBefore,
)
from k2ktui.replication.copying.outgoing_batch import TargetPartition
from k2ktui.replication.copying.partition_reader import PartitionReader
from k2ktui.replication.copying.registration_reader import RegistrationsUnavailable
from k2ktui.replication.copying.slot_task import Fault, FaultKind
from k2ktui.text import counted

_MISSING = frozenset({Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID, Code.INVALID_TOPIC})


@dataclass(frozen=True, slots=True)
class Loss:
    """Records at the position are gone; ``go_on_at`` is the offset to continue at."""

    kind: FaultKind
    message: str
    go_on_at: int


def transform_fault(source: SourcePartition, step: str, offset: int) -> Fault:
    """A record cannot be transformed or routed, and ``onError`` is ``fail``."""
    section, what = "transform", "Correct the rule, set onError: skip or deadLetter"
    if step.startswith("sink."):
        section = "sink"
        what = (
            "Declare its topic, correct the expression, set onError: skip or deadLetter in a rule"
        )
    return Fault(
        source,
        FaultKind.TRANSFORM,
        f"{source} on the source: replication.{section} fails at the record at offset {offset} "
        f"({step}); no record from offset {offset} on is copied",
        f"See the record with k2ktui transform preview. {what}, or skip the record with k2ktui "
        "offsets set; then start again.",
        offset,
    )


def unknown_schema_fault(
    source: SourcePartition, part: SchemaPart, schema_id: SchemaId, offset: int
) -> Fault:
    """A record has an unknown schema id, and ``onUnknownSchema`` is ``fail``."""
    return Fault(
        source,
        FaultKind.SCHEMA,
        f"{source} on the source: the {part} at offset {offset} has the schema id "
        f"{describe_schema_id(schema_id)}, which the source's registry does not have for {part}s, "
        f"or of a type that is not mapped; no record from offset {offset} on is copied",
        f"If the {part}s of this topic have no schema, set {part}: disabled for it in "
        "schemaMapping.topics; otherwise restore the schema, or set "
        "schemaMapping.onUnknownSchema. The copy is retried automatically.",
        offset,
    )


def refused_schema_fault(
    source: SourcePartition, refusal: Refused, part: SchemaPart, offset: int
) -> Fault:
    """The target's registry lacks the schema of a record."""
    return Fault(
        source,
        FaultKind.SCHEMA,
        f"{source} on the source: the schema of the {part} at offset {offset} has no id on the "
        f"target: {refusal.message}; no record from offset {offset} on is copied",
        f"{refusal.hint} The copy is retried automatically.".strip(),
        offset,
    )


def registry_fault(source: SourcePartition, trouble: K2kError, offset: int) -> Fault:
    """The ids of a partition's next records cannot be looked up."""
    return Fault(
        source,
        FaultKind.UNAVAILABLE,
        f"the schema ids of {source} from offset {offset} on cannot be looked up: "
        f"{trouble.message}; no record from there on is copied",
        f"{trouble.hint or 'Check both schema registries.'} The copy is retried automatically.",
        offset,
    )


def describe_loss(reader: PartitionReader, start: int, end: int, diverged_at: int) -> Loss | None:
    """Return what a log that now extends from ``start`` to ``end`` has lost.

    Args:
        reader: the partition; the broker refused to read at its position.
        start: log start offset.
        end: last stable offset.
        diverged_at: first offset of the rewritten part of the log, -1 if it was not rewritten.

    Returns:
        The loss, None if nothing is lost.
    """
    source, at = reader.source, reader.fetched
    if diverged_at >= 0:
        return Loss(
            FaultKind.DIVERGED,
            f"the source log of {source} was rewritten from offset {diverged_at} on (unclean "
            f"leader election): records copied up to offset {at} no longer exist on the source",
            max(diverged_at, start),
        )
    if start <= at <= end:
        return None
    if at < start:
        lost = f"{counted(start - at, 'offset')} deleted before being copied"
    else:
        lost = "the log was truncated below the position"
    return Loss(
        FaultKind.TRUNCATED,
        f"the source no longer holds {source} at offset {at}: its log start offset is {start}, "
        f"its last stable offset {end}; {lost}",
        start if at < start else end,
    )


def loss_fault(reader: PartitionReader, lost: Loss, at: int | None) -> Fault:
    """A partition lost records; the driver continues at ``at`` unless it is None."""
    return Fault(
        reader.source,
        lost.kind,
        lost.message,
        "Set onSourceDataLoss: continue to copy the remaining records (the gap is recorded), "
        "or restore the source.",
        reader.fetched if at is None else at,
    )


def unauthorized_fault(reader: PartitionReader) -> Fault:
    """The source principal may not read a partition."""
    topic = reader.source.topic
    return Fault(
        reader.source,
        FaultKind.UNAUTHORIZED,
        f"the source principal may not read {topic}",
        f"Grant it Describe and Read on topic {topic}. The copy is retried automatically.",
        reader.fetched,
    )


def gone_fault(reader: PartitionReader) -> Fault:
    """A partition's topic was deleted."""
    return Fault(
        reader.source,
        FaultKind.GONE,
        f"topic {reader.source.topic} no longer exists on the source",
        "No records are left to copy. If the topic is not created again, remove it from the list "
        "of names in replication.source.topic.",
        reader.fetched,
    )


def deleted_fault(source: SourcePartition, log: DeletedLog) -> Fault:
    """Return the fault of a partition whose topic was deleted before it was copied completely."""
    return Fault(
        source,
        FaultKind.GONE,
        f"topic {source.topic} was deleted on the source: {source} was copied up to offset "
        f"{log.offset}, and ended at offset {log.end} when it was last read; "
        f"{counted(log.lost, 'offset')} not copied",
        "If it was deleted on purpose, acknowledge it: k2ktui offsets acknowledge -f FILE "
        f"{source.topic}",
        log.offset,
    )


def recreated_fault(source: SourcePartition, position: int) -> Fault:
    """Return the fault of a partition whose position belongs to a deleted, re-created topic."""
    return Fault(
        source,
        FaultKind.RECREATED,
        f"topic {source.topic} was deleted and created again on the source: its offsets start "
        f"over, and the position {position} belongs to the deleted topic; no record of the new "
        "one is copied",
        "Set onSourceDataLoss: continue to copy the new topic from its start.",
        position,
    )


def unreadable_fault(reader: PartitionReader, code: int) -> Fault:
    """The broker refuses to read a partition for another reason."""
    return Fault(
        reader.source,
        FaultKind.REFUSED,
        f"the source broker refuses to read {reader.source} at {reader.fetched}: {code_name(code)}",
        "See the source broker's log.",
        reader.fetched,
    )


def slot_faults(
    sources: Iterable[SourcePartition],
    error: K2kError,
    positions: Mapping[SourcePartition, Position],
) -> list[Fault]:
    """Return the faults of all partitions of a slot that a cluster refuses to copy.

    Args:
        sources: the partitions.
        error: the refusal.
        positions: where they are copied from.
    """
    hint = f"{error.hint} The copy is retried automatically.".strip()
    return [
        Fault(
            source,
            FaultKind.UNAUTHORIZED if isinstance(error, LoginFailed) else FaultKind.REFUSED,
            f"{error.message}; {source} is not copied",
            hint,
            positions[source].offset if source in positions else -1,
        )
        for source in sources
    ]


def unavailable_fault(
    source: SourcePartition, target: TargetPartition, reason: str, offset: int
) -> Fault:
    """Return the fault of a partition whose target temporarily accepts no writes."""
    return Fault(
        source,
        FaultKind.UNAVAILABLE,
        f"{target[0]}-{target[1]} on the target accepts no writes: {reason}; {source} is not "
        f"copied from offset {offset} on, other partitions continue",
        "Check the target's brokers and the partition's in-sync replicas "
        "(min.insync.replicas). The copy is retried automatically.",
        offset,
    )


def undecided_fault(source: SourcePartition, why: RegistrationsUnavailable, offset: int) -> Fault:
    """Return the fault of a partition whose next batch may be the opposite pipeline's."""
    return Fault(
        source,
        FaultKind.UNAUTHORIZED if why.unauthorized else FaultKind.UNAVAILABLE,
        f"the producer ids of the opposite pipeline cannot be read: {why}; whether {source} at "
        f"offset {offset} came from the target is unknown, and it is not copied from there on",
        "Run this pipeline with the release of the opposite pipeline."
        if why.is_newer
        else "Grant the source principal Read on the opposite pipeline's commit topic "
        "(bidirectional.opposite.commitTopic), and check that its partitions have leaders. "
        "The copy is retried automatically.",
        offset,
    )


def target_missing_fault(source: SourcePartition, target: TargetPartition, offset: int) -> Fault:
    """Return the fault of a partition whose target partition does not exist."""
    return Fault(
        source,
        FaultKind.TARGET_GONE,
        f"{target[0]}-{target[1]} on the target rejected {source} at offset {offset}: it no "
        "longer exists",
        f"Restore {target[0]} on the target, or clear the positions of {source.topic}.",
        offset,
    )


def target_ends_before_fault(
    source: SourcePartition, target: TargetPartition, end: int, written: int, offset: int
) -> Fault:
    """Return the fault of a partition whose target ends before what was written there.

    Args:
        source: the partition.
        target: its target partition.
        end: where that ends now.
        written: the target offset after the last record that the pipeline has committed there.
        offset: the source offset that is copied next.
    """
    topic = target[0]
    return Fault(
        source,
        FaultKind.TARGET_GONE,
        f"{topic}-{target[1]} on the target was created again, or has lost records: it ends at "
        f"offset {end}, and this pipeline had written up to offset {written}; no record of "
        f"{source} from offset {offset} on is copied",
        f"Restore {topic} on the target, or stop the pipeline and choose where to copy {source} "
        "from again: k2ktui offsets clear (from its start) or k2ktui offsets set.",
        offset,
    )


def held_fault(source: SourcePartition, hold: Hold, offset: int) -> Fault:
    """Return the fault of a held partition, in a run that was to reach its end."""
    return Fault(
        source,
        FaultKind.HELD,
        f"{source} is {hold.describe()}; no record from offset {offset} on is copied",
        f"Release it with k2ktui release -f FILE {hold.key.name}.",
        offset,
    )


def restored_fault(source: SourcePartition, position: Position) -> Fault:
    """Return the fault of a partition that was not shown to be the one that was copied.

    It was stopped when a restored cluster was accepted, or when positions were recovered.
    """
    return Fault(
        source,
        FaultKind.RESTORED,
        f"{source} is stopped, as it was not shown to be the one that was copied: "
        f"{position.stopped}; no record from offset {position.offset} on is copied",
        "Compare it on both clusters, stop the pipeline and choose where to copy it from: "
        f"k2ktui offsets set -f FILE {source.topic}:{source.partition}:OFFSET.",
        position.offset,
    )


def refused_fault(error: BatchRefused, source: SourcePartition) -> Fault:
    """Return the fault of a partition after the target refused one of its batches."""
    where = topic, partition = error.outgoing.target
    first = error.outgoing.first_source
    if isinstance(error, TargetEndsBefore):
        return target_ends_before_fault(source, where, error.base, error.end, first)
    if error.code in _MISSING:
        return target_missing_fault(source, where, first)
    kind, what, hint = _describe_refusal(error, topic)
    if error.code in TOO_LARGE:
        kind = FaultKind.TOO_LARGE
    return Fault(
        source,
        kind,
        f"{topic}-{partition} on the target rejected {source} at offset "
        f"{_refused_offset(error)}: {what}",
        f"{hint} The copy is retried automatically.",
        first,
        topic if kind is FaultKind.TOO_LARGE else "",
    )


def _refused_offset(error: BatchRefused) -> int:
    """Return the source offset of the refused record, or of the first one of the batch."""
    outgoing, record = error.outgoing, error.record
    if not 0 <= record < outgoing.count:
        return outgoing.first_source
    return int(
        outgoing.first_source + record if outgoing.sources is None else outgoing.sources[record]
    )


def refused_state_fault(
    error: BatchRefused, source: SourcePartition, what: str, offset: int
) -> Fault:
    """Return the fault of a partition whose mapping or position the target refused.

    Args:
        error: the refusal.
        source: the partition.
        what: "mapping" or "position".
        offset: what is copied next.
    """
    topic, partition = error.outgoing.target
    kind, why, hint = _describe_refusal(error, topic)
    return Fault(
        source,
        kind,
        f"{topic}-{partition} on the target rejected the {what} of {source} from offset {offset} "
        f"on: {why}; no record from there on is copied",
        f"{hint} The copy is retried automatically.",
        offset,
    )


def _describe_refusal(error: BatchRefused, topic: str) -> tuple[FaultKind, str, str]:
    """Return the kind, the reason and the fix of a refusal that is worth another attempt."""
    code = error.code
    if code in _MISSING:
        return FaultKind.REFUSED, "it does not exist", f"Restore topic {topic} on the target."
    if code in TOO_LARGE:
        return FaultKind.REFUSED, *_describe_size(error, topic)
    if code == Code.TOPIC_AUTHORIZATION_FAILED:
        what = "the target principal lacks Write on the topic"
        hint = f"Grant it Describe and Write on topic {topic} on the target."
        return FaultKind.UNAUTHORIZED, what, hint
    if code == Code.INVALID_TIMESTAMP:
        return (
            FaultKind.REFUSED,
            f"the timestamp is out of the topic's range: {error}",
            "Raise message.timestamp.before.max.ms or message.timestamp.after.max.ms (before Kafka "
            f"3.6 message.timestamp.difference.max.ms) of {topic} on the target, or skip the "
            "record with k2ktui offsets set.",
        )
    return FaultKind.REFUSED, str(error), "See the target broker's log."


def _describe_size(error: BatchRefused, topic: str) -> tuple[str, str]:
    """Return what the target makes of a batch that is too large for it, and the fix."""
    outgoing = error.outgoing
    if isinstance(error, RecordTooLargeToSend):
        size = f"a record of {len(outgoing.data):,} bytes as sent"
        return (
            f"{size}: a broker closes the connection on it, as above its socket.request.max.bytes",
            f"Raise socket.request.max.bytes of the target's brokers, and max.message.bytes of "
            f"{topic} if it is lower.",
        )
    setting = "max.message.bytes"
    if error.code == Code.RECORD_LIST_TOO_LARGE:
        setting = "segment.bytes"
    what = "a record" if outgoing.count == 1 else f"a batch of {counted(outgoing.count, 'record')}"
    sizes, fix = f"{len(outgoing.data):,} bytes", f"Raise {setting} of {topic} on the target"
    with suppress(CorruptBatch):
        (batch,) = split_batches(outgoing.data)
        if batch.attributes & COMPRESSION_MASK:
            plain = HEADER_BYTES + len(read_payload(batch))
            sizes += f" as sent and {plain:,} uncompressed"
            fix += ", or set its compression.type to producer"
    return f"{what} of {sizes} exceeds its {setting} as the target stores it", f"{fix}."
