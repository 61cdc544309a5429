"""Turns fetched batches into target batches: unchanged, rebuilt, or record by record."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from k2ktui.engine.partitioner import partitions_for_keys
from k2ktui.engine.state import SourcePartition
from k2ktui.log.batch import COMPRESSION_MASK, Batch, CorruptBatch, find_defect
from k2ktui.log.rebuild import BuiltBatch, build_batches, built_bytes
from k2ktui.log.records import (
    I64,
    U8,
    Decoded,
    Records,
    concatenate,
    decompress_payload,
)
from k2ktui.log.schema_id_batches import UnresolvedSchemas
from k2ktui.replication.copying.outgoing_batch import OutgoingBatch, TargetPartition
from k2ktui.replication.copying.partition_reader import PartitionReader, now_ms
from k2ktui.replication.copying.record_headers import change_headers, native_rows
from k2ktui.replication.copying.schema_routing import RoutableRecords, SchemaIdStage
from k2ktui.replication.slot_task import CopyPath, OriginHeader, Route, SizeLimit

# Merge waiting batches up to this size: a request carries one batch per target partition.
SMALL_BATCH_BYTES = 16 << 10
_MERGED_BYTES = 256 << 10
_MERGE_FROM = 3
_DECODED_TOGETHER_BYTES = 1 << 20
_REBUILT_BYTES = 900 << 10  # below the default max.message.bytes of 1 MiB

# Decoded records, and the number of waiting batches that they are in.
_Found = list[tuple[Decoded, int]]


def route_next(
    reader: PartitionReader,
    pipeline: str,
    origin: OriginHeader | None = None,
    schemas: SchemaIdStage | None = None,
) -> Iterator[tuple[TargetPartition, OutgoingBatch, bool]]:
    """Take a partition's next batch (or several small ones) and route its records.

    On the record path, records that ``origin`` marks as the opposite pipeline's are left out.
    ``schemas`` replaces schema ids if the route has a rule for them.

    Yields:
        Target partition, batch, and whether the batch was rebuilt. All of them must be written in
        one transaction.

    Raises:
        CorruptBatch: the first batch must be decoded but cannot be; nothing was taken.
        UnresolvedSchemas: schema ids of the first batch must be looked up; nothing was taken.
    """
    rules = reader.assignment.route
    if rules.path is CopyPath.RECORD and not rules.keeps_batches:
        yield from _by_record(reader, rules, pipeline, origin, schemas)
        return
    assert rules.partition is not None
    target = (rules.topic, rules.partition)
    for outgoing, rebuilt in _whole(reader, rules, schemas):
        yield target, outgoing, rebuilt


def _whole(
    reader: PartitionReader, rules: Route, schemas: SchemaIdStage | None
) -> Iterator[tuple[OutgoingBatch, bool]]:
    batch, limit = reader.ready[0], reader.size_limit
    found: _Found | None
    too_large = _decode_if_too_large(batch, reader, limit)
    if too_large is not None:
        found = [(too_large, 1)]
    else:
        run = _small_batches(reader)
        found = _decode_small(reader, run, one_pass=rules.schemas is None or schemas is None)
    whole = find_defect(batch, reader.handed) is None and not reader.holds_refused(batch)
    if found is None and whole:
        view = _take_whole(reader, rules, schemas)
        if view is not None:
            outgoing = OutgoingBatch(view, batch.count, batch.base_offset, reader=reader)
            yield outgoing, view is not batch.view
            return
    if found is None:
        found = [(reader.decode(batch), 1)]
    codec = batch.attributes & COMPRESSION_MASK if batch.magic == 2 else 0
    taken = _take_decoded(reader, found, rules, schemas)
    largest = _REBUILT_BYTES if limit is None else limit.uncompressed
    for built in build_batches(concatenate(taken), codec, largest):
        yield _outgoing(built, reader), True


def _decode_if_too_large(
    batch: Batch, reader: PartitionReader, limit: SizeLimit | None
) -> Decoded | None:
    """Decode a batch that the target would probably refuse for its size; None for others."""
    if limit is None or len(batch.view) <= limit.sent:
        return None
    try:
        decoded = reader.decode(batch)
    except CorruptBatch:
        return None  # as without a limit: it is copied unchanged, or its defect is reported
    return decoded if built_bytes(decoded.records) > limit.uncompressed else None


def _take_whole(
    reader: PartitionReader, rules: Route, schemas: SchemaIdStage | None
) -> memoryview | None:
    """Take the next batch as a whole; None if that is not possible, and nothing was taken."""
    if rules.schemas is not None and schemas is not None:
        return schemas.take_whole(reader, rules.schemas)
    return reader.take().view


def _take_decoded(
    reader: PartitionReader, found: _Found, rules: Route, schemas: SchemaIdStage | None
) -> list[Records]:
    """Take the next batches, which were decoded; return their records."""
    taken = []
    for part, batches in found:
        if rules.schemas is None or schemas is None:
            for _ in range(batches):
                reader.take()
            taken.append(part.records)
            continue
        try:
            mapped = schemas.map_records(reader, part.records, rules.schemas)
        except (CorruptBatch, UnresolvedSchemas):
            if not taken:
                raise
            break
        schemas.take(reader, mapped)
        taken.append(mapped.records)
        if mapped.fault is not None:
            break
    return taken


def _small_batches(reader: PartitionReader) -> tuple[list[Batch], list[bytes]]:
    """Return waiting small batches of the same kind, up to the size of a merged batch.

    Returns:
        The batches, and their records, decompressed: in all less than twice the size of a merged
        batch, as a compressed batch that holds more is not small.
    """
    first = reader.ready[0]
    batches: list[Batch] = []
    bodies: list[bytes] = []
    size = 0
    if len(reader.ready) < _MERGE_FROM:
        return batches, bodies
    for batch in reader.ready:
        alike = batch.magic == 2 and not (batch.attributes ^ first.attributes) & COMPRESSION_MASK
        if not alike or len(batch.view) > SMALL_BATCH_BYTES or size >= _MERGED_BYTES:
            break
        try:
            bodies.append(decompress_payload(batch, _MERGED_BYTES))
        except CorruptBatch:
            break  # too large; or copied unchanged, or its defect is reported, when it is next
        batches.append(batch)
        size += max(len(batch.view), len(bodies[-1]))
    return batches, bodies


def _decode_small(
    reader: PartitionReader, run: tuple[list[Batch], list[bytes]], *, one_pass: bool
) -> _Found | None:
    """Decode small batches, in one pass if possible; None for fewer than two that can be."""
    batches, bodies = run
    if len(batches) < 2:
        return None
    if one_pass:
        with contextlib.suppress(CorruptBatch):
            return [(reader.decode_run(batches, bodies), len(batches))]
    found: _Found = []
    for batch in batches:
        try:
            found.append((reader.decode(batch), 1))
        except CorruptBatch:
            break  # as above
    return found if len(found) > 1 else None


def _decode_next(reader: PartitionReader, *, one_pass: bool) -> tuple[Decoded, int, int]:
    """Decode the next batch, or a run of small ones; return their number and size, too."""
    if one_pass:
        batches, bodies = _small_batches(reader)
        if len(batches) > 1:
            sizes = (max(len(b.view), len(body)) for b, body in zip(batches, bodies, strict=True))
            return reader.decode_run(batches, bodies), len(batches), sum(sizes)
    batch = reader.ready[0]
    decoded = reader.decode(batch)
    return decoded, 1, max(len(batch.view), decoded.size)


def _by_record(
    reader: PartitionReader,
    rules: Route,
    pipeline: str,
    origin: OriginHeader | None,
    schemas: SchemaIdStage | None,
) -> Iterator[tuple[TargetPartition, OutgoingBatch, bool]]:
    """Decode several batches at once: one alone, spread over partitions, makes small batches."""
    codec = rules.codec
    if codec is None:
        codec = reader.ready[0].attributes & COMPRESSION_MASK if reader.ready[0].magic == 2 else 0
    taken: list[Records] = []
    chosen: list[I64] = []
    size = 0
    one_pass = schemas is None
    while reader.ready and size < _DECODED_TOGETHER_BYTES:
        try:
            decoded, batches, decoded_bytes = _decode_next(reader, one_pass=one_pass)
            found, left_out = _routable(reader, decoded, rules, origin, schemas)
            taken.append(
                change_headers(found.records, rules.headers, reader.source, pipeline, origin)
            )
        except (CorruptBatch, UnresolvedSchemas):
            if one_pass:
                one_pass = False  # what is before the damaged batch is copied
                continue
            if not taken:
                raise
            break
        if schemas is None:
            for _ in range(batches):
                reader.take()
        else:
            schemas.take(reader, found)
        chosen.append(
            choose_partitions(found.data, found.key_starts, found.key_lengths, rules, reader.source)
        )
        left_out = left_out[left_out < reader.handed]
        if len(left_out):
            reader.leave_out(left_out)
        size += decoded_bytes
    yield from spread(reader, concatenate(taken), np.concatenate(chosen), codec)


def _routable(
    reader: PartitionReader,
    decoded: Decoded,
    rules: Route,
    origin: OriginHeader | None,
    schemas: SchemaIdStage | None,
) -> tuple[RoutableRecords, I64]:
    """Return the records to route, and the offsets of those that the opposite pipeline wrote."""
    records, starts, lengths = decoded.records, decoded.key_starts, decoded.key_lengths
    left_out = np.empty(0, dtype=np.int64)
    if origin is not None:
        rows = native_rows(records, origin)
        left_out = np.delete(records.offsets, rows)
        records, starts, lengths = records.take(rows), starts[rows], lengths[rows]
    if rules.schemas is not None and schemas is not None:
        return schemas.map_records(reader, records, rules.schemas), left_out
    return RoutableRecords(records, decoded.data, starts, lengths), left_out


def spread(
    reader: PartitionReader, found: Records, partitions: I64, codec: int, topic: str = ""
) -> Iterator[tuple[TargetPartition, OutgoingBatch, bool]]:
    """Route records on the record path to these target partitions, as ``route_next`` does.

    ``topic`` is the target topic if the route has several.
    """
    rules = reader.assignment.route
    if not len(found):
        return
    largest = _REBUILT_BYTES
    if reader.size_limit is not None:
        largest = min(largest, reader.size_limit.uncompressed)
    if rules.now_timestamps:
        found = Records(found.offsets, np.full_like(found.timestamps, now_ms()), found.tails)
    for partition in np.unique(partitions).tolist():
        share = found.take(np.nonzero(partitions == partition)[0])
        for built in build_batches(share, codec, largest):
            yield (topic or rules.topic, partition), _outgoing(built, reader), True


def _outgoing(built: BuiltBatch, reader: PartitionReader) -> OutgoingBatch:
    first = int(built.sources[0])
    return OutgoingBatch(memoryview(built.data), built.count, first, built.sources, reader)


def choose_partitions(
    data: U8, starts: I64, lengths: I64, rules: Route, source: SourcePartition
) -> I64:
    """Return the target partition of each record.

    Args:
        data: bytes that contain the keys.
        starts: where each key begins.
        lengths: length of each key; -1 for none.
        rules: the route of the records' partition.
        source: that partition.
    """
    if rules.partition is not None:
        return np.full(len(lengths), rules.partition, dtype=np.int64)
    # The Java producer spreads records without a key, which would lose their order; a fixed
    # target partition per source partition preserves it.
    keyless = source.partition % rules.partitions
    return partitions_for_keys(data, starts, lengths, rules.partitions, keyless)
