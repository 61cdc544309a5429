"""What the clusters of a new pipeline say of themselves, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.cluster_pair import Side
from k2ktui.engine.topics import KAFKA_INTERNAL_TOPICS, program_of
from k2ktui.errors import K2kError
from k2ktui.kafka.admin.topics import broker_count
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.groups import ConsumerGroupClient
from k2ktui.replication.preflight.clusters import ClusterReadings
from k2ktui.text import counted, first_names, safe_text

_CONNECT_S = 10.0
# Readings with a limit are not on the main thread: Ctrl-C ends them at once.
_READING_S = 30.0


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

    @property
    def partitions(self) -> int:
        """Number of partitions of the topics."""
        return sum(self.topics.values())

    def text(self, side: Side) -> str:
        """Return it as lines for a terminal."""
        version = f"Kafka {self.version}" if self.version else "Kafka of unknown version"
        groups = "groups cannot be listed" if self.groups is None else counted(self.groups, "group")
        text = (
            f"{side.capitalize()} {safe_text(self.bootstrap_servers)}: {version}, "
            f"{counted(self.brokers, 'broker')}, "
            f"cluster id {safe_text(self.cluster_id or 'unknown')}\n"
            f"  {counted(len(self.topics), 'topic')}, {counted(self.partitions, 'partition')}, "
            f"{groups}"
        )
        if self.left_out:
            count = counted(len(self.left_out), "internal topic")
            text += f"\n  left out: {count} ({first_names(self.left_out)})"
        return text

    def as_json(self) -> dict[str, Any]:
        """Return it with numbers instead of topics."""
        return asdict(self) | {"topics": len(self.topics), "partitions": self.partitions}


def survey_cluster(config: PipelineConfig, side: Side) -> ClusterSurvey:
    """Read a cluster without changing anything.

    Args:
        config: a pipeline with this cluster.
        side: the cluster to read.

    Raises:
        ConfigError: its client properties cannot be used.
        ConnectionFailed, TimedOut: it does not answer, or refuses the login.
    """
    with ClusterReadings(config, _READING_S) as readings:
        cluster_id, version = readings.cluster_id(side), readings.probe(side, "admin").version
        cluster = readings.cluster(side)
        partitions = readings.read("topics", cluster.partition_counts)
        own = {name: n for name, n in partitions.items() if not _is_internal(name)}
        return ClusterSurvey(
            cluster.config.bootstrap_servers,
            cluster_id,
            version,
            readings.read("brokers", lambda: broker_count(cluster)),
            own,
            tuple(sorted(partitions.keys() - own)),
            _count_groups(readings, side),
        )


def has_pipeline(config: PipelineConfig) -> bool:
    """Return whether the target has records of a pipeline of this name; False if it is not known.

    ``check`` says why it cannot be known.
    """
    try:
        with ClusterReadings(config, _READING_S) as readings:
            state = readings.commit_state()
    except K2kError:
        return False
    return state is not None and bool(state.run.term or state.positions)


def _is_internal(topic: str) -> bool:
    return topic in KAFKA_INTERNAL_TOPICS or bool(program_of(topic))


def _count_groups(readings: ClusterReadings, side: Side) -> int | None:
    def count() -> int:
        cluster = getattr(readings.config, side)
        with closing(ConsumerGroupClient(wire(cluster, "admin"), side)) as client:
            client.open(_CONNECT_S)
            return len(client.list())

    try:
        return readings.read("groups", count)
    except K2kError:
        return None
