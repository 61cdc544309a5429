"""Keys and values that Python decodes and encodes, as JSON for operators."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from k2ktui.log.record import KafkaRecord
from k2ktui.replication.transforms.codec_batches import Codecs
from k2ktui.replication.transforms.columns import values_of
from k2ktui.replication.transforms.transformed import Transformed

if TYPE_CHECKING:
    from k2ktui.replication.transforms.columns import ValueCodec


def show_decoded(records: Sequence[KafkaRecord], codecs: Codecs) -> list[KafkaRecord]:
    """Return records with the decoded keys and values as JSON; others as they are."""
    keys = _as_json([record.key for record in records], codecs.decoders.get("key"))
    values = _as_json([record.value for record in records], codecs.decoders.get("value"))
    return [
        replace(record, key=key, value=value)
        for record, key, value in zip(records, keys, values, strict=True)
    ]


def show_encoded(transformed: Transformed, codecs: Codecs) -> Transformed:
    """Return transformed records with the encoded keys and values as JSON."""
    return transformed.with_columns(
        {
            "key": _as_json(transformed.column("key"), codecs.encoders.get("key")),
            "value": _as_json(transformed.column("value"), codecs.encoders.get("value")),
        }
    )


def _as_json(values: Sequence[bytes | None], decoder: ValueCodec | None) -> list[bytes | None]:
    if decoder is None:
        return list(values)
    import pyarrow as pa

    column = decoder.decode(pa.array(values, pa.binary()))
    return [
        original if value is None else json.dumps(value, default=str, ensure_ascii=False).encode()
        for value, original in zip(map(_plain, values_of(column)), values, strict=True)
    ]


def _plain(value: Any) -> Any:
    """Return a value that JSON has; bytes as hexadecimal digits, a map as an object."""
    if isinstance(value, dict):
        return {name: _plain(field) for name, field in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(item, tuple) for item in value):
            return {name: _plain(item) for name, item in value}
        return [_plain(item) for item in value]
    return value.hex() if isinstance(value, bytes) else value
