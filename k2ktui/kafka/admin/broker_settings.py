"""Read a setting of a cluster's brokers."""

from __future__ import annotations

from confluent_kafka import KafkaException
from confluent_kafka.admin import ConfigResource, ResourceType

from k2ktui.kafka.clients import REQUEST_TIMEOUT_S, Cluster


def broker_values(cluster: Cluster, setting: str, most: int | None = None) -> dict[int, str] | None:
    """Return a setting's value by broker id; None if it may not be read, or no broker has it.

    Args:
        cluster: the cluster.
        setting: name of the setting.
        most: ask at most so many brokers; None for all.

    Raises:
        ConnectionFailed, TimedOut: the cluster did not answer.
    """
    brokers = cluster.broker_ids("reading broker settings")[:most]
    values = {}
    for broker in brokers:
        # A broker's settings are asked for at that broker: one request each.
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        asked = cluster.admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)
        try:
            settings = cluster.wait(asked[resource])
        except KafkaException:
            return None
        if setting in settings and settings[setting].value is not None:
            values[broker] = str(settings[setting].value)
    return values or None
