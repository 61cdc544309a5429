"""What one cluster of a new pipeline says of itself, before its topics are chosen."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.cluster_pair import Side
from k2ktui.engine.topics import KAFKA_INTERNAL_TOPICS, program_of
from k2ktui.errors import K2kError
from k2ktui.kafka.admin.topics import broker_count
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.groups import ConsumerGroupClient
from k2ktui.replication.preflight.clusters import ClusterReadings

_CONNECT_S = 10.0


@dataclass(frozen=True, slots=True)
class ClusterSurvey:
    """One cluster at one moment.

    Attributes:
        bootstrap_servers: where it was asked.
        cluster_id: id of the cluster; "" if it has none.
        version: Kafka release whose protocol its brokers support; "" if it is unknown.
        brokers: number of brokers.
        topics: number of partitions of each topic, but for those left out.
        left_out: topics of Kafka itself, and those in which other programs keep their state.
        groups: number of consumer groups; None if they cannot be listed.
    """

    bootstrap_servers: str
    cluster_id: str
    version: str
    brokers: int
    topics: Mapping[str, int]
    left_out: tuple[str, ...]
    groups: int | None


def survey_cluster(config: PipelineConfig, side: Side) -> ClusterSurvey:
    """Read a cluster without changing anything.

    Args:
        config: a pipeline with this cluster.
        side: the cluster to read.

    Raises:
        ConfigError: its client properties cannot be used.
        ConnectionFailed, TimedOut: it does not answer, or refuses the login.
    """
    with ClusterReadings(config) as readings:
        cluster_id, version = readings.cluster_id(side), readings.probe(side, "admin").version
        cluster = readings.cluster(side)
        partitions = cluster.partition_counts()
        own = {name: n for name, n in partitions.items() if not _is_internal(name)}
        return ClusterSurvey(
            cluster.config.bootstrap_servers,
            cluster_id,
            version,
            broker_count(cluster),
            own,
            tuple(sorted(partitions.keys() - own)),
            _count_groups(config, side),
        )


def _is_internal(topic: str) -> bool:
    return topic in KAFKA_INTERNAL_TOPICS or bool(program_of(topic))


def _count_groups(config: PipelineConfig, side: Side) -> int | None:
    with closing(ConsumerGroupClient(wire(getattr(config, side), "admin"), side)) as client:
        try:
            client.open(_CONNECT_S)
            return len(client.list())
        except K2kError:
            return None
