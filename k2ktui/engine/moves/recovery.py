"""Rebuild lost positions of a pipeline from what is left on the target.

The commit topic was deleted, emptied, or cut at its start. A position is written in one transaction
with the mapping of the records that it passes, so the newest mapping ends where the position was.
That is proof only if nothing was copied after it, and if both logs are still the ones that were
copied: a partition for which this is not shown is stopped, and the operator decides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest

import numpy as np

from k2ktui.engine.drill.changes import read_moved_topics
from k2ktui.engine.drill.model import ChangeKind, ChangeStatus, Drill
from k2ktui.engine.mapping.log import MappingChunk, MappingLog
from k2ktui.engine.mapping.range_columns import I64
from k2ktui.engine.mapping.replica import TargetPartition
from k2ktui.engine.moves.positions import (
    MoveEffect,
    PositionMove,
    SourceLog,
    TargetTopicState,
    begin_at,
)
from k2ktui.engine.records.moved_topic import MovedTopic
from k2ktui.engine.records.state import Landed, Position, SourcePartition

# Number of last copies of a partition that are compared. More make it likelier that one of them
# differs from all others, where producers repeat themselves.
COMPARED = 32
# Number of terms of a partition whose first copies are compared.
_TERMS = 16
_LONGEST = 400


@dataclass(frozen=True, slots=True, order=True)
class Copy:
    """A source offset, and where its record landed."""

    offset: int
    target: TargetPartition
    target_offset: int


@dataclass(frozen=True, slots=True)
class Writers:
    """The producer ids of batches on the target.

    Attributes:
        own: those with a batch in a mapped span: of this pipeline.
        others: those of transactions with batches outside of every span, and none inside.
    """

    own: frozenset[int]
    others: frozenset[int]


@dataclass(frozen=True, slots=True)
class MappedSpan:
    """What the mapping topic says of a source partition.

    Attributes:
        term: term of the newest record.
        end: source offset up to which it is mapped: where the position was.
        first: lowest source offset that is covered.
        since: term of the oldest record that counts.
        last: the last copies that it names, in source order; at most ``COMPARED``.
        firsts: the first copy of each of the last terms.
        is_damaged: whether the newest record, or a part of it, is missing or cannot be read.
    """

    term: int
    end: int
    first: int
    since: int
    last: tuple[Copy, ...] = ()
    firsts: tuple[Copy, ...] = ()
    is_damaged: bool = False

    @property
    def targets(self) -> frozenset[TargetPartition]:
        """The target partitions of the last copies."""
        return frozenset(copy.target for copy in self.last)


class MappingEvidence:
    """Folds the mapping records of a pipeline; those of one partition must come in order.

    Args:
        void: returns the term up to which records of a source partition do not count, as its
            position was cleared then.
    """

    def __init__(self, void: Callable[[SourcePartition], int] = lambda _: 0) -> None:
        self._void = void
        self._logs: dict[SourcePartition, MappingLog] = {}
        self._newest: dict[SourcePartition, tuple[bool, int, int]] = {}
        self._oldest: dict[SourcePartition, int] = {}
        self._firsts: dict[SourcePartition, dict[int, Copy]] = {}
        self._landed: dict[TargetPartition, list[tuple[I64, I64]]] = {}
        self.term = 0

    @property
    def sources(self) -> Collection[SourcePartition]:
        """The source partitions that are mapped."""
        return self._newest.keys()

    @property
    def targets(self) -> Collection[TargetPartition]:
        """The target partitions in which a copy has landed."""
        return self._landed.keys()

    def take(self, source: SourcePartition, chunk: MappingChunk) -> None:
        """Add a record. One that does not count still says where copies are on the target."""
        self.term = max(self.term, chunk.term)
        columns = chunk.columns
        if len(columns):
            ends = columns.target + columns.count + columns.further
            self._landed.setdefault(chunk.target, []).append((columns.target, ends))
        if 0 < chunk.term <= self._void(source):
            return
        self._logs.setdefault(source, MappingLog()).take(chunk)
        self._oldest[source] = min(chunk.term, self._oldest.get(source, chunk.term))
        # A repeat is of an earlier time than its place: it counts where nothing else is left.
        end = (not chunk.again, chunk.term, chunk.covers.end)
        self._newest[source] = max(end, self._newest.get(source, end))
        if len(columns) and not chunk.again:
            firsts = self._firsts.setdefault(source, {})
            first = Copy(int(columns.source[0]), chunk.target, int(columns.target[0]))
            firsts.setdefault(chunk.term, first)

    def span(self, source: SourcePartition) -> MappedSpan | None:
        """Return what is known of a source partition; None if no record of it counts."""
        if source not in self._newest:
            return None
        _, term, end = self._newest[source]
        log = self._logs[source]
        known = log.known.all()
        last = _last_copies(log)
        mapped = {(copy.target, copy.target_offset) for copy in last}
        firsts = self._firsts.get(source, {})
        return MappedSpan(
            term,
            end,
            known[0][0] if known else end,
            self._oldest[source],
            last,
            tuple(
                copy
                for _, copy in sorted(firsts.items())[-_TERMS:]
                # Moved back since: the copy that counts is another one.
                if _is_mapped(log, copy) and (copy.target, copy.target_offset) not in mapped
            ),
            is_damaged=log.known.end != end,
        )

    def landed_end(self, target: TargetPartition) -> int | None:
        """Return the target offset after the last copy; None if none has landed there."""
        ends = [int(ends.max()) for _, ends in self._landed.get(target, ())]
        return max(ends, default=None)

    def spans(self, target: TargetPartition) -> tuple[I64, I64]:
        """Return first offsets and ends of all copies in a target partition, sorted."""
        spans = self._landed.get(target, [])
        if not spans:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        firsts = np.concatenate([first for first, _ in spans])
        ends = np.concatenate([end for _, end in spans])
        order = np.argsort(firsts, kind="stable")
        return firsts[order], np.maximum.accumulate(ends[order])


def _last_copies(log: MappingLog) -> tuple[Copy, ...]:
    copies = []
    for target, ranges in log.target_ranges.items():
        columns, left = ranges.columns(), COMPARED
        for row in range(len(columns) - 1, -1, -1):
            source, landed = int(columns.source[row]), int(columns.target[row])
            count = int(columns.count[row])
            for at in range(count - 1, max(-1, count - 1 - left), -1):
                copies.append(Copy(source + at, target, landed + at))
            left -= count
            if left <= 0:
                break
    return tuple(sorted(nlargest(COMPARED, copies)))


def _is_mapped(log: MappingLog, copy: Copy) -> bool:
    ranges = log.target_ranges.get(copy.target)
    if ranges is None:
        return False
    return int(ranges.translate(np.array([copy.offset], dtype=np.int64))[0]) == copy.target_offset


@dataclass(frozen=True, slots=True)
class TargetEnd:
    """The end of a target partition.

    Attributes:
        start, high: log start offset and high watermark.
        next_record: offset of the first committed record at or after the last copy; from the log
            start on, if no copy is mapped. None if there is none.
    """

    start: int
    high: int
    next_record: int | None = None


@dataclass(frozen=True, slots=True)
class LostPartition:
    """A source partition, and all that is known of it.

    Attributes:
        source: the partition.
        position: what the commit topic still has of it.
        mapped: what the mapping topic has of it.
        log: its log on the source; None if it does not exist there.
        landing: its target topics by the file, with their ids; None if the file does not copy it.
        doubt: why the copies are not shown to be the same on both clusters; "" if they are.
        moved_to: offset and term of a position that an operator has set later than anything was
            copied, by the journal; None without one.
        refused: why nothing of its topic may be rebuilt; "" without a reason.
    """

    source: SourcePartition
    position: Position | None = None
    mapped: MappedSpan | None = None
    log: SourceLog | None = None
    landing: TargetTopicState | None = None
    doubt: str = ""
    moved_to: tuple[int, int] | None = None
    refused: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether its position is as new as its mapping."""
        if self.position is None:
            return False
        mapped = self.mapped
        newest = (self.position.term, self.position.offset)
        return mapped is None or newest >= (mapped.term, mapped.end)


