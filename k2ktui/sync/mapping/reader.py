"""Read the mapping topic in large batches, each partition from a given offset."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from time import monotonic
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec

from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.client_errors import OFFSET_RESET, PARTITION_END
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.control.reader import consume_batch, require_offsets
from k2ktui.kafka.kept_consumer import KeptConsumer
from k2ktui.kafka.topic_description import is_missing
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

# Limits per consume call: large enough to amortize the conversion, small enough for memory.
_MESSAGES, _BYTES = 10_000, 4 << 20
_SILENT_S = 5.0
_WAIT_S = 0.1
_SETTINGS: Mapping[str, Any] = {
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 50,
    "fetch.message.max.bytes": 1 << 20,
    "fetch.max.bytes": 4 << 20,
    "queued.min.messages": 10_000,
    "queued.max.messages.kbytes": 16 << 10,
    # librdkafka's default of 1000 ms would dominate the read time.
    "fetch.queue.backoff.ms": 2,
}


class TopicReader:
    """Reads one topic: its bounds, and with a consumer that joins no group, its records.

    Attributes:
        next: offset to read next, per partition.
    """

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._kept = KeptConsumer(cluster, _SETTINGS)
        self._chunk = 1_000
        self.next: dict[int, int] = {}

    def describe(self) -> TopicDescription | None:
        """Return the topic as it is now; None if it does not exist.

        Raises:
            Refused: the principal may not describe it.
        """
        topic = self._cluster.describe([self._topic])[self._topic]
        if isinstance(topic, TopicDescription):
            return topic
        if is_missing(topic):
            return None
        label = self._cluster.label
        raise Refused(
            f"topic {safe_text(self._topic)} cannot be described on the {label} cluster: "
            f"{safe_text(topic.str())}",
            hint=f"Grant the {label} principal Describe and Read on it.",
        )

    def offsets(
        self,
        numbers: Iterable[int],
        spec: OffsetSpec,
        isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
    ) -> dict[int, int]:
        """Return an offset of each of these partitions.

        Raises:
            TimedOut: of a partition it is unavailable; without it, the partition would count as
                fully read.
        """
        where = [(self._topic, number) for number in numbers]
        offsets = require_offsets(self._cluster, where, spec, isolation)
        return {number: offset for (_, number), offset in offsets.items()}

    def seek(self, offsets: Mapping[int, int]) -> None:
        """Read exactly these partitions, from these offsets."""
        self.next = dict(offsets)

    def read(self, ends: Mapping[int, int], until: float) -> Iterator[dict[int, list[Message]]]:
        """Yield the records up to ``ends``, and perhaps beyond, per partition in order.

        Stops early at the time ``until`` (monotonic), or where the broker has deleted the records
        to be read; ``next`` then holds the offsets reached.

        Raises:
            Refused: the principal may not read the topic.
            K2kError: the broker rejected the fetch for another reason.
        """
        left = {p for p, end in ends.items() if p in self.next and self.next[p] < end}
        if not left:
            return
        with self._kept.reading():
            consumer = self._kept.consumer
            # Assigned only while it reads: at the end of the topic, it would request 20 times a
            # second.
            consumer.assign([TopicPartition(self._topic, p, self.next[p]) for p in left])
            try:
                yield from self._read(consumer, left, ends, until)
            finally:
                if self._kept.is_open:
                    consumer.unassign()

    def _read(
        self, consumer: Consumer, left: set[int], ends: Mapping[int, int], until: float
    ) -> Iterator[dict[int, list[Message]]]:
        began = received_at = monotonic()
        while left and monotonic() < until:
            self._cluster.require_login(began)
            received: dict[int, list[Message]] = {}
            for message in consume_batch(consumer, self._chunk, _WAIT_S):
                partition, error = message.partition() or 0, message.error()
                if error is None:
                    received.setdefault(partition, []).append(message)
                elif self._is_unreadable(partition, message.offset() or 0, error):
                    left.discard(partition)
            for partition, messages in received.items():
                # An end-of-partition event of the same batch may already be past control records.
                end = (messages[-1].offset() or 0) + 1
                self.next[partition] = max(end, self.next.get(partition, 0))
            self._pace(received)
            if received:
                yield received
                received_at = monotonic()
            left -= {p for p in left if self.next[p] >= ends[p]}
        if left and monotonic() - received_at > _SILENT_S:
            log.info("%s: nothing received for %.0f s, connecting again", self._topic, _SILENT_S)
            self.close()  # it may have lost all brokers (see k2ktui.kafka.renewable_admin)

    def close(self) -> None:
        """Close the consumer."""
        self._kept.close()

    def _is_unreadable(self, partition: int, offset: int, error: KafkaError) -> bool:
        """Whether an event means that reading a partition cannot continue for now."""
        code = error.code()
        if code == PARTITION_END:
            self.next[partition] = max(offset, self.next.get(partition, 0))
            return False
        if code in (OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
            log.info("%s-%d: offset %d was deleted", self._topic, partition, self.next[partition])
            return True
        # librdkafka looks up the coordinator of group.id, which this reader never uses.
        if code == KafkaError.GROUP_AUTHORIZATION_FAILED or error.retriable():
            log.debug("%s-%d: %s, reading on", self._topic, partition, error.name())
            return False
        name, why = safe_text(self._topic), safe_text(error.str())
        if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            raise Refused(
                f"the {self._cluster.label} principal may not read topic {name}: {why}",
                hint=f"Grant it Describe and Read on topic {name}.",
            )
        raise K2kError(f"reading {name} on the {self._cluster.label} cluster: {why}")

    def _pace(self, received: Mapping[int, list[Message]]) -> None:
        """Set the batch size in records so that a batch holds about ``_BYTES`` bytes."""
        count = sum(len(messages) for messages in received.values())
        if count < self._chunk:
            return
        sizes = [len(m.value() or b"") for messages in received.values() for m in messages[::50]]
        average = max(1, sum(sizes) // len(sizes))
        self._chunk = max(100, min(_MESSAGES, _BYTES // average))
