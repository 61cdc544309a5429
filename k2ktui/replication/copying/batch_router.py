"""Turns fetched batches into target batches: unchanged, rebuilt, or record by record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.transforms.header_names import OriginHeader
from k2ktui.engine.transforms.partitioner import partitions_for_keys
from k2ktui.log.batch import COMPRESSION_MASK, Batch, CorruptBatch, find_defect
from k2ktui.log.core import core
from k2ktui.log.rebuild import build_batches, built_bytes
from k2ktui.log.record_headers import change_headers, native_rows
from k2ktui.log.records import (
    I64,
    U8,
    Decoded,
    Records,
    concatenate,
    decode_with_keys,
    locate_run,
    with_tails,
)
from k2ktui.log.schema_id_batches import UnresolvedSchemas
from k2ktui.native.binding import Coalesced, CoreError
from k2ktui.replication.copying.dead_letters import DeadLetterOwner
from k2ktui.replication.copying.known_schemas import KnownSchemas
from k2ktui.replication.copying.outgoing_batch import BatchOwner, OutgoingBatch, TargetPartition
from k2ktui.replication.copying.partition_reader import (
    SMALL_BATCH_BYTES,
    PartitionReader,
    is_small,
    now_ms,
)
from k2ktui.replication.copying.schema_routing import RoutableRecords, SchemaIdStage
from k2ktui.replication.copying.slot_settings import ProduceSettings
from k2ktui.replication.copying.slot_task import CopyPath, Route, SizeLimit, UnknownSchemas

#: Level of the compression by the codec's number. Of zstd: merged text takes no more bytes than in
#: batches of 16 KiB with level 3, as producers send them, and a fifth less time.
MERGED_LEVELS = {4: 1}
_MERGE_FROM = 3
_LEAST_MERGED = 2
_DECODED_TOGETHER_BYTES = 1 << 20
_REBUILT_BYTES = 900 << 10  # below the default max.message.bytes of 1 MiB
_SAFE_SHARE = 7 / 8  # of a limit: requests and batches have headers
_REQUEST_BYTES = ProduceSettings().request_bytes


class _Run(NamedTuple):
    """The records of the next batches of a partition, which are small and of one kind."""

    decoded: Decoded
    batches: int


@dataclass(frozen=True, slots=True)
class _Taken:
    """What was taken from a partition.

    Attributes:
        records: as they are written.
        partitions: where each of them goes.
        letters: dead letters of others.
        batches: number of batches that were taken.
        size: of these batches.
    """

    records: Records
    partitions: I64
    letters: Records | None
    batches: int
    size: int


class BatchRouter:
    """Routes the batches of one slot in one lap.

    Args:
        pipeline: name of the pipeline, for headers.
        origin: header that marks where records came from; on the record path, those of the opposite
            pipeline are left out.
        known: target ids of schemas; None if no ids are replaced.
        request_bytes: maximum size of a produce request.

    ``unknown`` has the records with unknown schema ids that were passed through or are dead
    letters.
    """

    def __init__(
        self,
        pipeline: str,
        origin: OriginHeader | None = None,
        known: KnownSchemas | None = None,
        request_bytes: int = _REQUEST_BYTES,
    ) -> None:
        self._pipeline, self._origin = pipeline, origin
        self._request_bytes = request_bytes
        self._ids = None if known is None else SchemaIdStage(known, pipeline, origin)
        self.unknown: list[UnknownSchemas] = []

    def route(self, reader: PartitionReader) -> list[OutgoingBatch] | None:
        """Take a partition's next batches and route them, as ``take_next``.

        Returns:
            None if nothing was taken: the next batch is damaged and the partition has stopped, or
            its schema ids must be looked up first.
        """
        try:
            return self.take_next(reader)
        except CorruptBatch as error:
            reader.corrupt(error, reader.handed)
            reader.drop_from(reader.handed)
        except UnresolvedSchemas as waits:
            reader.unresolved = waits.ids
        return None

    def take_next(self, reader: PartitionReader) -> list[OutgoingBatch]:
        """Take a partition's next batch (or several small ones) and route its records.

        Returns:
            Target batches; all of them must be written in one transaction.

        Raises:
            CorruptBatch: the first batch must be decoded but cannot be; nothing was taken.
            UnresolvedSchemas: schema ids of the first batch must be looked up; nothing was taken.
        """
        rules, limit, batch = reader.assignment.route, reader.size_limit, reader.ready.first
        if rules.path is CopyPath.RECORD and not rules.keeps_batches:
            return self._rebuild(reader, len(reader.ready), None)
        most = _REBUILT_BYTES if limit is None else limit.uncompressed
        try:
            if limit is not None:
                decoded = _decode_too_large(batch, reader.handed, limit)
                if decoded is not None:
                    return self._rebuild(reader, 1, most, decoded)
            if is_small(batch):
                largest = self._largest(reader)
                merged = self._merge(reader, largest)
                if merged is not None:
                    return [merged]
                run = _small_batches(reader, merged_bytes(largest))
                if run is not None:
                    return self._rebuild(reader, run.batches, largest, run)
        except CorruptBatch:
            pass  # it is copied unchanged, or its defect is reported below
        if find_defect(batch, reader.handed) is None and not reader.holds_refused(batch):
            unchanged = self._take_unchanged(reader, batch)
            if unchanged is not None:
                return [unchanged]
        return self._rebuild(reader, 1, most)

    def _merge(self, reader: PartitionReader, largest: int) -> OutgoingBatch | None:
        """Merge the next small batches in C, up to a size before compression, and take them.

        Returns:
            None if records are changed on their way, if there are not enough such batches, or where
            the core does not do it: then, plain Python decides.
        """
        rules = reader.assignment.route
        if len(reader.ready) < _MERGE_FROM or self._origin is not None or not rules.keeps_records:
            return None
        in_c = core()
        if in_c is None:
            return None
        most = merged_bytes(largest)
        pieces = reader.ready.mergeable(in_c, most, partial(_may_be_merged, reader))
        if not pieces:
            return None
        first = pieces[0].rows[0]
        if first["base_offset"] < reader.handed:
            return None  # its first records were copied already
        epoch, codec = int(first["leader_epoch"]), int(first["attributes"]) & COMPRESSION_MASK
        level = MERGED_LEVELS.get(codec, 0)
        try:
            merged = in_c.coalesce(pieces, most, level, least=_LEAST_MERGED, largest=largest)
        except CoreError:
            return None
        reader.take_merged(merged.batches, merged.last_offset, epoch)
        assert rules.partition is not None
        return OutgoingBatch(
            *((rules.topic, rules.partition), merged.data, merged.count, int(merged.ranges[0, 0])),
            _sources_of(merged),
            reader,
            rebuilt=True,
            checksum_known=True,
        )

    def _largest(self, reader: PartitionReader) -> int:
        """Return how large a merged batch may be, before compression: the target takes it.

        One that it refuses would make the batches smaller that it takes as they are.
        """
        limit, topic = reader.size_limit, reader.assignment.max_message_bytes
        taken = self._request_bytes if topic is None else min(topic, self._request_bytes)
        largest = min(_REBUILT_BYTES, int(_SAFE_SHARE * taken))
        return largest if limit is None else min(largest, limit.uncompressed)

    def _take_unchanged(self, reader: PartitionReader, batch: Batch) -> OutgoingBatch | None:
        """Take the next batch as a whole, with the target's schema ids in their place.

        Returns:
            None if records of it cannot be copied as they are; nothing was taken.
        """
        rules, view = reader.assignment.route, batch.view
        assert rules.partition is not None
        if rules.schemas is not None and self._ids is not None:
            mapped = self._ids.map_batch(reader, rules.schemas)
            if mapped is None:
                return None
            view, unknown = mapped
            self._note(unknown)
        reader.take_merged(1, batch.last_offset, batch.leader_epoch)
        return OutgoingBatch(
            (rules.topic, rules.partition),
            view,
            batch.count,
            batch.base_offset,
            owner=reader,
            rebuilt=view is not batch.view,
            checksum_known=rules.schemas is None,
        )

    def _rebuild(
        self,
        reader: PartitionReader,
        batches: int,
        largest: int | None,
        first: Decoded | _Run | None = None,
    ) -> list[OutgoingBatch]:
        """Decode, change and take batches, and encode their records again.

        One batch alone, spread over partitions, makes small batches: several are taken at once.

        Args:
            reader: the partition.
            batches: take so many at most; less if they are large.
            largest: as for ``spread``.
            first: what is known of the first of them.
        """
        rules, codec = reader.assignment.route, codec_of(reader)
        in_one_pass = rules.schemas is None or self._ids is None
        most = merged_bytes(self._largest(reader))
        taken: list[_Taken] = []
        count = size = 0
        while reader.ready and count < batches and size < _DECODED_TOGETHER_BYTES:
            try:
                decoded, number = _decode_next(reader, first, most if in_one_pass else 0)
                step = self._take_decoded(reader, decoded, number)
            except (CorruptBatch, UnresolvedSchemas):
                if in_one_pass:
                    in_one_pass = False  # what is before the damaged batch is copied
                    continue
                if not taken:
                    raise
                break
            taken.append(step)
            first = None
            count, size = count + step.batches, size + step.size
        records = concatenate([step.records for step in taken])
        partitions = np.concatenate([step.partitions for step in taken])
        routed = list(spread(reader, records, partitions, codec, largest))
        letters = [step.letters for step in taken if step.letters is not None]
        if letters:
            routed += encode_letters(reader, concatenate(letters), codec)
        return routed

    def _take_decoded(self, reader: PartitionReader, decoded: Decoded, batches: int) -> _Taken:
        """Change the records of the next batches, which were decoded, and take them.

        If a record stops the partition, only what is before it is taken.

        Raises:
            CorruptBatch, UnresolvedSchemas: as ``take_next``; nothing was taken.
        """
        rules = reader.assignment.route
        size = max(sum(len(batch.view) for batch in islice(reader.ready, batches)), decoded.size)
        routable, left_out = self._change(reader, decoded)
        records = change_headers(
            routable.records, rules.headers, reader.source, self._pipeline, self._origin
        )
        partitions = choose_partitions(
            routable.data, routable.key_starts, routable.key_lengths, rules, reader.source
        )
        self._note(routable.unknown)
        if routable.fault is None:
            for _ in range(batches):
                reader.take()
        else:
            reader.take_before(routable.fault.offset)
            reader.stop(routable.fault)
        left_out = left_out[left_out < reader.handed]
        if len(left_out):
            reader.leave_out(left_out)
        return _Taken(records, partitions, routable.letters, batches, size)

    def _change(self, reader: PartitionReader, decoded: Decoded) -> tuple[RoutableRecords, I64]:
        """Return the records with their final ids, and the offsets of those that are left out.

        The opposite pipeline wrote those. A record that the target refuses, and what is behind it,
        is neither.
        """
        rules, origin = reader.assignment.route, self._origin
        records, starts, lengths = decoded.records, decoded.key_starts, decoded.key_lengths
        left_out = np.empty(0, dtype=np.int64)
        if reader.refused_at is not None:
            rows = np.arange(int(np.searchsorted(records.offsets, reader.refused_at)))
            records, starts, lengths = records.take(rows), starts[rows], lengths[rows]
        if origin is not None:
            rows = native_rows(records, origin)
            left_out = np.delete(records.offsets, rows)
            records, starts, lengths = records.take(rows), starts[rows], lengths[rows]
        if rules.schemas is not None and self._ids is not None:
            return self._ids.map_records(reader, records, rules.schemas), left_out
        return RoutableRecords(records, decoded.data, starts, lengths), left_out

    def _note(self, unknown: UnknownSchemas | None) -> None:
        if unknown is not None:
            self.unknown.append(unknown)


def _may_be_merged(reader: PartitionReader, batch: Batch) -> bool:
    """Return whether all records of a batch are to be copied, and it is small.

    It waits, so that it is not of an aborted transaction or the opposite pipeline.
    """
    return (
        batch.magic == 2
        and is_small(batch)
        and batch.base_offset >= reader.handed
        and not reader.holds_refused(batch)
    )


def merged_bytes(largest: int) -> int:
    """Return up to which size batches are merged: the last of them has room, too.

    Each request and each batch takes time, ours and the broker's: large ones are faster.
    """
    return largest * 3 // 4


def _sources_of(merged: Coalesced) -> I64 | None:
    """Return the source offsets of the records; None if they follow each other."""
    if len(merged.ranges) == 1:
        return None
    firsts, counts = merged.ranges[:, 0], merged.ranges[:, 1]
    before = np.cumsum(counts) - counts
    return np.repeat(firsts - before, counts) + np.arange(merged.count)


def _decode_too_large(batch: Batch, position: int, limit: SizeLimit) -> Decoded | None:
    """Decode a batch if the target would probably refuse it for its size; None if not.

    Raises:
        CorruptBatch: it cannot be decoded.
    """
    if len(batch.view) <= limit.sent:
        return None
    decoded = decode_with_keys(batch, position)
    return decoded if built_bytes(decoded.records) > limit.uncompressed else None


def _small_batches(reader: PartitionReader, most: int) -> _Run | None:
    """Decode waiting small batches of the same kind, up to ``most`` bytes.

    A compressed batch that holds more is not small.

    Returns:
        None if they are fewer than two.
    """
    batches: list[Batch] = []
    size = 0
    if len(reader.ready) < _MERGE_FROM:
        return None
    first = reader.ready.first
    for batch in reader.ready:
        alike = batch.magic == 2 and not (batch.attributes ^ first.attributes) & COMPRESSION_MASK
        alike = alike and batch.leader_epoch == first.leader_epoch
        if not alike or len(batch.view) > SMALL_BATCH_BYTES or size >= most:
            break
        batches.append(batch)
        size += len(batch.view)
    if len(batches) < _LEAST_MERGED:
        return None
    try:
        located = locate_run(batches, most, reader.handed)
    except CorruptBatch:
        return None  # too large; or copied unchanged, or its defect is reported, when it is next
    return None if located.batches < _LEAST_MERGED else _Run(with_tails(located), located.batches)


def _decode_next(
    reader: PartitionReader, first: Decoded | _Run | None, most: int
) -> tuple[Decoded, int]:
    """Decode the next batch, or a run of small ones; return the number of batches, too.

    Args:
        reader: the partition.
        first: what is decoded already.
        most: bytes of a run; 0 for one batch alone.

    Raises:
        CorruptBatch: one of them cannot be decoded.
    """
    if isinstance(first, Decoded):
        return first, 1
    run = None
    if most:
        run = _small_batches(reader, most) if first is None else first
    return run or _Run(decode_with_keys(reader.ready.first, reader.handed), 1)


def codec_of(reader: PartitionReader) -> int:
    """Return how copies of the next batch's records are compressed."""
    codec, batch = reader.assignment.route.codec, reader.ready.first
    if codec is not None:
        return codec
    return batch.attributes & COMPRESSION_MASK if batch.magic == 2 else 0


