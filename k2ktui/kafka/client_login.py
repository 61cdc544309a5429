"""The login and the certificates of confluent-kafka clients, which a client keeps for its life.

librdkafka can be given another password (``set_sasl_credentials``), and no other certificate; with
a login that is refused it logs in again and again, up to 20 times a second, also while nobody uses
the client. So clients are closed then, and made again with the newest login, but not with one that
was refused just now. A thread looks after those that nobody uses.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import Lock, Thread
from time import monotonic, sleep
from typing import Any
from weakref import WeakMethod

from confluent_kafka import KafkaError, Producer

from k2ktui.config.clusters import ClusterConfig
from k2ktui.errors import LoginFailed
from k2ktui.kafka.auth.logins import LOGINS, password_login
from k2ktui.kafka.auth.oauth import check_token
from k2ktui.kafka.client_errors import LOGIN, clean_message, keeps_out, refuses_certificate
from k2ktui.kafka.properties.renewal import Credentials, credentials_of
from k2ktui.kafka.unreachable import certificate_refused, login_refused, not_trusted

log = logging.getLogger(__name__)

# A client notices its first refused login before it tries again.
_BACKOFF, _MOST_BACKOFF, _BACKOFF_MS = "reconnect.backoff.ms", "reconnect.backoff.max.ms", 2000


_LISTEN_S = 0.25

_watched: list[WeakMethod[Callable[[], None]]] = []
_starting = Lock()
_thread: Thread | None = None


def _watch(look: Callable[[], None]) -> None:
    """Call ``look`` four times a second as long as its object exists."""
    global _thread
    with _starting:
        method = WeakMethod(look)
        if method not in _watched:
            _watched.append(method)
        if _thread is None or not _thread.is_alive():
            _thread = Thread(target=_look_on, name="logins", daemon=True)
            _thread.start()


def _look_on() -> None:
    while True:
        sleep(_LISTEN_S)
        for method in tuple(_watched):
            look = method()
            if look is None:
                _watched.remove(method)
                continue
            try:
                look()
            except Exception as error:
                log.debug("looking after a client: %s", type(error).__name__)
            del look


def flush(producer: Producer, until: float, refused: Callable[[], KafkaError | None]) -> int:
    """Wait for all acknowledgments; return how many records have none.

    Args:
        producer: the producer.
        until: when the waiting ends at the latest, in monotonic seconds.
        refused: returns what keeps the producer out, if anything; a refused login ends the waiting.
    """
    while (left := until - monotonic()) > 0 and producer.flush(min(left, _LISTEN_S)):
        error = refused()
        if error is not None and error.code() == LOGIN:
            break
    return len(producer)


class ClientLogin:
    """The login of the clients of one cluster.

    Args:
        config: the cluster's client properties.
        label: ``source`` or ``target``, for messages.
    """

    def __init__(self, config: ClusterConfig, label: str) -> None:
        self._config, self._label = config, label
        self._known: Credentials | None = None

    @property
    def _credentials(self) -> Credentials:
        if self._known is None:
            self._known = credentials_of(self._config)
        return self._known

    @property
    def generation(self) -> int:
        """A number that is larger after each renewal of the login or the certificates."""
        return self._credentials.generation

    def checked(
        self,
        settings: Mapping[str, Any],
        heard: Callable[[KafkaError], None],
        look: Callable[[], None] | None = None,
    ) -> dict[str, Any]:
        """Return the settings of a client that is about to be made.

        Args:
            settings: librdkafka's, without ``error_cb``.
            heard: called with the client's errors, while it is polled.
            look: a method of the client's owner that polls the client while nobody uses it, and
                closes it if its login is refused; None for a client that is always in use.

        Raises:
            LoginFailed: this login was refused less than 30 seconds ago.
            ConnectionFailed: no token can be had.
        """
        login = password_login(settings)
        if reason := LOGINS.reason(login):
            raise login_refused(self._label, reason, self._credentials.advice)
        check_token(settings)

        def note(error: KafkaError) -> None:
            if error.code() == LOGIN:
                LOGINS.note(login, clean_message(error))
            if keeps_out(error):
                self._credentials.read_again()
            heard(error)

        pause = {}
        if login is not None:
            longest = int(settings.get(_MOST_BACKOFF, _BACKOFF_MS))
            pause = {_BACKOFF: min(_BACKOFF_MS, longest)}
            if look is not None:
                _watch(look)
        return {**pause, **settings, "error_cb": note}

    def error(self, error: KafkaError) -> LoginFailed:
        """Return the error for operators, of a login or a certificate that was refused."""
        text, advice = clean_message(error), self._credentials.advice
        if error.code() == LOGIN:
            return login_refused(self._label, text, advice)
        if refuses_certificate(error):
            return certificate_refused(self._label, text, advice)
        return not_trusted(self._label, text)
