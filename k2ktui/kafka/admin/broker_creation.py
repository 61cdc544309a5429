"""Topics that brokers create when a client asks for them (``auto.create.topics.enable``)."""

from __future__ import annotations

from collections.abc import Collection

from confluent_kafka import Producer

from k2ktui.errors import K2kError
from k2ktui.kafka.admin.broker_settings import broker_values
from k2ktui.kafka.admin.topics import await_topics
from k2ktui.kafka.client_errors import LIBRARY_LOG, log_level
from k2ktui.kafka.clients import REQUEST_TIMEOUT_S, Cluster
from k2ktui.kafka.properties.translation import librdkafka

_SETTING = "auto.create.topics.enable"


def creates_topics(cluster: Cluster) -> bool | None:
    """Return whether the brokers create topics; None if their settings may not be read.

    Raises:
        ConnectionFailed, TimedOut: the cluster did not answer.
    """
    values = broker_values(cluster, _SETTING, most=1)
    return None if values is None else "true" in values.values()


def let_brokers_create(
    cluster: Cluster, names: Collection[str], *, attempts: int, delay_s: float
) -> frozenset[str]:
    """Ask for missing topics as a producer does; return those that the brokers created.

    Args:
        cluster: the cluster.
        names: the topics.
        attempts: maximum number of checks.
        delay_s: seconds between checks.

    Raises:
        ConnectionFailed, TimedOut: the cluster did not answer.
    """
    if not names or creates_topics(cluster) is False:
        return frozenset()
    settings = {**librdkafka(cluster.config, "producer"), "allow.auto.create.topics": True}
    settings |= {"log_level": log_level(), "logger": LIBRARY_LOG}
    producer = Producer(cluster.login.checked(settings, lambda error: None))
    try:
        for name in names:
            cluster.ask(
                "asking for a topic",
                lambda n=name: producer.list_topics(n, REQUEST_TIMEOUT_S),  # type: ignore[misc]
            )
    except K2kError:
        return frozenset()  # not permitted; the error about the missing topic says what to do
    counts = dict.fromkeys(names, 1)
    return frozenset(await_topics(cluster, counts, attempts=attempts, delay_s=delay_s))
