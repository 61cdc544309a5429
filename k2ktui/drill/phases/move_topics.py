"""The phase that moves the topics of a drill over some topics: no run copies them any more.

The moves are kept beside the positions, and every takeover reads both together
(:mod:`k2ktui.replication.ownership.topic_moves`); the pipeline goes on with its other topics.
"""

from __future__ import annotations

from contextlib import closing
from time import time

from k2ktui.drill.logs import name_partitions
from k2ktui.drill.session import PhaseResult, Session, failed
from k2ktui.drill.topics import read_routes
from k2ktui.engine.drill.changes import dump_names
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import ChangeKind, ChangeStatus
from k2ktui.engine.drill.steps import find_change
from k2ktui.engine.records.moved_topic import MovedTopic
from k2ktui.errors import ConnectionFailed, Refused, TimedOut
from k2ktui.replication.ownership.topic_moves import move_topics, read_moved
from k2ktui.replication.topics.naming import target_names
from k2ktui.sync.moves.plans import whoami
from k2ktui.text import counted, list_names, safe_text

_NAMED = 3


def run_move_topics(session: Session) -> PhaseResult:
    """Write the moves and fence every run; then prove that nothing was left to copy."""
    change = find_change(session.drill, ChangeKind.MOVED_TOPICS)
    topics = session.drill.topics
    if change is None:
        change = session.intend_new(
            DrillPhase.MOVE_TOPICS,
            ChangeKind.MOVED_TOPICS,
            f"move {counted(len(topics), 'topic')}: no run copies them any more",
            after=dump_names(topics),
        )
    _move(session)
    if change.status is not ChangeStatus.MADE:
        session.settle(change, ChangeStatus.MADE)
    if session.drill.kind.is_switchover and (left := _find_left(session)):
        return failed(left, "Abort the drill, or resume it with --from-fence.")
    named = list_names(topics, _NAMED)
    return PhaseResult(f"no run copies {named} any more; the pipeline goes on with the others")


def _move(session: Session) -> None:
    """Move the topics, also if an earlier process did: a run may have taken over meanwhile.

    Raises:
        Refused: another drill has moved one of them meanwhile.
    """
    drill, config, target = session.drill, session.config, session.target
    before = read_moved(config, target)
    for topic, move in before.not_by(drill.id, drill.topics).items():
        if move is not None:
            raise Refused(
                f"{safe_text(topic)} was moved by drill {safe_text(move.drill)} meanwhile",
                unchanged="The drill stays where it is.",
                hint=f"Abort this drill: k2ktui drill abort {safe_text(drill.id)} -f FILE.",
            )
    routes = read_routes(session.flow, DrillKind.DISASTER, target)
    now, who = int(time() * 1000), whoami()
    moves = [
        before.get(topic)
        or MovedTopic(
            topic, next(iter(routes.get(topic) or target_names(config, topic))), drill.id, now, who
        )
        for topic in drill.topics
    ]
    move_topics(config, target, moves)


def _find_left(session: Session) -> str:
    """Return what was written to the source and not copied before the move; "" for nothing."""
    with closing(session.open_logs()) as logs:
        left = [end.at for end in logs.read() if not end.is_drained]
    if not left:
        return ""
    return f"records were written to the source and not copied: {name_partitions(left)}"


def count_left(session: Session) -> int | None:
    """Return how many topics of the pipeline no drill has moved; None if it is not known."""
    moved = read_moved(session.config, session.target)
    for kind in (DrillKind.PLANNED, DrillKind.DISASTER):
        try:
            routes = read_routes(session.whole, kind, session.target)
        except (ConnectionFailed, TimedOut):
            continue  # the source is lost: those that were copied count
        return sum(topic not in moved for topic in routes)
    return None
