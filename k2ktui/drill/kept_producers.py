"""Producers that a cluster's partitions know: with these ids they follow the clients' name."""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain

from k2ktui.errors import K2kError
from k2ktui.kafka.admin.active_producers import ActiveProducer, active_producers
from k2ktui.kafka.admin.probe import Probe
from k2ktui.kafka.admin.transaction_state import find_transactional_ids
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.cluster import NotSent, OutcomeUnknown

_REQUEST_S, _NAMES_S = 30.0, 10.0


def read_producers(
    cluster: Cluster, topics: Collection[str]
) -> dict[str, tuple[ActiveProducer, ...]]:
    """Return the producers by topic, of topics of which all partitions tell theirs.

    Raises:
        ConnectionFailed, TimedOut: the cluster does not answer.
    """
    counts = {n: count for n, count in cluster.partition_counts().items() if n in topics}
    asked = [(name, number) for name, count in counts.items() for number in range(count)]
    told = active_producers(cluster, asked, _REQUEST_S)
    return {
        name: tuple(chain.from_iterable(told[name, number] for number in range(count)))
        for name, count in counts.items()
        if all((name, number) in told for number in range(count))
    }


def list_transactional(cluster: Cluster, topics: Collection[str]) -> list[str] | None:
    """Return the transactional ids that topics know, or ``producer id N`` where it is not told.

    Returns:
        None if some partition does not tell its producers.

    Raises:
        ConnectionFailed, TimedOut: the cluster does not answer.
    """
    told = read_producers(cluster, topics)
    if set(cluster.topic_names()) & set(topics) - told.keys():
        return None
    ids = {
        producer.producer_id
        for producers in told.values()
        for producer in producers
        if producer.is_transactional
    }
    names = _find_names(cluster, ids)
    return sorted(names.get(number) or f"producer id {number}" for number in ids)


def _find_names(cluster: Cluster, ids: Collection[int]) -> dict[int, str]:
    try:
        with Probe(wire(cluster.config, "admin"), cluster.label) as probe:
            probe.open(_NAMES_S)
            return probe.run(lambda w: find_transactional_ids(w, ids, _NAMES_S))[0]
    except (K2kError, NotSent, OutcomeUnknown):
        return {}
