"""Groups that the principal may not see, brokers that restart or hang, and lost requests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, ResourceType

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.errors import TimedOut
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.groups import ConsumerGroupClient, GroupCommit
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.brokers import TwoBrokers
from tests.support.clusters.kafka import TIMEOUT, admin, create_topic, eventually, unique_name
from tests.support.clusters.proxy import Api, Blow, ProxiedNode, proxied_node
from tests.support.clusters.secure import SecureNode, start_secure_node
from tests.support.oracle.group_offsets import commit_offsets, committed

pytestmark = pytest.mark.slow

OFFSETS = "__consumer_offsets"
PATIENCE = 1.5


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    started = start_secure_node(tmp_path_factory.mktemp("secure"), {"ann": "ann-secret"})
    yield started
    started.node.close()


@pytest.fixture(scope="module")
def shaky(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProxiedNode]:
    with proxied_node("shaky", tmp_path_factory.mktemp("shaky")) as node:
        yield node


def opened(options: dict[str, Any], label: str = "target", **settings: Any) -> ConsumerGroupClient:
    groups = ConsumerGroupClient(options, label, **settings)
    groups.open(TIMEOUT)
    return groups


def plain(address: str) -> dict[str, Any]:
    return {"bootstrap_servers": [address]}


def as_user(secure: SecureNode, user: str) -> dict[str, Any]:
    return wire(ClusterConfig(kafka=KafkaClients(common=secure.java(user))), "admin")


def topics(node: KafkaNode) -> set[str]:
    return set(admin(node).list_topics(timeout=TIMEOUT).topics)


@pytest.mark.parametrize("release", [(2, 5), None], ids=["2.5", "now"])
def test_asking_a_source_without_groups_makes_nothing(
    secure: SecureNode, release: tuple[int, int] | None
) -> None:
    assert OFFSETS not in topics(secure.node), "this test must be the first to ask"
    settings = plain(secure.node.bootstrap) | ({"api_version": release} if release else {})
    with opened(settings, "source") as groups:
        assert groups.list() == {}
        assert groups.describe(["missing"])["missing"].state == ""
        assert groups.read_committed(["missing"])["missing"].offsets == {}
    assert OFFSETS not in topics(secure.node)


def test_groups_that_the_principal_may_not_see(secure: SecureNode) -> None:
    topic, seen, hidden = create_topic(secure.node), unique_name("seen"), unique_name("hidden")
    for group in (seen, hidden):
        commit_offsets(secure.node, group, {(topic, 0): 3})
    secure.allow("ann", [AclOperation.READ], seen, ResourceType.GROUP)
    secure.allow("ann", [AclOperation.READ], topic)

    with opened(as_user(secure, "ann")) as groups:
        eventually(lambda: set(groups.list()) == {seen}, "the right has effect")
        assert groups.incomplete_reason == "", "without Describe on their topic, too"
        states, offsets = groups.describe([seen, hidden]), groups.read_committed([seen, hidden])
        assert (states[seen].state, states[seen].error) == ("Empty", "")
        assert "the target principal lacks Describe on the group" in states[hidden].error
        eventually(
            lambda: groups.read_committed([seen])[seen].offsets, "the right on the topic has too"
        )
        assert offsets[seen].error == ""
        assert "lacks Describe on the group" in offsets[hidden].error

        wanted = {(topic, 0): GroupCommit(4)}
        done = groups.commit({seen: wanted, hidden: wanted})
        assert done[seen][(topic, 0)] == ""
        assert "lacks Read on the group" in done[hidden][(topic, 0)]
        deleted = groups.delete_offsets({seen: [(topic, 0)]})
        assert "lacks Delete on the group" in deleted[seen][(topic, 0)]
        assert "lacks Delete on the group" in groups.delete([seen])[seen]
    assert committed(secure.node, hidden) == {(topic, 0): 3}
    with opened(as_user(secure, "ann"), "source") as groups:
        assert groups.describe([hidden])[hidden].state == "", "the source shows what it lists"


@pytest.mark.parametrize("blow", [Blow.LOST, Blow.UNANSWERED])
def test_lost_requests_and_answers(shaky: ProxiedNode, blow: Blow) -> None:
    topic = create_topic(shaky)
    wanted = {unique_name("g"): {(topic, 0): GroupCommit(number)} for number in range(40)}
    with opened(plain(shaky.proxy.address)) as groups:
        strike = shaky.proxy.strike(Api.OFFSET_COMMIT, blow, skip=20)
        done = groups.commit(wanted)
        strike.wait()
        assert {why for errors in done.values() for why in errors.values()} == {""}
        strike = shaky.proxy.strike(Api.OFFSET_FETCH, blow, skip=1)
        views = groups.read_committed(wanted)
        strike.wait()
    assert {name: dict(view.offsets) for name, view in views.items()} == wanted


def test_groups_that_no_broker_leads_are_missing_and_it_is_said(tmp_path: Path) -> None:
    with closing(TwoBrokers("single", tmp_path, {"offsets.topic.replication.factor": "1"})) as two:
        topic = create_topic(two.start(), replicas=[[1]])
        wanted = {unique_name("g"): {(topic, 0): GroupCommit(1)} for _ in range(30)}
        with opened({"bootstrap_servers": two.bootstrap.split(",")}) as groups:
            done = groups.commit(wanted)
            assert {why for errors in done.values() for why in errors.values()} == {""}
            assert groups.list().keys() == wanted.keys()
            two.second.kill()
            eventually(lambda: two.alive() == {1}, "the controller knows that it is gone")
            for _ in range(2):
                assert 0 < len(groups.list()) < len(wanted)
                assert "partitions of __consumer_offsets have no leader" in groups.incomplete_reason
            two.second.start()
            eventually(lambda: groups.list().keys() == wanted.keys(), "all are listed again")
            assert groups.incomplete_reason == ""


def test_a_restart_is_waited_for(target: KafkaNode) -> None:
    topic, group = create_topic(target), unique_name("g")
    patient = opened(plain(target.bootstrap), patience=TIMEOUT)  # a start may take long
    with patient as groups, ThreadPoolExecutor(1) as pool:
        assert groups.commit({group: {(topic, 0): GroupCommit(1)}})[group][(topic, 0)] == ""
        target.kill()
        back = pool.submit(target.start)
        done = groups.commit({group: {(topic, 0): GroupCommit(2)}})
        back.result()
        assert done[group][(topic, 0)] == ""
        assert groups.read_committed([group])[group].offsets[(topic, 0)].offset == 2


def test_a_broker_that_hangs_is_given_up_and_the_doubt_is_reported(target: KafkaNode) -> None:
    topic = create_topic(target)
    first = unique_name("g")
    wanted = {first: {(topic, 0): GroupCommit(1)}}
    wanted |= {unique_name("g"): {(topic, 0): GroupCommit(1)} for _ in range(100)}
    with opened(plain(target.bootstrap), patience=PATIENCE) as groups:
        eventually(
            lambda: not any(view.error for view in groups.read_committed(wanted).values()),
            "its coordinators are known",
        )
        target.suspend()
        try:
            began = time.monotonic()
            done = groups.commit(wanted)
            with pytest.raises(TimedOut, match="target cluster did not list its groups"):
                groups.list()
            took = time.monotonic() - began
        finally:
            target.resume()
        assert "whether the request took effect is unknown" in done[first][(topic, 0)]
        assert all(errors[(topic, 0)] for errors in done.values())
        assert took < len(wanted) * PATIENCE / 2, "not one time-out after another"

        def commits_again() -> bool:
            again = groups.commit(wanted)
            return {why for errors in again.values() for why in errors.values()} == {""}

        eventually(commits_again, "it serves again, perhaps later than a request waits")
