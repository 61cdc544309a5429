"""Operator errors for a cluster that refuses connections or logins, shared by both libraries."""

from __future__ import annotations

import os
import socket
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor, wait
from time import monotonic, sleep

from k2ktui.errors import ConnectionFailed, LoginFailed, NoAnswer
from k2ktui.text import safe_text

Address = tuple[str, int]

_NO_WORDS = "no route"
_CLOSED_S, _PAUSE_S = 0.5, 0.1


def await_open(label: str, bootstrap: str) -> None:
    """Check that a bootstrap server accepts connections, retrying for half a second.

    Call it before a slow start, such as Spark's. It does not detect other problems.

    Raises:
        ConnectionFailed: every bootstrap server refuses connections.
    """
    until = monotonic() + _CLOSED_S
    while why := refusal(addresses(bootstrap)):
        if monotonic() > until:
            raise no_connection(label, why)
        sleep(_PAUSE_S)


def refusal(
    where: Collection[Address], timeout: float = 0.5, *, silence_refuses: bool = False
) -> str:
    """Return why none of these addresses accepts a TCP connection.

    Returns "" if one accepts or still might: no reply within ``timeout`` seconds is not a refusal,
    unless ``silence_refuses``.
    """
    if not where:
        return ""
    # No "with" statement, which would wait for a thread blocked by an unresponsive name server.
    pool = ThreadPoolExecutor(len(where), thread_name_prefix="reach")
    try:
        asked = {pool.submit(_refusal, address, timeout): address for address in sorted(where)}
        done, _ = wait(asked, timeout + 0.1)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
    reasons = []
    for one, (host, port) in asked.items():
        reason = one.result() if one in done else None
        if reason is None and silence_refuses:
            reason = f"{safe_text(host)}:{port}: no reply within {timeout:g} s"
        reasons.append(reason)
    return "; ".join(filter(None, reasons)) if all(reasons) else ""


def _refusal(address: Address, timeout: float) -> str | None:
    """Return why an address refuses connections, "" if it accepts one, None if it is silent."""
    host, port = address
    try:
        socket.create_connection(address, timeout).close()
    except TimeoutError:
        return None
    except socket.gaierror as error:
        return f"{safe_text(host)}: {(error.strerror or 'host name not known').lower()}"
    except OSError as error:
        words = os.strerror(error.errno) if error.errno else _NO_WORDS
        return f"{safe_text(host)}:{port}: {words.lower()}"
    return ""


def addresses(bootstrap: str) -> set[Address]:
    """Return the hosts and ports of ``bootstrap.servers``, skipping malformed entries."""
    hosts = set()
    for server in bootstrap.split(","):
        host, _, port = server.strip().rpartition("://")[2].rpartition(":")
        if host and port.isdecimal():
            hosts.add((host.strip("[]"), int(port)))
    return hosts


def no_connection(label: str, reason: str) -> ConnectionFailed:
    """Return the error for a cluster that has no broker accepting connections."""
    return ConnectionFailed(
        f"no broker of the {label} cluster accepts connections: {reason}",
        hint=f"Check that the {label} cluster is up, and bootstrap.servers of {label}.kafka.",
    )


def no_answer(label: str) -> NoAnswer:
    """Return the error for a cluster that is silent: connections are not refused, nor answered."""
    return NoAnswer(
        f"the {label} cluster does not answer: it neither refuses connections nor responds to "
        "requests",
        hint=f"Check bootstrap.servers and security.protocol of {label}.kafka, firewalls between, "
        "and whether its brokers hang.",
    )


class OtherCluster(ConnectionFailed):
    """Another cluster answers than the one that the pipeline copies from or to."""


def other_cluster(label: str, expected: str, answered: str) -> OtherCluster:
    """Return the error for a cluster that has another id than the run began with."""
    return OtherCluster(
        f"the {label} cluster answers with cluster id {safe_text(answered)}; this run copies "
        f"{'from' if label == 'source' else 'to'} cluster {safe_text(expected)}",
        unchanged="Nothing is read from it or written to it.",
        hint=f"Check where bootstrap.servers of {label}.kafka lead to. A run goes on when the "
        "cluster that it began with answers again.",
    )


def login_refused(label: str, reason: str, advice: str = "") -> LoginFailed:
    """Return the error for a refused login.

    Args:
        label: of the cluster.
        reason: the broker's message.
        advice: what makes a running process use another password.
    """
    hint = f"Check sasl.mechanism and sasl.jaas.config (user and password) of {label}.kafka."
    return LoginFailed(
        f"the {label} cluster rejected the login: {reason}", hint=f"{hint} {advice}".strip()
    )


def certificate_refused(label: str, reason: str, advice: str = "") -> LoginFailed:
    """Return the error for brokers that refuse this client's certificate, or that it has none.

    Args:
        label: of the cluster.
        reason: the name of the broker's alert.
        advice: what makes a running process use another certificate.
    """
    hint = (
        f"Check ssl.keystore.* of {label}.kafka: whether it is set, its certificate has expired, "
        "and the brokers trust who issued it."
    )
    return LoginFailed(
        f"the {label} cluster refused this client's certificate: {reason}",
        hint=f"{hint} {advice}".strip(),
    )


def not_trusted(label: str, reason: str) -> LoginFailed:
    """Return the error for a broker certificate that fails verification."""
    return LoginFailed(
        f"the {label} cluster's certificate is not trusted: {reason}",
        hint=f"Check ssl.truststore.* of {label}.kafka, and that bootstrap.servers uses host "
        "names in the certificate.",
    )
