"""Faults that stop partitions, as a table: the kind, what happened, and what to do about it.

Most of them stop one partition. What a cluster refuses a whole slot, for example a login, stops all
partitions of the slot (:func:`slot_faults`), and what it refuses the pipeline ends the run
(``fencing_errors``).

Not rows are the loss of a position (``lost_positions.lost_fault``) and what a topic is refused for:
discovery takes its words from the error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from k2ktui.engine.deleted_logs import DeletedLog
from k2ktui.engine.records.hold import Hold
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import K2kError, LoginFailed
from k2ktui.kafka.wire.codes import TOO_LARGE, Code
from k2ktui.log.batch import COMPRESSION_MASK, HEADER_BYTES, CorruptBatch, split_batches
from k2ktui.log.plain import read_payload
from k2ktui.replication.copying.batch_sender import (
    BatchRefused,
    RecordTooLargeToSend,
    TargetEndsBefore,
)
from k2ktui.replication.copying.registration_reader import RegistrationsUnavailable
from k2ktui.replication.copying.slot_task import Fault, FaultKind
from k2ktui.text import counted


@dataclass(frozen=True, slots=True)
class FaultRow:
    """A row of the table; in both texts, ``{name}`` stands for a detail.

    ``{source}``, ``{topic}`` and ``{partition}`` are of the source, and ``{offset}`` is the fault's
    offset. The other details are given with each fault.
    """

    kind: FaultKind
    message: str
    fix: str

    def at(self, source: SourcePartition, offset: int, **details: object) -> Fault:
        """Return the fault of a partition; mostly, nothing is copied from this offset on."""
        details |= {"source": source, "topic": source.topic, "partition": source.partition}
        details["offset"] = offset
        message, fix = self.message.format(**details), self.fix.format(**details)
        return Fault(source, self.kind, message, fix.strip(), offset)


_RETRIED = "The copy is retried automatically."

# What a record of the source causes.
CORRUPT = FaultRow(
    FaultKind.CORRUPT,
    "{source} on the source: {error}; no record from offset {offset} on is copied",
    "Check the source broker's disk and log. Repair or delete the batch there and start again, or "
    "skip it with k2ktui offsets set.",
)
TRANSFORM = FaultRow(
    FaultKind.TRANSFORM,
    "{source} on the source: replication.transform fails at the record at offset {offset} "
    "({step}); no record from offset {offset} on is copied",
    "See the record with k2ktui transform preview. Correct the rule, set onError: skip or "
    "deadLetter, or skip the record with k2ktui offsets set; then start again.",
)
SINK = FaultRow(
    FaultKind.TRANSFORM,
    "{source} on the source: replication.sink fails at the record at offset {offset} ({step}); no "
    "record from offset {offset} on is copied",
    "See the record with k2ktui transform preview. Declare its topic, correct the expression, set "
    "onError: skip or deadLetter in a rule, or skip the record with k2ktui offsets set; then start "
    "again.",
)
UNKNOWN_SCHEMA = FaultRow(
    FaultKind.SCHEMA,
    "{source} on the source: the {part} at offset {offset} has the schema id {schema_id}, which "
    "the source's registry does not have for {part}s, or of a type that is not mapped; no record "
    "from offset {offset} on is copied",
    "If the {part}s of this topic have no schema, set {part}: disabled for it in "
    "schemaMapping.topics; otherwise restore the schema, or set schemaMapping.onUnknownSchema. "
    + _RETRIED,
)
REFUSED_SCHEMA = FaultRow(
    FaultKind.SCHEMA,
    "{source} on the source: the schema of the {part} at offset {offset} has no id on the target: "
    "{reason}; no record from offset {offset} on is copied",
    "{fix} " + _RETRIED,
)
REGISTRY = FaultRow(
    FaultKind.UNAVAILABLE,
    "the schema ids of {source} from offset {offset} on cannot be looked up: {reason}; no record "
    "from there on is copied",
    "{fix} " + _RETRIED,
)

# What the source answers.
UNAUTHORIZED = FaultRow(
    FaultKind.UNAUTHORIZED,
    "the source principal may not read {topic}",
    "Grant it Describe and Read on topic {topic}. " + _RETRIED,
)
UNREADABLE = FaultRow(
    FaultKind.REFUSED,
    "the source broker refuses to read {source} at {offset}: {reason}",
    "See the source broker's log.",
)
_LOST_FIX = (
    "Set onSourceDataLoss: continue to copy the remaining records (the gap is recorded), or "
    "restore the source."
)
DIVERGED = FaultRow(
    FaultKind.DIVERGED,
    "the source log of {source} was rewritten from offset {diverged_at} on (unclean leader "
    "election): records copied up to offset {at} no longer exist on the source",
    _LOST_FIX,
)
TRUNCATED = FaultRow(
    FaultKind.TRUNCATED,
    "the source no longer holds {source} at offset {at}: its log start offset is {start}, its last "
    "stable offset {end}; {lost}",
    _LOST_FIX,
)
GONE = FaultRow(
    FaultKind.GONE,
    "topic {topic} no longer exists on the source",
    "No records are left to copy. If the topic is not created again, remove it from the list of "
    "names in replication.source.topic.",
)
DELETED = FaultRow(
    FaultKind.GONE,
    "topic {topic} was deleted on the source: {source} was copied up to offset {offset}, and ended "
    "at offset {end} when it was last read; {lost} not copied",
    "If it was deleted on purpose, acknowledge it: k2ktui offsets acknowledge -f FILE {topic}",
)
UNDESCRIBED = FaultRow(
    FaultKind.GONE,
    "topic {topic} is selected by name but cannot be described on the source: {reason}",
    "Create it, grant Describe and Read on it, or remove it from replication.source.topic.",
)
RECREATED = FaultRow(
    FaultKind.RECREATED,
    "topic {topic} was deleted and created again on the source: its offsets start over, and the "
    "position {offset} belongs to the deleted topic; no record of the new one is copied",
    "Set onSourceDataLoss: continue to copy the new topic from its start.",
)
HELD_BACK = FaultRow(
    FaultKind.HELD_BACK,
    "{source} is not caught up: {what}. Its records are copied once that transaction is committed "
    "or aborted",
    "Stop or restart its producer; abort an abandoned transaction with kafka-transactions.sh "
    "--bootstrap-server SOURCE abort --topic {topic} --partition {partition} --start-offset "
    "{offset}.",
)
UNREAD_REGISTRATIONS = FaultRow(
    FaultKind.UNAVAILABLE,
    "the producer ids of the opposite pipeline cannot be read: {reason}; whether {source} at "
    "offset {offset} came from the target is unknown, and it is not copied from there on",
    "Grant the source principal Read on the opposite pipeline's commit topic "
    "(bidirectional.opposite.commitTopic), and check that its partitions have leaders. " + _RETRIED,
)
NEWER_REGISTRATIONS = replace(
    UNREAD_REGISTRATIONS, fix="Run this pipeline with the release of the opposite pipeline."
)

# What the target answers.
UNAVAILABLE = FaultRow(
    FaultKind.UNAVAILABLE,
    "{target[0]}-{target[1]} on the target accepts no writes: {reason}; {source} is not copied "
    "from offset {offset} on, other partitions continue",
    "Check the target's brokers and the partition's in-sync replicas (min.insync.replicas). "
    + _RETRIED,
)
TARGET_MISSING = FaultRow(
    FaultKind.TARGET_GONE,
    "{target[0]}-{target[1]} on the target rejected {source} at offset {offset}: it no longer "
    "exists",
    "Restore {target[0]} on the target, or clear the positions of {topic}.",
)
TARGET_RECREATED = FaultRow(
    FaultKind.TARGET_GONE,
    "topic {target} was deleted and created again on the target: the records up to offset {offset} "
    "of {source} were in the deleted topic",
    "Clear the positions of {topic} to copy it again from its start.",
)
TARGET_ENDS_BEFORE = FaultRow(
    FaultKind.TARGET_GONE,
    "{target[0]}-{target[1]} on the target was created again, or has lost records: it ends at "
    "offset {end}, and this pipeline had written up to offset {written}; no record of {source} "
    "from offset {offset} on is copied",
    "Restore {target[0]} on the target, or stop the pipeline and choose where to copy {source} "
    "from again: k2ktui offsets clear (from its start) or k2ktui offsets set.",
)
_REFUSED = FaultRow(
    FaultKind.REFUSED,
    "{target[0]}-{target[1]} on the target rejected {source} at offset {refused}: {reason}",
    "{fix} " + _RETRIED,
)
_REFUSED_STATE = FaultRow(
    FaultKind.REFUSED,
    "{target[0]}-{target[1]} on the target rejected the {what} of {source} from offset {offset} "
    "on: {reason}; no record from there on is copied",
    "{fix} " + _RETRIED,
)
_REFUSED_SLOT = FaultRow(FaultKind.REFUSED, "{reason}; {source} is not copied", "{fix} " + _RETRIED)

# What operators have decided, or have to decide.
HELD = FaultRow(
    FaultKind.HELD,
    "{source} is {held}; no record from offset {offset} on is copied",
    "Release it with k2ktui release -f FILE {name}.",
)
RESTORED = FaultRow(
    FaultKind.RESTORED,
    "{source} is stopped, as it was not shown to be the one that was copied: {reason}; no record "
    "from offset {offset} on is copied",
    "Compare it on both clusters, stop the pipeline and choose where to copy it from: k2ktui "
    "offsets set -f FILE {topic}:{partition}:OFFSET.",
)

_NO_SUCH_TOPIC = FaultKind.REFUSED, "it does not exist", "Restore topic {topic} on the target."
_OTHER = FaultKind.REFUSED, "{error}", "See the target broker's log."
#: What the target answers when it refuses a batch, by the error code: the kind, the reason and the
#: fix. Of what is too large, and of ``_OTHER``, the answer says more than the code.
_REFUSALS: Mapping[int, tuple[FaultKind, str, str]] = {
    Code.UNKNOWN_TOPIC_OR_PARTITION: _NO_SUCH_TOPIC,
    Code.UNKNOWN_TOPIC_ID: _NO_SUCH_TOPIC,
    Code.INVALID_TOPIC: _NO_SUCH_TOPIC,
    Code.TOPIC_AUTHORIZATION_FAILED: (
        FaultKind.UNAUTHORIZED,
        "the target principal lacks Write on the topic",
        "Grant it Describe and Write on topic {topic} on the target.",
    ),
    Code.INVALID_TIMESTAMP: (
        FaultKind.REFUSED,
        "the timestamp is out of the topic's range: {error}",
        "Raise message.timestamp.before.max.ms or message.timestamp.after.max.ms (before Kafka 3.6 "
        "message.timestamp.difference.max.ms) of {topic} on the target, or skip the record with "
        "k2ktui offsets set.",
    ),
}


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
    kind = FaultKind.UNAUTHORIZED if isinstance(error, LoginFailed) else FaultKind.REFUSED
    row = replace(_REFUSED_SLOT, kind=kind)
    offsets = [(at, positions[at].offset if at in positions else -1) for at in sources]
    return [row.at(at, offset, reason=error.message, fix=error.hint) for at, offset in offsets]


def registry_fault(source: SourcePartition, trouble: K2kError, offset: int) -> Fault:
    """The ids of a partition's next records cannot be looked up."""
    fix = trouble.hint or "Check both schema registries."
    return REGISTRY.at(source, offset, reason=trouble.message, fix=fix)


