"""Why a cluster has no coordinator: its internal topic has no leaders, or cannot be created."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from k2ktui.kafka.admin.broker_settings import broker_values
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.topic_description import is_missing
from k2ktui.kafka.wire.cluster import NotSent, OutcomeUnknown, Wire
from k2ktui.kafka.wire.codes import TOPIC_GONE
from k2ktui.text import counted


@dataclass(frozen=True, slots=True)
class Coordinators:
    """The coordinators of one kind.

    Attributes:
        topic: the internal topic with their state; brokers create it when a coordinator is first
            asked for.
        setting: the broker setting for its replication factor.
        use: what needs it.
    """

    topic: str
    setting: str
    use: str


TRANSACTIONS = Coordinators(
    "__transaction_state", "transaction.state.log.replication.factor", "a transaction"
)
GROUPS = Coordinators(
    "__consumer_offsets", "offsets.topic.replication.factor", "a consumer group's offset"
)


def why_impossible(cluster: Cluster, kind: Coordinators) -> str:
    """Return why a cluster can have no coordinator; "" if it can, or if that cannot be known.

    Reads metadata and, if the internal topic is missing, broker settings: asking for a coordinator
    would create the topic.

    Raises:
        ConnectionFailed, TimedOut: the cluster did not answer.
    """
    if not is_missing(cluster.describe([kind.topic])[kind.topic]):
        return ""
    brokers = len(cluster.broker_ids("counting brokers"))
    factors = _numbers(broker_values(cluster, kind.setting) or {})
    if not factors or min(factors) <= brokers:
        return ""
    return (
        f"{kind.topic} does not exist and cannot be created: the {cluster.label} cluster has "
        f"{counted(brokers, 'broker')}, and {kind.setting} is {min(factors)}"
    )


def how_to_allow(kind: Coordinators) -> str:
    """Return what makes coordinators possible, for a hint."""
    return f"Start more brokers, or lower {kind.setting} in their configuration"


def _numbers(values: Mapping[int, str]) -> list[int]:
    return [int(value) for value in values.values() if value.isdecimal()]


async def describe_missing(wire: Wire, kind: Coordinators) -> str:
    """Return what the internal topic says about a coordinator that is not available; "" if nothing.

    A broker that restarts answers the same as one that can never create the topic.
    """
    try:
        info = (await wire.metadata([kind.topic])).get(kind.topic)
        brokers = len(await wire.brokers()) if info is not None else 0
    except (NotSent, OutcomeUnknown):
        return ""
    if info is None:
        return ""
    if info.error in TOPIC_GONE:
        return (
            f"{kind.topic} does not exist; the cluster has {counted(brokers, 'broker')}, and needs "
            f"as many as {kind.setting} to create it"
        )
    if info.error:  # no right on it is needed
        return (
            f"{kind.topic} has no leader, or needs more brokers than the {brokers} that there are "
            f"({kind.setting})"
        )
    missing = sum(leader.node < 0 for leader in info.partitions.values())
    if not missing:
        return ""
    return f"{counted(missing, 'partition')} of {kind.topic} without a leader"
