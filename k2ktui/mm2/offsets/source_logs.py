"""Reads the bounds of source partitions, to check positions against; the source is only read."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from confluent_kafka import IsolationLevel

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.engine.moves.positions import SourceLog
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import Refused
from k2ktui.kafka.clients import Cluster
from k2ktui.sync.log_bounds import read_source_logs

_PREFIX = "source.cluster."


def connector_source(config: Mapping[str, str]) -> ClusterConfig:
    """Return the source cluster configured in a MirrorSourceConnector's settings.

    Raises:
        Refused: settings are missing, or need a config provider of the workers.
    """
    clients = {k.removeprefix(_PREFIX): v for k, v in config.items() if k.startswith(_PREFIX)}
    clients.pop("alias", None)
    if not clients.get("bootstrap.servers") or any("${" in value for value in clients.values()):
        raise Refused("the source cluster's settings are known only to Connect's workers")
    return ClusterConfig(kafka=KafkaClients(common=clients))


def read_bounds(
    config: ClusterConfig, sources: Collection[SourcePartition]
) -> dict[SourcePartition, SourceLog]:
    """Return the log start offset and high watermark of the partitions that exist.

    Raises:
        ConnectionFailed, TimedOut, Refused, ConfigError: the source cannot be queried.
    """
    cluster = Cluster(config, "source")
    topics = cluster.describe(sorted({source.topic for source in sources}))
    isolation = IsolationLevel.READ_UNCOMMITTED
    return read_source_logs(cluster, topics, sources, isolation=isolation)
