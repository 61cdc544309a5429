"""Read a control topic repeatedly: each reading fetches only what was written since the last one.

A poll reads several control topics, most of which did not change: creating a consumer and decoding
all records at every poll costs more than all other requests together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from confluent_kafka.admin import OffsetSpec

from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.control.reader import (
    CONSUMER,
    ControlRecord,
    read_records,
    require_offsets,
    stable_ends,
)
from k2ktui.kafka.kept_consumer import KeptConsumer


class ControlTail:
    """The committed records of one control topic, read incrementally; not thread-safe.

    The first reading uses a temporary consumer. From the second on, one consumer stays connected.
    It has partitions assigned only while it reads, so it sends no fetch requests in between.

    Args:
        cluster: cluster of the topic.
        check_starts: also start over when records were deleted at the beginning of the log; costs
            one more request. Compaction does not delete the record that a reading returned last for
            a key.
    """

    def __init__(self, cluster: Cluster, *, check_starts: bool = False) -> None:
        self._cluster, self._check_starts = cluster, check_starts
        self._kept = KeptConsumer(cluster, CONSUMER)
        self._of: tuple[str, str, int] | None = None
        self._starts: dict[int, int] = {}
        self._next: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._was_read = False

    def begin(self, topic: TopicDescription) -> bool:
        """Find out what is new; return whether everything must be read again.

        True for the first reading, and for a topic that was created again or lost records.

        Args:
            topic: current description of the topic.

        Raises:
            ConnectionFailed, TimedOut: the log bounds are unavailable.
        """
        ends = stable_ends(self._cluster, topic.name, topic.partitions)
        starts = self._read_starts(topic) if self._check_starts else {}
        identity = (topic.name, topic.topic_id, topic.partitions)
        shorter = any(self._next.get(p, 0) > end for p, end in ends.items())
        deleted = any(start > self._starts.get(p, start) for p, start in starts.items())
        again = identity != self._of or shorter or deleted
        if again:
            self._next, self._was_read = {}, False
        self._of, self._ends, self._starts = identity, ends, starts
        return again

    def records(self, timeout: float) -> Iterator[ControlRecord]:
        """Yield what is new, each partition in order; a failed reading continues with the next one.

        Args:
            timeout: in seconds.

        Raises:
            TimedOut: not all records arrived in time.
            K2kError: the broker returned an error.
        """
        assert self._of is not None, "begin() comes first"
        name = self._of[0]
        try:
            with self._kept.reading():
                consumer = self._kept.consumer if self._was_read and self._has_news else None
                for record in read_records(
                    self._cluster, name, self._ends, timeout, since=self._next, consumer=consumer
                ):
                    yield record
                    self._next[record.partition] = record.offset + 1
        except BaseException:
            self.close()
            raise
        for partition, end in self._ends.items():
            self._next[partition] = max(end, self._next.get(partition, 0))
        self._was_read = True

    def skip(self, written: Mapping[int, range]) -> bool:
        """Skip records that this process has just written; return whether they were the next ones.

        If unread records precede them, nothing is skipped, and the next reading returns all.

        Args:
            written: offsets of the records in each partition.
        """
        if not written or any(self._next.get(p) != span.start for p, span in written.items()):
            return False
        for partition, span in written.items():
            self._next[partition] = span.stop
        return True

    def close(self) -> None:
        """Disconnect; the next reading continues where the last one ended."""
        self._kept.close()

    @property
    def _has_news(self) -> bool:
        return any(end > self._next.get(p, 0) for p, end in self._ends.items())

    def _read_starts(self, topic: TopicDescription) -> dict[int, int]:
        where = [(topic.name, p) for p in range(topic.partitions)]
        starts = require_offsets(self._cluster, where, OffsetSpec.earliest())
        return {p: offset for (_, p), offset in starts.items()}