def plan_recovery(
    lost: LostPartition,
    landed: Mapping[TargetPartition, int],
    ends: Mapping[TargetPartition, TargetEnd],
    *,
    is_whole: bool,
    begins_early: bool,
) -> PositionMove | None:
    """Return the recovered position of a partition, or the reason why it stays stopped.

    Args:
        lost: the partition.
        landed: the target offset after the last copy, by target partition.
        ends: the ends of target partitions; one that does not exist is missing.
        is_whole: whether the mapping topic has lost no record since it was created.
        begins_early: whether a first start of the pipeline begins at the log start offset, as that
            of a new partition does.

    Returns:
        None for a partition that was never copied: it starts as a new one.
    """
    if lost.is_kept and not lost.refused:
        assert lost.position is not None
        at = lost.position.offset
        return PositionMove(lost.source, MoveEffect.KEEP, lost.position, lost.position, at)
    if lost.mapped is None:
        why = lost.refused or _why_evident(lost, landed, ends, begins_early=begins_early)
        return _stop(lost, why) if why else None
    why = lost.refused or _find_doubt(lost, lost.mapped, landed, ends)
    if why or lost.log is None or lost.landing is None:
        return _stop(lost, why)
    after = _recovered(lost, lost.mapped, landed, is_whole=is_whole, begins_early=begins_early)
    count = len(lost.mapped.last)
    return PositionMove(
        lost.source,
        MoveEffect.RECOVER,
        lost.position,
        after,
        after.offset,
        why=f"mapped up to there; its last {count} copies are equal on both clusters",
    )


