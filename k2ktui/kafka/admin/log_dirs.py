"""Log directories of a cluster's brokers, with their free space (KIP-827)."""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import Any

from kafka.protocol.admin.cluster import DescribeLogDirsRequest

from k2ktui.errors import K2kError, Refused, TimedOut
from k2ktui.kafka.admin.probe import Probe
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.cluster import NotSent, OutcomeUnknown, Wire
from k2ktui.kafka.wire.codes import Code, code_name

_OPEN_S = 10.0


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory of a broker.

    Attributes:
        broker: id of the broker.
        path: where it is on the broker.
        total, usable: bytes of its volume; None for brokers before Kafka 3.3.
        error: name of the protocol error, such as that of a failed disk; empty without one.
    """

    broker: int
    path: str
    total: int | None
    usable: int | None
    error: str = ""


def read_log_dirs(cluster: Cluster, timeout: float) -> list[LogDir]:
    """Return the log directories of all brokers.

    Raises:
        Refused: the admin principal lacks Describe on the cluster.
        ConnectionFailed, TimedOut: a broker did not answer within ``timeout`` seconds.
    """
    try:
        with Probe(wire(cluster.config, "admin"), cluster.label) as probe:
            probe.open(min(timeout, _OPEN_S))
            responses = probe.run(lambda connection: _ask_all(connection, timeout))
    except (NotSent, OutcomeUnknown) as error:
        raise TimedOut(
            f"reading the log directories of the {cluster.label} cluster: {error}",
            hint="Check that all of its brokers are up and reachable from here.",
        ) from error
    return [
        log_dir
        for broker, response in responses.items()
        for log_dir in _read(cluster, broker, response)
    ]


async def _ask_all(connection: Wire, timeout: float) -> dict[int, Any]:
    until = monotonic() + timeout
    responses: dict[int, Any] = {}
    for node in await connection.brokers(timeout):
        left = until - monotonic()
        responses[node] = await connection.send_when_connected(
            DescribeLogDirsRequest(topics=[]), node, left
        )
    return responses


def _read(cluster: Cluster, broker: int, response: Any) -> list[LogDir]:
    code = getattr(response, "error_code", None) or Code.NONE
    # Brokers before Kafka 3.2 answer without directories when it is not allowed.
    if code == Code.CLUSTER_AUTHORIZATION_FAILED or (not code and not response.results):
        raise Refused(
            f"the log directories of the {cluster.label} cluster may not be read",
            hint="Grant the admin principal Describe on the cluster.",
        )
    if code:
        raise K2kError(
            f"reading the log directories of the {cluster.label} cluster: {code_name(code)}"
        )
    return [
        LogDir(
            broker,
            directory.log_dir,
            _known(getattr(directory, "total_bytes", None)),
            _known(getattr(directory, "usable_bytes", None)),
            code_name(directory.error_code) if directory.error_code else "",
        )
        for directory in response.results
    ]


def _known(value: int | None) -> int | None:
    return None if value is None or value < 0 else int(value)
