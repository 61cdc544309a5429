"""kafka-python's connection manager, extended to report why no broker could be reached.

The library retries a bootstrap until its timeout and then reports a timeout, whatever the cause.
This manager records the cause of every failed connection. If all bootstrap servers fail with a
permanent error (login or certificate), the bootstrap ends immediately.

After the bootstrap, the library asks only the brokers that it knows. If the last attempt to connect
to each of them has failed, this manager asks a bootstrap server (as KIP-899): the brokers may have
moved to other addresses.
"""

from __future__ import annotations

import os
import random
import re
import ssl
from collections.abc import Iterable
from time import monotonic
from typing import Any

from kafka.errors import (
    KafkaConnectionError,
    KafkaTimeoutError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)

from k2ktui.kafka.auth.alerts import refused_certificate
from k2ktui.kafka.auth.logins import LOGINS, RENEWAL, Renewal, password_login
from k2ktui.kafka.wire._kafka_python import IdentifiedConnection, Manager
from k2ktui.kafka.wire.zero_copy import ZeroCopyConnection
from k2ktui.text import safe_text

_CLOSED = re.compile(r"ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|DNS Resolution failure")
_ERRNO = re.compile(r"(\d+) E[A-Z]+")
# Matches "[Error 58] ", "SaslAuthenticationFailedError: ", "[SSL: …] ", " (_ssl.c:1006)".
_NOISE = re.compile(r"^(\[[^]]*\] *|\w+Error: +)+|\[SSL: \w+\] | \(_ssl\.c:\d+\)$")


class Unrecoverable(Exception):
    """No bootstrap server accepts this client, and retrying would not help."""


class OtherClusterId(KafkaConnectionError):  # type: ignore[misc]
    """A broker belongs to another cluster than expected; ``cluster_id`` is its id."""

    def __init__(self, cluster_id: str) -> None:
        super().__init__(f"cluster id {cluster_id}")
        self.cluster_id = cluster_id


class Connection(IdentifiedConnection):
    """The library's connection, with ``ZeroCopyConnection`` as its parser."""

    def connection_made(self, transport: Any) -> None:
        """Attach a connected transport."""
        super().connection_made(transport)
        self.parser = ZeroCopyConnection(
            client_id=self.config["client_id"],
            receive_message_max_bytes=self.config["receive_message_max_bytes"],
            ident=f"node={self.node_id}",
        )


