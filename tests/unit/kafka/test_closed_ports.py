"""A cluster that accepts no connections is reported within a second, by every way of asking."""

from __future__ import annotations

import logging
import socket
import time
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import suppress

import pytest

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.errors import ConnectionFailed, NoAnswer
from k2ktui.kafka import unreachable
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.unreachable import addresses, refusal
from k2ktui.kafka.wire.cluster import Loop, Wire
from k2ktui.kafka.wire.groups import ConsumerGroupClient
from tests.support.clusters.kafka import TIMEOUT
from tests.support.commands.waiting import PROMPT_S, seconds_waited

# Time-outs, which this must not wait for, are 10 s and more; a command may ask in two ways.
WAIT_S = PROMPT_S / 2
CLOSED = ("127.0.0.1", 1)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads that ask ports have the time of a busy machine; no name server hangs here."""
    monkeypatch.setattr(unreachable, "wait", lambda asked, _: wait(asked, TIMEOUT))


@pytest.fixture
def silent() -> Iterator[tuple[str, int]]:
    """A port that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield listener.getsockname()


def by_wire(config: ClusterConfig) -> object:
    loop = Loop()
    connection = Wire(loop, wire(config, "admin"), "source")
    try:
        return loop.run(lambda: connection.open(10.0))
    finally:
        connection.close()
        loop.close()


def by_groups(config: ClusterConfig) -> object:
    with ConsumerGroupClient(wire(config, "admin"), "source") as groups:
        groups.open(10.0)
        return groups.list()


def test_an_error_that_is_kept_keeps_no_client() -> None:
    """It would log in again and again, once the login is refused."""
    config = ClusterConfig(kafka=KafkaClients(common={"bootstrap.servers": "127.0.0.1:1"}))
    cluster = Cluster(config, "target")
    client = weakref.ref(cluster.admin)
    with pytest.raises(ConnectionFailed) as kept:
        cluster.topic_names()
    cluster.disconnect()
    assert client() is None, kept.value


WAYS: dict[str, Callable[[ClusterConfig], object]] = {
    "wire": by_wire,
    "groups": by_groups,
    "metadata": lambda config: Cluster(config, "source").topic_names(),
    "admin call": lambda config: Cluster(config, "source").describe(["topic"]),
}


@pytest.mark.parametrize("way", WAYS)
def test_closed_ports_are_reported_long_before_a_time_out(way: str) -> None:
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    config = ClusterConfig(kafka=KafkaClients(common={"bootstrap.servers": "127.0.0.1:1"}))
    with pytest.raises(ConnectionFailed) as caught:
        WAYS[way](config)

    def ask() -> None:
        with suppress(ConnectionFailed):
            WAYS[way](config)

    assert seconds_waited(ask, WAIT_S) < WAIT_S
    assert "no broker of the source cluster accepts connections" in caught.value.message
    assert "127.0.0.1:1: connection refused" in caught.value.message
    assert "bootstrap.servers of source.kafka" in caught.value.hint


def test_pauses_between_attempts_do_not_delay_the_report() -> None:
    """The library's own grow fourfold, and ``reconnect.backoff.ms`` may be any number."""
    pauses = {"reconnect.backoff.ms": "8000", "reconnect.backoff.max.ms": "8000"}
    common = {"bootstrap.servers": "127.0.0.1:1", **pauses}
    config = ClusterConfig(kafka=KafkaClients(common=common))

    def ask() -> None:
        with pytest.raises(ConnectionFailed, match="no broker of the source cluster accepts"):
            by_wire(config)

    assert seconds_waited(ask, WAIT_S) < WAIT_S


def test_one_open_port_is_enough(silent: tuple[str, int]) -> None:
    assert "connection refused" in refusal({CLOSED})
    assert refusal({CLOSED, silent}) == ""
    assert refusal(()) == ""


def test_a_name_that_does_not_exist_is_as_good_as_closed() -> None:
    assert "k2ktui.invalid" in refusal({("k2ktui.invalid", 9092)}, timeout=10.0)


def test_silence_is_no_refusal(silent: tuple[str, int]) -> None:
    """The connection is made, so its time-out decides, as for a cluster that is only slow."""
    config = ClusterConfig(
        kafka=KafkaClients(common={"bootstrap.servers": f"127.0.0.1:{silent[1]}"})
    )
    loop = Loop()
    connection = Wire(loop, wire(config, "admin"), "source")
    with pytest.raises(NoAnswer, match="it neither refuses connections nor responds"):
        loop.run(lambda: connection.open(1.5))
    connection.close()
    loop.close()


def test_who_lives_through_a_restart_waits_for_the_port() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and nothing listens
        servers = f"127.0.0.1:{closed.getsockname()[1]}"
        config = ClusterConfig(kafka=KafkaClients(common={"bootstrap.servers": servers}))
        loop = Loop()
        connection = Wire(loop, wire(config, "admin"), "target")
        began = time.monotonic()
        with pytest.raises(ConnectionFailed):
            loop.run(lambda: connection.open(2.0, patient=True))
        assert time.monotonic() - began >= 1.9
    connection.close()
    loop.close()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a:1,b:2", {("a", 1), ("b", 2)}),
        (" a:1 , SASL_SSL://b:2,[::1]:3", {("a", 1), ("b", 2), ("::1", 3)}),
        ("a,b:x,", set()),
    ],
)
def test_addresses(text: str, expected: set[tuple[str, int]]) -> None:
    assert addresses(text) == expected
