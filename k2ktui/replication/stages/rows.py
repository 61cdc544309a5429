"""Records as Arrow rows: what the SQL of a transform sees.

Columns with the prefix ``__k2k_`` are for the task that writes. The last row of a micro-batch has
no record: its ``__k2k_facts`` say how far each partition was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from k2ktui.engine.state import SourcePartition
from k2ktui.log.batch import CorruptBatch
from k2ktui.log.record import Header, KafkaRecord, TimestampType, record_at
from k2ktui.log.records import I64, Records, encode_nullable, encode_varint, read_varints
from k2ktui.replication.stages.json_columns import JsonParser

if TYPE_CHECKING:
    import pyarrow as pa

FACTS = "__k2k_facts"
READER = "__k2k_reader"
TIME = "__k2k_ms"
HEADERS = "__k2k_headers"
KEPT = "__k2k_kept"
FAILED = "__k2k_failed"
ASSIGNED = "__k2k_assigned"
PARSED = "__k2k_parsed"
TOPIC = "__k2k_topic"
PARTITION = "__k2k_partition"
COUNTS = "__k2k_counts"

#: Columns of the records as they are read (Spark DDL).
INPUT = (
    f"{FACTS} BINARY, {READER} INT, {TIME} BIGINT, {HEADERS} BINARY, `key` BINARY, `value` BINARY, "
    "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, topic STRING, `partition` INT, "
    f"`offset` BIGINT, timestamp TIMESTAMP, {COUNTS} ARRAY<INT>"
)
#: Columns of the records as they are written.
OUTPUT = (
    *(FACTS, READER, TIME, HEADERS, "key", "value", "offset", KEPT, FAILED, ASSIGNED),
    *(TOPIC, PARTITION),
)

_ROWS = 10_000
_PIECE_BYTES = 4 << 20
_LONGEST_MS = 1 << 52


@dataclass(frozen=True, slots=True)
class RecordFields:
    """The parts of records as columns, in offset order; ``headers`` are encoded."""

    offsets: I64
    timestamps: I64
    keys: pa.BinaryArray
    values: pa.BinaryArray
    headers: pa.BinaryArray

    def __len__(self) -> int:
        return len(self.offsets)


@dataclass(frozen=True, slots=True)
class _Parts:
    """Where the parts of records are in ``body``; a negative length is null."""

    body: bytes
    keys: tuple[I64, I64]
    values: tuple[I64, I64]
    headers: tuple[I64, I64]


def check_records(found: Records) -> None:
    """Raise CorruptBatch if a record is damaged."""
    _find_parts(found)


def split_records(found: Records) -> RecordFields:
    """Split the tails of records.

    Raises:
        CorruptBatch: a record is damaged.
    """
    parts = _find_parts(found)
    columns = (_slices(parts.body, *part) for part in (parts.keys, parts.values, parts.headers))
    return RecordFields(found.offsets, found.timestamps, *columns)


def _find_parts(found: Records) -> _Parts:
    body = b"".join(found.tails)
    data = np.frombuffer(body, dtype=np.uint8)
    ends = np.cumsum(np.fromiter(map(len, found.tails), dtype=np.int64, count=len(found)))
    starts = np.concatenate((np.zeros(1, dtype=np.int64), ends))[:-1]
    try:
        key_lengths, keys_at = read_varints(data, starts)
        value_lengths, values_at = read_varints(data, keys_at + np.clip(key_lengths, 0, len(data)))
    except IndexError:
        raise CorruptBatch(
            f"one of the {len(found)} records from {found.offsets[0]} on is truncated"
        ) from None
    headers_at = values_at + np.clip(value_lengths, 0, len(data))
    damaged = np.flatnonzero(headers_at >= ends)
    if len(damaged):
        raise CorruptBatch(f"the record at {found.offsets[damaged[0]]} is truncated")
    return _Parts(
        body, (keys_at, key_lengths), (values_at, value_lengths), (headers_at, ends - headers_at)
    )


def _slices(body: bytes, starts: I64, lengths: I64) -> pa.BinaryArray:
    """Return parts of bytes as a column; null where the length is negative."""
    import pyarrow as pa

    # Every other value is a part; those between are what separates them.
    bounds = np.empty(2 * len(starts) + 1, dtype=np.int32)
    bounds[0:-1:2] = starts
    bounds[1::2] = starts + np.maximum(lengths, 0)
    bounds[-1] = len(body)
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(body)]
    spread = pa.Array.from_buffers(pa.binary(), 2 * len(starts), buffers)
    return spread.take(pa.array(np.arange(0, 2 * len(starts), 2), mask=lengths < 0))


def join_record(key: bytes | None, value: bytes | None, headers: bytes) -> bytes:
    """Return the tail of a record."""
    return encode_nullable(key) + encode_nullable(value) + headers


def join_records(found: Sequence[KafkaRecord]) -> Records:
    """Return records as columns."""
    return Records(
        np.array([each.offset for each in found], dtype=np.int64),
        np.array([each.timestamp_ms for each in found], dtype=np.int64),
        [join_record(each.key, each.value, encode_headers(each.headers)) for each in found],
    )


def encode_headers(headers: Sequence[Header]) -> bytes:
    """Return the headers of a record as its last part."""
    encoded = [encode_varint(len(headers))]
    for name, value in headers:
        encoded += [
            encode_nullable(name.encode("utf-8", "surrogateescape")),
            encode_nullable(value),
        ]
    return b"".join(encoded)


def input_batches(
    number: int,
    source: SourcePartition,
    found: Records,
    *,
    with_headers: bool,
    parser: JsonParser | None = None,
    counts: Sequence[int | None] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a partition as Arrow rows.

    Args:
        number: the partition's index in the slot's task.
        source: the partition.
        found: its records.
        with_headers: fill the column ``headers``, which an expression uses.
        parser: parses the values; the rows then have the column ``PARSED``.
        counts: number of partitions of each target topic that an expression may choose; None if it
            is not known.

    Raises:
        CorruptBatch: a record is damaged.
    """
    import pyarrow as pa

    limits = pa.scalar(list(counts), pa.list_(pa.int32()))
    for part in _pieces(found):
        fields = split_records(part)
        visible = [_headers(part, row) for row in range(len(part))] if with_headers else None
        yield _batch(
            {
                READER: np.full(len(part), number),
                TIME: part.timestamps,
                HEADERS: fields.headers,
                "key": fields.keys,
                "value": fields.values,
                "headers": visible,
                "topic": pa.repeat(source.topic, len(part)),
                "partition": np.full(len(part), source.partition),
                "offset": part.offsets,
                "timestamp": np.clip(part.timestamps, -_LONGEST_MS, _LONGEST_MS) * 1000,
                COUNTS: pa.repeat(limits, len(part)),
                PARSED: None if parser is None else parser.parse(fields.values),
            },
            len(part),
            parser,
        )


