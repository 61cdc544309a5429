"""The clusters that the readers of all parts share, and what a view says about them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from k2ktui.config.model import PipelineConfig
from k2ktui.errors import K2kError
from k2ktui.kafka.admin.probe import Probe
from k2ktui.kafka.clients import Cluster, source_cluster, target_cluster
from k2ktui.kafka.properties.translation import wire
from k2ktui.watch.model import ClusterView

_PROBE_S = 5.0


@dataclass(frozen=True, slots=True)
class Clusters:
    """Both clusters of a flow, whose connections the readers of all parts share."""

    source: Cluster
    target: Cluster

    @classmethod
    def of(cls, config: PipelineConfig) -> Clusters:
        """Return the clusters of a pipeline; connects when a reader first needs them."""
        return cls(source_cluster(config), target_cluster(config))

    def disconnect(self) -> None:
        """Disconnect from both; what was made of them connects again."""
        self.source.disconnect()
        self.target.disconnect()


class ClusterInfoReader:
    """A cluster's id, version and address, requested until they are known."""

    def __init__(self, config: PipelineConfig, side: str) -> None:
        self._config = config.source if side == "source" else config.target
        self._side = side
        address = self._config.kafka.common.get("bootstrap.servers", "")
        self._view = ClusterView("", "", address)

    def view(self, cluster: Cluster) -> ClusterView:
        """Return the cluster's information, after requesting what is unknown.

        Raises:
            ConnectionFailed, TimedOut: the cluster does not answer.
        """
        known = self._view
        # Always requested: it is the cheapest way to notice that the cluster is down.
        cluster_id = cluster.cluster_id()
        version = known.version
        if not version or cluster_id != known.cluster_id:
            with (
                suppress(K2kError),
                Probe(wire(self._config, "admin"), self._side) as probe,
            ):
                probe.open(_PROBE_S)
                version = probe.version
        self._view = ClusterView(cluster_id, version, known.address)
        return self._view
