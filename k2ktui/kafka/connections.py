"""kafka-python's connection manager, extended to report why no broker could be reached.

The library retries a bootstrap until its timeout and then reports a timeout, whatever the cause.
This manager records the cause of every failed connection. If all bootstrap servers fail with a
permanent error (login or certificate), the bootstrap ends immediately.
"""

from __future__ import annotations

import re
from time import monotonic
from typing import Any

from kafka.errors import (
    KafkaConnectionError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.net.connection import KafkaConnection

from k2ktui.kafka._kafka_python import Manager
from k2ktui.kafka.zero_copy import ZeroCopyConnection
from k2ktui.text import safe_text

_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
_CLOSED = re.compile(r"ECONNREFUSED|EHOSTUNREACH|ENETUNREACH|DNS Resolution failure")
# Matches "[Error 58] ", "SaslAuthenticationFailedError: ", "[SSL: …] ", " (_ssl.c:1006)".
_NOISE = re.compile(r"^(\[[^]]*\] *|\w+Error: +)+|\[SSL: \w+\] | \(_ssl\.c:\d+\)$")


class Unrecoverable(Exception):
    """No bootstrap server accepts this client, and retrying would not help."""


class Connection(KafkaConnection):  # type: ignore[misc]
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
    """

    connection_class = Connection

    def __init__(self, net: Any, **options: Any) -> None:
        super().__init__(net, **options)
        self.failure: Exception | None = None
        self.closed_until: float | None = None
        self._refused: set[Any] = set()
        self._closed_ports: set[Any] = set()

    def get_connection(self, node_id: Any, *args: Any, **options: Any) -> Any:
        """Return the connection to a node, as the library does, and record its failures.

        Raises:
            Unrecoverable: every bootstrap server refused the login or has an untrusted
                certificate, or all ports are still closed after ``closed_until``.
        """
        if not self.bootstrapped:
            self._give_up()
        connection = super().get_connection(node_id, *args, **options)
        if connection.initializing:
            connection.init_future.add_errback(lambda error: self._record_failure(node_id, error))
            connection.close_future.add_errback(lambda error: self._record_failure(node_id, error))
        return connection

    def connection_delay(self, node_id: Any) -> float:
        """Return the seconds until a node is tried again: closed ports not after ``closed_until``.

        The library's pauses grow fourfold, to seconds after the third attempt.
        """
        delay = float(super().connection_delay(node_id))
        if self.bootstrapped or self.closed_until is None or not self.ports_are_closed:
            return delay
        return min(delay, max(0.0, self.closed_until - monotonic()))

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
        for nodes, kind in ((self._refused, _keeps_out), (self._closed_ports, is_closed)):
            (nodes.add if kind(error) else nodes.discard)(node_id)


def _keeps_out(error: BaseException | None) -> bool:
    return is_login(error) or is_untrusted(error)


def is_closed(error: BaseException | None) -> bool:
    """Whether the port is closed, or the host unknown or unreachable; excludes timeouts."""
    return isinstance(error, KafkaConnectionError) and bool(_CLOSED.search(str(error)))


def is_login(error: BaseException | None) -> bool:
    """Whether the broker refused the credentials or the SASL mechanism."""
    return isinstance(error, SaslAuthenticationFailedError | UnsupportedSaslMechanismError)


def is_untrusted(error: BaseException | None) -> bool:
    """Whether the broker's certificate failed verification."""
    return isinstance(error, KafkaConnectionError) and _UNTRUSTED in str(error)


def why(error: BaseException | None) -> str:
    """Return an error's message without the library's prefixes and suffixes, safe to print."""
    text = (str(error) or type(error).__name__).splitlines()[0] if error else "no reason given"
    return safe_text(_NOISE.sub("", text))
