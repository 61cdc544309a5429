"""Follows a topic of MirrorMaker 2 on either cluster with fetch requests, which only read."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from k2ktui.errors import K2kError
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.log.batch import Batch
from k2ktui.log.fetcher import FAR_BYTES, Fetcher
from k2ktui.log.record import KafkaRecord, record_at, timestamp_type
from k2ktui.log.records import decode_records
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

_READ_S = 20.0


class TopicTail:
    """Reads the records appended to a topic since the last read.

    Args:
        cluster: the cluster that holds the topic.
        topic: the topic's name; "" if it is not known, and then nothing is read.
        first_only: read partition 0 only, as MirrorMaker 2 does with its own topics.
        back: maximum number of offsets before the end to begin at; None reads everything.

    Attributes:
        exists: whether the topic existed at the last read.
        started_over: whether the last read was the first one of this topic or of its re-creation;
            what was read before it does not count any more.
    """

    def __init__(
        self, cluster: Cluster, topic: str, *, first_only: bool = True, back: int | None = None
    ) -> None:
        self._cluster, self.topic, self._first_only = cluster, topic, first_only
        self._back = back
        self._fetcher = Fetcher(cluster)
        self._next: dict[int, int] = {}
        self._topic_id = ""
        self.exists = False
        self.started_over = False
        self._start_over = True

    def close(self) -> None:
        """Close all connections."""
        self._fetcher.close()

    def read(self, timeout: float = _READ_S) -> list[KafkaRecord]:
        """Return the new committed records, in order within each partition.

        A recreated topic is read from its beginning.

        Raises:
            K2kError: it could not be read to its end within ``timeout`` seconds.
            ConnectionFailed: the cluster did not answer.
        """
        if not self.topic:
            return []
        topic = self._cluster.describe([self.topic])[self.topic]
        self.exists, self.started_over = isinstance(topic, TopicDescription), False
        if not isinstance(topic, TopicDescription):
            return []
        if topic.topic_id != self._topic_id:
            if self._topic_id:
                log.info("%s was created again, reading it from its start", self.topic)
            self._topic_id, self._next = topic.topic_id, {}
            self._start_over = True
        count = 1 if self._first_only else topic.partitions
        wants = {
            (self.topic, p): _New(self._next.get(p, 0), None if p in self._next else self._back)
            for p in range(count)
        }
        self._fetcher.run(wants, timeout, FAR_BYTES)
        for (_, partition), want in wants.items():
            if want.trouble:
                raise K2kError(
                    f"{safe_text(self.topic)}-{partition} on the {self._cluster.label} cluster "
                    f"cannot be read: {want.trouble}",
                    hint="Grant the principal Describe and Read on it, and check the cluster.",
                )
        for (_, partition), want in wants.items():
            self._next[partition] = want.next
        self.started_over, self._start_over = self._start_over, False
        return [record for want in wants.values() for record in want.records]


@dataclass(slots=True)
class _New:
    """The ``PartitionRequest`` that collects the new records of one partition."""

    next: int
    back: int | None = None
    records: list[KafkaRecord] = field(default_factory=list)
    trouble: str = ""
    _over: bool = False

    def next_offset(self) -> int | None:
        return None if self._over else self.next

    def set_bounds(self, start: int, stable: int, high: int) -> None:
        self.next = max(self.next, start, 0 if self.back is None else stable - self.back)
        self.back = None
        self._over = self.next >= stable

    def add_aborted_batch(self, batch: Batch) -> None:
        """Ignore records of aborted transactions."""

    def add_batch(self, batch: Batch) -> None:
        made, kind = decode_records(batch, self.next), timestamp_type(batch)
        self.records += [record_at(made, row, kind) for row in range(len(made))]

    def advance(self, offset: int) -> None:
        self.next = max(self.next, offset)

    def finish(self) -> None:
        self._over = True

    def refuse(self, reason: str) -> None:
        self.trouble = reason
        self._over = True
