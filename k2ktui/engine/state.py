"""Records that the pipeline keeps on the target: positions, runs and mapping ranges.

All are compact JSON with sorted keys, because people read them with console consumers. The schema
is documented in ``docs/record-formats.md``; ``v`` is its version.

- *Position* (commit topic, compacted): next source offset to copy of one source partition.
- *Run* (commit topic, compacted): the term and the number of slots of the pipeline's latest run.
- *Mapping* (mapping topic): where consecutive records of one source partition landed.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

VERSION = 1


class MalformedRecord(ValueError):
    """A record of a control topic that is not ours, damaged, or of a newer version."""


@dataclass(frozen=True, slots=True, order=True)
class SourcePartition:
    """A partition of a topic on the source cluster."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class MappingRange:
    """``count`` consecutive source records landed on consecutive target offsets."""

    source: int
    target: int
    count: int


@dataclass(frozen=True, slots=True)
class ScatteredRun:
    """Records that landed consecutively from ``target`` on; ``sources`` are their offsets.

    The compact form for records that keys scatter over partitions, where hardly two neighbours
    stay together. ``sources`` increase strictly.
    """

    target: int
    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Covers:
    """The source offsets ``[first, end)`` that a mapping record decides, with its other parts.

    All parts together are the whole mapping of these offsets: what none of them maps is no record.

    Attributes:
        first: replicated position before the transaction.
        end: replicated position after it.
        part: number of this part, from 0 on.
        parts: how many there are.
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


@dataclass(frozen=True, slots=True)
class Position:
    """Replicated position of one source partition.

    Attributes:
        offset: next source offset to copy.
        start: source offset at which this pipeline began; offsets from here on have a mapping.
        leader_epoch: source leader epoch of the last batch copied, -1 if unknown.
        topic_id: source topic id (KIP-516) as hex text, empty if the broker has none.
        term: number of the run that wrote it; a later run's position wins.
        slot: slot that wrote it.
        target_topic: where the records go.
        target_partition: target partition, or None when records scatter over several.
        target_topic_id: id of the target topic, as ``topic_id``.
        since: term in which ``start`` was set; mappings of earlier terms are of another log.
        at_ms: wall clock of the writer, epoch milliseconds.
        gaps: lost ranges that an operator chose to pass over.
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

    def newer_than(self, other: Position | None) -> bool:
        """Whether this is the later of two positions of one partition, wherever each was read."""
        return other is None or (self.term, self.offset) >= (other.term, other.offset)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the driver: its term, and how many slots it may use."""

    term: int
    slots: int
    name: str = ""
    host: str = ""
    started_ms: int = 0


@dataclass(frozen=True, slots=True)
class Mapping:
    """What one transaction added for one source partition on one target partition.

    Attributes:
        term: number of the run that wrote it. What a later term covers replaces all that was
            mapped from there on.
        covers: which source offsets it decides; None only in a template.
        again: whether it repeats what was written before, lest it be deleted. It tells nothing of
            offsets that another record decides.
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

    @property
    def records(self) -> int:
        """Number of records it maps."""
        return sum(r.count for r in self.ranges) + sum(len(r.sources) for r in self.runs)

    @property
    def first_source(self) -> int | None:
        """Lowest source offset it maps."""
        firsts = [r.source for r in self.ranges] + [r.sources[0] for r in self.runs]
        return min(firsts, default=None)

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield the source and target offset of every record."""
        for r in self.ranges:
            yield from zip(range(r.source, r.source + r.count), itertools.count(r.target))
        for run in self.runs:
            yield from zip(run.sources, itertools.count(run.target))


def _dump(value: dict[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True).encode()


def _load(raw: bytes | None, what: str) -> dict[str, Any]:
    try:
        value = json.loads(raw or b"")
    except (ValueError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedRecord(f"{what} is not JSON") from error
    if not isinstance(value, dict):
        raise MalformedRecord(f"{what} is not a JSON object")
    return value


def position_key(group: str, source: SourcePartition) -> bytes:
    """Compaction key of a position record; ``group`` is ``coordination.commit.group``."""
    return _dump({"group": group, "topic": source.topic, "partition": source.partition})


def position_value(position: Position) -> bytes:
    """Value of a position record."""
    value: dict[str, Any] = {
        "v": VERSION,
        "offset": position.offset,
        "start": position.start,
        "leaderEpoch": position.leader_epoch,
        "topicId": position.topic_id,
        "term": position.term,
        "slot": position.slot,
        "targetTopic": position.target_topic,
        "targetPartition": position.target_partition,
        "targetTopicId": position.target_topic_id,
        "since": position.since,
        "at": position.at_ms,
    }
    if position.gaps:
        value["gaps"] = [[gap.first, gap.end, gap.reason] for gap in position.gaps]
    return _dump(value)


def run_key(group: str) -> bytes:
    """Compaction key of the run record."""
    return _dump({"group": group, "run": True})


def run_value(run: Run) -> bytes:
    """Value of the run record."""
    return _dump(
        {
            "v": VERSION,
            "term": run.term,
            "slots": run.slots,
            "name": run.name,
            "host": run.host,
            "startedAt": run.started_ms,
        }
    )


def mapping_key(mapping: Mapping) -> bytes:
    """Key of a mapping record."""
    return _dump(
        {
            "pipeline": mapping.pipeline,
            "topic": mapping.source.topic,
            "partition": mapping.source.partition,
        }
    )


def mapping_value(mapping: Mapping) -> bytes:
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
    return _dump(value)


def _deltas(sources: tuple[int, ...]) -> list[int]:
    return [sources[0], *(b - a for a, b in itertools.pairwise(sources))]


def _scattered(row: list[Any]) -> ScatteredRun:
    target, first, *deltas = (int(number) for number in row)
    if target < 0 or first < 0 or any(delta < 1 for delta in deltas):
        raise MalformedRecord("a run that does not increase")
    return ScatteredRun(target, tuple(itertools.accumulate(deltas, initial=first)))


def _covers(row: list[Any]) -> Covers:
    first, end, part, parts = (int(number) for number in row)
    if not (0 <= first < end and 0 <= part < parts):
        raise MalformedRecord("covers no offsets, or is a part outside of the whole")
    return Covers(first, end, part, parts)


def read_commit_record(
    key: bytes | None, value: bytes | None
) -> tuple[str, SourcePartition | None, Position | Run | None]:
    """Decode a record of the commit topic.

    Returns:
        ``(group, source partition, position)`` for a position, ``(group, None, run)`` for a run;
        a tombstone has None as its last element.

    Raises:
        MalformedRecord: the record is not one of ours, or of a newer version.
    """
    head = _load(key, "the key")
    try:
        group = str(head["group"])
        if head.get("run"):
            return group, None, None if value is None else _run(_load(value, "the value"))
        source = SourcePartition(str(head["topic"]), int(head["partition"]))
        return group, source, None if value is None else _position(_load(value, "the value"))
    except (KeyError, TypeError, ValueError) as error:
        raise MalformedRecord(f"missing or wrong field: {error}") from error


def _check_version(value: dict[str, Any]) -> None:
    if value["v"] != VERSION:
        raise MalformedRecord(f"version {value['v']!r}, this program reads version {VERSION}")


def _run(value: dict[str, Any]) -> Run:
    _check_version(value)
    return Run(
        term=int(value["term"]),
        slots=int(value["slots"]),
        name=str(value.get("name", "")),
        host=str(value.get("host", "")),
        started_ms=int(value.get("startedAt", 0)),
    )


def _position(value: dict[str, Any]) -> Position:
    _check_version(value)
    target_partition = value["targetPartition"]
    return Position(
        offset=int(value["offset"]),
        start=int(value["start"]),
        leader_epoch=int(value["leaderEpoch"]),
        topic_id=str(value["topicId"]),
        term=int(value["term"]),
        slot=int(value["slot"]),
        target_topic=str(value["targetTopic"]),
        target_partition=None if target_partition is None else int(target_partition),
        target_topic_id=str(value.get("targetTopicId", "")),
        since=int(value.get("since", 0)),
        at_ms=int(value.get("at", 0)),
        gaps=tuple(Gap(int(g[0]), int(g[1]), str(g[2])) for g in value.get("gaps", ())),
    )


def read_mapping_record(key: bytes | None, value: bytes | None) -> Mapping:
    """Decode a record of the mapping topic.

    Raises:
        MalformedRecord: the record is not one of ours, damaged, or of a newer version.
    """
    head, body = _load(key, "the key"), _load(value, "the value")
    try:
        _check_version(body)
        ranges = tuple(MappingRange(int(s), int(t), int(n)) for s, t, n in body["ranges"])
        if any(r.source < 0 or r.target < 0 or r.count < 1 for r in ranges):
            raise MalformedRecord("a range with a negative offset or no records")
        return Mapping(
            pipeline=str(head["pipeline"]),
            source=SourcePartition(str(head["topic"]), int(head["partition"])),
            target_topic=str(body["targetTopic"]),
            target_partition=int(body["targetPartition"]),
            term=int(body["term"]),
            ranges=ranges,
            runs=tuple(_scattered(row) for row in body.get("runs", ())),
            covers=_covers(body["covers"]),
            again=bool(body.get("again", False)),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, MalformedRecord):
            raise
        raise MalformedRecord(f"missing or wrong field: {error}") from error
