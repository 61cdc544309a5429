"""What a failback changes of the forward pipeline: its starts, topics, tail and positions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import closing
from dataclasses import replace
from functools import partial

from k2ktui.drill.authorship import Owners, find_doubt, read_owners
from k2ktui.drill.changes.handler import ChangeHandler, read_change
from k2ktui.drill.logs import name_partitions
from k2ktui.drill.operator import UnaskedOperator
from k2ktui.drill.session import Session, finish_drill
from k2ktui.drill.store import DrillStore
from k2ktui.engine.drill.changes import (
    read_moved_positions,
    read_moves,
    read_released,
    read_tail_choice,
    read_tail_starts,
)
from k2ktui.engine.drill.model import Change, ChangeKind, ChangeStatus, Drill
from k2ktui.engine.drill.steps import drill_command, find_change_of, put_change
from k2ktui.engine.drill.tail import TailChoice
from k2ktui.engine.moves.positions import PositionPlan
from k2ktui.engine.records.moved_topic import MovedTopics
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import ConnectionFailed, Refused, TimedOut
from k2ktui.kafka.properties.translation import wire
from k2ktui.replication.ownership.pipeline import make_ownership
from k2ktui.replication.ownership.topic_moves import move_topics, read_moved
from k2ktui.sync.positions.position_planner import PositionPlanner
from k2ktui.sync.positions.position_writer import PipelineRunning, PositionWriter
from k2ktui.text import safe_text


class Release(ChangeHandler):
    """Drills that no longer keep the forward pipeline from starting."""

    kind = ChangeKind.RELEASE

    def preview_restore(self, session: Session, change: Change) -> Iterable[str]:
        """Return that it may no longer start, and that what runs ends."""
        by, name = _names(session, change), session.forward.name
        yield f"starts of {name}: allowed → refused, by drills {by}; what runs ends"

    def preview_repeat(self, session: Session, change: Change) -> Iterable[str]:
        """Return that it may start."""
        by = _names(session, change)
        yield f"starts of {session.forward.name}: refused by drills {by} → allowed"

    def restore(self, session: Session, change: Change) -> list[str]:
        """Keep the forward pipeline from starting again, and fence what runs."""
        ids = read_change(session.drill, change, read_released)
        set_fences(session, ids, ChangeStatus.MADE)
        config, target = session.forward.config, session.forward.target
        topic = target.find(config.coordination.commit.topic)
        if topic is not None:
            options = wire(config.target, "producer")
            ownership = make_ownership(
                config, target, options, topic.partitions, fenced_by=max(ids)
            )
            try:
                ownership.take_over(0)
            finally:
                ownership.close()
        return []


def _names(session: Session, change: Change) -> str:
    ids = read_change(session.drill, change, read_released)
    return ", ".join(safe_text(id_) for id_ in ids)


class ReleasedTopics(ChangeHandler):
    """Topics that the forward pipeline copies again, after a failback of some topics."""

    kind = ChangeKind.RELEASED_TOPICS

    def preview_restore(self, session: Session, change: Change) -> Iterable[str]:
        """Return the topics that are copied."""
        moves = read_change(session.drill, change, read_moves)
        moved = read_moved(session.forward.config, session.forward.target)
        for move in moves:
            if move.topic not in moved:
                yield f"{safe_text(move.topic)} by {session.forward.name}: copied → moved"

    def preview_repeat(self, session: Session, change: Change) -> Iterable[str]:
        """Return the topics that are not copied."""
        moves = read_change(session.drill, change, read_moves)
        moved = read_moved(session.forward.config, session.forward.target)
        for move in moves:
            if move.topic in moved:
                yield f"{safe_text(move.topic)} by {session.forward.name}: moved → copied"

    def restore(self, session: Session, change: Change) -> list[str]:
        """Keep the forward pipeline from copying the topics again, as before the failback."""
        wanted = read_change(session.drill, change, read_moves)
        forward = session.forward
        copied = set(forward.topics)
        move_topics(forward.config, forward.target, [m for m in wanted if m.topic in copied])
        settle_moves(session, {move.drill for move in wanted}, forward.read_moves())
        return []


def settle_moves(session: Session, drills: Collection[str], moved: MovedTopics) -> None:
    """Write in drills whether any topic that they have moved still is."""
    in_force = {move.drill for move in moved.all}
    for drill in session.forward.read_drills():
        change = find_change_of(drill, None, ChangeKind.MOVED_TOPICS, any_status=True)
        if drill.id not in drills or change is None or not drill.is_over:
            continue
        status = ChangeStatus.MADE if drill.id in in_force else ChangeStatus.UNDONE
        if change.status is not status:
            text = "moved again" if status is ChangeStatus.MADE else "led back"
            rewrite_drill(
                session, drill, text, partial(put_change, change=replace(change, status=status))
            )


def set_fences(session: Session, ids: Collection[str], status: ChangeStatus) -> None:
    """Write in the forward pipeline's drills whether they keep it from starting."""
    other = ChangeStatus.MADE if status is ChangeStatus.UNDONE else ChangeStatus.UNDONE
    text = "let start" if status is ChangeStatus.UNDONE else "keep from starting"
    for drill in session.forward.read_drills():
        change = find_change_of(drill, None, ChangeKind.EPOCHS, any_status=True)
        if drill.id not in ids or change is None or change.status is status:
            continue
        if not drill.is_over:
            # Its record would be written as by its owner, whoever has written it.
            raise Refused(
                f"drill {safe_text(drill.id)} of {session.forward.name} is open",
                unchanged="The drill stays where it is.",
                hint=f"Resume or abort it first: k2ktui drill show {safe_text(drill.id)} -f "
                f"{session.forward.file}",
            )
        if change.status not in (other, ChangeStatus.INTENDED):
            continue
        fenced = partial(put_change, change=replace(change, status=status))
        rewrite_drill(session, drill, text, fenced)


