"""Moves of a pipeline's own positions by an operator: what each means, and what it leaves behind.

What keeps translation true (docs/record-formats.md):

- ``since`` changes exactly when ``start`` does: a reader drops mappings of terms before ``since``.
- *Back, behind* ``start``: both stay. The records before the new position were copied once and
  their mapping holds; of what is copied again the later copy wins, because its term is higher.
- *Back to or before* ``start``: all that is mapped is copied again, so the mapping begins anew.
- *Forward*: what is left out becomes a gap, so that translation tells of it.
- *Another incarnation* of either topic: the mapping is of another log, and begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from k2ktui.engine.gaps import with_gap
from k2ktui.engine.state import Gap, Position, SourcePartition

SKIPPED = "skipped by operator"
LOST = "truncated"  # as a driver calls it (onSourceDataLoss: continue)
_DRIVER_SLOT = -1


class MoveEffect(StrEnum):
    """What a move means, in one word."""

    BEGIN = "begin"
    BACK = "back"
    FORWARD = "forward"
    ANEW = "anew"
    KEEP = "keep"
    CLEAR = "clear"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class SourceLog:
    """A source partition as it is: log start offset, last stable offset, topic id ("" if none)."""

    start: int
    end: int
    topic_id: str = ""


@dataclass(frozen=True, slots=True)
class TargetTopicState:
    """The target topic of a source partition as it is.

    Attributes:
        topic: its name.
        partition: target partition, None where keys choose it.
        topic_id: its id, None if the topic does not exist, "" if it has none.
    """

    topic: str
    partition: int | None
    topic_id: str | None


@dataclass(frozen=True, slots=True)
class PositionMove:
    """One position to be set or cleared.

    Attributes:
        source: whose position.
        effect: what it means; only a plan without refused moves may be carried out.
        before: the position now, None if there is none.
        after: the position to be written, without its term; None for a clearing and a refusal.
        offset: where copying goes on: the new position; of a cleared one where it will begin, None
            if that is not known.
        again: source offsets that are copied once more.
        left_out: source offsets that are never copied.
        why: what the operator should know, or why it is refused.
    """

    source: SourcePartition
    effect: MoveEffect
    before: Position | None
    after: Position | None = None
    offset: int | None = None
    again: int = 0
    left_out: int = 0
    why: str = ""

    @property
    def changes(self) -> bool:
        """Whether something is to be written."""
        return self.effect not in (MoveEffect.KEEP, MoveEffect.REFUSED)

    def stamped(self, term: int, at_ms: int) -> Position | None:
        """Return the position to write in a term that has begun; None for a tombstone."""
        if self.after is None:
            return None
        since = term if self.after.since < 0 else self.after.since
        return replace(self.after, term=term, since=since, at_ms=at_ms)


_ANEW = -1  # ``since`` of a position whose mapping begins with the term that it is written in


def plan_move(
    source: SourcePartition,
    before: Position | None,
    offset: int,
    log: SourceLog | None,
    landing: TargetTopicState,
    copied: Position | None = None,
) -> PositionMove:
    """Return what setting a position means.

    Args:
        source: whose position.
        before: the position now.
        offset: the new one, a source offset.
        log: the source partition; None if it does not exist or cannot be asked.
        landing: its target topic; of a position that exists, the one that the position names.
        copied: the last position that copying reached, if an operator has moved it since and
            nothing was copied from there: what is left out, or comes again, counts from it.
    """
    why = _refusal(offset, log, landing)
    if why or log is None:
        return PositionMove(source, MoveEffect.REFUSED, before, offset=offset, why=why)
    if before is None:
        new = _begin(offset, log, landing)
        return PositionMove(
            source, MoveEffect.BEGIN, None, new, offset, left_out=offset - log.start
        )
    anew = _other_incarnation(before, log, landing)
    if anew:
        new = replace(_begin(offset, log, landing), target_partition=before.target_partition)
        again = 0 if _differ(before.topic_id, log.topic_id) else max(0, before.offset - offset)
        return PositionMove(source, MoveEffect.ANEW, before, new, offset, again=again, why=anew)
    if offset == before.offset:
        return PositionMove(source, MoveEffect.KEEP, before, before, offset)
    effect = MoveEffect.BACK if offset < before.offset else MoveEffect.FORWARD
    if copied is None or _other_incarnation(copied, log, landing):
        copied = before
    if offset <= copied.offset:
        return PositionMove(
            source, effect, before, _back(copied, offset), offset, copied.offset - offset
        )
    after = _moved(copied, offset, _passed_over(copied, offset, log))
    lost = max(0, min(offset, log.start) - copied.offset)
    told = f"{lost:,} of them are lost: the log start offset is {log.start}" if lost else ""
    left_out = offset - copied.offset
    return PositionMove(source, effect, before, after, offset, left_out=left_out, why=told)


def plan_clear(
    source: SourcePartition, before: Position, log: SourceLog | None, begins_at: int | None
) -> PositionMove:
    """Return what removing a position means: the partition begins as a new one.

    Args:
        source: whose position.
        before: the position now.
        log: the source partition, None if it cannot be asked.
        begins_at: source offset at which it will begin, None if that is not known.
    """
    again = left_out = 0
    why = ""
    if log is None:
        why = "the source partition cannot be found: nothing will be copied"
    elif _differ(before.topic_id, log.topic_id):
        why = f"{source.topic} was created again on the source"
    elif begins_at is not None:
        again = max(0, before.offset - max(begins_at, before.start))
        left_out = max(0, begins_at - before.offset)
    return PositionMove(source, MoveEffect.CLEAR, before, None, begins_at, again, left_out, why)


def find_refused(moves: Iterable[PositionMove]) -> list[PositionMove]:
    """Return the moves that cannot be made."""
    return [move for move in moves if move.effect is MoveEffect.REFUSED]


def _refusal(offset: int, log: SourceLog | None, landing: TargetTopicState) -> str:
    if log is None:
        return "the source partition does not exist, or cannot be asked"
    if not log.start <= offset <= log.end:
        return (
            f"offset {offset} is outside the source log: log start offset {log.start}, "
            f"last stable offset {log.end}"
        )
    if landing.topic_id is None:
        return f"its target topic {landing.topic} does not exist: clear the position, or create it"
    return ""


def _begin(offset: int, log: SourceLog, landing: TargetTopicState) -> Position:
    return Position(
        offset=offset,
        start=offset,
        leader_epoch=-1,
        topic_id=log.topic_id,
        term=0,
        slot=_DRIVER_SLOT,
        target_topic=landing.topic,
        target_partition=landing.partition,
        target_topic_id=landing.topic_id or "",
        since=_ANEW,
    )


def _back(before: Position, offset: int) -> Position:
    kept = tuple(
        replace(gap, end=min(gap.end, offset)) for gap in before.gaps if gap.first < offset
    )
    if offset == before.offset:
        return _moved(before, offset, kept)
    if offset <= before.start:
        return replace(_moved(before, offset, ()), start=offset, since=_ANEW)
    return _moved(before, offset, kept)


def _moved(before: Position, offset: int, gaps: tuple[Gap, ...]) -> Position:
    return replace(before, offset=offset, leader_epoch=-1, slot=_DRIVER_SLOT, gaps=gaps)


def _passed_over(before: Position, offset: int, log: SourceLog) -> tuple[Gap, ...]:
    """Return the gaps of a position that goes forward; what the source has lost is told apart."""
    gaps, first = before.gaps, before.offset
    if first < log.start:
        gaps, first = with_gap(gaps, Gap(first, log.start, LOST)), log.start
    return with_gap(gaps, Gap(first, offset, SKIPPED)) if first < offset else gaps


def _other_incarnation(before: Position, log: SourceLog, landing: TargetTopicState) -> str:
    if _differ(before.topic_id, log.topic_id):
        return "the topic was created again on the source"
    if _differ(before.target_topic_id, landing.topic_id or ""):
        return f"{landing.topic} was created again on the target: it holds nothing of before"
    return ""


def _differ(one: str, other: str) -> bool:
    return bool(one and other and one != other)
