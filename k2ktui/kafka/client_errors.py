"""librdkafka's error codes, and the errors it reports through ``error_cb``."""

from __future__ import annotations

import logging
import re
from time import monotonic

from confluent_kafka import KafkaError, KafkaException

from k2ktui.kafka.auth.alerts import refused_certificate_code, untrusted_code
from k2ktui.text import safe_text

# librdkafka's own codes, negative by its convention (rdkafka.h).
LOCAL_TIMED_OUT = -185
MESSAGE_TIMED_OUT = -192
PARTITION_END = -191
PRODUCER_FENCED = -144
OFFSET_RESET = -140
NO_LEADER_KNOWN = -156
NO_COORDINATOR_KNOWN = -180
_ALL_DOWN, _TLS, LOGIN, _TRANSPORT = -187, -181, -169, -195
UNREACHABLE = frozenset({_TRANSPORT, -193, _ALL_DOWN, _TLS, LOGIN})  # transport, resolve, …
# No response in time, or from a broker that the library has dropped, as it does with all brokers
# when a fenced one answers that there are none. That says nothing of what was asked for.
NO_RESPONSE = frozenset({LOCAL_TIMED_OUT, -137, -197})
# What comes of a cluster that does not answer: no connection is ready, or no response.
SILENT = NO_RESPONSE | {_TRANSPORT, _ALL_DOWN}
NOT_AUTHORIZED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)

_RECENT_S = 15.0
# Matches "sasl_ssl://", "/bootstrap", "(after 356ms in state AUTH_REQ)".
_NOISE = re.compile(r"^\w+://|/(bootstrap|\d+)(?=: )| \(after \d+ms in state \w+[^)]*\)")


class RecentErrors:
    """Recent errors from librdkafka's ``error_cb``, which explain why it has no connection."""

    def __init__(self) -> None:
        self._last_errors: dict[bool, tuple[float, KafkaError]] = {}

    def __call__(self, error: KafkaError) -> None:
        """Record an error; librdkafka calls this while it is polled."""
        # "All brokers down" carries no cause; an earlier error does.
        if error.code() != _ALL_DOWN:
            self._last_errors[keeps_out(error)] = monotonic(), error

    def refusal(self, since: float = 0.0) -> KafkaError | None:
        """Return the last login or certificate error of the past ``_RECENT_S`` seconds.

        None if it came before ``since``, in monotonic seconds.
        """
        return self._latest(True, since)

    def last(self) -> KafkaError | None:
        """Return the last error of any other kind of the past ``_RECENT_S`` seconds."""
        return self._latest(False)

    def _latest(self, kind: bool, since: float = 0.0) -> KafkaError | None:
        at, error = self._last_errors.get(kind, (0.0, None))
        return error if error and at >= max(since, monotonic() - _RECENT_S) else None


def keeps_out(error: KafkaError) -> bool:
    """Whether retrying cannot help: the login failed, or a certificate was refused."""
    if error.code() == LOGIN or refuses_certificate(error):
        return True
    return error.code() == _TLS and untrusted_code(error.str())


def refuses_certificate(error: KafkaError) -> bool:
    """Whether a broker refused this client's certificate, or that it has none.

    In TLS 1.3 that is known after the handshake, and reported as the end of the connection.
    """
    return error.code() in (_TLS, _TRANSPORT) and refused_certificate_code(error.str())


def is_silence(error: KafkaError | None) -> bool:
    """Whether an error only says that no answer came; so does None."""
    return error is None or error.code() == LOCAL_TIMED_OUT or "timed out" in error.str().lower()


def clean_message(error: KafkaError) -> str:
    """Return an error's message without librdkafka's prefixes and suffixes, safe to print."""
    text = (error.str() or "no reason given").splitlines()[0]
    return safe_text(_NOISE.sub("", text))


LIBRARY_LOG = logging.getLogger("librdkafka")
"""Takes librdkafka's log lines; relevant problems also arrive as errors."""
LIBRARY_LOG.addHandler(logging.NullHandler())


def log_level() -> int:
    """Return librdkafka's own level, a syslog severity: critical, or with ``--debug`` info."""
    return 6 if LIBRARY_LOG.isEnabledFor(logging.INFO) else 2


def reason(error: KafkaException) -> str:
    """Return the first line of a library error, safe to print."""
    inner = error.args[0] if error.args else error
    text = inner.str() if hasattr(inner, "str") else str(inner)
    return safe_text((text or "no reason given").splitlines()[0])
