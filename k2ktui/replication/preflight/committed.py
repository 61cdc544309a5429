"""What the commit topic says of a pipeline, for the checks before a start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.moved_topic import NO_MOVED_TOPICS, MovedTopics
from k2ktui.engine.records.run_record import NO_RUN, Run
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import K2kError
from k2ktui.kafka.clients import Cluster, describe_readable
from k2ktui.replication.ownership.commit_state import read_commit_state, read_log_starts
from k2ktui.replication.ownership.pipeline import commit_topic, moved_topics

COMMITS_S = 20.0


@dataclass(frozen=True, slots=True)
class CommittedTopics:
    """What the commit topic says of a pipeline: its positions and its moved topics.

    ``exists`` says whether there is a commit topic that can be described. ``run`` is its run
    record, of term 0 without one, and ``starts`` are the log start offsets of the topic. ``error``
    says why one of these could not be read; all of them are empty then.
    """

    positions: Mapping[SourcePartition, Position] = field(default_factory=dict)
    moved: MovedTopics = NO_MOVED_TOPICS
    run: Run = NO_RUN
    starts: Mapping[int, int] = field(default_factory=dict)
    exists: bool = False
    error: K2kError | None = None


def read_committed(
    config: PipelineConfig, target: Cluster, timeout: float = COMMITS_S
) -> CommittedTopics:
    """Return what the commit topic says of a pipeline; nothing if it cannot be described.

    That it cannot be described is a finding of the check of control topics.

    Raises:
        K2kError: it could not be read.
    """
    name = config.coordination.commit.topic
    description = describe_readable(target, [name]).get(name)
    if description is None:
        return CommittedTopics()
    topic = commit_topic(config, description.partitions)
    state = read_commit_state(target, topic, timeout)
    moved = moved_topics(config, [state])
    starts = read_log_starts(target, topic)
    return CommittedTopics(state.positions, moved, state.run, starts, exists=True)
