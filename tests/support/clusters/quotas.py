"""Quotas of a client of the session's clusters."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.kafka.admin.quotas import alter_client_quotas, client_quotas
from k2ktui.kafka.clients import Cluster
from tests.support.clusters.kafka import ServingCluster, eventually


@contextmanager
def limited(node: ServingCluster, client_id: str, **limits: float) -> Iterator[None]:
    """Limit a client of a cluster, such as ``consumer_byte_rate``, until the block ends."""
    clients = KafkaClients(common={"bootstrap.servers": node.bootstrap})
    at = Cluster(ClusterConfig(kafka=clients), "test")
    entity = (("client-id", client_id),)
    assert alter_client_quotas(at, {entity: limits}) == {}
    try:
        eventually(lambda: client_quotas(at).get(entity) == limits, f"{client_id} is limited")
        yield
    finally:
        alter_client_quotas(at, {entity: dict.fromkeys(limits)})
        eventually(lambda: entity not in client_quotas(at), f"{client_id} is not limited")
