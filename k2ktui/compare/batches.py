"""Fetched batches as the walk reads them: compared as bytes, and decoded only if they differ."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import sha256
from itertools import accumulate, pairwise

from k2ktui.engine.compare.log_items import I64, BatchRows, LogBatch, UnreadableBatch
from k2ktui.engine.compare.outcomes import Outcome
from k2ktui.engine.compare.walk import PairVerdict
from k2ktui.log.batch import APPEND_TIME, COMPRESSION_MASK, HEADER_BYTES, Batch, CorruptBatch
from k2ktui.log.core import core
from k2ktui.log.record import KafkaRecord, TimestampType, record_at, timestamp_type
from k2ktui.log.records import Records, Tails, decode_records, locate_run, with_tails
from k2ktui.log.varints import read_varint
from k2ktui.native.binding import Located
from k2ktui.sync.verify.record_comparison import ComparisonOutcome, RecordComparison

_OFFSET = struct.Struct(">q")
# Last offset delta, base and largest timestamp: with the records, all that a consumer sees. A copy
# has its own base offset, leader epoch, producer and checksum.
_TIMES = slice(23, 43)
_LEGACY_CONTENT_AT = 16
_DIGEST_BYTES = 16
# Those that the copy merges into larger ones: uncompressed, they may be as large as a run.
_SMALL_BYTES, _RUN_BYTES, _RUN_BATCHES = 16 << 10, 256 << 10, 32
_DECODED_BYTES = 4 << 20


class FetchedRows:
    """The records of a fetched batch."""

    __slots__ = ("_located", "kind", "records")

    def __init__(self, records: Records, kind: TimestampType) -> None:
        self.records, self.kind = records, kind
        self._located: Located | None = None
        if isinstance(tails := records.tails, Tails) and core() is not None:
            self._located = Located(tails.body, records.timestamps, tails.starts, tails.ends)

    def are_same(self, row: int, other: FetchedRows, other_row: int, count: int) -> bool:
        """Whether ``count`` records from these on have the same timestamps and tails."""
        in_c = core()
        if in_c is not None and self._located is not None and other._located is not None:
            return in_c.count_same(self._located, row, other._located, other_row, count) == count
        one, two = self.records, other.records
        some, others = slice(row, row + count), slice(other_row, other_row + count)
        return bool(
            one.tails[some] == two.tails[others]
            and (one.timestamps[some] == two.timestamps[others]).all()
        )

    @property
    def offsets(self) -> I64:
        """Their offsets."""
        return self.records.offsets

    def key(self, row: int) -> bytes | None:
        """Return the key of a record."""
        tail = self.records.tails[row]
        length, at = read_varint(tail, 0)
        return None if length < 0 else tail[at : at + length]

    def is_tombstone(self, row: int) -> bool:
        """Whether the value of a record is null."""
        tail = self.records.tails[row]
        length, at = read_varint(tail, 0)
        return read_varint(tail, at + max(0, length))[0] < 0

    def time_ms(self, row: int) -> int:
        """Return the timestamp of a record."""
        return int(self.records.timestamps[row])

    def kept(self) -> None:
        """Return None: of which records the pipeline makes one is not known here."""

    def is_left_out(self, row: int) -> None:
        """Return None, likewise."""

    def record(self, row: int) -> KafkaRecord:
        """Decode a record.

        Raises:
            CorruptBatch: its bytes do not follow the format.
        """
        return record_at(self.records, row, self.kind)


class BatchRun:
    """Small batches in a row; the first that is decoded decodes all of them.

    That takes little longer than one batch. The copy merges small batches, so that their bytes do
    not show whether they are the same: they have to be decoded.
    """

    def __init__(self) -> None:
        self._batches: list[Batch] = []
        self._bytes = 0
        self._records: list[Records] | None = None

    def add(self, batch: Batch) -> int | None:
        """Add the next batch, and return its number; None if it is not small, or the run is full.

        Nothing is added once a batch was decoded.
        """
        self._bytes += len(batch.view)
        number = len(self._batches)
        if (
            batch.magic < 2
            or (batch.attributes & COMPRESSION_MASK and len(batch.view) > _SMALL_BYTES)
            or self._bytes > _RUN_BYTES
            or number == _RUN_BATCHES
        ):
            return None
        self._batches.append(batch)
        return number

    def records(self, number: int) -> Records | None:
        """Return the records of a batch; None if it has to be decoded by itself."""
        if self._records is None:
            self._records = self._decode()
        return self._records[number] if self._records else None

    def _decode(self) -> list[Records]:
        """Decode all; return nothing if one of them is damaged, or very large."""
        if len(self._batches) == 1:
            return []
        try:
            located = locate_run(self._batches, _DECODED_BYTES)
        except CorruptBatch:
            return []
        if located.batches < len(self._batches):
            return []
        whole = with_tails(located).records
        ends = list(accumulate(batch.count for batch in self._batches))
        rows = [slice(begin, end) for begin, end in pairwise([0, *ends])]
        return [
            Records(whole.offsets[some], whole.timestamps[some], whole.tails[some]) for some in rows
        ]


class FetchedBatch:
    """A batch of committed records from a fetch response.

    Args:
        batch: the batch. One of an old message format is decoded at once, as its header does not
            say which offsets it has.
        place: the run that it belongs to, and its number there; None if it is not small.

    Raises:
        CorruptBatch: it is of an old format, and damaged.
    """

    def __init__(self, batch: Batch, place: tuple[BatchRun, int] | None = None) -> None:
        self.batch = batch
        self._place = place
        self._rows: FetchedRows | None = None
        self._content: bytes | None = None
        self.first, self.last, self.count = batch.base_offset, batch.last_offset, batch.count
        if batch.magic < 2:
            rows = self._decode()
            self.first, self.last = int(rows.offsets[0]), int(rows.offsets[-1])
            self.count = len(rows.offsets)

    @property
    def size(self) -> int:
        """Bytes of the batch."""
        return len(self.batch.view)

    def same_bytes(self, other: LogBatch) -> bool:
        """Whether both are the same records; a batch stamped with append time is not looked at."""
        if not isinstance(other, FetchedBatch):
            return False
        one, two = self.batch, other.batch
        if (
            min(one.magic, two.magic) < 2
            or (one.attributes | two.attributes) & APPEND_TIME
            or (one.attributes ^ two.attributes) & COMPRESSION_MASK
            or one.count != two.count
            or bytes(one.view[_TIMES]) != bytes(two.view[_TIMES])
            # Slices of a memoryview are compared byte by byte; bytes are compared at once.
            or bytes(one.view[HEADER_BYTES:]) != bytes(two.view[HEADER_BYTES:])
        ):
            return False
        other.take_content(self._content_digest())
        return True

    def take_content(self, digest: bytes) -> None:
        """Take the digest of a batch with the same content, to spare computing it again."""
        self._content = digest

    def digest(self) -> int:
        """Return a digest of the base offset and of what a consumer sees."""
        whole = sha256(_OFFSET.pack(self.first) + self._content_digest())
        return int.from_bytes(whole.digest()[:_DIGEST_BYTES], "big")

    def _content_digest(self) -> bytes:
        if self._content is None:
            view, attributes = self.batch.view, self.batch.attributes
            content = sha256()
            if self.batch.magic < 2:
                content.update(view[_LEGACY_CONTENT_AT:])
            else:
                content.update(bytes([attributes & (COMPRESSION_MASK | APPEND_TIME)]))
                content.update(view[_TIMES])
                content.update(view[HEADER_BYTES:])
            self._content = content.digest()
        return self._content

    def rows(self) -> FetchedRows:
        """Decode the batch.

        Raises:
            UnreadableBatch: it cannot be decoded.
        """
        try:
            return self._decode()
        except CorruptBatch as error:
            raise UnreadableBatch(str(error)) from error

    def _decode(self) -> FetchedRows:
        if self._rows is None:
            records = None
            if self._place is not None:
                run, number = self._place
                records = run.records(number)
            if records is None:
                records = decode_records(self.batch)
            self._rows = FetchedRows(records, timestamp_type(self.batch))
        return self._rows


class RecordComparer:
    """Compares the records of one source topic with their copies.

    Args:
        topic: the source topic.
        comparison: how its records are compared.
        maps_schema_ids: whether it maps schema ids: equal bytes then name different schemas.
    """

    def __init__(self, topic: str, comparison: RecordComparison, *, maps_schema_ids: bool) -> None:
        self._topic = topic
        self._comparison = comparison
        self.trusts_bytes = not maps_schema_ids

    def are_equal(
        self, source: tuple[BatchRows, int], target: tuple[BatchRows, int], count: int
    ) -> bool:
        """Whether ``count`` records from these on have the same bytes and timestamps."""
        (rows, row), (copies, copy) = source, target
        assert isinstance(rows, FetchedRows) and isinstance(copies, FetchedRows)
        return rows.are_same(row, copies, copy, count)

    def compare(self, source: tuple[BatchRows, int], target: tuple[BatchRows, int]) -> PairVerdict:
        """Compare a source record with its copy."""
        (rows, row), (copies, copy) = source, target
        assert isinstance(rows, FetchedRows) and isinstance(copies, FetchedRows)
        if self.trusts_bytes and rows.are_same(row, copies, copy, 1):
            return _EQUAL
        try:
            one, two = rows.record(row), copies.record(copy)
        except CorruptBatch as error:
            return PairVerdict(Outcome.DIFFERS, f"it cannot be decoded: {error}")
        compared = self._comparison.compare(self._topic, one, two)
        return PairVerdict(_OUTCOMES[compared.outcome], compared.why)

    def compare_several(
        self,
        source: tuple[BatchRows, int],
        targets: Sequence[tuple[BatchRows, int]],
        *,
        in_order: bool,
    ) -> PairVerdict:
        """Compare a source record with the first record that was made of it.

        What the others must be, only the transform says.
        """
        return self.compare(source, targets[0])

    def digest(self, record: tuple[BatchRows, int]) -> str:
        """Return the SHA-256 of a record's content; "" if it cannot be decoded."""
        rows, row = record
        assert isinstance(rows, FetchedRows)
        try:
            return self._comparison.digest(self._topic, rows.record(row))
        except CorruptBatch:
            return ""


_EQUAL = PairVerdict(Outcome.EQUAL)
_OUTCOMES = {
    ComparisonOutcome.SAME: Outcome.EQUAL,
    ComparisonOutcome.REREADS: Outcome.DIFFERS,
    ComparisonOutcome.DIFFERENT: Outcome.DIFFERS,
    ComparisonOutcome.COULD_NOT_CHECK: Outcome.NOT_COMPARED,
}