def _why_evident(
    lost: LostPartition,
    landed: Mapping[TargetPartition, int],
    ends: Mapping[TargetPartition, TargetEnd],
    *,
    begins_early: bool,
) -> str:
    """Return why a partition without a mapping may have been copied; "" if it was not."""
    if lost.landing is None or lost.log is None:
        return ""  # nothing copies it
    written = [at for at in _may_hold(lost.landing, ends) if ends[at].high and at not in landed]
    if written:
        topic, number = written[0]
        return (
            f"no mapping of it is left, and {topic}-{number} on the target has had records: what "
            "was copied is not known"
        )
    if not begins_early and lost.log.start < lost.log.end:
        return "no record of it was copied, and where it was to begin is not known"
    return ""


def _may_hold(
    landing: TargetTopicState, ends: Mapping[TargetPartition, TargetEnd]
) -> list[TargetPartition]:
    """Return the target partitions that copies of a source partition may be in."""
    if landing.partition is not None:
        return [at for t in landing.topics if (at := (t, landing.partition)) in ends]
    return sorted(at for at in ends if at[0] in landing.topics)


def _find_doubt(
    lost: LostPartition,
    mapped: MappedSpan,
    landed: Mapping[TargetPartition, int],
    ends: Mapping[TargetPartition, TargetEnd],
) -> str:
    """Return why the end of the mapping is not shown to be the position; "" if it is."""
    log, landing = lost.log, lost.landing
    if mapped.is_damaged:
        return f"its newest mapping, up to offset {mapped.end}, is not complete"
    if lost.moved_to is not None and lost.moved_to[1] > mapped.term:
        return (
            f"an operator has set it to offset {lost.moved_to[0]} in term {lost.moved_to[1]}, and "
            "nothing was copied since"
        )
    if log is None:
        return "it does not exist on the source"
    if not log.start <= mapped.end <= log.end:
        return (
            f"it is mapped up to offset {mapped.end}, and the source has the offsets {log.start} "
            f"to {log.end}"
        )
    if landing is None:
        return "the file does not copy it"
    return (
        _find_other_target(mapped, landing)
        or _find_other_end(mapped, landing, landed, ends)
        or lost.doubt
    )


