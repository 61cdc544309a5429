"""Read a partition of one cluster in order, some megabytes at a time."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic, sleep
from types import TracebackType
from typing import Any, Self

from k2ktui.compare.batches import BatchRun, FetchedBatch
from k2ktui.engine.compare.log_items import Absent, AbsentKind, LogItem, LogItems
from k2ktui.engine.mapping.intervals import FOREVER
from k2ktui.errors import TimedOut
from k2ktui.kafka.clients import Partition
from k2ktui.log.batch import Batch
from k2ktui.log.fetcher import ConsumerOptions, Fetcher
from k2ktui.text import safe_text

_CHUNK_BYTES, _FETCH_BYTES = 8 << 20, 4 << 20
_CHUNK_S = 60.0
# Transactions are open for no longer than this, unless something hangs.
_HELD_S, _PAUSE_S = 60.0, 0.2
_HELD = "an open transaction holds back where its copy landed"


class Pace:
    """Keeps what both sides read below a rate.

    Args:
        bytes_per_s: the rate; None for none.

    Attributes:
        bytes: how much was read.
    """

    def __init__(self, bytes_per_s: float | None = None) -> None:
        self.bytes = 0
        self._rate = bytes_per_s
        self._began_at = monotonic()

    def spend(self, size: int) -> None:
        """Count bytes that were read, and wait until that many may have been."""
        self.bytes += size
        if self._rate is not None:
            due = self._began_at + self.bytes / self._rate
            sleep(max(0.0, due - monotonic()))


class LogReader:
    """Reads partitions of one cluster; a context manager that disconnects at the end.

    Args:
        options: connection options of its consumers.
        label: ``source`` or ``target``.
        pace: counts the bytes, and bounds their rate.
    """

    def __init__(self, options: Mapping[str, Any], label: str, pace: Pace) -> None:
        self._label = label
        self._fetcher = Fetcher(ConsumerOptions(options, label))
        self._pace = pace

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._fetcher.close()

    def read(self, at: Partition, first: int, end: int | None) -> LogItems:
        """Yield committed batches of the offsets ``[first, end)``, and what is between them.

        The first and the last batch may reach beyond these offsets. Without ``end``, it is the last
        stable offset at the first response.

        Raises:
            TimedOut: the cluster does not answer.
            ConnectionFailed: no broker responded, or authentication failed.
            ConfigError: the client properties are not usable.
        """
        offset, held_until = first, None
        ends_at_stable, end = end is None, FOREVER if end is None else end
        while offset < end:
            chunk = _Chunk(offset, end, ends_at_stable=ends_at_stable)
            until = monotonic() + _CHUNK_S
            self._fetcher.run({at: chunk}, _CHUNK_S, _FETCH_BYTES)
            if chunk.refused and monotonic() >= until:
                where = safe_text(f"{at[0]}-{at[1]}")
                raise TimedOut(f"{where} on the {self._label} cluster: {chunk.refused}")
            yield from chunk.take_items()
            self._pace.spend(chunk.bytes)
            offset, end, ends_at_stable = chunk.offset, chunk.end, chunk.ends_at_stable
            if chunk.is_last:
                return
            if not chunk.is_held_back:
                held_until = None
                continue
            # Another slot of the pipeline, or any program, may have a transaction open for a while.
            held_until = held_until or monotonic() + _HELD_S
            if monotonic() > held_until:
                yield Absent(offset, end - 1, AbsentKind.HELD_BACK, _HELD)
                return
            sleep(_PAUSE_S)


class _Chunk:
    """The next megabytes of one partition; see ``PartitionRequest``."""

    def __init__(self, first: int, end: int, *, ends_at_stable: bool) -> None:
        self.offset = first
        self.end = end
        self.ends_at_stable = ends_at_stable
        self.items: list[LogItem] = []
        self.bytes = 0
        self.is_last = False
        self.refused = ""
        self._stable = self._high = first
        self.is_held_back = False
        self._is_full = False
        self._run = BatchRun()

    def next_offset(self) -> int | None:
        is_over = self._is_full or self.is_last or self.offset >= self.end
        return None if is_over else self.offset

    def set_bounds(self, start: int, stable: int, high: int) -> None:
        self._stable, self._high = stable, high
        if self.ends_at_stable:
            self.end, self.ends_at_stable = max(self.offset, stable), False
        self._pass(start, AbsentKind.DELETED)
        if self.offset >= high:
            self.is_last = True

    def add_batch(self, batch: Batch) -> None:
        fetched = FetchedBatch(batch, self._place(batch))
        self._pass(fetched.first, AbsentKind.NO_RECORD)
        self.items.append(fetched)
        self.bytes += fetched.size
        self.offset = max(self.offset, batch.last_offset + 1)

    def take_items(self) -> LogItems:
        """Yield what was read, and keep none of it: decoded batches may be far larger."""
        items, self.items = self.items[::-1], []
        while items:
            yield items.pop()

    def _place(self, batch: Batch) -> tuple[BatchRun, int] | None:
        """Return the run of a batch, the current one or a new one, and its number there."""
        for run in (self._run, BatchRun()):
            number = run.add(batch)
            if number is not None:
                self._run = run
                return run, number
        return None

    def add_aborted_batch(self, batch: Batch) -> None:
        self.bytes += len(batch.view)
        self._pass(batch.last_offset + 1, AbsentKind.NO_RECORD)

    def advance(self, offset: int) -> None:
        # Behind the end, batches of the response were not delivered.
        if self.offset < self.end:
            self._pass(offset, AbsentKind.NO_RECORD)
        # Not before: the rest of the response would be fetched again.
        self._is_full = self.bytes >= _CHUNK_BYTES

    def finish(self) -> None:
        if self.offset < self.end:
            self._pass(self._stable, AbsentKind.NO_RECORD)
        self.is_held_back = self._stable < self._high and self.offset < self.end
        self.is_last = not self.is_held_back
        self._is_full = True

    def refuse(self, reason: str) -> None:
        self.refused = reason
        self.items.append(Absent(self.offset, max(self.offset, self.end - 1), _UNREAD, reason))
        self.is_last = True

    def _pass(self, offset: int, kind: AbsentKind) -> None:
        """Note that the offsets below one hold no record."""
        if self.offset < offset:
            self.items.append(Absent(self.offset, offset - 1, kind))
            self.offset = offset


_UNREAD = AbsentKind.UNREAD