def _pieces(found: Records) -> Iterator[Records]:
    """Yield the records in pieces of a limited number and size."""
    ends = np.cumsum(np.fromiter(map(len, found.tails), dtype=np.int64, count=len(found)))
    first = 0
    while first < len(found):
        before = int(ends[first - 1]) if first else 0
        end = int(np.searchsorted(ends, before + _PIECE_BYTES, side="right"))
        end = max(first + 1, min(end, first + _ROWS))
        yield found.take(np.arange(first, end))
        first = end


def facts_batch(facts: bytes, parser: JsonParser | None = None) -> pa.RecordBatch:
    """Return the last row of a micro-batch, with the columns of ``input_batches``."""
    return _batch({FACTS: [facts]}, 1, parser)


def _headers(found: Records, row: int) -> list[dict[str, Any]]:
    headers = record_at(found, row, TimestampType.CREATE).headers
    # A name that is not UTF-8 is shown with replacement characters; the record keeps its own.
    return [
        {"key": name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"), "value": value}
        for name, value in headers
    ]


def _batch(columns: dict[str, Any], count: int, parser: JsonParser | None) -> pa.RecordBatch:
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    types = {
        FACTS: pa.binary(),
        READER: pa.int32(),
        TIME: pa.int64(),
        HEADERS: pa.binary(),
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": pa.list_(header),
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        COUNTS: pa.list_(pa.int32()),
    }
    if parser is not None:
        types[PARSED] = pa.struct(parser.schema)
    arrays = []
    for name, kind in types.items():
        found = columns.get(name)
        if not isinstance(found, pa.Array):
            found = pa.nulls(count, kind) if found is None else pa.array(found, kind)
        arrays.append(found)
    return pa.RecordBatch.from_arrays(arrays, names=list(types))
