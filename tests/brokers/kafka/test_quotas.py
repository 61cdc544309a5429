"""Producer quotas and rules that deny Write, on real brokers: changed, and restored exactly."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AclOperation

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.engine.drill.changes import EVERYONE
from k2ktui.errors import Refused
from k2ktui.kafka.admin.acls import allow_writes, denied_topics, deny_writes, list_acls
from k2ktui.kafka.admin.quotas import Quota, producer_quotas, set_producer_quotas
from k2ktui.kafka.clients import Cluster
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import create_topic, eventually, unique_name
from tests.support.clusters.secure import SecureNode


def cluster(node: KafkaNode) -> Cluster:
    common = {"bootstrap.servers": node.bootstrap}
    return Cluster(ClusterConfig(kafka=KafkaClients(common=common)), "source")


def test_quotas_are_set_and_removed(source: KafkaNode) -> None:
    at = cluster(source)
    own = Quota((("user", unique_name("ann")),), 5000.0)
    set_producer_quotas(at, [own])
    before = eventually(
        lambda: own in (quotas := producer_quotas(at)) and quotas, "the quota is there"
    )
    low = [Quota(EVERYONE, 1.0), Quota(own.entity, 1.0)]
    for _ in range(2):  # the same again changes nothing
        set_producer_quotas(at, low)
    eventually(lambda: set(low) <= set(producer_quotas(at)), "they are lowered")
    set_producer_quotas(at, [Quota(EVERYONE, None), own])
    eventually(lambda: producer_quotas(at) == before, "they are as before")
    set_producer_quotas(at, [Quota(own.entity, None)])
    eventually(lambda: own not in producer_quotas(at), "it is gone")


def test_a_cluster_without_an_authorizer_is_named(source: KafkaNode) -> None:
    topic = create_topic(source)
    with pytest.raises(Refused, match="no authorizer"):
        deny_writes(cluster(source), [topic])


def test_writes_are_denied_and_allowed_again(secure: SecureNode) -> None:
    at = cluster(secure.node)
    topic, other = create_topic(secure.node), create_topic(secure.node)
    secure.allow("writer", [AclOperation.WRITE], topic)
    before = list_acls(at)
    for _ in range(2):
        deny_writes(at, [topic, other])
    eventually(lambda: denied_topics(at, [topic, other]) == {topic, other}, "both are denied")
    for _ in range(2):
        allow_writes(at, [topic, other])
    eventually(lambda: list_acls(at) == before, "the rules are as before")
