"""Runs that could stand still without a word: moved brokers, revoked logins, silent leaders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import OffsetSpec, ScramMechanism, UserScramCredentialDeletion

from k2ktui.config.clusters import ClusterConfig
from k2ktui.errors import ExitCode, K2kError
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.control.keyed_writer import KeyedWriter
from k2ktui.kafka.control.reader import require_offsets
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.cluster import Loop, NotSent, OutcomeUnknown, Wire
from tests.support.clusters.brokers import Brokers
from tests.support.clusters.kafka import (
    START_S,
    TIMEOUT,
    Out,
    admin,
    create_topic,
    eventually,
    produce,
)
from tests.support.clusters.proxy import LISTENER, ProxiedNode, Proxy, proxied_node
from tests.support.clusters.secure import create_scram_users, start_secure_node
from tests.support.commands.verbs import k2ktui
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import Pipeline
from tests.support.pipelines.preflight import plain

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_DISCOVERY_REFUSED = "new topics: the source cluster rejected the login"


class _WithEntry:
    """A cluster whose brokers can move: one bootstrap server leads to wherever they are."""

    def __init__(self, node: ProxiedNode) -> None:
        self.node, self.entry = node, Proxy()
        self.entry.upstream = node.address(LISTENER)

    def move(self) -> None:
        """Restart the broker at another address."""
        self.node.stop()
        self.node.proxy.close()
        self.node.proxy = Proxy()
        self.node.start(START_S)


@contextmanager
def _with_entry(directory: Path, kind: str) -> Iterator[_WithEntry]:
    with proxied_node("moving", directory / "moving", kind) as node:
        made = _WithEntry(node)
        try:
            yield made
        finally:
            made.entry.close()


@pytest.mark.rotate("kind", ["", "3.9"])
@pytest.mark.parametrize("side", ["source", "target"])
def test_all_brokers_move_to_other_addresses(
    make_pipeline: MakePipeline, tmp_path: Path, side: str, kind: str
) -> None:
    with _with_entry(tmp_path, kind) as moving:
        where = {f"{side}.kafka.common": {"bootstrap.servers": moving.entry.address}}
        pipe: Pipeline = make_pipeline([], where)
        setattr(pipe, side, moving.node)
        pipe.topics = [create_topic(pipe.source)]
        produce(pipe.source, pipe.topics[0], [Out(b"before")])
        run = pipe.start()
        run.expect("firstrecord")

        moving.move()

        pipe.await_more([Out(b"after")], timeout=90.0)
        file = pipe.write()
        eventually(lambda: _has_no_problem(file), "heartbeats, lag and watch are well")
        pipe.end(run)
        pipe.prove()


def test_clients_of_both_libraries_follow_brokers_that_move(tmp_path: Path) -> None:
    with _with_entry(tmp_path, "") as moving:
        side = ClusterConfig.model_validate(plain(moving.entry.address))
        cluster, name = Cluster(side, "target"), create_topic(moving.node)
        writer, loop = KeyedWriter(cluster, name), Loop()
        connected = Wire(loop, wire(side, "consumer"), "target")
        try:
            loop.run(lambda: connected.open(TIMEOUT))
            writer.put([(b"k", b"1")])
            assert cluster.broker_ids("asking")
            moving.move()
            at = [(name, 0)]
            for ask in (
                lambda: require_offsets(cluster, at, OffsetSpec.latest()),
                lambda: writer.put([(b"k", b"2")]),
                lambda: loop.run(lambda: connected.metadata([name])),
            ):
                eventually(partial(_works, ask), "it follows the brokers")
        finally:
            connected.close()
            loop.close()


def test_a_partition_without_a_leader_while_others_are_copied(
    make_pipeline: MakePipeline, brokers: Brokers
) -> None:
    two = brokers.two
    topic = create_topic(two, replicas=[[1], [2]])
    where = {"source.kafka.common": {"bootstrap.servers": two.first.bootstrap}, "spark.slots": 1}
    pipe: Pipeline = make_pipeline([topic], where)
    produce(two, topic, [Out(b"0", partition=0), Out(b"1", partition=1)])
    run = pipe.start()
    run.expect("firstrecord")
    two.second.kill()
    late = run.expect("note", lambda event: "30 s or longer" in event["text"])
    assert f"{topic}-1: not read for 30 s or longer: it has no leader" in late["text"]
    file = pipe.write()
    eventually(lambda: _is_serious(file, "it has no leader"), "watch says so")
    two.start()
    eventually(lambda: _has_no_problem(file), "it is over")
    assert run.stop() == 0


def _works(ask: Callable[[], object]) -> bool:
    with suppress(K2kError, NotSent, OutcomeUnknown):
        ask()
        return True
    return False


def _has_no_problem(file: Path) -> bool:
    return k2ktui("watch", "--once", "-f", file).code == ExitCode.OK


def _is_serious(file: Path, cause: str) -> bool:
    """Whether ``watch --once`` shows the cause, and ends with findings."""
    said = k2ktui("watch", "--once", "-f", file)
    return said.code == ExitCode.FINDINGS and cause in said.out


def _with_plain(client: dict[str, str]) -> dict[str, str]:
    """A login of the broker's own file, which nothing that happens to SCRAM credentials changes."""
    login = client["sasl.jaas.config"].replace("scram.ScramLogin", "plain.PlainLogin")
    return {**client, "sasl.mechanism": "PLAIN", "sasl.jaas.config": login}


@pytest.mark.parametrize(("side", "mode"), [("source", "exclusive"), ("target", "shared")])
def test_the_login_that_copies_is_revoked(
    make_pipeline: MakePipeline, tmp_path: Path, side: str, mode: str
) -> None:
    """That of the admin client works; the run says so at once, and continues with the login."""
    secure = start_secure_node(tmp_path / "secure", {"copier": "c0p13r", "keeper": "k33p3r"})
    try:
        role = "consumer" if side == "source" else "producer"
        where = {
            f"{side}.kafka.common": _with_plain(secure.java("keeper")),
            f"{side}.kafka.{role}": secure.java("copier"),
        }
        pipe: Pipeline = make_pipeline([], where)
        pipe.mode = mode
        setattr(pipe, side, secure.node)
        topic = create_topic(pipe.source)
        pipe.topics = [topic]
        secure.allow_all("copier", "keeper")
        produce(pipe.source, topic, [Out(b"before")])
        run = pipe.start()
        run.expect("firstrecord")

        delete = UserScramCredentialDeletion("copier", ScramMechanism.SCRAM_SHA_512)
        asking = admin(secure.node)
        for future in asking.alter_user_scram_credentials([delete]).values():
            future.result(TIMEOUT)
        secure.node.restart()

        fault = run.expect("stopped", timeout=90.0)["fault"]
        assert f"the {side} cluster rejected the login" in fault["message"]
        assert "sasl.jaas.config" in fault["hint"]
        assert not [e for e in run.events("note") if _DISCOVERY_REFUSED in e["text"]]
        if side == "source":  # heartbeats need the target's login
            eventually(lambda: _is_serious(pipe.write(), "rejected the login"), "watch says so")
        reported = run.reported
        create_scram_users(secure.node, {"copier": "c0p13r"})
        pipe.await_more([Out(b"after")], timeout=90.0)
        run.expect("resumed", since=reported)
        pipe.end(run)
        pipe.prove()
    finally:
        secure.node.close()
