"""Moves topics of a running pipeline to the target, and releases them; changes their positions.

A takeover of the whole pipeline records what is moved (docs/internals/ownership.md). Runs that it
fences go on by themselves with the other topics, within seconds.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from time import monotonic, sleep

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.moved_topic import (
    MovedTopic,
    MovedTopics,
    TopicMoves,
)
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import Refused, TimedOut
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.properties.translation import wire
from k2ktui.replication.fencing_errors import Superseded
from k2ktui.replication.ownership.ownership import MovedPositions
from k2ktui.replication.ownership.pipeline import make_ownership, moved_topics, read_commits
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

_READ_S = 30.0
_CONTESTED_S = 60.0
_AGAIN_S = 0.5


def move_topics(
    config: PipelineConfig, target: Cluster, moves: Collection[MovedTopic]
) -> dict[SourcePartition, Position]:
    """Record that source topics are moved, and return where their copies ended.

    When it returns, no run can write a record of these topics to the target any more, until they
    are released. The other topics stop for seconds. Doing it again with the same topics is safe.

    Args:
        config: the pipeline.
        target: its target cluster.
        moves: the topics; for one that is moved already, the newer record counts.

    Returns:
        The final replicated position of each partition of these topics that has one.

    Raises:
        Refused: runs of the pipeline cannot be fenced, or the target refuses the records.
        TransactionUnfinished: a task may still write; nothing is known to be final.
        ConnectionFailed, TimedOut: the target did not answer, or others took the pipeline over each
            time. The topics may be recorded as moved: do it again, or release them.
    """
    return _change(config, target, TopicMoves(moved=tuple(moves)))


def release_topics(
    config: PipelineConfig, target: Cluster, topics: Collection[str]
) -> dict[SourcePartition, Position]:
    """Let source topics that are moved be copied again, from their positions on.

    Args:
        config: the pipeline.
        target: its target cluster.
        topics: names on the source; those that are not moved stay as they are.

    Returns:
        The replicated position of each partition of these topics, from which it is copied on.

    Raises:
        Refused, TransactionUnfinished, ConnectionFailed, TimedOut: as ``move_topics``.
    """
    return _change(config, target, TopicMoves(released=tuple(topics)))


def write_moved_positions(
    config: PipelineConfig, target: Cluster, positions: MovedPositions
) -> None:
    """Write positions of moved topics, while the runs of the pipeline go on with the others.

    Args:
        config: the pipeline.
        target: its target cluster.
        positions: returns the positions to write, in each attempt again; it must refuse those of
            topics that are not moved.

    Raises:
        Refused, TransactionUnfinished, ConnectionFailed: as ``move_topics``; nothing was written.
        TimedOut: as ``move_topics``; the positions may have been written.
        Exception: what ``positions`` raises; nothing was written.
    """
    _change(config, target, TopicMoves(), positions)


def read_moved(config: PipelineConfig, target: Cluster) -> MovedTopics:
    """Return the moved topics of a pipeline; needs no run and changes nothing.

    Raises:
        UnreadableRecords: it is not known what is moved.
        ConnectionFailed, TimedOut: the target did not answer.
    """
    return moved_topics(config, [read_commits(config, target, _READ_S)])


def _change(
    config: PipelineConfig,
    target: Cluster,
    moves: TopicMoves,
    positions: MovedPositions = lambda state, term: {},
) -> dict[SourcePartition, Position]:
    if not config.features.exactly_once:
        raise Refused(
            f"pipeline {safe_text(config.name)} copies without exactly-once: a run that copies a "
            "topic cannot be fenced",
            unchanged="No topic was moved or released.",
            hint="Set features.exactlyOnce: enabled, and start the pipeline again.",
        )
    description = target.find(config.coordination.commit.topic)
    if description is None:
        raise TimedOut(
            f"topic {safe_text(config.coordination.commit.topic)} does not exist on the target",
            unchanged="No topic was moved or released.",
            hint="Start the pipeline once: its first start creates the topic.",
        )
    until = monotonic() + _CONTESTED_S
    topics = {*(one.topic for one in moves.moved), *moves.released}
    while True:
        ownership = make_ownership(
            config, target, wire(config.target, "producer"), description.partitions
        )
        try:
            state = ownership.move(moves, positions)
            return {at: position for at, position in state.positions.items() if at.topic in topics}
        except Superseded as error:
            # A run takes the pipeline over at the same time: it reads what is recorded already.
            log.info("changing moved topics again: %s", error.message)
            if monotonic() > until:
                raise TimedOut(
                    f"pipeline {safe_text(config.name)} could not be fenced: other runs take it "
                    "over each time",
                    unchanged="The topics may be recorded as moved or released.",
                    hint="Do it again; if that fails as well, stop the runs of the pipeline first.",
                ) from error
        finally:
            # The epochs stay: runs take over by themselves, and nothing was written with these.
            ownership.close(fence=False)
        sleep(_AGAIN_S)
