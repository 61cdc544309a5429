"""Columns of keys and values in formats that Python decodes and encodes, not Spark.

::

    read records ─► decode_batches ─► SQL ─► encode_batches ─► write records
    (the task that reads)                    (the task that writes)
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from k2ktui.errors import K2kError
from k2ktui.registry.lookup_limit import PATIENCE_S, LookupLimit
from k2ktui.replication.transforms import rows

if TYPE_CHECKING:
    import pyarrow as pa

    from k2ktui.replication.transforms.columns import ValueCodec

#: Columns of decoded keys and values; null for what cannot be decoded.
DECODED = {"key": "__k2k_decoded_key", "value": "__k2k_decoded_value"}
#: Columns of the source's keys and values, which dead letters have.
ORIGINAL = {"key": "__k2k_original_key", "value": "__k2k_original_value"}


@dataclass(frozen=True)
class Codecs:
    """What Python decodes and encodes of a transform; can be pickled.

    Attributes:
        decoders: by part of the record.
        encoders: by part of the record.
        steps: the index of the step ``encode`` of each part that has an encoder.
        keeps_originals: whether the rows have the columns ``ORIGINAL``.
        prefixes: schema ids before keys and values that Spark encodes, by part of the record.
    """

    decoders: Mapping[str, ValueCodec] = field(default_factory=dict)
    encoders: Mapping[str, ValueCodec] = field(default_factory=dict)
    steps: Mapping[str, int] = field(default_factory=dict)
    keeps_originals: bool = False
    prefixes: Mapping[str, bytes] = field(default_factory=dict)


def decode_batches(
    batches: Iterable[pa.RecordBatch], codecs: Codecs, limit_s: float = PATIENCE_S
) -> Iterator[pa.RecordBatch]:
    """Yield rows with the columns ``DECODED`` of the parts that have a decoder, after the others.

    If a registry does not answer, the last row has the reason, and nothing of the
    micro-batch is written. All look-ups together may take ``limit_s`` seconds.
    """
    if not codecs.decoders:
        yield from batches
        return
    import pyarrow as pa

    limit = LookupLimit(limit_s)
    for batch in batches:
        try:
            added = {
                DECODED[part]: decoder.decode(batch.column(part), limit)
                for part, decoder in codecs.decoders.items()
            }
        except K2kError as error:
            yield _failed(batch, codecs, error.message)
            return
        yield pa.RecordBatch.from_arrays(
            [*batch.columns, *added.values()], names=[*batch.schema.names, *added]
        )


def _failed(batch: pa.RecordBatch, codecs: Codecs, error: str) -> pa.RecordBatch:
    """Return a last row, with the columns of ``batch``, that says why nothing is written."""
    import pyarrow as pa

    from k2ktui.replication.transforms.read import ReadFacts

    schema = batch.schema
    for part, decoder in codecs.decoders.items():
        schema = schema.append(pa.field(DECODED[part], decoder.type.arrow))
    return pa.RecordBatch.from_pylist([{rows.FACTS: pickle.dumps(ReadFacts(error=error))}], schema)


def encode_batches(batches: Iterable[pa.RecordBatch], codecs: Codecs) -> Iterator[pa.RecordBatch]:
    """Yield rows with the columns of ``rows.OUTPUT``, whose keys and values are encoded."""
    if not codecs.encoders and not codecs.prefixes:
        yield from batches
        return
    for batch in batches:
        yield _encode(batch, codecs)


def _encode(batch: pa.RecordBatch, codecs: Codecs) -> pa.RecordBatch:
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = dict(zip(rows.OUTPUT, batch.columns, strict=False))
    steps = columns[rows.FAILED].to_pylist()
    for part, encoder in codecs.encoders.items():
        encoded, failed = encoder.encode(columns[part])
        columns[part] = pa.array(encoded, pa.binary())
        for row in failed:
            steps[row] = codecs.steps[part] if steps[row] is None else steps[row]
    columns[rows.FAILED] = pa.array(steps, pa.int32())
    for part, prefix in codecs.prefixes.items():
        encoded_column = columns[part].cast(pa.binary())
        marked = pc.binary_join_element_wise(pa.scalar(prefix), encoded_column, pa.scalar(b""))
        # A record that failed may have its original key and value here.
        columns[part] = pc.if_else(columns[rows.FAILED].is_null(), marked, encoded_column)
    if codecs.keeps_originals:
        has_failed = columns[rows.FAILED].is_valid()
        for at, part in enumerate(ORIGINAL, len(rows.OUTPUT)):
            columns[part] = pc.if_else(has_failed, batch.column(at), columns[part])
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(rows.OUTPUT))
