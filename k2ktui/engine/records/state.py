"""Records that a pipeline writes to the target: positions, runs and mapping ranges.

All are compact JSON with sorted keys, readable with a console consumer. The schema is documented
in ``docs/internals/record-formats.md``; ``v`` is its version.

- *Position* (commit topic, compacted): next source offset to copy of one source partition.
- *Run* (commit topic, compacted): the term and the number of slots of the pipeline's latest run, or
  of the latest run of a slot that runs share.
- *Producer* (commit topic, compacted): a producer id that it writes with; see
  ``producer_registration``.
- *Moved topic* (commit topic, compacted): a source topic that a drill has moved; see
  ``moved_topic``.
- *Mapping* (mapping topic): where consecutive records of one source partition landed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from k2ktui.engine.deleted_logs import DELETED, DeletedLog, parse_deleted_log
from k2ktui.engine.pickled import pickled_by_fields
from k2ktui.engine.records.moved_topic import (
    MOVED,
    MovedTopic,
    ReleasedTopic,
    parse_moved_topic,
)
from k2ktui.engine.records.producer_registration import (
    PRODUCER,
    ProducerRegistration,
    parse_registration,
)
from k2ktui.engine.records.run_record import (
    ASSIGNMENT_KINDS,
    LARGEST_TERM,
    SLOT_RUN,
    TERM,
    parse_run,
)
from k2ktui.engine.records.run_record import Run as Run
from k2ktui.engine.records.run_record import run_key as run_key
from k2ktui.engine.records.run_record import run_value as run_value
from k2ktui.engine.strict_json import (
    LARGEST_INT,
    dump_object,
    field,
    flag,
    integer,
    parse_object,
    require_version,
    rows,
    text,
)
from k2ktui.engine.strict_json import MalformedRecord as MalformedRecord
from k2ktui.engine.wire import (
    COUNT,
    NUMBER,
    TEXT,
    Wire,
    defaulted,
    list_of,
    optional,
    or_none,
    required,
    row_of,
    tuple_of,
    whole,
)

VERSION = 1
MOST_LANDED = 100
"""Target partitions in a position record: where keys choose the partition, there may be more."""
_LARGEST_KEY = 1 << 20


@pickled_by_fields
@dataclass(frozen=True, slots=True, order=True)
class SourcePartition:
    """A partition of a topic on the source cluster."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class MappingRange:
    """``count`` consecutive source records that landed on consecutive target offsets."""

    source: int
    target: int
    count: int


@dataclass(frozen=True, slots=True)
class ScatteredRun:
    """Records at consecutive target offsets from ``target`` on; ``sources`` are their offsets.

    A compact form for records that keys scatter over partitions, where neighbors rarely stay
    together. ``sources`` never decrease. A source offset that repeats, within a run or at the
    beginning of one after the record that mapped it, is a further record that a transform made of
    the same source record; only the first one is mapped.
    """

    target: int
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Covers:
    """The source offsets ``[first, end)`` that a mapping record covers, with its other parts.

    All parts together are the complete mapping of these offsets: an offset that none of them maps
    holds no record.

    Attributes:
        first: replicated position before the transaction.
        end: replicated position after it.
        part: number of this part, starting at 0.
        parts: number of parts.
    """

    first: int
    end: int
    part: int = 0
    parts: int = 1


@dataclass(frozen=True, slots=True)
class Gap:
    """Source offsets ``[first, end)`` that were lost before they could be copied."""

    first: int
    end: int
    reason: str


@pickled_by_fields
@dataclass(frozen=True, slots=True)
class Landed:
    """How far a pipeline has written to one target partition.

    Attributes:
        topic: the target topic.
        partition: its partition.
        first: the target offsets ``[first, end)`` hold only committed records of this pipeline and
            the markers between them; equal to ``end`` if that is not known of any.
        end: target offset after the last committed record. A log that ends before it is not the
            one that was written to, or has lost records.
    """

    topic: str
    partition: int
    first: int
    end: int


@pickled_by_fields
@dataclass(frozen=True, slots=True)
class FirstLanded:
    """Where the first record of a source partition landed on one target partition.

    Attributes:
        topic: the target topic.
        partition: its partition.
        source: source offset of the record; no record before it was copied there since the start.
        target: its target offset.
    """

    topic: str
    partition: int
    source: int
    target: int


