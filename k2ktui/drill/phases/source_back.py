"""The first phase of a failback: the old source is back, and still has what was copied from it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from k2ktui.drill.changes.handlers import HANDLERS
from k2ktui.drill.deleted import find_deleted, pass_returned, settle_passed
from k2ktui.drill.release import find_failovers
from k2ktui.drill.session import PhaseResult, Session, failed
from k2ktui.drill.tail import TailBounds, read_bounds
from k2ktui.engine.drill.changes import describe_undo
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.drill.steps import drill_command
from k2ktui.engine.records.cluster_pair import find_ids
from k2ktui.errors import Refused
from k2ktui.kafka.clients import TopicDescription
from k2ktui.replication.ownership.pipeline import read_run_pair
from k2ktui.text import counted, first_lines, list_names, safe_text

_NAMED = 20
_READ_S = 30.0


def _is_same(session: Session, former: str, now: str) -> bool:
    """Return whether a cluster has, or had, an id: it may have been restored and accepted."""
    if former == now:
        return True
    forward = session.forward
    pairs = (
        read_run_pair(session.config, session.target, _READ_S),
        read_run_pair(forward.config, forward.target, _READ_S),
    )
    return former in find_ids(now, pairs)


def run_source_back(session: Session) -> PhaseResult:
    """Find out that the old source is the same cluster, with the topics and records of before."""
    ids = session.source.cluster_id(), session.target.cluster_id()
    failovers = find_failovers(session)
    for failover in failovers:
        if failover.source_cluster and not _is_same(session, failover.source_cluster, ids[1]):
            return failed(
                f"cluster {safe_text(ids[1])} answers, and drill {safe_text(failover.id)} left "
                f"cluster {safe_text(failover.source_cluster)}",
                "Check bootstrap.servers of the target in the reverse pipeline's file.",
            )
    if fenced := [text for failover in failovers for text in _find_fences(session, failover)]:
        return failed("producers are still kept from writing to the old source", *fenced)
    bounds = read_bounds(session.forward)
    wrong = [
        *_find_replaced(session),
        *(text for log_bounds in bounds if (text := _find_loss(log_bounds))),
    ]
    if wrong:
        return failed(
            "the old source is not as it was left",
            *first_lines(wrong, _NAMED),
            "Its copy cannot be continued: set up a new pipeline in the other direction.",
        )
    deleted = find_deleted(session)
    if deleted.unknown:
        return failed(
            "retention has deleted records of the old source that may never have been copied",
            *first_lines([_describe_deleted(log_bounds) for log_bounds in deleted.unknown], _NAMED),
            _choices(session, deleted.unknown),
        )
    passed = ""
    if deleted.returned:
        passed = "; " + pass_returned(session, DrillPhase.SOURCE_BACK, deleted.returned)
    else:
        settle_passed(session, DrillPhase.SOURCE_BACK)
    topics = counted(len({log_bounds.at.topic for log_bounds in bounds}), "topic")
    by = list_names([failover.id for failover in failovers], _NAMED) or "a drill without a record"
    text = f"cluster {safe_text(ids[1])} answers, with {topics}; failed over by drill {by}"
    return PhaseResult(text + passed)


def _find_fences(session: Session, failover: Drill) -> Iterator[str]:
    """Yield what the failover set on the old source and what is still there."""
    for change in failover.changes:
        try:
            if HANDLERS[change.kind].blocks_return(session):
                undo = describe_undo(failover, change.kind)
                yield f"{change.what}: the reverse pipeline cannot write either. {undo}"
        except Refused:
            continue  # without the right to see them, the reverse pipeline's lag shows it


def _find_replaced(session: Session) -> Iterator[str]:
    """Yield the topics that are missing or were created again."""
    positions = session.forward.read_positions()
    topics = session.forward.source.describe(sorted({at.topic for at in positions}))
    named = set()
    for at, position in sorted(positions.items()):
        topic, name = topics[at.topic], safe_text(at.topic)
        if at.topic in named:
            continue
        if not isinstance(topic, TopicDescription):
            named.add(at.topic)
            yield f"topic {name} does not exist there any more"
        elif position.topic_id and topic.topic_id and position.topic_id != topic.topic_id:
            named.add(at.topic)
            yield f"topic {name} was deleted and created again"


def _find_loss(bounds: TailBounds) -> str:
    position = bounds.position
    if position is None or bounds.high >= position.offset:
        return ""
    return (
        f"{safe_text(bounds.at)} ends at offset {bounds.high}, and was copied up to "
        f"{position.offset}: it has lost records that the new primary has"
    )


def _describe_deleted(bounds: TailBounds) -> str:
    copied = bounds.position.offset if bounds.position else 0
    return (
        f"{safe_text(bounds.at)} begins at offset {bounds.start}, and was copied up to {copied}: "
        "retention has deleted what was between, and it is not proven that the reverse pipeline "
        "had written all of it"
    )


def _choices(session: Session, deleted: Sequence[TailBounds]) -> str:
    """Return what the operator can do about records that may be lost."""
    forward = session.forward
    moves = shlex.join(
        f"{log_bounds.at.topic}:{log_bounds.at.partition}:{log_bounds.start}"
        for log_bounds in deleted
    )
    return (
        "Choose: look for these records elsewhere first; or accept that they may be lost: "
        f"k2ktui offsets set -f {forward.file} {safe_text(moves)} moves {forward.name}'s positions "
        f"past them. Then: {drill_command(session.drill, 'resume')}"
    )
