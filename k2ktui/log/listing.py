"""List a partition's offsets: its records, and what stands where there is no record.

A consumer sees only that an offset is missing. Here each one is a record, or is said to be deleted,
compacted away, of an aborted transaction, a transaction marker, held back, or not written yet.
Commits nothing, joins no group.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from k2ktui.log.batch import Batch, is_abort_marker
from k2ktui.log.content import LogBounds
from k2ktui.log.fetcher import FAR_BYTES, NEAR_BYTES, ConsumerOptions, Fetcher
from k2ktui.log.record import KafkaRecord, record_at, timestamp_type
from k2ktui.log.records import decode_records

if TYPE_CHECKING:
    from k2ktui.kafka.clients import Cluster, Partition

# Bounds of memory and time: what records of one listing hold together, and what is read for it. The
# first record is always listed; a topic's max.message.bytes bounds it.
_HELD_BYTES = 32 << 20
_READ_BYTES = 256 << 20
# Offsets before a position that are read for the records before it, until there are enough.
_WINDOWS = (16, 128, 1024, 8192)


class OffsetState(StrEnum):
    """What an offset of a partition is."""

    RECORD = "record"
    DELETED = "deleted by retention"
    COMPACTED = "compacted away"
    ABORTED = "of an aborted transaction"
    COMMIT_MARKER = "commit marker"
    ABORT_MARKER = "abort marker"
    OPEN = "held back by an open transaction"
    NOT_WRITTEN = "not written yet"
    LOST = "lost: the log has no record there"
    UNREAD = "not read"


@dataclass(frozen=True, slots=True)
class LogEntry:
    """A record, or consecutive offsets of one state.

    Attributes:
        first, last: offsets; the same for a record, and for one that is not written yet.
        state: what they are.
        record: the record of ``RECORD``.
        reason: why offsets are ``UNREAD``.
    """

    first: int
    last: int
    state: OffsetState
    record: KafkaRecord | None = None
    reason: str = ""

    @property
    def meaning(self) -> str:
        """The state, and the reason if there is one."""
        return f"{self.state}: {self.reason}" if self.reason else str(self.state)


class LogLister:
    """Lists offsets of one cluster; a context manager that disconnects at the end.

    Args:
        cluster: the cluster, with its consumer properties, or how to connect to it.
    """

    def __init__(self, cluster: Cluster | ConsumerOptions) -> None:
        self._fetcher = Fetcher(cluster)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect."""
        self._fetcher.close()

    def list_from(self, at: Partition, offset: int, records: int, timeout: float) -> list[LogEntry]:
        """List from an offset on, up to a number of records or the end of the log.

        Args:
            at: topic and partition.
            offset: the first offset.
            records: number of records to find.
            timeout: seconds; what is not read by then is ``UNREAD``.

        Returns:
            Entries without a gap. The last one is not a record if the log ends before.

        Raises:
            ConnectionFailed: no broker responded, or authentication failed.
            ConfigError: the client properties are not usable.
        """
        listing = _Listing(offset, None, records)
        size = NEAR_BYTES if records <= 10 else FAR_BYTES
        self._fetcher.run({at: listing}, timeout, size)
        return listing.entries()

    def list_before(
        self, at: Partition, offset: int, records: int, timeout: float
    ) -> list[LogEntry]:
        """List up to an offset, from the record on that has ``records`` - 1 between; as above.

        At most 8,192 offsets are read; if there are fewer records among them, all entries are
        returned.
        """
        entries: list[LogEntry] = []
        end = offset
        for window in _WINDOWS:
            first = max(0, offset - window)
            listing = _Listing(first, end, records, keeps_last=True)
            self._fetcher.run({at: listing}, timeout)
            entries = _last_records(_merge([*listing.entries(), *entries]), records)
            ends = (OffsetState.DELETED, OffsetState.UNREAD)
            is_last = first == 0 or listing.is_cut or any(e.state in ends for e in entries)
            if is_last or _count(entries) >= records:
                break
            end = first
        return entries