def _find_other_target(mapped: MappedSpan, landing: TargetTopicState) -> str:
    others = {
        f"{topic}-{number}"
        for topic, number in mapped.targets
        if topic not in landing.topics or landing.partition not in (None, number)
    }
    if others:
        return f"its records are mapped to {min(others)}, and the file copies it elsewhere"
    for topic, topic_id in landing.topics.items():
        if topic_id is None:
            return f"its target topic {topic} does not exist"
    if not mapped.last:
        return "no copied record of it is mapped, so that nothing can be compared"
    return ""


def _find_other_end(
    mapped: MappedSpan,
    landing: TargetTopicState,
    landed: Mapping[TargetPartition, int],
    ends: Mapping[TargetPartition, TargetEnd],
) -> str:
    """Return where the target does not end with the last copy; "" if it does."""
    for at in sorted({*mapped.targets, *_may_hold(landing, ends)}):
        name = f"{at[0]}-{at[1]}"
        end = ends.get(at)
        if end is None:
            return f"{name} does not exist on the target"
        if at not in landed:
            if end.high > 0:
                return f"{name} on the target has had records that no mapping names"
        elif end.high < landed[at]:
            return f"{name} on the target ends at offset {end.high}, before its last copy"
        elif end.next_record is not None:
            return (
                f"{name} on the target has records from offset {end.next_record} on that no "
                "mapping names"
            )
    return ""


def _recovered(
    lost: LostPartition,
    mapped: MappedSpan,
    landed: Mapping[TargetPartition, int],
    *,
    is_whole: bool,
    begins_early: bool,
) -> Position:
    log, landing = lost.log, lost.landing
    assert log is not None and landing is not None
    # Claims too much rather than too little: from `start` on, what has no mapping is unknown, and
    # below it nothing was copied. A pipeline that has lost mappings may have begun before them.
    start = mapped.first if is_whole or not begins_early else 0
    return replace(
        begin_at(mapped.end, log, landing, mapped.since),
        start=min(start, mapped.end),
        landed=tuple(Landed(*at, landed[at], landed[at]) for at in sorted(mapped.targets)),
    )


def _stop(lost: LostPartition, why: str) -> PositionMove:
    log, landing, mapped = lost.log, lost.landing, lost.mapped
    before = lost.position
    if before is None or not lost.is_kept:
        offset = mapped.end if mapped is not None else log.start if log is not None else 0
        after = begin_at(offset, log, landing, mapped.since if mapped is not None else 0)
    else:
        after = before
    after = replace(after, stopped=why[:_LONGEST])
    return PositionMove(lost.source, MoveEffect.STOP, before, after, after.offset, why=why)


def is_unique(contents: Sequence[object]) -> bool:
    """Return whether one of these contents differs from all others.

    If none does, the same contents may follow each other with any shift of offsets: that they are
    equal on both clusters shows nothing.
    """
    counts: dict[object, int] = {}
    for content in contents:
        counts[content] = counts.get(content, 0) + 1
    return any(count == 1 for count in counts.values())


def find_moved(
    drills: Iterable[Drill], known: Iterable[MovedTopic], targets: Mapping[str, str]
) -> tuple[MovedTopic, ...]:
    """Return the moved topics that drill records name and the commit topic does not.

    Of a drill whose topics were released in part, all count: they can be released again, while a
    topic that was copied although it is moved cannot be taken back.

    Args:
        drills: all drills of the pipeline, the oldest first.
        known: the moved topics that are still on record.
        targets: target topic by source topic.

    Raises:
        MalformedRecord: it cannot be read which topics a drill has moved.
    """
    moved: dict[str, MovedTopic] = {}
    for drill in drills:
        for change in drill.changes:
            if change.kind is not ChangeKind.MOVED_TOPICS or change.status is ChangeStatus.UNDONE:
                continue
            for topic in read_moved_topics(change):
                target = targets.get(topic, topic)
                moved[topic] = MovedTopic(
                    topic, target, drill.id, drill.started_ms, drill.started_by
                )
    for one in known:
        moved.pop(one.topic, None)
    return tuple(moved[topic] for topic in sorted(moved))
