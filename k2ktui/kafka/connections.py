"""kafka-python's connection manager, made to tell why nobody could be reached.

The library retries a bootstrap until its time is over and then reports a time-out, whatever the
reason was. Here every failed connection leaves its reason, and a reason that waiting does not mend
(the login, the certificate) from all bootstrap servers ends the bootstrap at once.
"""

from __future__ import annotations

import re
from typing import Any

from kafka.errors import (
    KafkaConnectionError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)
from kafka.net.inet import create_connection
from kafka.net.manager import KafkaConnectionManager

from k2ktui.kafka.transports import Connection, PlainTransport, TlsTransport
from k2ktui.text import safe_text

_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
# "[Error 58] ", "SaslAuthenticationFailedError: ", "[SSL: …] ", " (_ssl.c:1006)"
_NOISE = re.compile(r"^(\[[^]]*\] *|\w+Error: +)+|\[SSL: \w+\] | \(_ssl\.c:\d+\)$")


class Unrecoverable(Exception):
    """No bootstrap server lets this client in, and trying again would not change that."""


class ConnectionManager(KafkaConnectionManager):  # type: ignore[misc]
    """The library's manager; takes the same options.

    Attributes:
        failure: why the last connection that failed did so.
    """

    def __init__(self, net: Any, **options: Any) -> None:
        super().__init__(net, **options)
        self.failure: Exception | None = None
        self._refused: set[Any] = set()

    def get_connection(self, node_id: Any, *args: Any, **options: Any) -> Any:
        """Return the connection to a node, as the library does, and watch it being made.

        Raises:
            Unrecoverable: every bootstrap server has refused us.
        """
        if self._refused and not self.bootstrapped:
            self._give_up()
        connection = super().get_connection(node_id, *args, **options)
        if connection.initializing:
            # The library makes connections of its own class only, and has not connected yet.
            connection.__class__ = Connection
            connection.init_future.add_errback(lambda error: self._failed(node_id, error))
            connection.close_future.add_errback(lambda error: self._failed(node_id, error))
        return connection

    def _give_up(self) -> None:
        if self._refused.issuperset(broker.node_id for broker in self.cluster.bootstrap_brokers()):
            raise Unrecoverable(why(self.failure)) from self.failure

    def _failed(self, node_id: Any, error: Exception) -> None:
        self.failure = error
        if is_login(error) or is_untrusted(error):
            self._refused.add(node_id)
        else:
            self._refused.discard(node_id)

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        config = self.config
        sock = await create_connection(
            self._net,
            node.host,
            node.port,
            config["socket_options"],
            proxy_url=config["proxy_url"],
            timeout_at=timeout_at,
        )
        if self.ssl_enabled:
            tls = {key: value for key, value in config.items() if key.startswith("ssl_")}
            transport = TlsTransport(self._net, sock, host=node.host, **tls)
        else:
            transport = PlainTransport(self._net, sock, host=node.host)
        try:
            await transport.handshake()
        except Exception as error:
            raise KafkaConnectionError(f"TLS handshake failed: {error}") from error
        return transport


def is_login(error: BaseException | None) -> bool:
    """Whether the broker refused who we say we are, or the way we say it."""
    return isinstance(error, SaslAuthenticationFailedError | UnsupportedSaslMechanismError)


def is_untrusted(error: BaseException | None) -> bool:
    """Whether we refused the broker's certificate."""
    return isinstance(error, KafkaConnectionError) and _UNTRUSTED in str(error)


def why(error: BaseException | None) -> str:
    """Return an error's own words, without the library's ornaments, safe to print."""
    text = (str(error) or type(error).__name__).splitlines()[0] if error else "no reason given"
    return safe_text(_NOISE.sub("", text))
