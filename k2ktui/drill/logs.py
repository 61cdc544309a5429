"""How far the copy is: replicated positions against the ends of the source's logs."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from time import time

from confluent_kafka import IsolationLevel, KafkaError
from confluent_kafka.admin import OffsetSpec

from k2ktui.engine.producers import Written
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import ConnectionFailed, K2kError
from k2ktui.kafka.clients import Cluster, Partition, partitions_of
from k2ktui.kafka.topic_description import is_missing
from k2ktui.log.content import ContentReader, KafkaRecord
from k2ktui.log.writers import WriterReader
from k2ktui.replication.topics.record_times import read_times
from k2ktui.replication.topics.selected_topics import find_deleted
from k2ktui.sync.flow import Flow
from k2ktui.sync.mapping.source import NothingCopied
from k2ktui.text import list_names, safe_text

log = logging.getLogger(__name__)

_NAMED = 3
_AGE_S = 15.0
_MARKERS_S = 5.0
_MOST_SIZED = 10_000


@dataclass(frozen=True, slots=True)
class SourceLogEnd:
    """The bounds of a source partition and what is replicated of it.

    Attributes:
        position: replicated position; None if nothing was replicated yet.
        start, stable, high: log start offset, last stable offset and high watermark.
    """

    at: SourcePartition
    position: int | None
    start: int
    stable: int
    high: int

    @property
    def lag(self) -> int:
        """Number of offsets up to the high watermark that are not replicated."""
        return max(0, self.high - max(self.start, self.position or 0))

    @property
    def to_copy(self) -> int:
        """The part of it up to the last stable offset."""
        return max(0, self.stable - max(self.start, self.position or 0))

    @property
    def in_transactions(self) -> int:
        """Number of offsets that an open transaction holds back."""
        return max(0, self.high - self.stable)

    @property
    def is_drained(self) -> bool:
        """Whether position, last stable offset and high watermark are the same."""
        if self.position is None:
            return self.start == self.stable == self.high
        return self.position == self.stable == self.high


@dataclass(frozen=True, slots=True)
class KnownLogs:
    """What could be read of the source's logs, and what could not.

    Attributes:
        ends: the partitions that could be read, sorted.
        unread: partitions without a leader, and topics that could not be described.
        gone: partitions with a position that do not exist on the source; not those of topics that
            a pattern selects, which may be deleted.
    """

    ends: Sequence[SourceLogEnd]
    unread: Sequence[SourcePartition | str] = ()
    gone: Sequence[SourcePartition] = ()


class SourceLogs:
    """Reads the ends of the replicated partitions; keeps its connections."""

    def __init__(self, flow: Flow, source: Cluster, target: Cluster) -> None:
        self._flow, self._source = flow, source
        self._mappings = flow.open_mappings(source, target)
        self._content = ContentReader(source)
        self._writers = WriterReader(source)

    def close(self) -> None:
        """Disconnect."""
        self._mappings.close()
        self._content.close()
        self._writers.close()

    def topics(self) -> list[str]:
        """Return the source's topics that are replicated, or are to be.

        Raises:
            ConnectionFailed, TimedOut: a cluster does not answer.
            NothingCopied: nothing was replicated yet.
        """
        return self._topics(self._mappings.read_copier().positions)

    def _topics(self, positions: Iterable[SourcePartition]) -> list[str]:
        chosen = self._flow.config.topics.matches
        names = {name for name in self._source.topic_names() if chosen(name)}
        return sorted(names | {at.topic for at in positions})

    def read(self) -> list[SourceLogEnd]:
        """Return all replicated partitions, sorted; positions are read before the logs.

        Raises:
            ConnectionFailed, TimedOut: a cluster does not answer, or a partition has no leader.
            NothingCopied: nothing was replicated yet.
        """
        logs = self._read(self._mappings.read_copier().positions)
        unread = [at for at in logs.unread if isinstance(at, SourcePartition)]
        if unread:
            topic, number = unread[0].topic, unread[0].partition
            raise ConnectionFailed(
                f"the log end of {safe_text(topic)}-{number} on the source cannot be read",
                hint="Check that each partition has a leader.",
            )
        return list(logs.ends)

    def read_known(self) -> KnownLogs:
        """Return the same for a check, also before the first copy, and what could not be read.

        Raises:
            ConnectionFailed, TimedOut: a cluster does not answer.
        """
        try:
            positions = self._mappings.read_copier().positions
        except NothingCopied:
            positions = {}
        return self._read(positions)

    def _read(self, positions: Mapping[SourcePartition, Position]) -> KnownLogs:
        source = self._source
        described = source.describe(self._topics(positions))
        where = partitions_of(described)
        unread: list[SourcePartition | str] = [
            name
            for name, answer in described.items()
            if isinstance(answer, KafkaError) and not is_missing(answer)
        ]
        passed = {*find_deleted(self._flow.config.topics, described), *unread}
        exist = {SourcePartition(*name) for name in where}
        gone = [at for at in sorted(positions.keys() - exist) if at.topic not in passed]
        starts = source.offsets(where, OffsetSpec.earliest())
        stable = source.offsets(where, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
        high = source.offsets(where, OffsetSpec.latest())
        ends = []
        for name in sorted(where):
            at = SourcePartition(*name)
            if not (name in starts and name in stable and name in high):
                unread.append(at)
                continue
            position = positions.get(at)
            offset = position.offset if position else None
            ends.append(SourceLogEnd(at, offset, starts[name], stable[name], high[name]))
        return KnownLogs(self._pass_markers(ends) if self._flow.is_mirror else ends, unread, gone)

    def read_writers(self, before: Iterable[SourceLogEnd]) -> list[Written]:
        """Return who has written since these ends of partitions were read, as far as is known."""
        starts = {(end.at.topic, end.at.partition): end.high for end in before}
        try:
            return self._writers.read(starts) if starts else []
        except K2kError as error:
            log.info("producers on the source not read: %s", error.message)
            return []

    def _pass_markers(self, ends: list[SourceLogEnd]) -> list[SourceLogEnd]:
        """Return the ends with positions behind markers of transactions at the end of a log.

        MirrorMaker 2 stays before them, although it has copied every record.
        """
        behind = _next_offsets(end for end in ends if end.lag)
        copied = read_times(self._content, behind, _MARKERS_S).exhausted
        return [
            replace(end, position=end.stable) if (end.at.topic, end.at.partition) in copied else end
            for end in ends
        ]

    def oldest_age_s(self, ends: Sequence[SourceLogEnd]) -> float | None:
        """Return the age in seconds of the oldest record that is not replicated.

        0 if there is none; None if it cannot be read.
        """
        behind = [end for end in ends if end.lag]
        if not behind:
            return 0.0
        times = read_times(self._content, _next_offsets(behind), _AGE_S).times
        return max(0.0, time() - min(times.values())) if times else None

    def count_bytes(self, ends: Sequence[SourceLogEnd]) -> int | None:
        """Return the size of the records that are not replicated: keys, values and headers.

        None if there are more than 10,000 offsets, or they cannot be read.
        """
        behind = [end for end in ends if end.lag]
        if sum(end.lag for end in behind) > _MOST_SIZED:
            return None
        starts = _next_offsets(behind)
        asked = [((*at, starts[at]), end.lag) for at, end in zip(starts, behind, strict=True)]
        stretches = self._content.stretches(asked, _AGE_S)
        if any(stretch.unread for stretch in stretches):
            return None
        return sum(_size(record) for stretch in stretches for record in stretch.records.values())


def _next_offsets(ends: Iterable[SourceLogEnd]) -> dict[Partition, int]:
    """Return the offset of the next record to copy, in the same order."""
    return {(e.at.topic, e.at.partition): max(e.start, e.position or 0) for e in ends}


def _size(record: KafkaRecord) -> int:
    headers = sum(len(name.encode(errors="replace")) + len(v or b"") for name, v in record.headers)
    return len(record.key or b"") + len(record.value or b"") + headers


def count_written(
    before: Iterable[SourceLogEnd],
    after: Iterable[SourceLogEnd],
    unread: Collection[SourcePartition | str] = (),
) -> dict[SourcePartition, int]:
    """Return by how much high watermarks have moved between two readings, where they have.

    A partition that has appeared or gone counts, except those that one of them could not read,
    and those of topics that it could not describe.
    """
    was, now = ({end.at: end.high for end in ends} for ends in (before, after))
    return {
        at: now.get(at, 0) - was.get(at, 0)
        for at in sorted(was.keys() | now.keys())
        if was.get(at) != now.get(at) and at not in unread and at.topic not in unread
    }


def digest_ends(ends: Iterable[SourceLogEnd]) -> str:
    """Return a digest of the high watermarks: the same only if nothing was written."""
    lines = [f"{end.at.topic}\t{end.at.partition}\t{end.high}" for end in ends]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def name_partitions(partitions: Iterable[object]) -> str:
    """Return the first few names and the number of the others."""
    return list_names(list(partitions), _NAMED)