def find_loss(
    source: SourcePartition, at: int, start: int, end: int, diverged_at: int
) -> Fault | None:
    """Return what a log that now extends from ``start`` to ``end`` has lost.

    Args:
        source: the partition.
        at: its position, where the broker refused to read.
        start: log start offset.
        end: last stable offset.
        diverged_at: first offset of the rewritten part of the log, -1 if it was not rewritten.

    Returns:
        The loss at the offset to continue at; None if nothing is lost.
    """
    if diverged_at >= 0:
        return DIVERGED.at(source, max(diverged_at, start), diverged_at=diverged_at, at=at)
    if start <= at <= end:
        return None
    lost = "the log was truncated below the position"
    if at < start:
        lost = f"{counted(start - at, 'offset')} deleted before being copied"
    go_on_at = start if at < start else end
    return TRUNCATED.at(source, go_on_at, at=at, start=start, end=end, lost=lost)


def deleted_fault(source: SourcePartition, log: DeletedLog) -> Fault:
    """Return the fault of a partition whose topic was deleted before it was copied completely."""
    return DELETED.at(source, log.offset, end=log.end, lost=counted(log.lost, "offset"))


def held_fault(source: SourcePartition, hold: Hold, offset: int) -> Fault:
    """Return the fault of a held partition, in a run that was to reach its end."""
    return HELD.at(source, offset, held=hold.describe(), name=hold.key.name)


