"""The headers of transformed records: their own, some set by name, or all of them others."""

from __future__ import annotations

from collections.abc import Sequence

from k2ktui.engine.transforms import Transform
from k2ktui.log.records import encode_nullable, encode_varint
from k2ktui.replication.copying.record_headers import set_headers
from k2ktui.replication.stages.transformed import Transformed


def written_headers(transform: Transform, found: Transformed) -> Sequence[bytes]:
    """Return the encoded headers that the records get.

    Raises:
        CorruptBatch: the headers of a record cannot be read.
    """
    if transform.sets_all_headers:
        return [_encode(each) for each in found.assigned]
    names = transform.assigned_headers
    if not names:
        return found.headers
    return [
        set_headers(encoded, list(zip(names, values, strict=True)))
        for encoded, values in zip(found.headers, found.assigned, strict=True)
    ]


def _encode(pairs: Sequence[bytes | None]) -> bytes:
    """Return headers whose names and values are given in turn."""
    return encode_varint(len(pairs) // 2) + b"".join(map(encode_nullable, pairs))
