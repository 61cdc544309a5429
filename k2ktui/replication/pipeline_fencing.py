"""How a pipeline's configuration uses the commit topic, and its transaction fencer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.cluster_pair import ClusterPair
from k2ktui.errors import Refused
from k2ktui.kafka.clients import Cluster
from k2ktui.replication.client_settings import produce_settings
from k2ktui.replication.commit_state import CommitState, CommitTopic
from k2ktui.replication.fencing import TransactionFencer
from k2ktui.text import counted, safe_text

_TRANSACTION_TIMEOUT_MS = 60_000


class PipelineFencer(TransactionFencer):
    """A pipeline's fencer, which shows the epochs that it has left."""

    def read_states(self) -> dict[str, tuple[int, int]]:
        """Return producer id and epoch of each transactional id, as this driver has left them.

        Raises:
            Superseded: another driver has taken over.
            ConnectionFailed, TimedOut, Refused: as for :meth:`take_over`.
        """
        return self._run(lambda: self._epochs.read_states(self._renew_s))


def commit_topic(config: PipelineConfig, partitions: int) -> CommitTopic:
    """Return how this pipeline uses the commit topic."""
    return CommitTopic(
        config.coordination.commit.topic,
        partitions,
        config.coordination.commit.group,
        config.features.optimize_offset_commit_partition,
    )


def read_pair(config: PipelineConfig, source: Cluster, target: Cluster) -> ClusterPair:
    """Return what a pipeline copies; asks both clusters for their ids.

    Raises:
        ConnectionFailed, TimedOut: a cluster does not answer.
    """
    mappings = config.offset_mapping.topic if config.features.offset_mapping else ""
    return ClusterPair(source.cluster_id(), target.cluster_id(), mappings)


def describe_malformed(config: PipelineConfig, state: CommitState) -> str:
    """Return the note about unreadable records of the commit topic.

    Records without this pipeline's key belong to other programs, and stop no pipeline.

    Raises:
        Refused: this pipeline's newest record of a key is one of them, and
            ``errorHandling.onControlMessageDeserializationError`` is ``fail``.
    """
    topic = safe_text(config.coordination.commit.topic)
    if state.damaged and config.error_handling.on_control_message_deserialization_error == "fail":
        raise Refused(
            f"{counted(state.damaged, 'record')} of this pipeline in {topic} cannot be read: the "
            "positions in them are unknown",
            unchanged="Nothing was copied.",
            hint="Use the release that wrote them, or set "
            "errorHandling.onControlMessageDeserializationError: ignore to continue from the "
            "newest positions that can be read.",
        )
    return f"{counted(state.malformed, 'record')} of {topic} cannot be read and were ignored"


def make_fencer(
    config: PipelineConfig,
    target: Cluster,
    options: Mapping[str, Any],
    partitions: int,
    pair: ClusterPair | None = None,
    guard: Callable[[], None] = lambda: None,
) -> PipelineFencer:
    """Return this pipeline's transaction fencer; the caller closes it.

    Args:
        config: the pipeline.
        target: its target cluster.
        options: connection options of the target's producer.
        partitions: number of partitions of the commit topic.
        pair: what the run copies, for its run record; None keeps that of the run before.
        guard: called after each take-over; what it raises keeps the pipeline from copying.
    """
    exactly_once = config.features.exactly_once
    timeout = config.target.properties("producer").get("transaction.timeout.ms")
    timeout_ms = int(timeout or _TRANSACTION_TIMEOUT_MS)
    if not exactly_once:
        timeout_ms = int(produce_settings(config).delivery_timeout_s * 1000)
    return PipelineFencer(
        target,
        options,
        name=config.name,
        topic=commit_topic(config, partitions),
        transactional=exactly_once,
        timeout_ms=timeout_ms,
        sync_timeout=config.coordination.commit.sync_timeout_s,
        pair=pair,
        bidirectional=config.bidirectional_mode,
        guard=guard,
    )
