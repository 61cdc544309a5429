"""Transformed records as they are written, with the headers that the transform gives them."""

from __future__ import annotations

from collections.abc import Sequence

from k2ktui.engine.transforms import Transform
from k2ktui.log.records import Records, encode_nullable, encode_varint
from k2ktui.replication.copying.record_headers import set_headers
from k2ktui.replication.stages.rows import HEADERS, OUTPUT, TIME, join_columns
from k2ktui.replication.stages.transformed import Transformed


def written_records(transform: Transform, found: Transformed) -> Records:
    """Return the records; header rules come after it.

    Raises:
        CorruptBatch: the headers of a record cannot be read.
    """
    import pyarrow as pa

    tails: list[bytes] = []
    for batch in found.kept:
        key, value, headers = (
            batch.column(OUTPUT.index(name)) for name in ("key", "value", HEADERS)
        )
        if transform.changes("headers"):
            headers = pa.array(_changed_headers(transform, Transformed([batch])), pa.binary())
        tails += join_columns(key, value, headers)
    return Records(found.numbers("offset"), found.numbers(TIME), tails)


def _changed_headers(transform: Transform, found: Transformed) -> list[bytes]:
    """Return the encoded headers: some set by name, or all of them others."""
    if transform.sets_all_headers:
        return [_encode(each) for each in found.assigned]
    names = transform.assigned_headers
    return [
        set_headers(encoded, list(zip(names, values, strict=True)))
        for encoded, values in zip(found.headers, found.assigned, strict=True)
    ]


def _encode(pairs: Sequence[bytes | None]) -> bytes:
    """Return headers whose names and values are given in turn."""
    return encode_varint(len(pairs) // 2) + b"".join(map(encode_nullable, pairs))