class ConnectionManager(Manager):
    """Extends the library's manager; takes the same options.

    Attributes:
        failure: cause of the last failed connection.
        closed_until: monotonic time until which closed ports are retried; None to retry until the
            caller's timeout, for callers that must survive a cluster restart.
        expected: the id of the cluster; "" for any, None to ask brokers for none.
        ids: the ids that brokers have answered.
        renewal: gives the newest login and certificates; None to keep those of the options.
    """

    connection_class = Connection

    def __init__(self, net: Any, **options: Any) -> None:
        super().__init__(net, **options)
        self.renewal: Renewal | None = options.get(RENEWAL)
        self._generation = self.renewal.since if self.renewal else 0
        self._login = password_login(self.config)
        self.failure: Exception | None = None
        self.closed_until: float | None = None
        self.expected: str | None = None
        self.ids: set[str] = set()
        self._refused: set[Any] = set()
        self._closed_ports: set[Any] = set()
        self._down: dict[Any, Exception] = {}  # causes by node whose last attempt has failed
        self._addresses: dict[Any, tuple[str, int]] = {}
        self.cluster.add_listener(self._note_addresses)

    def get_connection(self, node_id: Any, *args: Any, **options: Any) -> Any:
        """Return the connection to a node, as the library does, and record its failures.

        Raises:
            Unrecoverable: every bootstrap server refused the login or has an untrusted
                certificate, or all ports are still closed after ``closed_until``.
            SaslAuthenticationFailedError: this login was refused less than 30 seconds ago.
        """
        if self.bootstrapped and (usable := self.usable_connection(node_id)) is not None:
            return usable  # whatever an attempt before it has left, such as a pause
        is_new = not self.has_connection(node_id)
        if is_new:
            self._renew()
        if not self.bootstrapped:
            self._give_up()
        if self.connection_delay(node_id) <= 0:
            self.forget_login(node_id)
            if is_new:
                self._refuse_again(node_id)
        connection = super().get_connection(node_id, *args, **options)
        if connection.initializing:
            connection.init_future.add_callback(lambda _: self._note_accepted(node_id))
            connection.init_future.add_errback(lambda error: self._note_down(node_id, error))
            connection.identify = None if self.expected is None else self.identify
            connection.init_future.add_errback(lambda error: self._record_failure(node_id, error))
            connection.close_future.add_errback(lambda error: self._record_failure(node_id, error))
        return connection

    def _renew(self) -> None:
        """Use the newest login and certificates from now on."""
        if self.renewal is None or (generation := self.renewal.generation) == self._generation:
            return
        self._generation = generation
        self.use_login(self.renewal.options())
        self._login = password_login(self.config)
        self._refused.clear()

    def _refuse_again(self, node_id: Any) -> None:
        """Raise the refusal of this login, which another connection may have met just now."""
        if reason := LOGINS.reason(self._login):
            error = SaslAuthenticationFailedError(reason)
            self._note_down(node_id, error)
            self._record_failure(node_id, error)
            raise error

    def _note_accepted(self, node_id: Any) -> None:
        self._down.pop(node_id, None)
        LOGINS.accepted(self._login)

    def identify(self, cluster_id: str) -> None:
        """Note the cluster id in a broker's answer; "" says nothing.

        Raises:
            OtherClusterId: it is not the expected one.
        """
        if not cluster_id:
            return
        self.ids.add(cluster_id)
        if self.expected and cluster_id != self.expected:
            raise OtherClusterId(cluster_id)

    def connection_delay(self, node_id: Any) -> float:
        """Return the seconds until a node is tried again: closed ports not after ``closed_until``.

        The library's pauses grow fourfold, to seconds after the third attempt.
        """
        delay = float(super().connection_delay(node_id))
        if self.bootstrapped or self.closed_until is None or not self.ports_are_closed:
            return delay
        return min(delay, max(0.0, self.closed_until - monotonic()))

    def least_loaded_node(self) -> Any:
        """Return the node for a request that any can answer, None if none can be asked now.

        A bootstrap server, too, if no known broker could be connected to.
        """
        node_of_library = super().least_loaded_node()
        if not self._are_down(broker.node_id for broker in self.cluster.brokers()):
            return node_of_library
        others = [node for node in self._bootstrap_ids() if self.connection_delay(node) <= 0]
        if node_of_library is not None:
            others.append(node_of_library)
        connected = [node for node in others if node not in self._down]
        return random.choice(connected or others or [None])  # noqa: S311 - not a secret

    def cause_of(self, node_id: Any) -> Exception | None:
        """Return why the last attempt to connect to a node failed; None if it did not."""
        return self._down.get(node_id)

    @property
    def outage(self) -> tuple[Any, Exception] | None:
        """A node and why the last attempt to connect to it failed, if all of them did.

        All are the known brokers and the bootstrap servers. A refused login or certificate comes
        first.
        """
        nodes = [*(broker.node_id for broker in self.cluster.brokers()), *self._bootstrap_ids()]
        if not self._are_down(nodes):
            return None
        causes = [(node, self._down[node]) for node in nodes]
        return next((cause for cause in causes if _keeps_out(cause[1])), causes[0])

    def address_of(self, node_id: Any) -> str:
        """Return the host and port of a node, safe to print; "" if unknown."""
        node = self.cluster.broker_metadata(node_id)
        return "" if node is None else safe_text(f"{node.host}:{node.port}")

    def _are_down(self, nodes: Iterable[Any]) -> bool:
        return bool(self._down) and all(node in self._down for node in nodes)

    def _note_down(self, node_id: Any, error: Exception) -> None:
        self._down[node_id] = error
        if isinstance(error, SaslAuthenticationFailedError) and not LOGINS.is_refused(self._login):
            LOGINS.note(self._login, why(error))

    def _note_addresses(self, cluster: Any) -> None:
        """Forget what is known about nodes that have another address now."""
        before, self._addresses = self._addresses, {}
        for broker in cluster.brokers():
            address = self._addresses[broker.node_id] = (broker.host, broker.port)
            if before.get(broker.node_id, address) != address:
                self._down.pop(broker.node_id, None)
                self.forget_node(broker.node_id)

    @property
    def ports_are_closed(self) -> bool:
        """Whether every bootstrap server refused the last connection attempt."""
        return self._closed_ports.issuperset(self._bootstrap_ids())

    def _bootstrap_ids(self) -> set[Any]:
        return {broker.node_id for broker in self.cluster.bootstrap_brokers()}

    def _give_up(self) -> None:
        over = self.closed_until is not None and monotonic() >= self.closed_until
        if self._refused >= self._bootstrap_ids() or (over and self.ports_are_closed):
            raise Unrecoverable(why(self.failure)) from self.failure

    def _record_failure(self, node_id: Any, error: Exception) -> None:
        self.failure = error
        if self.renewal is not None and (
            is_login(error) or is_untrusted(error) or is_certificate_refused(error)
        ):
            self.renewal.refused()
        for nodes, kind in ((self._refused, _keeps_out), (self._closed_ports, is_closed)):
            (nodes.add if kind(error) else nodes.discard)(node_id)


def _keeps_out(error: BaseException | None) -> bool:
    is_refused = is_login(error) or is_untrusted(error) or is_certificate_refused(error)
    return is_refused or isinstance(error, OtherClusterId)


def is_closed(error: BaseException | None) -> bool:
    """Whether the port is closed, or the host unknown or unreachable; excludes timeouts."""
    return isinstance(error, KafkaConnectionError) and bool(_CLOSED.search(str(error)))


def is_silence(error: BaseException | None) -> bool:
    """Whether an attempt to connect ended without any answer; None is one that has not ended."""
    timed_out = isinstance(error, KafkaTimeoutError | RequestTimedOutError)
    return error is None or timed_out or "timed out" in str(error).lower()


def is_login(error: BaseException | None) -> bool:
    """Whether the broker refused the credentials or the SASL mechanism."""
    return isinstance(error, SaslAuthenticationFailedError | UnsupportedSaslMechanismError)


def is_untrusted(error: BaseException | None) -> bool:
    """Whether the broker's certificate failed verification."""
    return isinstance(_tls_error(error), ssl.SSLCertVerificationError)


def is_certificate_refused(error: BaseException | None) -> bool:
    """Whether the broker refused this client's certificate, or that it has none."""
    failure = _tls_error(error)
    return failure is not None and refused_certificate(failure.reason or "")


def _tls_error(error: BaseException | None) -> ssl.SSLError | None:
    """Return the TLS error of a failed connection, of its handshake or of what came after it."""
    if not isinstance(error, KafkaConnectionError):
        return None
    causes = (*error.args, error.__cause__)
    return next((cause for cause in causes if isinstance(cause, ssl.SSLError)), None)


def why(error: BaseException | None) -> str:
    """Return an error's message without the library's prefixes and suffixes, safe to print."""
    text = (str(error) or type(error).__name__).splitlines()[0] if error else "no reason given"
    text = _NOISE.sub("", text)
    if match := _ERRNO.fullmatch(text):
        text = os.strerror(int(match[1])).lower()
    return safe_text(text)
