"""Records as Arrow rows: what the SQL of a transform sees.

Columns with the prefix ``__k2k_`` are for the task that writes. The last row of a micro-batch has
no record: its ``__k2k_facts`` say how far each partition was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.transforms.model import Transform
from k2ktui.log.record import KafkaRecord, decode_headers
from k2ktui.log.record_columns import RecordColumns
from k2ktui.log.record_headers import encode_headers
from k2ktui.log.records import I64, Records, encode_nullable
from k2ktui.log.varints import encode_varints
from k2ktui.replication.transforms.columns import slices
from k2ktui.replication.transforms.json_columns import JsonParser

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

#: Spark's type of the column ``headers``.
HEADERS_TYPE = "ARRAY<STRUCT<key: STRING, value: BINARY>>"
#: Columns of the records as they are read, and their types in Spark.
_INPUT = {
    FACTS: "BINARY",
    READER: "INT",
    TIME: "BIGINT",
    HEADERS: "BINARY",
    "key": "BINARY",
    "value": "BINARY",
    "headers": HEADERS_TYPE,
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    COUNTS: "ARRAY<INT>",
}
#: Columns of the records as they are written.
OUTPUT = (
    *(FACTS, READER, TIME, HEADERS, "key", "value", "offset", KEPT, FAILED, ASSIGNED),
    *(TOPIC, PARTITION),
)

_ROWS = 10_000
_PIECE_BYTES = 4 << 20
_LONGEST_MS = 1 << 52


@dataclass(frozen=True, slots=True)
class InputLayout:
    """Which columns the rows have, as a transform needs them: Spark copies all that there are.

    Attributes:
        columns: of ``_INPUT``, in its order.
        parser: parses the values; the rows then have the column ``PARSED``.
        keeps_values: fill ``value`` also where ``PARSED`` is filled.
    """

    columns: tuple[str, ...] = tuple(_INPUT)
    parser: JsonParser | None = None
    keeps_values: bool = True

    @property
    def ddl(self) -> str:
        """The columns without ``PARSED``, for Spark."""
        return ", ".join(f"`{name}` {_INPUT[name]}" for name in self.columns)


def make_layout(transform: Transform, parser: JsonParser | None) -> InputLayout:
    """Return the columns that a transform can use."""
    unused = {
        name
        for name in ("headers", "topic", "partition", "timestamp")
        if not transform.mentions(name) and not transform.selects_all
    }
    if transform.routing is None or not transform.routing.partition:
        unused.add(COUNTS)
    columns = tuple(name for name in _INPUT if name not in unused)
    return InputLayout(columns, parser, transform.on_error == "deadLetter")


def join_record(key: bytes | None, value: bytes | None, headers: bytes) -> bytes:
    """Return the tail of a record."""
    return encode_nullable(key) + encode_nullable(value) + headers


def join_columns(
    keys: pa.BinaryArray, values: pa.BinaryArray, headers: pa.BinaryArray
) -> list[bytes]:
    """Return the tails of records; ``headers`` are encoded."""
    import pyarrow.compute as pc

    keys_and_values = (
        column for part in (keys, values) for column in (_lengths(part), part.fill_null(b""))
    )
    tails: list[bytes] = pc.binary_join_element_wise(*keys_and_values, headers, b"").to_pylist()
    return tails


def _lengths(column: pa.BinaryArray) -> pa.BinaryArray:
    """Return the encoded lengths of keys or values."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.binary_length(column).fill_null(-1).to_numpy().astype(np.int64)
    cells, used = encode_varints(lengths)
    ends = np.zeros(len(lengths) + 1, dtype=np.int32)
    np.cumsum(used.sum(axis=1), out=ends[1:])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(cells[used].tobytes())]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def join_records(records: Sequence[KafkaRecord]) -> Records:
    """Return records as columns."""
    return Records(
        np.array([record.offset for record in records], dtype=np.int64),
        np.array([record.timestamp_ms for record in records], dtype=np.int64),
        [join_record(record.key, record.value, _encode_headers(record)) for record in records],
    )


def _encode_headers(record: KafkaRecord) -> bytes:
    return encode_headers(
        [(name.encode("utf-8", "surrogateescape"), value) for name, value in record.headers]
    )


