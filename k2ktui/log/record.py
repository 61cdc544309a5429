"""One record as a consumer sees it: decode it, compare it with its copy, hash it."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum

from k2ktui.engine.schemas.ids import SchemaPart, find_schema_ids, rewrite_schema_ids
from k2ktui.log.batch import APPEND_TIME, Batch, CorruptBatch
from k2ktui.log.records import Records
from k2ktui.log.varints import read_varint

Header = tuple[str, bytes | None]

_LEGACY_ATTRIBUTES_AT = 17
_NUMBER = struct.Struct(">q")


class TimestampType(StrEnum):
    """Who set a record's timestamp: its producer, the broker on append, or none (magic 0)."""

    CREATE = "create"
    APPEND = "append"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class KafkaRecord:
    """A record; None is null, as opposed to empty.

    Attributes:
        offset: its own offset, which may be higher than the requested one.
        headers: in order, with duplicates; names keep bytes that are not UTF-8
            (``surrogateescape``).
        timestamp_ms: epoch milliseconds, -1 if it has none.
        timestamp_type: who set ``timestamp_ms``.
    """

    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    timestamp_ms: int
    timestamp_type: TimestampType = TimestampType.CREATE


class RecordPart(StrEnum):
    """The parts of a record that are compared."""

    KEY = "key"
    VALUE = "value"
    HEADERS = "headers"
    TIMESTAMP = "timestamp"
    KEY_SCHEMA_ID = "key schema id"
    VALUE_SCHEMA_ID = "value schema id"


_SCHEMA_IDS = {
    RecordPart.KEY_SCHEMA_ID: SchemaPart.KEY,
    RecordPart.VALUE_SCHEMA_ID: SchemaPart.VALUE,
}
_ANY_ID = 1


def compare_content(source: KafkaRecord, target: KafkaRecord, ignore: Collection[str] = ()) -> str:
    """Describe the difference between a source record and its copy.

    A source record's append time becomes the create time of its copy
    (docs/internals/exactly-once.md), so timestamps are compared regardless of their types.

    Args:
        source: the record on the source.
        target: the record on the target.
        ignore: parts (:class:`RecordPart`) that the pipeline changes on purpose.

    Returns:
        Empty if they are equal, otherwise e.g. ``value differs`` or ``header 2 differs``; headers
        are counted from 1.
    """
    source, target = (_without_schema_ids(record, ignore) for record in (source, target))
    if RecordPart.KEY not in ignore and source.key != target.key:
        return "key differs"
    if RecordPart.VALUE not in ignore and source.value != target.value:
        return "value differs"
    if RecordPart.HEADERS not in ignore and source.headers != target.headers:
        return _headers_differ(source.headers, target.headers)
    if RecordPart.TIMESTAMP not in ignore and source.timestamp_ms != target.timestamp_ms:
        return f"timestamp differs ({source.timestamp_ms} on the source, {target.timestamp_ms})"
    return ""


def _without_schema_ids(record: KafkaRecord, ignore: Collection[str]) -> KafkaRecord:
    """Return the record with the same number in place of each schema id that is ignored."""
    for ignored, part in _SCHEMA_IDS.items():
        if ignored not in ignore:
            continue
        is_key = part is SchemaPart.KEY
        payload = record.key if is_key else record.value
        schema_ids = find_schema_ids(part, payload, record.headers)
        if not schema_ids:
            continue
        ids = dict.fromkeys(schema_ids, _ANY_ID)
        payload, headers = rewrite_schema_ids(part, payload, record.headers, ids)
        if is_key:
            record = replace(record, headers=headers, key=payload)
        else:
            record = replace(record, headers=headers, value=payload)
    return record


def _headers_differ(source: tuple[Header, ...], target: tuple[Header, ...]) -> str:
    if len(source) != len(target):
        return f"number of headers differs ({len(source)} on the source, {len(target)})"
    pairs = enumerate(zip(source, target, strict=True), start=1)
    return f"header {next(number for number, (a, b) in pairs if a != b)} differs"


def content_digest(record: KafkaRecord, ignore: Collection[str] = ()) -> str:
    """Return the SHA-256 of a record's content as hex text.

    Two digests are equal exactly if :func:`compare_content` finds no difference. The hash covers,
    in this order, key, value, the number of headers, each header's name and value, and the
    timestamp: numbers as 8 bytes, big-endian; bytes preceded by their length, -1 for null. Ignored
    parts are left out.
    """
    hashed = hashlib.sha256()
    record = _without_schema_ids(record, ignore)
    if RecordPart.KEY not in ignore:
        hashed.update(_frame(record.key))
    if RecordPart.VALUE not in ignore:
        hashed.update(_frame(record.value))
    if RecordPart.HEADERS not in ignore:
        hashed.update(_NUMBER.pack(len(record.headers)))
        for name, value in record.headers:
            hashed.update(_frame(name.encode("utf-8", "surrogateescape")) + _frame(value))
    if RecordPart.TIMESTAMP not in ignore:
        hashed.update(_NUMBER.pack(record.timestamp_ms))
    return hashed.hexdigest()


def _frame(data: bytes | None) -> bytes:
    return _NUMBER.pack(-1) if data is None else _NUMBER.pack(len(data)) + data


def timestamp_type(batch: Batch) -> TimestampType:
    """Return who set the timestamps of a batch's records."""
    if batch.magic == 0:
        return TimestampType.NONE
    legacy = batch.magic == 1
    attributes = batch.view[_LEGACY_ATTRIBUTES_AT] if legacy else batch.attributes
    return TimestampType.APPEND if attributes & APPEND_TIME else TimestampType.CREATE


def record_at(records: Records, row: int, kind: TimestampType) -> KafkaRecord:
    """Decode one record of a batch's columns.

    Raises:
        CorruptBatch: its bytes do not follow the format.
    """
    tail, offset = records.tails[row], int(records.offsets[row])
    try:
        key, at = _nullable(tail, 0)
        value, at = _nullable(tail, at)
    except IndexError as error:
        raise CorruptBatch(f"the record at {offset} is truncated") from error
    headers = decode_headers(tail, at, offset)
    return KafkaRecord(offset, key, value, headers, int(records.timestamps[row]), kind)


def decode_headers(data: bytes, at: int, offset: int) -> tuple[Header, ...]:
    """Decode the headers of the record with this offset, which begin at an index of ``data``.

    Raises:
        CorruptBatch: they do not follow the format, or do not end where ``data`` does.
    """
    headers = []
    try:
        count, at = read_varint(data, at)
        for _ in range(count):
            name, at = _nullable(data, at)
            content, at = _nullable(data, at)
            headers.append(((name or b"").decode("utf-8", "surrogateescape"), content))
    except IndexError as error:
        raise CorruptBatch(f"the record at {offset} is truncated") from error
    if at != len(data):
        raise CorruptBatch(f"the record at {offset} has another length than it says")
    return tuple(headers)


def _nullable(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = read_varint(data, at)
    if length < 0:
        return None, at
    return data[at : at + length], at + length