@pickled_by_fields
@dataclass(frozen=True, slots=True)
class Position:
    """Replicated position of one source partition.

    Attributes:
        offset: next source offset to copy.
        start: source offset at which this pipeline began; offsets from here on have a mapping.
        leader_epoch: source leader epoch of the last batch copied, -1 if unknown.
        topic_id: source topic id (KIP-516) as hex text, empty if the broker has none.
        term: term of the run that wrote it; a later run's position wins.
        slot: slot that wrote it; -1 for the driver.
        target_topic: where the records go.
        target_partition: target partition, or None when records scatter over several.
        target_topic_id: id of the target topic, in the form of ``topic_id``.
        since: term in which ``start`` was set; mappings of earlier terms belong to another log.
        at_ms: wall clock of the writer, epoch milliseconds.
        gaps: source offsets that were lost before they could be copied, or that an operator
            skipped; sorted and disjoint, the highest 100.
        further_targets: the other target topics, each with its id, if an expression chooses one.
        landed: how far the pipeline had written to the target partitions of this source partition;
            empty in the records of earlier releases.
        stopped: why the partition is not copied until an operator has chosen where from: it was not
            shown to be the one that was copied when a restored cluster was accepted. "" if it is
            copied.
        end: last stable offset of the source log when the position was written, if that is beyond
            ``offset``; 0 otherwise, and in records of earlier releases. The records up to there
            are lost if the topic is deleted now.
        first_landed: the first copy since ``start``, for each target partition that has one; None
            if that is not known of all: keys or an expression choose the partition, or records were
            copied by a release that did not note it.
    """

    offset: int
    start: int
    leader_epoch: int
    topic_id: str
    term: int
    slot: int
    target_topic: str
    target_partition: int | None
    target_topic_id: str = ""
    since: int = 0
    at_ms: int = 0
    gaps: tuple[Gap, ...] = ()
    further_targets: tuple[tuple[str, str], ...] = ()
    landed: tuple[Landed, ...] = ()
    stopped: str = ""
    end: int = 0
    first_landed: tuple[FirstLanded, ...] | None = None

    @property
    def target_topics(self) -> dict[str, str]:
        """The ids of the target topics by name; an id is empty if the broker has none."""
        return {self.target_topic: self.target_topic_id, **dict(self.further_targets)}

    def beyond(self, ends: Mapping[tuple[str, int], int]) -> Landed | None:
        """Return what the pipeline had written to a target partition that now ends before it.

        Args:
            ends: high watermarks of target partitions, read after this position. Those that are
                missing are not compared.
        """
        for at in self.landed:
            if at.end > ends.get((at.topic, at.partition), at.end):
                return at
        return None

    def landed_on(self, target: tuple[str, int]) -> Landed | None:
        """Return how far the pipeline had written to a target partition; None if it had not."""
        return next((at for at in self.landed if (at.topic, at.partition) == target), None)

    def end_of_copies(self, target: tuple[str, int]) -> int | None:
        """Return the target offset after the last copy on a target partition; None if unknown.

        A slot writes this position in the transaction of that copy. Its span is empty if the two
        may differ: without exactly-once, and after a move back. An operator's move keeps the span
        of the copies before it.
        """
        landed = self.landed_on(target)
        if landed is None or landed.first == landed.end or self.slot < 0:
            return None
        return landed.end

    def first_landed_on(self, target: tuple[str, int]) -> FirstLanded | None:
        """Return the first copy on a target partition; None if there is none, or it is unknown."""
        firsts = self.first_landed or ()
        return next((at for at in firsts if (at.topic, at.partition) == target), None)

    def moved_back(self, offset: int) -> Position:
        """Return the position at an earlier offset: what lies from there on is copied again.

        The spans end: the target's end follows copies of records at or after the new position, too,
        so that a group there would skip them.
        """
        firsts = self.first_landed
        if firsts is not None:
            firsts = tuple(at for at in firsts if at.source < offset)
        landed = tuple(replace(at, first=at.end) for at in self.landed)
        is_new = offset <= self.start
        return replace(self, offset=offset, landed=landed, first_landed=None if is_new else firsts)

    def newer_than(self, other: Position | None) -> bool:
        """Whether this is the later of two positions of one partition."""
        return other is None or (self.term, self.offset) >= (other.term, other.offset)


