"""Timestamps of records at given offsets, read without a client library's consumer.

librdkafka's consumer looks up its group's coordinator even if it never joins the group, and the
first such request makes a broker create ``__consumer_offsets``. The source must not be changed, so
records are fetched with plain fetch requests, which need only Read on the topic.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from time import monotonic
from typing import Any

from k2ktui.errors import ConnectionFailed
from k2ktui.kafka.clients import Cluster, Partition
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.cluster import Loop, NotSent, OutcomeUnknown, Wire
from k2ktui.kafka.wire.codes import Code
from k2ktui.kafka.wire.read_requests import READ_COMMITTED, fetch_request
from k2ktui.log.batch import AbortedTransactions, CorruptBatch, split_batches
from k2ktui.log.records import decode_records

log = logging.getLogger(__name__)

_WAIT_MS = 100
_RESPONSE_BYTES = 4 << 20
# A broker sends a batch larger than this only for the first partition of a request.
_PARTITION_BYTES = 32 << 10
_PAUSE_S = 0.05
_HOPELESS = frozenset({Code.TOPIC_AUTHORIZATION_FAILED, Code.OFFSET_OUT_OF_RANGE})


class RecordTimeReader:
    """Reads record timestamps from one cluster; connects at first use.

    Args:
        cluster: the cluster, connected to with its consumer properties.

    Attributes:
        exhausted: the partitions of the last call without a committed record from their offset to
            the last stable offset, such as those that end with the marker of a transaction.
        untimed: the partitions of the last call whose first committed record has no timestamp.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.exhausted: frozenset[Partition] = frozenset()
        self.untimed: frozenset[Partition] = frozenset()
        self._open: tuple[Loop, Wire] | None = None

    def times(self, where: Mapping[Partition, int], timeout: float) -> dict[Partition, float]:
        """Return the timestamp of the first committed record at or after each offset.

        Args:
            where: offset by topic and partition.
            timeout: in seconds; partitions not read by then are left out.

        Returns:
            Timestamps in epoch seconds; none for a record without one (``untimed``).
        """
        self.exhausted = self.untimed = frozenset()
        if not where:
            return {}
        search = _Search(where, monotonic() + timeout)
        try:
            loop, connection = self._connect(timeout)
        except ConnectionFailed as error:
            log.info("timestamps of records not read: %s", error.message)
            self.close()
        else:
            loop.run(lambda: search.run(connection))
        self.exhausted = frozenset(search.exhausted)
        self.untimed = frozenset(search.untimed)
        return search.times

    def close(self) -> None:
        """Close the connections."""
        if self._open is not None:
            loop, connection = self._open
            connection.close()
            loop.close()
            self._open = None

    def _connect(self, timeout: float) -> tuple[Loop, Wire]:
        if self._open is None:
            loop = Loop()
            options = wire(self._cluster.config, "consumer")
            connection = Wire(loop, options, self._cluster.label)
            self._open = loop, connection
            loop.run(lambda: connection.open(timeout))
        return self._open


class _Search:
    def __init__(self, where: Mapping[Partition, int], until: float) -> None:
        self.times: dict[Partition, float] = {}
        self.exhausted: set[Partition] = set()
        self.untimed: set[Partition] = set()
        self._offsets = dict(where)
        self._until = until

    async def run(self, connection: Wire) -> None:
        while self._offsets and monotonic() < self._until:
            try:
                for node, partitions in (await self._leaders(connection)).items():
                    await self._ask(connection, node, partitions)
            except (NotSent, OutcomeUnknown) as error:  # retry until the deadline
                log.debug("timestamps of records: asking again: %s", error)
            if self._offsets:
                await connection.loop.sleep(_PAUSE_S)

    async def _leaders(self, connection: Wire) -> dict[int, list[Partition]]:
        known = await connection.metadata({topic for topic, _ in self._offsets})
        led: dict[int, list[Partition]] = defaultdict(list)
        for topic, number in self._offsets:
            info = known.get(topic)
            leader = info.partitions.get(number) if info else None
            if leader is not None and leader.node >= 0:
                led[leader.node].append((topic, number))
        return led

    async def _ask(self, connection: Wire, node: int, partitions: list[Partition]) -> None:
        """Fetch until there is no progress: a broker fills responses with the first partitions."""
        while partitions and (left := self._until - monotonic()) > 0:
            response = await connection.send(self._request(partitions), node, left)
            before = {at: self._offsets[at] for at in partitions}
            for topic in response.responses:
                for part in topic.partitions:
                    self._take((topic.topic, part.partition_index), part)
            partitions = [at for at in partitions if at in self._offsets]
            if all(self._offsets.get(at) == offset for at, offset in before.items()):
                return

    def _request(self, partitions: Iterable[Partition]) -> Any:
        return fetch_request(
            {at: (self._offsets[at], _PARTITION_BYTES) for at in partitions},
            isolation=READ_COMMITTED,
            max_bytes=_RESPONSE_BYTES,
            min_bytes=1,
            max_wait_ms=_WAIT_MS,
        )

    def _take(self, at: Partition, part: Any) -> None:
        offset = self._offsets.get(at)
        if part.error_code in _HOPELESS:
            self._offsets.pop(at, None)
        if offset is None or part.error_code:
            return
        self._find_record(at, offset, part)
        if self._offsets.get(at, -1) >= part.last_stable_offset >= 0:
            self.exhausted.add(at)
            del self._offsets[at]

    def _find_record(self, at: Partition, offset: int, part: Any) -> None:
        """Take the timestamp of the first record, or advance the offset."""
        if not part.records:
            return
        aborted = [(a.producer_id, a.first_offset) for a in part.aborted_transactions or ()]
        filter_ = AbortedTransactions(aborted)
        try:
            for batch in split_batches(part.records):
                if filter_.drops(batch) or batch.last_offset < offset or batch.count == 0:
                    self._offsets[at] = max(self._offsets[at], batch.last_offset + 1)
                    continue
                stamps = decode_records(batch, offset).timestamps
                if len(stamps):
                    if stamps[0] >= 0:
                        self.times[at] = int(stamps[0]) / 1000
                    else:
                        self.untimed.add(at)
                    del self._offsets[at]
                    return
                self._offsets[at] = batch.last_offset + 1
        except CorruptBatch as error:
            log.info("timestamp at %s-%d offset %d not read: %s", *at, offset, error)
