"""Ask the clients' name which cluster answers by it, as a client would."""

from __future__ import annotations

import socket
import ssl
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from k2ktui.config.clusters import BOOTSTRAP, ClusterConfig, KafkaClients, is_connection, one_line
from k2ktui.config.drill import DrillRedirect
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.redirects import NameAnswer
from k2ktui.errors import ConfigError, K2kError
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.cluster import Loop, Wire

_OPEN_S, _KNOCK_S = 5.0, 3.0
_AT_ONCE = 16
_LABEL = "clients'"
# ApiVersions of version 0 with correlation id 1 and client id "k2ktui": each broker answers it
# before a login.
_HELLO = struct.pack(">hhih6s", 18, 0, 1, 6, b"k2ktui")
_In = TypeVar("_In")
_Out = TypeVar("_Out")


def split_name(name: str) -> list[str]:
    """Return the addresses of a name."""
    return one_line(name).split(",")


def clients_of(config: PipelineConfig, redirect: DrillRedirect, address: str) -> ClusterConfig:
    """Return how clients connect to an address."""
    target = config.target.properties("admin")
    own = {key: text for key, text in target.items() if is_connection(key) and key != BOOTSTRAP}
    common = {**(dict(redirect.config) or own), BOOTSTRAP: address}
    return ClusterConfig(kafka=KafkaClients(common=common))


def ask_name(config: PipelineConfig, redirect: DrillRedirect) -> list[NameAnswer]:
    """Ask each address of the name, and each broker that one of them advertises."""

    def ask(address: str) -> tuple[NameAnswer, list[str]]:
        return _ask(clients_of(config, redirect, address), address)

    first = split_name(redirect.name)
    answers = _side_by_side(ask, first)
    brokers = {address for _, advertised in answers for address in advertised}
    answers += _side_by_side(ask, sorted(brokers - set(first)))
    return [answer for answer, _ in answers]


def find_shared(config: PipelineConfig, answers: Iterable[NameAnswer]) -> list[str]:
    """Return the addresses of the clients' way that the pipeline itself uses on the source.

    A cut-off would cut it off, too: what is not copied by then never is.
    """
    own = split_name(config.source.bootstrap_servers)
    for address in own:
        cluster = {**config.source.properties("admin"), BOOTSTRAP: address}
        answer, brokers = _ask(ClusterConfig(kafka=KafkaClients(common=cluster)), address)
        if answer.cluster:
            own = [*own, *brokers]
            break
    return sorted(set(own) & {answer.address for answer in answers})


def _ask(cluster: ClusterConfig, address: str) -> tuple[NameAnswer, list[str]]:
    try:
        options = wire(cluster, "admin")
    except ConfigError as error:  # an advertised address, or the client properties
        return NameAnswer(address, problem=" ".join(error.message.split())), []
    loop = Loop()
    connection = Wire(loop, options, _LABEL, cluster_id="")
    try:
        loop.run(lambda: connection.open(_OPEN_S))
        answered, brokers = connection.answered
        if not answered:
            return NameAnswer(address, problem="a broker that does not tell its cluster's id"), []
        return NameAnswer(address, answered), brokers
    except K2kError as error:
        return NameAnswer(address, problem=error.message), []
    finally:
        connection.close()
        loop.close()


def find_reached(
    config: PipelineConfig, redirect: DrillRedirect, addresses: Iterable[str]
) -> list[str]:
    """Return the addresses at which something answers: a broker, whoever may log in there.

    No login is sent: some addresses are those of a record.

    Args:
        config: the pipeline.
        redirect: its section.
        addresses: those of the name, of a record, or both.
    """
    addresses = list(dict.fromkeys(addresses))
    properties = clients_of(config, redirect, redirect.name).properties("admin")
    has_tls = "SSL" in properties.get("security.protocol", "").upper().split("_")
    reached = _side_by_side(lambda address: is_answered(address, has_tls=has_tls), addresses)
    return [address for address, answers in zip(addresses, reached, strict=True) if answers]


def is_answered(address: str, *, has_tls: bool) -> bool:
    """Return whether a server behind any IP of an address answers; a proxy that hangs up does not.

    One that keeps a connection open and is silent may only be slow, so it counts as an answer.
    """
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        servers = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
        return any(_knock(family, at, host, has_tls=has_tls) for family, _, _, _, at in servers)
    except (OSError, ValueError, OverflowError):
        return False


def _knock(family: int, at: tuple[Any, ...], host: str, *, has_tls: bool) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as plain:
        plain.settimeout(_KNOCK_S)
        try:
            plain.connect(at)
        except OSError:
            return False
        try:
            if has_tls:
                return _shakes_hands(plain, host)
            plain.sendall(struct.pack(">i", len(_HELLO)) + _HELLO)
            return bool(plain.recv(1))
        except TimeoutError:
            return True
        except OSError:
            return False


def find_many_hosts(redirect: DrillRedirect) -> list[str]:
    """Return the addresses of the name of which only one of several servers would be asked.

    A connection takes one of the IPs of a name; an IP of each family may be one server.
    """
    many = []
    for address in split_name(redirect.name):
        host, _, port = address.rpartition(":")
        try:
            servers = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
        except (OSError, ValueError):
            continue
        counts = Counter(family for family, at in {(entry[0], entry[4]) for entry in servers})
        if max(counts.values(), default=0) > 1:
            many.append(address)
    return many


def _shakes_hands(plain: socket.socket, host: str) -> bool:
    # Any server that speaks TLS counts, whatever its certificate: nothing is sent to it.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with context.wrap_socket(plain, server_hostname=host or None):
            return True
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
        return False
    except ssl.SSLError:  # an alert is an answer
        return True


def _side_by_side(ask: Callable[[_In], _Out], of: Sequence[_In]) -> list[_Out]:
    if not of:
        return []
    with ThreadPoolExecutor(min(_AT_ONCE, len(of)), thread_name_prefix="name") as pool:
        return list(pool.map(ask, of))
