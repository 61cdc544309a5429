"""How a pipeline's configuration uses the commit topic, and its transaction fencer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.cluster_pair import ClusterPair
from k2ktui.kafka.clients import Cluster
from k2ktui.replication.commit_state import CommitTopic
from k2ktui.replication.fencing import TransactionFencer

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
    """Return what a pipeline copies; asks both clusters for their ids.

    Raises:
        ConnectionFailed, TimedOut: a cluster does not answer.
    """
    mappings = config.offset_mapping.topic if config.features.offset_mapping else ""
    return ClusterPair(source.cluster_id(), target.cluster_id(), mappings)


def make_fencer(
    config: PipelineConfig,
    target: Cluster,
    options: Mapping[str, Any],
    partitions: int,
    pair: ClusterPair | None = None,
) -> TransactionFencer:
    """Return this pipeline's transaction fencer; the caller closes it.

    Args:
        config: the pipeline.
        target: its target cluster.
        options: connection options of the target's producer.
        partitions: number of partitions of the commit topic.
        pair: what the run copies, for its run record; None keeps that of the run before.
    """
    timeout = config.target.properties("producer").get("transaction.timeout.ms")
    return TransactionFencer(
        target,
        options,
        name=config.name,
        topic=commit_topic(config, partitions),
        transactional=config.features.exactly_once,
        timeout_ms=int(timeout or _TRANSACTION_TIMEOUT_MS),
        sync_timeout=config.coordination.commit.sync_timeout_s,
        pair=pair,
    )
