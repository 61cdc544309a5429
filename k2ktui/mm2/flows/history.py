"""History of a flow's offset syncs on the target, because MirrorMaker 2's topic is compacted.

It also holds positions proven by comparing records, which cannot be proven again after the source
is lost. The topic is :data:`TOPIC`, with cleanup policy ``delete``;
docs/internals/record-formats.md describes its records. Only ``k2ktui sync`` writes it; every
translation reads it if it exists.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.mapping.anchors import OffsetAnchor
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.strict_json import (
    LARGEST_INT,
    MalformedRecord,
    dump_object,
    field,
    integer,
    parse_object,
    rows,
    text,
)
from k2ktui.kafka.admin.topics import TopicSpec, create_topics
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.control.keyed_writer import KeyedWriter
from k2ktui.log.record import KafkaRecord
from k2ktui.mm2.flows.formats import OffsetSync
from k2ktui.mm2.flows.topic_tail import TopicTail
from k2ktui.mm2.flows.topics import TimedOffsetSync
from k2ktui.text import counted

log = logging.getLogger(__name__)

TOPIC = "__k2k_mm2_offset_syncs"
_VERSION = 1
_SYNCS, _ANCHORS = "syncs", "cuts"
_A_RECORD = 1000
_UNWRITTEN = 200_000
_RETENTION_MS = 7 * 86_400_000


@dataclass(frozen=True, slots=True)
class ProvenPosition:
    """A position proven by comparing records, and the time in epoch milliseconds."""

    source: SourcePartition
    anchor: OffsetAnchor
    at_ms: int


Known = TimedOffsetSync | ProvenPosition


class Tail(Protocol):
    """Reads the records that were appended since the last call."""

    def read(self) -> Iterable[KafkaRecord]:
        """Return them; the first call returns the whole topic."""

    def close(self) -> None:
        """Close all connections."""


class SyncHistory:
    """The history of one flow.

    Args:
        config: the flow as a pipeline.
        target: the cluster that holds the topic.
        tail: reads the topic; a new one by default.
    """

    def __init__(self, config: PipelineConfig, target: Cluster, tail: Tail | None = None) -> None:
        self._config, self._target = config, target
        self._tail = tail or TopicTail(target, TOPIC)
        self._kept: list[Known] = []
        # Bounded: a reader never writes, and dropped entries are still in MirrorMaker 2's topic.
        self._unwritten: deque[Known] = deque(maxlen=_UNWRITTEN)
        self._malformed = 0
        self._writer: KeyedWriter | None = None

    def merge(self, new: Sequence[TimedOffsetSync]) -> list[Known]:
        """Return the history merged with ``new`` syncs of the flow's own topic, ordered by time.

        Later calls include the syncs of earlier ones.

        Raises:
            K2kError: the topic cannot be read; ``new`` must be given again.
        """
        before = set(self._kept)  # includes what :meth:`write` has written meanwhile
        read = (known for record in self._tail.read() for known in self._read(record))
        self._kept += (known for known in read if known not in before)
        recorded = {known.sync for known in self._kept if isinstance(known, TimedOffsetSync)}
        added = [timed for timed in new if timed.sync not in recorded]
        self._unwritten += added
        self._kept += added
        return sorted(self._kept, key=lambda known: known.at_ms)

    def forget(self) -> None:
        """Free the entries kept by :meth:`merge`, which is not called again."""
        self._kept = []

    def add(self, new: Iterable[Known]) -> None:
        """Add new entries; :meth:`write` writes them."""
        self._unwritten += new

    def write(self) -> None:
        """Write the new entries; create the topic if it is missing.

        Raises:
            K2kError: not all records were acknowledged; all entries are written again next time.
        """
        if not self._unwritten:
            return
        if self._writer is None:
            self._ensure()
            self._writer = KeyedWriter(self._target, TOPIC)
        written = list(self._unwritten)
        self._writer.put(encode_history(self._config.name, written))
        log.debug("%s written to %s", counted(len(written), "sync or position"), TOPIC)
        self._unwritten.clear()

    @property
    def unwritten(self) -> tuple[Known, ...]:
        """The entries that the next :meth:`write` writes."""
        return tuple(self._unwritten)

    def notes(self) -> list[str]:
        """Return a note on unreadable records, if any."""
        if not self._malformed:
            return []
        return [f"{counted(self._malformed, 'damaged record')} of {TOPIC} ignored"]

    def close(self) -> None:
        """Close all connections."""
        self._tail.close()
        if self._writer is not None:
            self._writer.close()

    def _ensure(self) -> None:
        if isinstance(self._target.describe([TOPIC])[TOPIC], TopicDescription):
            return
        common = self._config.topic_creation.control.common
        settings = {"cleanup.policy": "delete", "retention.ms": str(_RETENTION_MS)}
        spec = TopicSpec(TOPIC, 1, common.replication, settings)
        problem = create_topics(self._target, [spec])[TOPIC]
        if problem is not None:
            raise problem

    def _read(self, record: KafkaRecord) -> list[Known]:
        try:
            return read_history(record.key, record.value, self._config.name)
        except MalformedRecord:
            self._malformed += 1
            return []


def encode_history(flow: str, known: Sequence[Known]) -> list[tuple[bytes, bytes]]:
    """Return the records, as keys and values, that ``read_history`` decodes."""
    rows_by_key: dict[tuple[SourcePartition, str], list[list[int]]] = defaultdict(list)
    for item in known:
        if isinstance(item, TimedOffsetSync):
            sync = item.sync
            rows_by_key[sync.source, _SYNCS].append([sync.upstream, sync.downstream, item.at_ms])
        else:
            rows_by_key[item.source, _ANCHORS].append(
                [item.anchor.source, item.anchor.target, item.at_ms]
            )
    return [
        (
            dump_object({"flow": flow, "partition": at.partition, "topic": at.topic}),
            dump_object({kind: rows[i : i + _A_RECORD], "v": _VERSION}),
        )
        for (at, kind), rows in rows_by_key.items()
        for i in range(0, len(rows), _A_RECORD)
    ]


def read_history(key: bytes | None, value: bytes | None, flow: str) -> list[Known]:
    """Decode a record of the history; returns an empty list for records of other flows.

    Raises:
        MalformedRecord: the record is damaged or has another version.
    """
    head = parse_object(key, "the key")
    if text(field(head, "flow")) != flow:
        return []
    at = SourcePartition(
        text(field(head, "topic")), integer(field(head, "partition"), high=LARGEST_INT)
    )
    body = parse_object(value, "the value")
    if integer(field(body, "v")) != _VERSION:
        raise MalformedRecord("another version")
    syncs, anchors = (
        [
            (integer(a), integer(b), integer(at_ms, -1))
            for a, b, at_ms in rows(body.get(kind, []), 3)
        ]
        for kind in (_SYNCS, _ANCHORS)
    )
    return [
        *(TimedOffsetSync(OffsetSync(at, up, down), at_ms) for up, down, at_ms in syncs),
        *(
            ProvenPosition(at, OffsetAnchor(source, target), at_ms)
            for source, target, at_ms in anchors
        ),
    ]
