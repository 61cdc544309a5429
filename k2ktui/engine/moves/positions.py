"""Moves of positions by an operator: the effect and the new position; pure.

A position is the next source offset to copy: of a pipeline, or of MirrorMaker 2
(``mm2/offsets/positions.py``), which stores no more than an offset.

Rules that keep translation correct (docs/internals/record-formats.md):

- ``since`` changes exactly when ``start`` does: a reader drops mappings of terms before ``since``.
- *Back, but after* ``start``: both stay. The mapping of the records before the new position stays
  valid; for records copied again the later copy wins, because its term is higher.
- *Back to or before* ``start``: everything mapped is copied again, so the mapping starts over.
- *Forward*: the omitted offsets become a gap, so that translation reports them.
- *Another incarnation* of either topic: the mapping belongs to another log and starts over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from k2ktui.engine.records.cluster_pair import UNKNOWN_PAIR, ClusterPair
from k2ktui.engine.records.gaps import RETURNED, gaps_before, with_gap
from k2ktui.engine.records.moved_topic import MovedTopic
from k2ktui.engine.records.run_record import Run
from k2ktui.engine.records.state import (
    Gap,
    MalformedRecord,
    Position,
    SourcePartition,
    position_key,
    position_value,
    read_commit_record,
)

# Journal names of what changes positions.
SET, CLEAR, PASS = "offsets set", "offsets clear", "offsets pass"
RECOVER, ACCEPT = "offsets recover", "accept cluster"
SKIPPED = "skipped by operator"
LOST = "truncated"  # the driver's word (onSourceDataLoss: continue)
_DRIVER_SLOT = -1


class MoveEffect(StrEnum):
    """Effect of a move."""

    BEGIN = "begin"
    BACK = "back"
    FORWARD = "forward"
    RESTART = "restart"
    KEEP = "keep"
    CLEAR = "clear"
    REFUSED = "refused"
    ACCEPT = "accept"
    STOP = "stop"
    RECOVER = "recover"


@dataclass(frozen=True, slots=True)
class SourceLog:
    """State of a source partition: log start offset, end, topic id ("" if none).

    The end is the last stable offset; for MirrorMaker 2, the high watermark.
    """

    start: int
    end: int
    topic_id: str = ""


@dataclass(frozen=True, slots=True)
class TargetTopicState:
    """State of a source partition's target topic.

    Attributes:
        topic: name of the topic.
        partition: target partition, None where keys choose it.
        topic_id: topic id, None if the topic does not exist, "" if it has none.
        further: names and ids of the other target topics, if an expression chooses among several.
        shorter: a target partition that ends before what the position had written to it; "" if
            there is none.
    """

    topic: str
    partition: int | None
    topic_id: str | None
    further: tuple[tuple[str, str | None], ...] = ()
    shorter: str = ""

    @classmethod
    def of(
        cls,
        names: Sequence[str],
        ids: Mapping[str, str],
        partition: int | None,
        shorter: str = "",
    ) -> TargetTopicState | None:
        """Return the state of these topics, of which some have ids; None if there are none."""
        if not names:
            return None
        first, *further = ((name, ids.get(name)) for name in names)
        return cls(first[0], partition, first[1], tuple(further), shorter)

    @property
    def topics(self) -> dict[str, str | None]:
        """The ids of all target topics by name."""
        return {self.topic: self.topic_id, **dict(self.further)}


@dataclass(frozen=True, slots=True)
class PositionMove:
    """One position to set or clear.

    Attributes:
        source: the source partition.
        effect: effect of the move; a plan with refused moves must not be carried out.
        before: the current position, None if there is none.
        after: the position to write, without its term; None if cleared or refused.
        offset: where copying resumes: the new position, or where a cleared partition will begin;
            None if unknown. What is stored is ``then``.
        again: number of source offsets that are copied again.
        left_out: number of source offsets that are never copied.
        why: what the operator should know, or why the move is refused.
        stored: the current position of a MirrorMaker 2, which has no ``before`` and ``after``;
            None if it stores none.
    """

    source: SourcePartition
    effect: MoveEffect
    before: Position | None
    after: Position | None = None
    offset: int | None = None
    again: int = 0
    left_out: int = 0
    why: str = ""
    stored: int | None = None

    @property
    def now(self) -> int | None:
        """The offset of the current position; None if there is none."""
        return self.before.offset if self.before is not None else self.stored

    @property
    def then(self) -> int | None:
        """The offset of the new position; None if there will be none."""
        return None if self.effect is MoveEffect.CLEAR else self.offset

    @property
    def changes(self) -> bool:
        """Whether the move writes a record."""
        return self.effect not in (MoveEffect.KEEP, MoveEffect.REFUSED)

    def stamp(self, term: int, at_ms: int) -> Position | None:
        """Return the position to write in the given term; None for a tombstone."""
        if self.after is None:
            return None
        since = term if self.after.since < 0 else self.after.since
        return replace(self.after, term=term, since=since, at_ms=at_ms)


# ``since`` of a position whose mapping begins with the term in which it is written.
_FROM_THIS_TERM = -1


@dataclass(frozen=True, slots=True)
class Recovery:
    """What is rebuilt with recovered positions.

    Attributes:
        run: the run record of which a new term is begun: its term is the highest that any record
            names, its slots are all that any run may have used.
        ids: number of transactional ids that each shared slot may have used; one if it is missing.
        moved: the topics that drills have moved, as drill records say.
        is_whole: whether the mapping topic has lost no record since it was created. Otherwise a
            record of the pipeline on the target may be of a producer id that nothing names.
    """

    run: Run
    ids: Mapping[int, int] = field(default_factory=dict)
    moved: tuple[MovedTopic, ...] = ()
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class PositionPlan:
    """A plan for positions; making it changes nothing.

    Attributes:
        operation: journal name of the change.
        pipeline: name of the pipeline, or of MirrorMaker 2's connector.
        moves: one per partition.
        notes: messages for the operator about the plan as a whole.
        recorded, accepted: the clusters on record, and those to be recorded with the positions;
            both are unknown if the record stays as it is.
        recovery: what is rebuilt with the positions; None if they are not recovered.
        lost: the partitions whose position is lost, as far as the plan does not decide them.
        is_whole: whether nothing of the pipeline is left once the plan is applied.
        alias: alias of the source cluster in the positions of MirrorMaker 2.
    """

    operation: str
    pipeline: str
    moves: tuple[PositionMove, ...]
    notes: tuple[str, ...] = ()
    recorded: ClusterPair = UNKNOWN_PAIR
    accepted: ClusterPair = UNKNOWN_PAIR
    recovery: Recovery | None = None
    lost: frozenset[SourcePartition] = frozenset()
    is_whole: bool = False
    alias: str = ""

    @property
    def changes(self) -> tuple[PositionMove, ...]:
        """The moves that write something."""
        return tuple(move for move in self.moves if move.changes)

    @property
    def refused(self) -> tuple[PositionMove, ...]:
        """The moves that cannot be made: a plan that has some must not be carried out."""
        return tuple(move for move in self.moves if move.effect is MoveEffect.REFUSED)


def effect_of(now: int | None, new: int | None) -> MoveEffect:
    """Return the effect of a move between two offsets of one log; None is no position."""
    if now == new:
        return MoveEffect.KEEP
    if new is None:
        return MoveEffect.CLEAR
    if now is None:
        return MoveEffect.BEGIN
    return MoveEffect.BACK if new < now else MoveEffect.FORWARD


def plan_move(
    source: SourcePartition,
    before: Position | None,
    offset: int,
    log: SourceLog | None,
    landing: TargetTopicState,
    copied: Position | None = None,
) -> PositionMove:
    """Return the move that sets a position.

    Args:
        source: the source partition.
        before: the current position.
        offset: the new position, a source offset.
        log: state of the source partition; None if it does not exist or cannot be queried.
        landing: its target topic; for an existing position the topic that the position names.
        copied: the last position that copying reached, if an operator has moved the position
            since and nothing was copied from there; repeats and omissions count from it.
    """
    why = _refusal(offset, log, landing)
    if why or log is None:
        return PositionMove(source, MoveEffect.REFUSED, before, offset=offset, why=why)
    if before is None:
        new = begin_at(offset, log, landing, _FROM_THIS_TERM)
        return PositionMove(
            source, MoveEffect.BEGIN, None, new, offset, left_out=offset - log.start
        )
    other_incarnation = _other_incarnation(before, log, landing)
    if other_incarnation:
        new = replace(
            begin_at(offset, log, landing, _FROM_THIS_TERM),
            target_partition=before.target_partition,
        )
        again = 0 if _differ(before.topic_id, log.topic_id) else max(0, before.offset - offset)
        left_out = max(0, offset - max(before.offset, log.start)) if before.stopped else 0
        return PositionMove(
            source, MoveEffect.RESTART, before, new, offset, again, left_out, other_incarnation
        )
    effect = effect_of(before.offset, offset)
    if effect is MoveEffect.KEEP:
        return PositionMove(source, effect, before, before, offset)
    if copied is None or _other_incarnation(copied, log, landing):
        copied = before
    if offset <= copied.offset:
        return PositionMove(
            source, effect, before, _back(copied, offset), offset, copied.offset - offset
        )
    after = _move_position(copied, offset, _passed_over(copied, offset, log))
    lost = max(0, min(offset, log.start) - copied.offset)
    told = f"{lost:,} of them are lost: the log start offset is {log.start}" if lost else ""
    left_out = offset - copied.offset
    return PositionMove(source, effect, before, after, offset, left_out=left_out, why=told)


def mark_returned(move: PositionMove) -> PositionMove:
    """Return a move past offsets that the opposite pipeline wrote: it leaves no record out."""
    if move.effect is not MoveEffect.FORWARD or move.before is None or move.offset is None:
        return move
    gap = Gap(move.before.offset, move.offset, RETURNED)
    after = _move_position(move.before, move.offset, with_gap(move.before.gaps, gap))
    return replace(move, after=after, left_out=0, why="these offsets " + RETURNED)


def plan_clear(
    source: SourcePartition, before: Position | None, log: SourceLog | None, begins_at: int | None
) -> PositionMove:
    """Return the move that removes a position: the partition starts as a new one.

    Args:
        source: the source partition.
        before: the current position; None if it is lost.
        log: state of the source partition, None if it cannot be queried.
        begins_at: source offset at which copying will begin, None if unknown.
    """
    again = left_out = 0
    why = ""
    if log is None:
        why = "the source partition does not exist: no records will be copied"
    elif before is None:
        why = "its position is lost: every record copied before is copied again"
    elif _differ(before.topic_id, log.topic_id):
        why = f"{source.topic} was deleted and created again on the source"
    elif begins_at is not None:
        again = max(0, before.offset - max(begins_at, before.start))
        left_out = max(0, begins_at - before.offset)
    return PositionMove(source, MoveEffect.CLEAR, before, None, begins_at, again, left_out, why)


def _refusal(offset: int, log: SourceLog | None, landing: TargetTopicState) -> str:
    if log is None:
        return "the source partition does not exist or is unavailable"
    if not log.start <= offset <= log.end:
        return (
            f"offset {offset} is outside the source log: log start offset {log.start}, "
            f"last stable offset {log.end}"
        )
    for topic, topic_id in landing.topics.items():
        if topic_id is None:
            return (
                f"its target topic {topic} does not exist: clear the position, or create the topic"
            )
    return ""


def begin_at(
    offset: int, log: SourceLog | None, landing: TargetTopicState | None, since: int
) -> Position:
    """Return the position of a partition of which nothing is copied before an offset.

    Args:
        offset: of the next record.
        log: the source log, if it is there.
        landing: where its records land, if it is known.
        since: the term from which on mappings count.
    """
    further = landing.further if landing is not None else ()
    return Position(
        offset=offset,
        start=offset,
        leader_epoch=-1,
        topic_id=log.topic_id if log is not None else "",
        term=0,
        slot=_DRIVER_SLOT,
        target_topic=landing.topic if landing is not None else "",
        target_partition=landing.partition if landing is not None else None,
        target_topic_id=(landing.topic_id if landing is not None else None) or "",
        further_targets=tuple((topic, topic_id or "") for topic, topic_id in further),
        since=since,
    )


def _back(before: Position, offset: int) -> Position:
    kept = gaps_before(before.gaps, offset)
    if offset == before.offset:
        return _move_position(before, offset, kept)
    moved = before.moved_back(offset)
    if offset <= before.start:
        return replace(_move_position(moved, offset, ()), start=offset, since=_FROM_THIS_TERM)
    return _move_position(moved, offset, kept)


def _move_position(before: Position, offset: int, gaps: tuple[Gap, ...]) -> Position:
    return replace(before, offset=offset, leader_epoch=-1, slot=_DRIVER_SLOT, gaps=gaps)


def _passed_over(before: Position, offset: int, log: SourceLog) -> tuple[Gap, ...]:
    """Return the gaps of a position moved forward; lost and skipped offsets are separate gaps."""
    gaps, first = before.gaps, before.offset
    if first < log.start:
        gaps, first = with_gap(gaps, Gap(first, log.start, LOST)), log.start
    return with_gap(gaps, Gap(first, offset, SKIPPED)) if first < offset else gaps


def _other_incarnation(before: Position, log: SourceLog, landing: TargetTopicState) -> str:
    if before.stopped:
        return f"it was stopped: {before.stopped}"
    if _differ(before.topic_id, log.topic_id):
        return "the topic was deleted and created again on the source"
    for topic, topic_id in landing.topics.items():
        if _differ(before.target_topics.get(topic, ""), topic_id or ""):
            return (
                f"{topic} was deleted and created again on the target, without its earlier records"
            )
    if landing.shorter:
        return f"{landing.shorter} was created again on the target, or has lost records"
    return ""


def _differ(one: str, other: str) -> bool:
    return bool(one and other and one != other)


def position_image(position: Position | None) -> str:
    """Return a position in the journal's format (that of the commit topic); "" for none."""
    return "" if position is None else position_value(position).decode()


def position_of(text: str) -> Position | None:
    """Return the position :func:`position_image` wrote; None for "" or damaged text."""
    source = SourcePartition("", 0)
    try:
        _, _, record = read_commit_record(position_key("", source), text.encode())
    except MalformedRecord:
        return None
    return record if isinstance(record, Position) else None