def undecided_fault(source: SourcePartition, why: RegistrationsUnavailable, offset: int) -> Fault:
    """Return the fault of a partition whose next batch may be the opposite pipeline's."""
    row = NEWER_REGISTRATIONS if why.is_newer else UNREAD_REGISTRATIONS
    if why.unauthorized:
        row = replace(row, kind=FaultKind.UNAUTHORIZED)
    return row.at(source, offset, reason=why)


def refused_fault(error: BatchRefused, source: SourcePartition) -> Fault:
    """Return the fault of a partition after the target refused one of its batches."""
    target, first = error.outgoing.target, error.outgoing.first_source
    if isinstance(error, TargetEndsBefore):
        end, written = error.base, error.end
        return TARGET_ENDS_BEFORE.at(source, first, target=target, end=end, written=written)
    if _REFUSALS.get(error.code) is _NO_SUCH_TOPIC:
        return TARGET_MISSING.at(source, first, target=target)
    kind, reason, fix = _describe_refusal(error)
    row = replace(_REFUSED, kind=FaultKind.TOO_LARGE if error.code in TOO_LARGE else kind)
    refused = _refused_offset(error)
    fault = row.at(source, first, target=target, refused=refused, reason=reason, fix=fix)
    return replace(fault, refused_by=target[0]) if error.code in TOO_LARGE else fault


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
    target, (kind, reason, fix) = error.outgoing.target, _describe_refusal(error)
    row = replace(_REFUSED_STATE, kind=kind)
    return row.at(source, offset, target=target, what=what, reason=reason, fix=fix)


def _describe_refusal(error: BatchRefused) -> tuple[FaultKind, str, str]:
    """Return the kind, the reason and the fix of a refusal that is worth another attempt."""
    topic = error.outgoing.target[0]
    if error.code in TOO_LARGE:
        return FaultKind.REFUSED, *_describe_size(error, topic)
    kind, reason, fix = _REFUSALS.get(error.code, _OTHER)
    return kind, reason.format(error=error), fix.format(topic=topic)


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
