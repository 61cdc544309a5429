"""Read which batches are at some offsets of a cluster's logs, control batches included."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from k2ktui.engine.mapping.equal_logs import BatchIdentity, LogPart
from k2ktui.kafka.wire.read_requests import READ_UNCOMMITTED
from k2ktui.log.batch import Batch
from k2ktui.log.fetcher import Fetcher

if TYPE_CHECKING:
    from k2ktui.kafka.clients import Partition


def read_identities(
    fetcher: Fetcher, wanted: Mapping[Partition, Collection[int]], timeout: float
) -> dict[Partition, LogPart]:
    """Return the batches at offsets of each partition; offsets outside a log have none.

    Args:
        fetcher: connections to the cluster.
        wanted: offsets by topic and partition.
        timeout: seconds; a partition not read by then has ``unread`` set.

    Raises:
        ConnectionFailed: no broker responded, or authentication failed.
        ConfigError: the client properties are not usable.
    """
    requests = {at: _Identities(sorted(set(offsets))) for at, offsets in wanted.items() if offsets}
    fetcher.run(requests, timeout, isolation=READ_UNCOMMITTED)
    return {at: request.read() for at, request in requests.items()}


class _Identities:
    """The batches at sorted offsets of one partition."""

    def __init__(self, offsets: list[int]) -> None:
        self._offsets, self._next = offsets, 0
        self._start = self._end = -1
        self._batches: dict[int, BatchIdentity] = {}
        self._unread = ""

    def read(self) -> LogPart:
        return LogPart(self._start, self._end, self._batches, self._unread)

    def next_offset(self) -> int | None:
        if self._unread or self._next == len(self._offsets):
            return None
        return max(self._offsets[self._next], self._start)

    def set_bounds(self, start: int, stable: int, high: int) -> None:
        self._start, self._end = start, high
        self._next = max(self._next, bisect_left(self._offsets, start))
        if self._next < len(self._offsets) and self._offsets[self._next] >= high:
            self._next = len(self._offsets)

    def add_batch(self, batch: Batch) -> None:
        identity = BatchIdentity(batch.base_offset, batch.last_offset, batch.checksum)
        past = bisect_left(self._offsets, batch.last_offset + 1)
        for offset in self._offsets[self._next : past]:
            if offset >= batch.base_offset:
                self._batches[offset] = identity
        self._next = max(self._next, past)

    def add_aborted_batch(self, batch: Batch) -> None:
        self.add_batch(batch)

    def add_control_batch(self, batch: Batch) -> None:
        self.add_batch(batch)

    def advance(self, offset: int) -> None:
        self._next = max(self._next, bisect_left(self._offsets, offset))

    def finish(self) -> None:
        if self._next < len(self._offsets) and self._offsets[self._next] < self._end:
            self._unread = "a broker returned nothing"
        self._next = len(self._offsets)

    def refuse(self, reason: str) -> None:
        self._unread = reason