def spread(
    reader: PartitionReader,
    records: Records,
    partitions: I64,
    codec: int,
    largest: int | None = None,
    topic: str = "",
) -> Iterator[OutgoingBatch]:
    """Yield target batches of these records, each for one of their target partitions.

    The order within each target partition is that of the records.

    Args:
        reader: their source partition.
        records: what is written.
        partitions: the target partition of each.
        codec: compression of the batches.
        largest: size of a batch before compression; None for the usual one.
        topic: the target topic if the route has several.
    """
    rules, limit = reader.assignment.route, reader.size_limit
    if not len(records):
        return
    if largest is None:
        largest = _REBUILT_BYTES if limit is None else min(_REBUILT_BYTES, limit.uncompressed)
    if rules.now_timestamps:
        records = Records(
            records.offsets, np.full_like(records.timestamps, now_ms()), records.tails
        )
    targets = np.unique(partitions).tolist()
    for partition in targets:
        share = records
        if len(targets) > 1:
            share = records.take(np.nonzero(partitions == partition)[0])
        yield from _encode(share, (topic or rules.topic, partition), codec, largest, reader)


def encode_letters(
    reader: PartitionReader, letters: Records, codec: int
) -> Iterator[OutgoingBatch]:
    """Yield the batches of a partition's dead letters."""
    dead = reader.assignment.route.dead_letters
    assert dead is not None
    target, owner = (dead.topic, dead.partition), DeadLetterOwner(reader.source)
    limit = reader.size_limit
    largest = dead.batch_limit if limit is None else min(dead.batch_limit, limit.uncompressed)
    yield from _encode(letters, target, codec, largest, owner)


def _encode(
    records: Records, target: TargetPartition, codec: int, largest: int, owner: BatchOwner
) -> Iterator[OutgoingBatch]:
    for built in build_batches(records, codec, largest):
        data, first = memoryview(built.data), int(built.sources[0])
        yield OutgoingBatch(
            *(target, data, built.count, first, built.sources, owner),
            rebuilt=True,
            checksum_known=True,
        )


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
