"""How a pipeline's configuration uses the commit topic, and what its runs own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.positions import Recovery
from k2ktui.engine.records.cluster_pair import UNKNOWN_PAIR, ClusterPair
from k2ktui.engine.records.moved_topic import MovedTopics
from k2ktui.engine.records.run_record import NO_RUN
from k2ktui.kafka.clients import Cluster
from k2ktui.replication.copying.slot_settings import produce_settings
from k2ktui.replication.fencing_errors import TIMEOUT, UnreadableRecords, unreadable_moves
from k2ktui.replication.ownership.commit_state import CommitState, CommitTopic, read_commit_state
from k2ktui.replication.ownership.evidence_reader import read_evidence
from k2ktui.replication.ownership.ownership import Claim, Ownership
from k2ktui.text import counted, safe_text

_TRANSACTION_TIMEOUT_MS = 60_000


def commit_topic(config: PipelineConfig, partitions: int) -> CommitTopic:
    """Return how this pipeline uses the commit topic."""
    return CommitTopic(
        config.coordination.commit.topic,
        partitions,
        config.coordination.commit.group,
        config.features.optimize_offset_commit_partition,
    )


def read_pair(config: PipelineConfig, source: Cluster, target: Cluster) -> ClusterPair:
    """Return what a pipeline copies; asks both clusters for their ids, and expects these later.

    Raises:
        ConnectionFailed, TimedOut: a cluster does not answer.
    """
    mappings = config.offset_mapping.topic if config.features.offset_mapping else ""
    pair = ClusterPair(source.cluster_id(), target.cluster_id(), mappings)
    source.expected_id, target.expected_id = pair.source, pair.target
    return pair


def read_recorded_pair(config: PipelineConfig, target: Cluster, timeout: float) -> ClusterPair:
    """Return the clusters that a pipeline's positions belong to; unknown if it has none.

    Raises:
        ConnectionFailed, TimedOut: the target does not answer.
    """
    state = read_commits(config, target, timeout)
    return state.run.pair if state.positions else UNKNOWN_PAIR


def read_run_pair(config: PipelineConfig, target: Cluster, timeout: float) -> ClusterPair:
    """Return the clusters of a pipeline's run record, with their aliases; unknown without one.

    Raises:
        ConnectionFailed, TimedOut: the target does not answer.
    """
    return read_commits(config, target, timeout).run.pair


def read_commits(config: PipelineConfig, target: Cluster, timeout: float) -> CommitState:
    """Return what a pipeline has committed; nothing, with a run of term 0, if it has never run.

    Raises:
        ConnectionFailed, TimedOut, Refused: the commit topic could not be read.
    """
    return find_commits(config, target, timeout) or CommitState(NO_RUN, {})


def find_commits(config: PipelineConfig, target: Cluster, timeout: float) -> CommitState | None:
    """Return what a pipeline has committed; None only if there is no commit topic.

    Errors are those of :func:`read_commits`.
    """
    topic = target.find(config.coordination.commit.topic)
    if topic is None:
        return None
    return read_commit_state(target, commit_topic(config, topic.partitions), timeout)


def moved_topics(config: PipelineConfig, states: Iterable[CommitState]) -> MovedTopics:
    """Return the topics that drills moved to the target, by pipelines' states.

    Raises:
        UnreadableRecords: a record of one cannot be read.
    """
    states = tuple(states)
    if unreadable := sum(state.unreadable_moves for state in states):
        raise unreadable_moves(config.coordination.commit.topic, unreadable)
    return MovedTopics(move for state in states for move in state.moved.all)


def describe_malformed(config: PipelineConfig, state: CommitState) -> str:
    """Return the note about unreadable records of the commit topic.

    Records without this pipeline's key belong to other programs, and stop no pipeline.

    Raises:
        UnreadableRecords: this pipeline's newest record of a key is one of them, and
            ``errorHandling.onControlMessageDeserializationError`` is ``fail``.
    """
    topic = safe_text(config.coordination.commit.topic)
    if state.damaged and config.error_handling.on_control_message_deserialization_error == "fail":
        raise UnreadableRecords(
            f"{counted(state.damaged, 'record')} of this pipeline in {topic} cannot be read: the "
            "positions in them are unknown",
            unchanged="Nothing was copied.",
            hint="Use the release that wrote them, or set "
            "errorHandling.onControlMessageDeserializationError: ignore to continue from the "
            "newest positions that can be read.",
        )
    return f"{counted(state.malformed, 'record')} of {topic} cannot be read and were ignored"


def transaction_timeout_ms(config: PipelineConfig) -> int:
    """Return the timeout of the pipeline's transactions in milliseconds."""
    return int(config.target.properties("producer").get(TIMEOUT) or _TRANSACTION_TIMEOUT_MS)


def make_ownership(
    config: PipelineConfig,
    target: Cluster,
    options: Mapping[str, Any],
    partitions: int,
    pair: ClusterPair | None = None,
    guard: Callable[[str], None] | None = None,
    fenced_by: str | None = None,
    digest: str = "",
    recovery: Recovery | None = None,
) -> Ownership:
    """Return the ownership of a whole pipeline, not taken over yet; the caller closes it.

    Args:
        config: the pipeline.
        target: its target cluster.
        options: connection options of the target's producer.
        partitions: number of partitions of the commit topic.
        pair: what the run copies, for its run record; None keeps that of the run before.
        guard, fenced_by, digest, recovery: as for ``Claim``.
    """
    exactly_once = config.features.exactly_once
    timeout_ms = transaction_timeout_ms(config)
    if not exactly_once:
        timeout_ms = int(produce_settings(config).delivery_timeout_s * 1000)
    claim = Claim(
        name=config.name,
        topic=commit_topic(config, partitions),
        transactional=exactly_once,
        timeout_ms=timeout_ms,
        sync_timeout=config.coordination.commit.sync_timeout_s,
        parallelism=config.coordination.assignment.fencing_max_parallelism,
        pair=pair,
        bidirectional=config.bidirectional_mode,
        guard=guard,
        fenced_by=fenced_by,
        digest=digest,
        read_evidence=lambda: read_evidence(config, target),
        recovery=recovery,
    )
    return Ownership(target, options, claim)
