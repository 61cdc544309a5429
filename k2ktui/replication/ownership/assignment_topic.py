"""Reads and writes the assignment topic on the target."""

from __future__ import annotations

from k2ktui.engine.ownership.assignment_records import AssignmentFold
from k2ktui.errors import Refused, TimedOut
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.control.keyed_writer import KeyedWriter
from k2ktui.kafka.control.reader import read_records, written_ends
from k2ktui.kafka.topic_description import is_missing
from k2ktui.text import safe_text

_READ_S = 10.0
_WRITE_S = 8.0


class AssignmentTopic:
    """The assignment topic, read completely once and then incrementally; not thread-safe.

    It may be the commit topic, so it is read up to the high watermark: the records of runs are not
    in transactions, and must not wait for one that is open. Those of transactions are not theirs.

    Args:
        target: the target cluster.
        name: the topic, which must exist.
    """

    def __init__(self, target: Cluster, name: str) -> None:
        self._target, self._name = target, name
        self._writer = KeyedWriter(target, name, _WRITE_S)
        self._of: tuple[str, int] | None = None
        self._next: dict[int, int] = {}

    def read(self, fold: AssignmentFold) -> None:
        """Apply what was written since the last call; all of it if the topic was created again.

        Raises:
            Refused: the topic is missing, or may not be read.
            ConnectionFailed, TimedOut: the topic could not be read, or is missing since the last
                call; a later call reads the rest.
        """
        topic = self._target.describe([self._name])[self._name]
        if not isinstance(topic, TopicDescription):
            if self._of is not None and is_missing(topic):
                # A broker of a ZooKeeper cluster reports this of any topic when it has started.
                raise TimedOut(f"topic {safe_text(self._name)} does not exist on the target")
            raise Refused(
                f"topic {safe_text(self._name)} cannot be read on the target cluster: "
                + safe_text(topic.str()),
                unchanged="Nothing was copied.",
                hint="Create the topic with cleanup.policy compact, and grant the target principal "
                "Describe, Read and Write on it.",
            )
        ends = written_ends(self._target, self._name, topic.partitions)
        identity = topic.topic_id, topic.partitions
        if self._of != identity or any(self._next.get(p, 0) > end for p, end in ends.items()):
            self._of, self._next = identity, {}
        if all(self._next.get(partition, 0) >= end for partition, end in ends.items()):
            return
        for entry in read_records(
            self._target,
            self._name,
            ends,
            _READ_S,
            since=self._next,
            isolation="read_uncommitted",
        ):
            fold.take(entry.key, entry.value)
            self._next[entry.partition] = entry.offset + 1
        self._next.update(ends)

    def open(self) -> None:
        """Connect before the first record is written; see ``KeyedWriter.open``."""
        self._writer.open()

    def put(self, key: bytes, value: bytes | None) -> None:
        """Write a record; raises as ``KeyedWriter.put``."""
        self._writer.put([(key, value)])

    def close(self) -> None:
        """Disconnect."""
        self._writer.close()