@dataclass(frozen=True, slots=True)
class MappingRecord:
    """The mapping that one transaction added for one source partition on one target partition.

    Attributes:
        term: term of the run that wrote it. A later term replaces all earlier mappings from the
            first offset that it covers.
        covers: the source offsets that it covers; None only in a template.
        left_out: source offsets ``[first, end)`` that came from the target (provenance mode), in
            the first part only.
        again: whether it repeats older records so that retention does not delete them. It is
            ignored for offsets that another record covers.
    """

    pipeline: str
    source: SourcePartition
    target_topic: str
    target_partition: int
    term: int = 0
    ranges: tuple[MappingRange, ...] = ()
    runs: tuple[ScatteredRun, ...] = ()
    covers: Covers | None = None
    again: bool = False
    left_out: tuple[tuple[int, int], ...] = ()

    @property
    def records(self) -> int:
        """Number of records that it maps."""
        return sum(r.count for r in self.ranges) + sum(len(r.sources) for r in self.runs)

    @property
    def first_source(self) -> int | None:
        """Lowest source offset that it maps."""
        firsts = [r.source for r in self.ranges] + [r.sources[0] for r in self.runs]
        return min(firsts, default=None)

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield the source and target offset of every record."""
        for r in self.ranges:
            yield from zip(range(r.source, r.source + r.count), itertools.count(r.target))
        for run in self.runs:
            yield from zip(run.sources, itertools.count(run.target))


def _landed(topic: str, partition: int, first: int, end: int) -> Landed:
    if first > end:
        raise MalformedRecord("landed before it began")
    return Landed(topic, partition, first, end)


_POSITION = Wire(
    Position,
    offset=required("offset", COUNT),
    start=required("start", COUNT),
    leader_epoch=required("leaderEpoch", whole(-1, high=LARGEST_INT)),
    topic_id=required("topicId", TEXT),
    term=required("term", TERM),
    slot=required("slot", whole(-1, high=LARGEST_INT)),
    target_topic=required("targetTopic", TEXT),
    target_partition=required("targetPartition", or_none(NUMBER)),
    target_topic_id=defaulted("targetTopicId", TEXT, ""),
    since=defaulted("since", TERM, 0),
    at_ms=defaulted("at", COUNT, 0),
    gaps=optional("gaps", list_of(row_of(Gap, first=COUNT, end=COUNT, reason=TEXT)), ()),
    further_targets=optional("furtherTargets", list_of(tuple_of(TEXT, TEXT)), ()),
    landed=optional(
        "landed",
        list_of(row_of(_landed, topic=TEXT, partition=NUMBER, first=COUNT, end=COUNT)),
        (),
    ),
    stopped=optional("stopped", TEXT, ""),
    end=optional("end", COUNT, 0, unless=lambda position: position.end <= position.offset),
    first_landed=optional(
        "firstLanded",
        list_of(row_of(FirstLanded, topic=TEXT, partition=NUMBER, source=COUNT, target=COUNT)),
        None,
    ),
)


def position_key(group: str, source: SourcePartition) -> bytes:
    """Compaction key of a position record; ``group`` is ``coordination.commit.group``."""
    return dump_object({"group": group, "topic": source.topic, "partition": source.partition})


def position_value(position: Position) -> bytes:
    """Value of a position record."""
    return dump_object({"v": VERSION, **_POSITION.write(position)})


def mapping_key(mapping: MappingRecord) -> bytes:
    """Key of a mapping record."""
    return dump_object(
        {
            "pipeline": mapping.pipeline,
            "topic": mapping.source.topic,
            "partition": mapping.source.partition,
        }
    )


def mapping_value(mapping: MappingRecord) -> bytes:
    """Value of a mapping record."""
    value: dict[str, Any] = {
        "v": VERSION,
        "targetTopic": mapping.target_topic,
        "targetPartition": mapping.target_partition,
        "term": mapping.term,
        "ranges": [[r.source, r.target, r.count] for r in mapping.ranges],
    }
    if mapping.runs:
        value["runs"] = [[run.target, *_deltas(run.sources)] for run in mapping.runs]
    if mapping.covers is not None:
        covers = mapping.covers
        value["covers"] = [covers.first, covers.end, covers.part, covers.parts]
    if mapping.again:
        value["again"] = True
    if mapping.left_out:
        value["leftOut"] = [list(span) for span in mapping.left_out]
    return dump_object(value)


def _deltas(sources: tuple[int, ...]) -> list[int]:
    return [sources[0], *(b - a for a, b in itertools.pairwise(sources))]


def _parse_scattered(row: list[Any]) -> ScatteredRun:
    if len(row) < 2:
        raise MalformedRecord("a run without a record")
    target, first, *deltas = (integer(number) for number in row)
    run = ScatteredRun(target, tuple(itertools.accumulate(deltas, initial=first)))
    integer(max(run.sources[-1], target + len(run.sources)))
    return run


def _range(row: list[Any]) -> MappingRange:
    source, target, count = integer(row[0]), integer(row[1]), integer(row[2], 1)
    integer(max(source, target) + count)
    return MappingRange(source, target, count)


def _span(row: list[Any]) -> tuple[int, int]:
    first, end = integer(row[0]), integer(row[1])
    if first >= end:
        raise MalformedRecord("left out no offsets")
    return first, end


def _covers(value: object) -> Covers:
    (row,) = rows([value], 4)
    first, end, part, parts = (integer(number) for number in row)
    if not (first < end and part < parts):
        raise MalformedRecord("covers no offsets, or is a part outside the whole")
    return Covers(first, end, part, parts)


CommitValue = Position | Run | ProducerRegistration | DeletedLog | MovedTopic | ReleasedTopic
"""What a record of the commit topic says."""


def read_commit_record(
    key: bytes | None, value: bytes | None, only: str | None = None
) -> tuple[str, SourcePartition | None, CommitValue | None]:
    """Decode a record of the commit topic.

    Args:
        key: its key.
        value: its value.
        only: decode the values of this group only (default: all). The values of other pipelines,
            which may be damaged or of another version, are not read.

    Returns:
        ``(group, source partition, position)`` for a position, ``(group, None, run)`` for a run,
        ``(group, None, registration)`` for a producer id, ``(group, None, log)`` for a deleted
        source log, ``(group, None, moved topic)`` for one that a drill has moved, and ``(group,
        None, released topic)`` for its tombstone; the last element is None for another tombstone, a
        value that was not decoded, and a record of the assignment topic (it may be the same).

    Raises:
        MalformedRecord: the record is not k2ktui's, or of a newer version.
    """
    head = parse_object(key, "the key", largest=_LARGEST_KEY)
    group = text(field(head, "group"))
    if head.get("kind") in ASSIGNMENT_KINDS:
        return group, None, None
    producer, shared_slot = head.get(PRODUCER), head.get(SLOT_RUN)
    is_run = head.get("run") is True or shared_slot is not None
    is_deleted, is_moved = head.get("kind") == DELETED, head.get("kind") == MOVED
    is_position = producer is None and not (is_run or is_deleted or is_moved)
    source = _source(head) if is_position else None
    moved = text(field(head, "topic")) if is_moved else None
    if only not in (None, group):
        return group, source, None
    if value is None:
        return group, source, None if moved is None else ReleasedTopic(moved)
    body = parse_object(value, "the value")
    if is_run:
        return group, None, parse_run(body, shared_slot)
    if moved is not None:
        return group, None, parse_moved_topic(moved, body)
    require_version(body, VERSION)
    if producer is not None:
        return group, None, parse_registration(producer, body)
    if is_deleted:
        at = _source(head)
        return group, None, parse_deleted_log(at.topic, at.partition, body)
    return group, source, _POSITION.read(body)


def read_commit_group(key: bytes | None) -> str:
    """Return the group of a commit record's key; raises MalformedRecord if it has none."""
    return text(field(parse_object(key, "the key", largest=_LARGEST_KEY), "group"))


