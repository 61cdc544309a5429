"""The columns of each table, for Spark as text and for batches as Arrow types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

Columns = Mapping[str, str]
Row = Mapping[str, Any]

_HEADERS = "array<struct<key:string,value:binary>>"
_PLACE = {"topic": "string", "partition": "int"}
_TARGET = {"target_topic": "string", "target_partition": "int"}

#: The columns of ``records`` that have the contents of records.
CONTENTS: Columns = {
    "key": "binary",
    "value": "binary",
    "headers": _HEADERS,
    "target_key": "binary",
    "target_value": "binary",
    "target_headers": _HEADERS,
}
#: Each table's columns, with Spark's names of their types.
TABLES: Mapping[str, Columns] = {
    "ranges": {
        **_PLACE,
        "offset": "bigint",
        "count": "bigint",
        **_TARGET,
        "target_offset": "bigint",
        "further": "bigint",
        "known_from": "bigint",
    },
    "positions": {
        **_PLACE,
        "state": "string",
        "path": "string",
        "position": "bigint",
        "source_start": "bigint",
        "source_end": "bigint",
        "lag_records": "bigint",
        "lag_s": "double",
        "copied_at": "timestamp",
        **_TARGET,
        "target_end": "bigint",
        "mapped_records": "bigint",
        "coverage": "double",
        "held_back": "bigint",
        "hold": "string",
        "reason": "string",
    },
    "groups": {
        "group": "string",
        **_PLACE,
        "state_source": "string",
        "state_target": "string",
        "source_offset": "bigint",
        **_TARGET,
        "target_offset": "bigint",
        "translated_offset": "bigint",
        "basis": "string",
        "reread": "bigint",
        "skipped": "bigint",
        "reread_now": "bigint",
        "skipped_now": "bigint",
        "divergence": "bigint",
        "chosen_by": "string",
        "reason": "string",
    },
    "plan": {
        "group": "string",
        **_PLACE,
        "source": "string",
        "current": "bigint",
        "proposed": "bigint",
        "basis": "string",
        "action": "string",
        "reread": "bigint",
        "skipped": "bigint",
        "reason": "string",
    },
    "runs": {
        "run": "string",
        "kind": "string",
        "host": "string",
        "user": "string",
        "pid": "int",
        "state": "string",
        "started_at": "timestamp",
        "heartbeat_at": "timestamp",
        "term": "bigint",
        "lap": "bigint",
        "slots": "int",
        "lag_records": "bigint",
        "commit_ms": "double",
        "last_error": "string",
        "version": "string",
    },
    "journal": {
        "id": "string",
        "sequence": "bigint",
        "at": "timestamp",
        "who": "string",
        "operation": "string",
        "plan": "string",
        "undoes": "string",
        "group": "string",
        **_PLACE,
        "before": "bigint",
        "after": "bigint",
        "result": "string",
        "chosen_by": "string",
        "chosen": "string",
    },
    "records": {
        **_PLACE,
        "offset": "bigint",
        "timestamp": "timestamp",
        "key_bytes": "bigint",
        "value_bytes": "bigint",
        "copy": "string",
        **_TARGET,
        "target_offset": "bigint",
        "target_timestamp": "timestamp",
        "target_key_bytes": "bigint",
        "target_value_bytes": "bigint",
    },
}


def ddl(columns: Columns) -> str:
    """Return the columns as Spark's schema text."""
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


def make_batch(columns: Columns, rows: Iterable[Row]) -> pa.RecordBatch:
    """Return rows as a batch; timestamps are epoch microseconds."""
    import pyarrow as pa

    return pa.RecordBatch.from_pylist(list(rows), schema=arrow_schema(columns))


def arrow_schema(columns: Columns) -> pa.Schema:
    """Return the columns as Spark's own Arrow schema of them, with which batches must agree."""
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    types = {
        "string": pa.string(),
        "binary": pa.binary(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "double": pa.float64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        _HEADERS: pa.list_(pa.field("element", header)),
    }
    return pa.schema([pa.field(name, types[kind]) for name, kind in columns.items()])


def micros(seconds: float | None) -> int | None:
    """Return epoch seconds as a timestamp of a row; None for None, and for 0: never."""
    return round(seconds * 1_000_000) if seconds else None
