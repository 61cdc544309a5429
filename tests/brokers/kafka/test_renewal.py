"""Certificates and passwords that are renewed while clients of both libraries are connected."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from k2ktui.config import load
from k2ktui.config.clusters import ClusterConfig
from k2ktui.errors import K2kError, LoginFailed
from k2ktui.kafka.auth import logins
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.control.keyed_writer import KeyedWriter
from k2ktui.kafka.control.tail import ControlTail
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.cluster import Loop, NotSent, OutcomeUnknown, Wire
from k2ktui.kafka.wire.groups import ConsumerGroupClient
from k2ktui.sync.mapping.reader import TopicReader
from tests.support.clusters.kafka import TIMEOUT, Out, create_topic, eventually, produce
from tests.support.clusters.renewing import RenewingCluster

pytestmark = pytest.mark.slow  # a cluster of its own

FIRST, SECOND, THIRD = "first-3cr3t", "second-3cr3t", "third-3cr3t"
ANSWER_S = 10.0
Use = Callable[[], object]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RenewingCluster]:
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    renewing = RenewingCluster(tmp_path_factory.mktemp("renewing"))
    yield renewing
    renewing.close()


class Clock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the logins that were refused."""
    standing = Clock()
    monkeypatch.setattr(logins.LOGINS, "_clock", standing)
    return standing


def read(
    directory: Path, properties: Mapping[str, str], env: dict[str, str] | None = None
) -> ClusterConfig:
    """Read the target of a pipeline's file, with its templates."""
    tree = {
        "name": "p",
        "source": {"kafka": {"common": {"bootstrap.servers": "127.0.0.1:1"}}},
        "target": {"kafka": {"common": dict(properties)}},
        "replication": [{"source": {"topic": ".*"}}, {"sink": {"topic": "source"}}],
    }
    path = directory / "pipeline.yaml"
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    return load([path], env=env).config.target


class Clients:
    """Every kind of client, connected before something is renewed; each use is a request."""

    def __init__(self, config: ClusterConfig, topic: str, stack: ExitStack) -> None:
        self.cluster = Cluster(config, "target")
        self._reader = stack.enter_context(_closing(TopicReader(self.cluster, topic)))
        self._tail = stack.enter_context(_closing(ControlTail(self.cluster)))
        self._writer = stack.enter_context(_closing(KeyedWriter(self.cluster, topic, ANSWER_S)))
        self._loop = Loop()
        stack.callback(self._loop.close)
        self._wire = stack.enter_context(
            _closing(Wire(self._loop, wire(config, "producer"), "target"))
        )
        self._groups = ConsumerGroupClient(wire(config, "admin"), "target", patience=2)
        stack.callback(self._groups.close)
        self._topic = topic
        options = wire(config, "producer")
        self._loop.run(lambda: self._wire.open(TIMEOUT))
        self._groups.open(TIMEOUT)
        self.uses: dict[str, Use] = {
            "admin": self.cluster.topic_names,
            "wire": self.ask_wire,
            "groups": self._groups.list,
            "connection with old options": lambda: open_wire(options),
            "producer": lambda: self._writer.put([(b"key", b"value")]),
            "mapping reader": self.read_mapping,
            "tail": self.read_tail,
        }

    def ask_wire(self) -> object:
        return self._loop.run(lambda: self._wire.brokers(ANSWER_S))

    def read_mapping(self) -> object:
        from time import monotonic

        from confluent_kafka.admin import OffsetSpec

        ends = self._reader.offsets([0], OffsetSpec.latest())
        self._reader.seek({0: 0})
        count = sum(
            len(found[0]) for found in self._reader.read(ends, monotonic() + ANSWER_S) if 0 in found
        )
        assert self._reader.next[0] >= ends[0], "not all was read"
        return count

    def read_tail(self) -> object:
        topic = self.cluster.find(self._topic)
        assert topic is not None
        self._tail.begin(topic)
        return len(list(self._tail.records(ANSWER_S)))


class _closing:
    def __init__(self, thing: object) -> None:
        self._thing = thing

    def __enter__(self):  # type: ignore[no-untyped-def]
        return self._thing

    def __exit__(self, *_: object) -> None:
        self._thing.close()  # type: ignore[attr-defined]


def answers(use: Use) -> bool:
    try:
        use()
    except (K2kError, NotSent, OutcomeUnknown, AssertionError):
        return False
    return True


def filled(cluster: RenewingCluster) -> str:
    topic = create_topic(cluster.node)
    produce(cluster.node, topic, [Out(b"v%d" % number) for number in range(20)])
    return topic


