"""How a pipeline's configuration uses the commit topic, and its transaction fencer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from k2ktui.config.model import PipelineConfig
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


def make_fencer(
    config: PipelineConfig, target: Cluster, options: Mapping[str, Any], partitions: int
) -> TransactionFencer:
    """Return this pipeline's transaction fencer; the caller closes it.

    Args:
        config: the pipeline.
        target: its target cluster.
        options: connection options of the target's producer.
        partitions: number of partitions of the commit topic.
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
    )