class _Listing:
    """The offsets of one partition from one on; see ``MarkerRequest``.

    ``is_cut`` is whether records are left out as too many bytes.
    """

    def __init__(
        self, first: int, end: int | None, records: int, *, keeps_last: bool = False
    ) -> None:
        self._at = first
        self._end = end
        self._records = records
        self._keeps_last = keeps_last
        self._entries: deque[LogEntry] = deque()
        self._sizes: deque[int] = deque()  # of the records among them, encoded
        self._read = 0
        self.is_cut = False
        self._bounds = LogBounds()
        self._done = end is not None and first >= end

    def entries(self) -> list[LogEntry]:
        return list(self._entries)

    def next_offset(self) -> int | None:
        return None if self._done else self._at

    def set_bounds(self, start: int, stable: int, high: int) -> None:
        self._bounds = LogBounds(start, stable, high)
        if self._at < start:
            self._pass(start - 1, OffsetState.DELETED)
        if not self._done and self._at >= high:
            self._add(LogEntry(self._at, self._at, OffsetState.NOT_WRITTEN))
            self._done = True

    def add_batch(self, batch: Batch) -> None:
        self._pass(batch.base_offset - 1, OffsetState.COMPACTED)
        if self._count_read(batch):
            return
        records = decode_records(batch, self._at)
        kind = timestamp_type(batch)
        for row in range(len(records)):
            offset = int(records.offsets[row])
            self._pass(offset - 1, OffsetState.COMPACTED)
            size = len(records.tails[row])
            if self._done or self._is_full(size):
                return
            record = record_at(records, row, kind)
            self._add(LogEntry(offset, offset, OffsetState.RECORD, record), size)
            self._at = offset + 1
            self._check_done()
        self._pass(batch.last_offset, OffsetState.COMPACTED)

    def add_aborted_batch(self, batch: Batch) -> None:
        self._pass(batch.base_offset - 1, OffsetState.COMPACTED)
        if not self._count_read(batch):
            self._pass(batch.last_offset, OffsetState.ABORTED)

    def add_control_batch(self, batch: Batch) -> None:
        self._pass(batch.base_offset - 1, OffsetState.COMPACTED)
        is_abort = is_abort_marker(batch)
        state = OffsetState.ABORT_MARKER if is_abort else OffsetState.COMMIT_MARKER
        self._pass(batch.last_offset, state)

    def advance(self, offset: int) -> None:
        self._pass(offset - 1, OffsetState.COMPACTED)

    def finish(self) -> None:
        bounds = self._bounds
        self._pass(bounds.stable - 1, OffsetState.COMPACTED)
        self._pass(bounds.high - 1, OffsetState.OPEN)
        if not self._done:
            self._add(LogEntry(self._at, self._at, OffsetState.NOT_WRITTEN))
        self._done = True

    def refuse(self, reason: str) -> None:
        self._stop(reason)

    def _pass(self, last: int, state: OffsetState) -> None:
        """Note that the offsets up to one hold no record, unless there is nothing left to list."""
        if self._end is not None:
            last = min(last, self._end - 1)
        if self._done or last < self._at:
            return
        self._add(LogEntry(self._at, last, state))
        self._at = last + 1
        self._check_done()

    def _add(self, entry: LogEntry, size: int = 0) -> None:
        before = self._entries[-1] if self._entries else None
        if before is not None and _continues(before, entry):
            self._entries[-1] = replace(before, last=entry.last)
            return
        self._entries.append(entry)
        if entry.record is None:
            return
        self._sizes.append(size)

    def _drop_first(self) -> None:
        """Drop the first record, so that a window before a position holds only the last ones."""
        self._sizes.popleft()
        while self._entries.popleft().record is None:
            pass
        while self._entries and self._entries[0].record is None:
            self._entries.popleft()

    def _check_done(self) -> None:
        at_end = self._end is not None and self._at >= self._end
        self._done = at_end or (not self._keeps_last and len(self._sizes) >= self._records)

    def _is_full(self, size: int) -> bool:
        """Whether a record of a size has no room; before a position, the first ones give way."""
        if self._keeps_last:
            while len(self._sizes) >= self._records or self._exceeds(size):
                self.is_cut = self.is_cut or len(self._sizes) < self._records
                self._drop_first()
        elif self._exceeds(size):
            self._stop(
                f"the records before hold {_HELD_BYTES >> 20} MiB; continue with this offset"
            )
        return self._done

    def _exceeds(self, size: int) -> bool:
        return bool(self._sizes) and sum(self._sizes) + size > _HELD_BYTES

    def _count_read(self, batch: Batch) -> bool:
        """Whether enough was read; otherwise the batch is counted."""
        if self._done:
            return True
        if self._read > _READ_BYTES:
            self._stop(f"{_READ_BYTES >> 20} MiB were read for it; continue with this offset")
            return True
        self._read += len(batch.view)
        return False

    def _stop(self, reason: str) -> None:
        last = self._at if self._end is None else max(self._at, self._end - 1)
        self._add(LogEntry(self._at, last, OffsetState.UNREAD, reason=reason))
        self._done = True


def _continues(before: LogEntry, entry: LogEntry) -> bool:
    """Whether an entry says the same of the offsets that follow."""
    same = before.state is entry.state is not OffsetState.RECORD
    return same and before.reason == entry.reason and before.last + 1 == entry.first


def _merge(entries: Iterable[LogEntry]) -> list[LogEntry]:
    merged: list[LogEntry] = []
    for entry in entries:
        if merged and _continues(merged[-1], entry):
            merged[-1] = replace(merged[-1], last=entry.last)
        else:
            merged.append(entry)
    return merged


def _count(entries: Iterable[LogEntry]) -> int:
    return sum(entry.record is not None for entry in entries)


def _last_records(entries: list[LogEntry], records: int) -> list[LogEntry]:
    """Return the entries from the last records on, or all if there are fewer."""
    rows = [row for row, entry in enumerate(entries) if entry.record is not None]
    return entries[rows[-records] :] if len(rows) >= records else entries
