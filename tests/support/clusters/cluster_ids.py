"""The id of a cluster, by each of the two client libraries: proof that a login works."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.metadata import MetadataRequest

from k2ktui.config.clusters import ClusterConfig
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.cluster import Loop, Wire
from tests.support.clusters.kafka import TIMEOUT


def by_librdkafka(config: ClusterConfig) -> str:
    """Return the cluster's id, read by librdkafka."""
    return Cluster(config, "source").cluster_id()


def by_wire(config: ClusterConfig, timeout: float | None = None) -> str:
    """Return the cluster's id, read by the wire layer."""
    loop = Loop()
    connection = Wire(loop, wire(config, "admin"), "source")

    async def ask() -> Any:
        await connection.open(TIMEOUT if timeout is None else timeout)
        request = MetadataRequest(topics=[], allow_auto_topic_creation=False, max_version=8)
        return (await connection.send(request)).cluster_id

    try:
        return str(loop.run(ask))
    finally:
        connection.close()
        loop.close()


both_libraries = pytest.mark.parametrize("ask", [by_librdkafka, by_wire])
