"""Decode fetch responses in place: records are views of the frame and are not copied.

Layout: ``FetchResponse.json`` of Apache Kafka, versions 12 to 17 (flexible versions, KIP-482).
Field names match kafka-python's own response class, which handles older versions.
"""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass, field

from k2ktui.kafka.wire.protocol_reader import ProtocolReader

VERSIONS = range(12, 18)
"""Versions that ``decode_fetch_response`` supports."""

_BY_ID_FROM = 13
_CORRELATION_BYTES = 4
_TOP = struct.Struct(">ihi")
# index, error, high watermark, last stable offset, log start offset
_PARTITION = struct.Struct(">ihqqq")
_ABORTED = struct.Struct(">qq")
_REPLICA = struct.Struct(">i")
_DIVERGING = struct.Struct(">iq")
_DIVERGING_TAG = 0


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """An aborted transaction that overlaps the fetched offset range."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class DivergingEpoch:
    """Largest epoch and its end offset shared with the reader's last epoch; -1 if no divergence."""

    epoch: int = -1
    end_offset: int = -1


_AGREES = DivergingEpoch()


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """The response for one partition; ``records`` is a writable view of the frame, or None."""

    partition_index: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted_transactions: tuple[AbortedTransaction, ...]
    records: memoryview | None
    diverging_epoch: DivergingEpoch = _AGREES
    preferred_read_replica: int = -1


@dataclass(frozen=True, slots=True)
class FetchedTopic:
    """The response for one topic, identified by name up to version 12 and by id from 13 on."""

    topic: str
    topic_id: uuid.UUID | None
    partitions: list[FetchedPartition] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FetchResponse:
    """A decoded fetch response."""

    throttle_time_ms: int
    error_code: int
    session_id: int
    responses: list[FetchedTopic]


def decode_fetch_response(frame: memoryview, version: int) -> FetchResponse:
    """Decode a response with its header (version 1); the result holds views of ``frame``.

    Raises:
        ValueError, IndexError, struct.error: the frame is truncated or malformed.
    """
    cursor = ProtocolReader(frame, _CORRELATION_BYTES)
    cursor.skip_tags()
    throttle, error, session = cursor.unpack(_TOP)
    topics = [_topic(cursor, version) for _ in range(cursor.count())]
    return FetchResponse(throttle, error, session, topics)


def _topic(cursor: ProtocolReader, version: int) -> FetchedTopic:
    if version >= _BY_ID_FROM:
        name, topic_id = "", uuid.UUID(bytes=bytes(cursor.take(16)))
    else:
        name, topic_id = cursor.text(), None
    partitions = [_partition(cursor) for _ in range(cursor.count())]
    cursor.skip_tags()
    return FetchedTopic(name, topic_id, partitions)


def _partition(cursor: ProtocolReader) -> FetchedPartition:
    index, error, high, stable, start = cursor.unpack(_PARTITION)
    aborted = tuple(_read_aborted(cursor) for _ in range(cursor.count()))
    (replica,) = cursor.unpack(_REPLICA)
    size = cursor.count()
    records = cursor.take(size) if size > 0 else None
    diverging = _diverging(cursor)
    return FetchedPartition(index, error, high, stable, start, aborted, records, diverging, replica)


def _read_aborted(cursor: ProtocolReader) -> AbortedTransaction:
    producer_id, first_offset = cursor.unpack(_ABORTED)
    cursor.skip_tags()
    return AbortedTransaction(producer_id, first_offset)


def _diverging(cursor: ProtocolReader) -> DivergingEpoch:
    diverging = _AGREES
    for _ in range(cursor.varint()):
        tag, size = cursor.varint(), cursor.varint()
        data = cursor.take(size)
        if tag == _DIVERGING_TAG:
            diverging = DivergingEpoch(*_DIVERGING.unpack_from(data))
    return diverging
