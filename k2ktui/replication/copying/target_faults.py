"""Faults of partitions on the target, with messages and fixes for operators."""

from __future__ import annotations

from k2ktui.engine.state import SourcePartition
from k2ktui.kafka.codes import Code, code_name
from k2ktui.replication.copying.outgoing_batch import TargetPartition
from k2ktui.replication.copying.writer import BatchRefused
from k2ktui.replication.slot_task import Fault, FaultKind


def unavailable(
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


def gone(source: SourcePartition, target: TargetPartition, offset: int) -> Fault:
    """Return the fault of a partition whose target partition does not exist."""
    return Fault(
        source,
        FaultKind.TARGET_GONE,
        f"{target[0]}-{target[1]} on the target rejected {source} at offset {offset}: it no "
        "longer exists",
        f"Restore {target[0]} on the target, or clear the positions of {source.topic}.",
        offset,
    )


def refused(error: BatchRefused, source: SourcePartition, where: TargetPartition) -> Fault:
    """Return the fault of a partition after the target refused one of its batches."""
    outgoing, code = error.outgoing, error.code
    topic, partition = where
    first = outgoing.first_source
    if code in (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.UNKNOWN_TOPIC_ID, Code.INVALID_TOPIC):
        return gone(source, where, first)
    kind, hint = FaultKind.REFUSED, "See the target broker's log."
    what = f"{code_name(code)} {error.detail}".strip() if code else error.detail
    if code in (Code.MESSAGE_TOO_LARGE, Code.RECORD_LIST_TOO_LARGE):
        kind = FaultKind.TOO_LARGE
        what = f"{len(outgoing.data)} bytes exceed its max.message.bytes"
        hint = f"Raise max.message.bytes of {topic} on the target."
    elif code == Code.TOPIC_AUTHORIZATION_FAILED:
        kind, what = FaultKind.UNAUTHORIZED, "the target principal lacks Write on the topic"
        hint = f"Grant it Describe and Write on topic {topic} on the target."
    return Fault(
        source,
        kind,
        f"{topic}-{partition} on the target rejected {source} at offset {first}: {what}",
        hint,
        first,
    )