def _source(head: dict[str, Any]) -> SourcePartition:
    return SourcePartition(
        text(field(head, "topic")), integer(field(head, "partition"), high=LARGEST_INT)
    )


def read_mapping_key(key: bytes | None) -> tuple[str, SourcePartition]:
    """Return the pipeline and the source partition of a record of the mapping topic.

    Raises:
        MalformedRecord: the key is not k2ktui's.
    """
    head = parse_object(key, "the key", largest=_LARGEST_KEY)
    return text(field(head, "pipeline")), _source(head)


def read_mapping_record(key: bytes | None, value: bytes | None) -> MappingRecord:
    """Decode a record of the mapping topic; filter with :func:`read_mapping_key` first.

    Raises:
        MalformedRecord: the record is not k2ktui's, damaged, or of a newer version.
    """
    pipeline, source = read_mapping_key(key)
    body = parse_object(value, "the value")
    require_version(body, VERSION)
    return MappingRecord(
        pipeline=pipeline,
        source=source,
        target_topic=text(field(body, "targetTopic")),
        target_partition=integer(field(body, "targetPartition"), high=LARGEST_INT),
        term=integer(field(body, "term"), high=LARGEST_TERM),
        ranges=tuple(_range(row) for row in rows(field(body, "ranges"), 3)),
        runs=tuple(_parse_scattered(row) for row in rows(body.get("runs", []))),
        covers=_covers(field(body, "covers")),
        again=flag(body.get("again", False)),
        left_out=tuple(_span(row) for row in rows(body.get("leftOut", []), 2)),
    )
