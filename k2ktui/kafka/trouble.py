"""Why a cluster cannot be reached: librdkafka tells it best, but only to an error callback."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from k2ktui.config.clusters import ClusterConfig, Role
from k2ktui.errors import ConnectionFailed
from k2ktui.kafka.clients import QUIET
from k2ktui.kafka.properties import librdkafka
from k2ktui.text import safe_text

# librdkafka's codes (rdkafka.h), what says most first.
_AUTHENTICATION, _SSL, _RESOLVE, _TRANSPORT = -169, -181, -193, -195
_TELLING = (_AUTHENTICATION, _SSL, _RESOLVE, _TRANSPORT)
_POLL_S = 0.1
# A listener that wants TLS hangs up on who speaks plainly, and librdkafka keeps that to itself.
_MUTE = "no connection, or one that is closed without a word; security.protocol must fit the port"


@dataclass(frozen=True, slots=True)
class Trouble:
    """What a connection attempt met; ``lasting`` when trying again cannot help."""

    code: int
    reason: str

    @property
    def lasting(self) -> bool:
        return self.code in (_AUTHENTICATION, _SSL)

    def error(self, label: str, role: Role) -> ConnectionFailed:
        """Return it as the error of a cluster (``source`` or ``target``) and client role."""
        if self.code == _AUTHENTICATION:
            what = f"the {label} cluster refused the {role}'s login"
            mend = f"Check sasl.mechanism and sasl.jaas.config of {label}.kafka."
        elif self.code == _SSL:
            what = f"no TLS connection of the {role} to the {label} cluster"
            mend = f"Check security.protocol and ssl.* of {label}.kafka."
        else:
            what = f"the {label} cluster did not answer the {role}"
            mend = (
                f"Check bootstrap.servers and security.protocol of {label}.kafka, and that its "
                "brokers are up and reachable from here."
            )
        return ConnectionFailed(f"{what}: {self.reason}", mend=mend)


def find_trouble(config: ClusterConfig, role: Role, timeout: float) -> Trouble | None:
    """Connect anew and return what goes wrong within ``timeout`` seconds, None if nothing does.

    Raises:
        ConfigError: the client properties cannot be used.
    """
    seen: list[KafkaError] = []
    settings: dict[str, Any] = {
        **librdkafka(config, role),
        "error_cb": seen.append,
        "logger": QUIET,
        "log_level": 2,
    }
    try:
        client = AdminClient(settings)
    except KafkaException as error:
        return _trouble(error.args[0])
    until = time.monotonic() + timeout
    while time.monotonic() < until:
        try:
            client.list_topics(timeout=_POLL_S)
        except KafkaException as error:
            seen.append(error.args[0])
        else:
            return None
        client.poll(0)
        worst = _worst(seen)
        if worst is not None and worst.lasting:
            return worst
    return _worst(seen)


def _worst(seen: list[KafkaError]) -> Trouble | None:
    for code in _TELLING:
        for error in seen:
            # A poll that ran into its own short time-out says nothing.
            if error.code() == code and "failed to get metadata" not in error.str().lower():
                return _trouble(error)
    return Trouble(_TRANSPORT, _MUTE) if seen else None


def _trouble(error: KafkaError) -> Trouble:
    return Trouble(error.code(), safe_text((error.str() or "no reason given").splitlines()[0]))
