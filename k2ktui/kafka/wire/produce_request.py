"""Encode produce requests without copying their records, and decode the responses.

Layout: ``ProduceRequest.json`` and ``ProduceResponse.json`` of Apache Kafka, versions 9 to 12
(flexible versions, KIP-482). Field names match kafka-python's classes, which handle older versions.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafka.protocol.producer import ProduceRequest

from k2ktui.kafka.wire.protocol_reader import ProtocolReader, compact, varint

VERSIONS = range(9, 13)
"""Versions that ``ProduceBatches`` and ``decode_produce_response`` support."""

# From version 12 on, a produce request also adds its partitions to the transaction (KIP-890); here
# AddPartitionsToTxn has already done so.
_HIGHEST = 11
_ACKS = -1
_TIMEOUT_MS = 30_000
_CORRELATION_BYTES = 4
_NO_TAGS = b"\0"
_SIZE = struct.Struct(">i")
# API key, version, correlation id, length of the client id
_HEADER = struct.Struct(">hhih")
_ACKS_TIMEOUT = struct.Struct(">hi")
_INDEX = struct.Struct(">i")
# index, error, base offset, log append time, log start offset
_PARTITION = struct.Struct(">ihqqq")

Records = Mapping[str, list[tuple[int, memoryview]]]
"""(partition, record batch) pairs by topic."""


class ProduceBatches:
    """A request with one batch per partition, acknowledged by all in-sync replicas."""

    API_KEY = 0

    def __init__(self, transactional_id: str | None, records: Records, version: int) -> None:
        self.API_VERSION = version
        self._transactional_id = transactional_id
        self._records = records

    def expect_response(self) -> bool:
        """Whether the broker responds; always true, because acks is -1."""
        return True

    def pieces(self, correlation_id: int, client_id: str) -> list[bytes | memoryview]:
        """Return the encoded request as consecutive pieces; the batches are included uncopied."""
        name = client_id.encode()
        head = _HEADER.pack(self.API_KEY, self.API_VERSION, correlation_id, len(name))
        start = [head, name, _NO_TAGS, compact(self._transactional_id)]
        start += [_ACKS_TIMEOUT.pack(_ACKS, _TIMEOUT_MS), varint(len(self._records) + 1)]
        encoded: list[bytes | memoryview] = []
        between = b"".join(start)
        for topic, partitions in self._records.items():
            between += compact(topic) + varint(len(partitions) + 1)
            for index, batch in partitions:
                encoded += (between + _INDEX.pack(index) + varint(len(batch) + 1), batch)
                between = _NO_TAGS
            between += _NO_TAGS
        encoded.append(between + _NO_TAGS)
        encoded[0] = _SIZE.pack(sum(map(len, encoded))) + bytes(encoded[0])
        return encoded


def make_produce_request(transactional_id: str | None, records: Records, version: int) -> Any:
    """Return a produce request; ``version`` is the highest that the broker supports."""
    if version in VERSIONS or version > _HIGHEST:
        return ProduceBatches(transactional_id, records, min(version, _HIGHEST))
    data = ProduceRequest.TopicProduceData
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=_ACKS,
        timeout_ms=_TIMEOUT_MS,
        topic_data=[
            data(
                name=name,
                partition_data=[
                    data.PartitionProduceData(index=index, records=batch) for index, batch in parts
                ],
            )
            for name, parts in records.items()
        ],
        max_version=_HIGHEST,
    )


class ProducedPartition(NamedTuple):
    """The result for one batch; ``base_offset`` is -1 if it was refused.

    ``record`` is the number of the first refused record in the batch, -1 if the broker names none.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index
    error_code: int
    base_offset: int
    error_message: str
    record: int = -1


@dataclass(frozen=True, slots=True)
class ProducedTopic:
    """The results for one topic."""

    name: str
    partition_responses: list[ProducedPartition]


@dataclass(frozen=True, slots=True)
class ProduceResponse:
    """A decoded produce response."""

    responses: list[ProducedTopic]
    throttle_time_ms: int


def decode_produce_response(frame: memoryview) -> ProduceResponse:
    """Decode a response with its header (version 1).

    Raises:
        ValueError, IndexError, struct.error: the frame is truncated or malformed.
    """
    cursor = ProtocolReader(frame, _CORRELATION_BYTES)
    cursor.skip_tags()
    topics = [_topic(cursor) for _ in range(cursor.count())]
    return ProduceResponse(topics, *cursor.unpack(_SIZE))


def _topic(cursor: ProtocolReader) -> ProducedTopic:
    name = cursor.text()
    partitions = [_partition(cursor) for _ in range(cursor.count())]
    cursor.skip_tags()
    return ProducedTopic(name, partitions)


def _partition(cursor: ProtocolReader) -> ProducedPartition:
    index, error, base, _, _ = cursor.unpack(_PARTITION)
    number = cursor.count()
    reasons = [_reason(cursor) for _ in range(number)] if number else []
    text, record = _refusal(reasons, cursor.text())
    cursor.skip_tags()
    return ProducedPartition(index, error, base, text, record)


def _refusal(reasons: Sequence[tuple[int, str]], general: str) -> tuple[str, int]:
    """Return the reason of the first refused record, or else another one, and its number."""
    if not reasons:
        return general, -1
    texts = [text for _, text in reasons]
    return next(filter(None, (texts[0], general, *texts)), ""), reasons[0][0]


def _reason(cursor: ProtocolReader) -> tuple[int, str]:
    (record,) = cursor.unpack(_INDEX)
    text = cursor.text()
    cursor.skip_tags()
    return record, text


def read_refusal(answer: Any) -> tuple[str, int]:
    """Return why a batch was refused, and the number of the record in it, -1 if none is named.

    Args:
        answer: the result for the batch: of this module, or of the library's own response.
    """
    if isinstance(answer, ProducedPartition):
        return answer.error_message, answer.record
    errors = getattr(answer, "record_errors", None) or []
    reasons = [(error.batch_index, error.batch_index_error_message or "") for error in errors]
    return _refusal(reasons, getattr(answer, "error_message", None) or "")
