"""Read what a cluster has beside topics and groups: ACLs, client quotas, log directories."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from kafka.protocol.admin.client_quotas import DescribeClientQuotasRequest
from kafka.protocol.admin.cluster import DescribeLogDirsRequest

from k2ktui.engine.drill_acls import Acl
from k2ktui.errors import K2kError, Refused, TimedOut
from k2ktui.kafka.clients import REQUEST_TIMEOUT_S, Cluster
from k2ktui.kafka.codes import Code, code_name
from k2ktui.kafka.properties import wire
from k2ktui.kafka.wire import Loop, NotSent, OutcomeUnknown, Wire

_OPEN_S = 10.0
_PAUSE_S = 0.05

QuotaEntity = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True, slots=True)
class LogDir:
    """A log directory of a broker; bytes are None if the broker does not report them.

    ``error`` is the name of the protocol error, such as that of a failed disk.
    """

    broker: int
    path: str
    total: int | None
    usable: int | None
    error: str = ""


def read_acls(cluster: Cluster) -> frozenset[Acl] | None:
    """Return all ACLs; None if the cluster has no authorizer.

    Raises:
        Refused: the principal lacks Describe on the cluster.
        ConnectionFailed, TimedOut: the cluster did not answer.
    """
    everything = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )

    def ask() -> frozenset[Acl] | None:
        future = cluster.admin.describe_acls(everything, request_timeout=REQUEST_TIMEOUT_S)
        try:
            found = cluster.wait(future)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.SECURITY_DISABLED:
                return None
            raise
        return frozenset(
            Acl(
                each.restype.name,
                each.name,
                each.resource_pattern_type.name,
                each.principal,
                each.host,
                each.operation.name,
                each.permission_type.name,
            )
            for each in found
        )

    return cluster.ask("reading ACLs", ask)


def read_quotas(cluster: Cluster, timeout: float) -> dict[QuotaEntity, Mapping[str, float]]:
    """Return the client quotas by entity.

    An entity is like ``(("client-id", None), ("user", "ann"))``; None is the default entity.

    Raises:
        Refused: the principal lacks DescribeConfigs on the cluster, or the brokers are before 2.6.
        ConnectionFailed, TimedOut, K2kError: the cluster did not answer.
    """
    (response,) = _ask(
        cluster,
        DescribeClientQuotasRequest,
        lambda: DescribeClientQuotasRequest(components=[], strict=False),
        timeout,
    ).values()
    _check(cluster, "reading client quotas", response.error_code, "DescribeConfigs")
    return {
        tuple(sorted((part.entity_type, part.entity_name) for part in entry.entity)): {
            value.key: float(value.value) for value in entry.values
        }
        for entry in response.entries or ()
    }


def read_log_dirs(cluster: Cluster, timeout: float) -> list[LogDir]:
    """Return the log directories of all brokers.

    Raises:
        Refused: the principal lacks Describe on the cluster.
        ConnectionFailed, TimedOut, K2kError: a broker did not answer.
    """
    responses = _ask(
        cluster,
        DescribeLogDirsRequest,
        lambda: DescribeLogDirsRequest(topics=[]),
        timeout,
        every=True,
    )
    found = []
    for broker, response in responses.items():
        code = getattr(response, "error_code", None) or Code.NONE
        _check(cluster, "reading log directories", code, "Describe")
        for each in response.results:
            total, usable = (getattr(each, name, -1) for name in ("total_bytes", "usable_bytes"))
            found.append(
                LogDir(
                    broker,
                    each.log_dir,
                    _known(total),
                    _known(usable),
                    code_name(each.error_code) if each.error_code else "",
                )
            )
        if not response.results:
            _check(
                cluster,
                "reading log directories",
                Code.CLUSTER_AUTHORIZATION_FAILED,
                "Describe",
            )
    return found


def _known(value: int | None) -> int | None:
    return None if value is None or value < 0 else int(value)


def _check(cluster: Cluster, what: str, code: int, right: str) -> None:
    if code == Code.CLUSTER_AUTHORIZATION_FAILED:
        raise Refused(
            f"{what} on the {cluster.label} cluster: the admin principal may not",
            hint=f"Grant it {right} on the cluster.",
        )
    if code:
        raise K2kError(f"{what} on the {cluster.label} cluster: {code_name(code)}")


def _ask(
    cluster: Cluster,
    kind: type,
    make: Callable[[], Any],
    timeout: float,
    *,
    every: bool = False,
) -> dict[int, Any]:
    """Send a request to one broker, or to every broker; return the response by broker id."""
    loop = Loop()
    connection = Wire(loop, wire(cluster.config, "admin"), cluster.label)
    try:
        loop.run(lambda: connection.open(min(timeout, _OPEN_S)))
        if connection.version_of(kind) < 0:
            raise Refused(f"the brokers of the {cluster.label} cluster are too old for it")
        found: dict[int, Any] = loop.run(lambda: _send(connection, make, timeout, every=every))
        return found
    except (NotSent, OutcomeUnknown) as error:
        raise TimedOut(f"the {cluster.label} cluster: {error}") from None
    finally:
        connection.close()
        loop.close()


async def _send(
    connection: Wire, make: Callable[[], Any], timeout: float, *, every: bool
) -> dict[int, Any]:
    until = monotonic() + timeout
    brokers = await connection.brokers(timeout)
    found = {}
    for node in brokers if every else brokers[:1]:
        while True:
            left = max(0.1, until - monotonic())
            try:
                found[node] = await connection.send(make(), node, left)
                break
            except NotSent:  # the first request to a broker only opens the connection
                if monotonic() > until:
                    raise
                await connection.loop.sleep(_PAUSE_S)
    return found