def test_a_certificate_that_is_renewed_while_the_old_one_is_valid(
    cluster: RenewingCluster, tmp_path: Path
) -> None:
    store = cluster.issue(cluster.old, tmp_path / "client.pem")
    with ExitStack() as stack:
        clients = Clients(read(tmp_path, cluster.mutual(store)), filled(cluster), stack)
        for name, use in clients.uses.items():
            eventually(partial(answers, use), f"{name} answers")
        cluster.issue(cluster.new, store)
        cluster.trust_only_new()
        for name, use in clients.uses.items():
            eventually(partial(answers, use), f"{name} answers")
    cluster.trust_both()


def test_a_certificate_that_is_renewed_after_it_was_refused(
    cluster: RenewingCluster, tmp_path: Path
) -> None:
    store = cluster.issue(cluster.old, tmp_path / "client.pem")
    with ExitStack() as stack:
        clients = Clients(read(tmp_path, cluster.mutual(store)), filled(cluster), stack)
        cluster.trust_only_new()
        refused = eventually(lambda: failure(clients.cluster.topic_names), "a refusal")
        assert "the target cluster refused this client's certificate" in refused.message
        assert "ssl.keystore" in refused.hint and "bootstrap.servers" not in refused.hint
        cluster.issue(cluster.new, store)
        for name, use in clients.uses.items():
            eventually(partial(answers, use), f"{name} answers")
    cluster.trust_both()


def failure(use: Use) -> LoginFailed | None:
    try:
        use()
    except LoginFailed as error:
        return error
    except (K2kError, NotSent, OutcomeUnknown):
        return None
    return None


def test_a_password_that_is_rotated(cluster: RenewingCluster, tmp_path: Path, clock: Clock) -> None:
    cluster.set_password(FIRST)
    secret = tmp_path / "password"
    secret.write_text(f"{FIRST}\n")
    with ExitStack() as stack:
        config = read(tmp_path, cluster.login("${file:password}"))
        clients = Clients(config, filled(cluster), stack)
        for name, use in clients.uses.items():
            eventually(partial(answers, use), f"{name} answers")
        # First on the brokers: the old password is refused. Each client may have been connecting
        # when the first one was refused; then none tries it again.
        before = cluster.refused_logins()
        cluster.set_password(SECOND)
        cluster.restart()
        for _ in range(2):
            for use in clients.uses.values():
                assert not answers(use)
        refused = eventually(lambda: failure(clients.cluster.topic_names), "a refusal")
        assert "rejected the login" in refused.message
        assert "read again" in refused.hint
        first = cluster.refused_logins()
        assert 1 <= first - before <= len(clients.uses)
        # 70 requests, none of which logs in. The library does so again by itself if this process
        # does not run for 1.5 s before it has noticed a refusal: on a busy machine, once.
        for _ in range(10):
            for use in clients.uses.values():
                assert not answers(use)
        later = cluster.refused_logins()
        assert later - first <= 1
        clock.now += logins.RETRY_S + 1
        for _ in range(2):
            for use in clients.uses.values():
                assert not answers(use)
        again = cluster.refused_logins()
        assert 1 <= again - later <= 2
        # The new password needs no such time.
        secret.write_text(SECOND)
        for name, use in clients.uses.items():
            eventually(partial(answers, use), f"{name} answers")
        assert cluster.refused_logins() - again <= 1


def test_a_password_of_the_environment(
    cluster: RenewingCluster, tmp_path: Path, clock: Clock
) -> None:
    cluster.set_password(FIRST)
    config = read(tmp_path, cluster.login("${env:string:PASSWORD}"), {"PASSWORD": THIRD})
    for ask in (Cluster(config, "target").topic_names, lambda: open_wire(wire(config, "producer"))):
        refused = eventually(partial(failure, ask), "a refusal")
        assert "PASSWORD" in refused.hint and "restart it" in refused.hint


def open_wire(options: Mapping[str, Any]) -> None:
    loop = Loop()
    connection = Wire(loop, options, "target")
    try:
        loop.run(lambda: connection.open(ANSWER_S))
    finally:
        connection.close()
        loop.close()


@pytest.mark.parametrize("kind", ["none", "of another authority"])
def test_a_refused_certificate_is_named_as_that(
    cluster: RenewingCluster, tmp_path: Path, kind: str
) -> None:
    from tests.support.clusters.tls import make_root

    store = cluster.issue(make_root("stranger"), tmp_path / "client.pem")
    properties = dict(cluster.mutual(store))
    if kind == "none":
        del properties["ssl.keystore.location"]
    config = read(tmp_path, properties)
    for ask in (lambda: open_wire(wire(config, "producer")), Cluster(config, "target").topic_names):
        refused = eventually(partial(failure, ask), "a refusal")
        assert "the target cluster refused this client's certificate" in refused.message