def input_batches(
    number: int,
    source: SourcePartition,
    columns: RecordColumns,
    layout: InputLayout,
    counts: Sequence[int | None] = (),
) -> Iterator[pa.RecordBatch]:
    """Yield the records of a partition as Arrow rows.

    Args:
        number: the partition's index in the slot's task.
        source: the partition.
        columns: its records.
        layout: the columns of the rows.
        counts: number of partitions of each target topic that an expression may choose; None if it
            is not known.

    Raises:
        CorruptBatch: the headers of a record are damaged.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    limits = pa.scalar(list(counts), pa.list_(pa.int32()))
    for part in _pieces(columns):
        values = slices(part.body, part.values)
        parsed = None if layout.parser is None else layout.parser.parse(values)
        if parsed is not None and not layout.keeps_values:
            # Spark does not need what was parsed.
            values = pc.if_else(parsed.is_null(), values, pa.scalar(None, values.type))
        makers: dict[str, Callable[[RecordColumns], Any]] = {
            READER: lambda part: np.full(len(part), number),
            TIME: lambda part: part.timestamps,
            HEADERS: lambda part: slices(part.body, part.headers),
            "key": lambda part: slices(part.body, part.keys),
            "headers": _headers,
            "topic": lambda part: pa.repeat(source.topic, len(part)),
            "partition": lambda part: np.full(len(part), source.partition),
            "offset": lambda part: part.offsets,
            "timestamp": lambda part: _times(part.timestamps),
            COUNTS: lambda part: pa.repeat(limits, len(part)),
        }
        made = {name: make(part) for name, make in makers.items() if name in layout.columns}
        yield _batch({**made, "value": values, PARSED: parsed}, len(part), layout)


def _times(timestamps: I64) -> pa.TimestampArray:
    """Return the timestamps in microseconds; null for records without one, which have -1."""
    import pyarrow as pa

    micros = np.clip(timestamps, -_LONGEST_MS, _LONGEST_MS) * 1000
    return pa.array(micros, pa.timestamp("us", tz="UTC"), mask=timestamps == -1)


def _pieces(columns: RecordColumns) -> Iterator[RecordColumns]:
    """Yield the records in pieces of a limited number and size."""
    ends = columns.ends
    first = 0
    while first < len(columns):
        begin = int(columns.keys[0][first])
        end = int(np.searchsorted(ends, begin + _PIECE_BYTES, side="right"))
        end = max(first + 1, min(end, first + _ROWS))
        yield columns.slice(first, end)
        first = end


def facts_batch(facts: bytes, layout: InputLayout) -> pa.RecordBatch:
    """Return the last row of a micro-batch, with the columns of ``input_batches``."""
    return _batch({FACTS: [facts]}, 1, layout)


def _headers(columns: RecordColumns) -> list[list[dict[str, Any]]]:
    starts, lengths = columns.headers
    visible = []
    for offset, at, length in zip(
        columns.offsets.tolist(), starts.tolist(), lengths.tolist(), strict=True
    ):
        headers = decode_headers(columns.body[at : at + length], 0, offset)
        # A name that is not UTF-8 is shown with replacement characters; the record keeps its own.
        visible.append(
            [
                {
                    "key": name.encode("utf-8", "surrogateescape").decode("utf-8", "replace"),
                    "value": value,
                }
                for name, value in headers
            ]
        )
    return visible


def _batch(columns: Mapping[str, Any], count: int, layout: InputLayout) -> pa.RecordBatch:
    import pyarrow as pa

    kinds = {
        "BINARY": pa.binary(),
        "INT": pa.int32(),
        "BIGINT": pa.int64(),
        "STRING": pa.string(),
        "TIMESTAMP": pa.timestamp("us", tz="UTC"),
        "ARRAY<INT>": pa.list_(pa.int32()),
        HEADERS_TYPE: pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    }
    types = {name: kinds[_INPUT[name]] for name in layout.columns}
    if layout.parser is not None:
        types[PARSED] = pa.struct(layout.parser.schema)
    arrays = []
    for name, kind in types.items():
        column = columns.get(name)
        if not isinstance(column, pa.Array):
            column = pa.nulls(count, kind) if column is None else pa.array(column, kind)
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, names=list(types))