def rewrite_drill(
    session: Session, drill: Drill, text: str, change: Callable[[Drill], Drill]
) -> None:
    """Change a drill of the forward pipeline that is over, and the hash of its report.

    It becomes a record that this process has written: if it was not proven who had, it says so.
    """
    forward = session.forward
    store = DrillStore(forward.config, forward.target)
    try:
        owners = read_owners(forward.config, forward.target, drill.id)
    except (ConnectionFailed, TimedOut) as error:  # it stops no failback, nor its abort
        owners = Owners(unknown=error.message)

    def owned(_: Drill) -> Drill:
        """Read again what former owners have written until they were fenced."""
        try:
            newest = store.read_settled(drill.id)
            doubt = find_doubt(forward.config, forward.target, store, drill.id, owners)
        except (ConnectionFailed, TimedOut) as error:
            newest, doubt = drill, error.message
        return replace(newest if newest.is_over else drill, doubt=doubt or newest.doubt)

    with closing(
        Session(forward.flow, drill, store, UnaskedOperator(), session.may, forward.files)
    ) as owner:
        owner.open(session.drill.session, f"{text} by failback {session.drill.id}", owned)
        owner.change_drill(change)
        finish_drill(owner, owner.drill.status)


def offset_of(position: Position | None) -> int | None:
    """Return the offset of a position; None without one."""
    return None if position is None else position.offset


def is_before(position: Position | None, end: int) -> bool:
    """Return whether a position is before an offset; so is none at all."""
    return position is None or position.offset < end


def write_positions(
    session: Session,
    planner: PositionPlanner,
    plan: PositionPlan,
    *,
    harm: str = ": it copies what is to be left out",
) -> None:
    """Write positions of the forward pipeline; ``harm`` is what it does while it runs.

    Raises:
        Refused: it runs.
        K2kError: as for ``PositionWriter.apply``.
    """
    try:
        PositionWriter(planner).apply(plan, session.may)
    except PipelineRunning as error:
        raise Refused(
            error.message + harm,
            unchanged="No position was changed. The drill stays where it is.",
            hint=f"Stop it, then: {drill_command(session.drill, 'resume')}",
        ) from error


def _describe_move(session: Session, at: SourcePartition, now: int | None, then: int | None) -> str:
    before, after = ("none" if offset is None else f"{offset}" for offset in (now, then))
    return f"position of {session.forward.name} on {safe_text(at)}: {before} → {after}"


class Tail(ChangeHandler):
    """A tail that is copied, exported or left out."""

    kind = ChangeKind.TAIL

    def preview_repeat(self, session: Session, change: Change) -> Iterable[str]:
        """Return the choice, and the positions that are moved past the tail."""
        choice = read_change(session.drill, change, read_tail_choice)
        yield f"what happens to the tail: {choice}"
        if choice is TailChoice.REPLAY:
            return
        positions = session.forward.read_positions()
        for part in session.drill.tail:
            at = SourcePartition(part.topic, part.partition)
            if is_before(positions.get(at), part.end):
                yield _describe_move(session, at, offset_of(positions.get(at)), part.end)

    def restore(self, session: Session, change: Change) -> list[str]:
        """Return what cannot be restored: records that were copied stay on the new primary."""
        choice = read_change(session.drill, change, read_tail_choice)
        if choice is not TailChoice.REPLAY:
            return []
        begun = read_change(session.drill, change, read_tail_starts)
        positions = session.forward.read_positions()
        copied = sorted(
            at for at, first in begun.items() if not is_before(positions.get(at), first + 1)
        )
        if not copied:
            return []
        return [f"what was copied from {name_partitions(copied)} stays on the new primary"]


class Positions(ChangeHandler):
    """Positions of the forward pipeline that were moved past records."""

    kind = ChangeKind.POSITIONS

    def preview_restore(self, session: Session, change: Change) -> Iterable[str]:
        """Return the positions that are where the drill moved them."""
        moves = read_change(session.drill, change, read_moved_positions)
        positions = session.forward.read_positions()
        for at, offset in moves.before.items():
            now = offset_of(positions.get(at))
            if now == moves.after[at] and now != offset:
                yield _describe_move(session, at, now, offset)

    def restore(self, session: Session, change: Change) -> list[str]:
        """Move the positions back that the drill moved; return those that something else moved."""
        moves = read_change(session.drill, change, read_moved_positions)
        before, after = moves.before, moves.after
        positions = session.forward.read_positions()
        moved = [at for at in after if offset_of(positions.get(at)) not in (after[at], before[at])]
        back = {
            at: offset for at, offset in before.items() if at not in moved and offset is not None
        }
        back = {at: offset for at, offset in back.items() if positions[at].offset != offset}
        begun = [at for at, offset in before.items() if offset is None and at in positions]
        with closing(PositionPlanner(session.forward.config)) as planner:
            logs = planner.bounds(back)
            deleted = [at for at, offset in back.items() if at in logs and offset < logs[at].start]
            back = {at: offset for at, offset in back.items() if at not in deleted}
            if back:
                write_positions(session, planner, planner.plan_set(back))
            if begun:
                write_positions(session, planner, planner.plan_clear(lambda at: at in begun))
        return [
            *(f"{safe_text(at)}: its position was moved since; it was left there" for at in moved),
            *(
                f"{safe_text(at)}: its position stays at {after[at]}: the old source has deleted "
                "what was before"
                for at in deleted
            ),
        ]
