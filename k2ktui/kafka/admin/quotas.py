"""Quotas of a cluster (KIP-546): read them, and set them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest

from k2ktui.engine.drill.changes import Entity
from k2ktui.errors import K2kError, Refused, TimedOut
from k2ktui.kafka.admin.probe import Probe
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.cluster import NotSent, OutcomeUnknown, Wire
from k2ktui.kafka.wire.codes import Code, code_name

PRODUCER_RATE = "producer_byte_rate"
_OPEN_S = 10.0
_REQUEST_S, _PAUSE_S = 20.0, 0.2


@dataclass(frozen=True, slots=True)
class Quota:
    """A producer quota in bytes per second; None is no quota."""

    entity: Entity
    rate: float | None


def producer_quotas(cluster: Cluster) -> list[Quota]:
    """Return all producer quotas, sorted.

    Raises:
        Refused: the brokers do not support it (before Kafka 2.6), or the principal may not.
        ConnectionFailed, TimedOut: the cluster did not answer.
    """
    producing = [
        Quota(entity, values[PRODUCER_RATE])
        for entity, values in client_quotas(cluster).items()
        if PRODUCER_RATE in values and {kind for kind, _ in entity} <= {"client-id", "user"}
    ]
    return sorted(producing, key=lambda quota: _order(quota.entity))


def client_quotas(cluster: Cluster) -> dict[Entity, dict[str, float]]:
    """Return all client quotas: their values by entity and key; errors as for producer quotas."""
    request = DescribeClientQuotasRequest(components=[], strict=False)
    response = _send(cluster, DescribeClientQuotasRequest, request)
    _check(cluster, "listing quotas", response.error_code)
    return {
        _sorted_entity((e.entity_type, e.entity_name) for e in entry.entity): {
            str(value.key): float(value.value) for value in entry.values
        }
        for entry in response.entries or ()
    }


def set_producer_quotas(cluster: Cluster, quotas: Collection[Quota]) -> None:
    """Set quotas; a rate of None deletes the quota.

    Raises:
        Refused, ConnectionFailed, TimedOut: as for :func:`producer_quotas`; part of them may have
            been set.
    """
    changes = {quota.entity: {PRODUCER_RATE: quota.rate} for quota in quotas}
    for code, _ in alter_client_quotas(cluster, changes).values():
        _check(cluster, "setting quotas", code)


def alter_client_quotas(
    cluster: Cluster,
    changes: Mapping[Entity, Mapping[str, float | None]],
    *,
    validate_only: bool = False,
) -> dict[Entity, tuple[int, str]]:
    """Set client quotas; return the entities that were refused, with error code and message.

    Args:
        cluster: the cluster.
        changes: by entity, the new values by key; None deletes one.
        validate_only: the cluster checks the changes, and makes none.

    Raises:
        Refused, ConnectionFailed, TimedOut: as for :func:`producer_quotas`.
    """
    if not changes:
        return {}
    kind = AlterClientQuotasRequest
    entries = [
        kind.EntryData(
            entity=[
                kind.EntryData.EntityData(entity_type=kind_of_entity, entity_name=name)
                for kind_of_entity, name in entity
            ],
            ops=[
                kind.EntryData.OpData(key=key, value=value or 0.0, remove=value is None)
                for key, value in values.items()
            ],
        )
        for entity, values in changes.items()
    ]
    response = _send(cluster, kind, kind(entries=entries, validate_only=validate_only))
    return {
        _sorted_entity((e.entity_type, e.entity_name) for e in entry.entity): (
            entry.error_code,
            entry.error_message or code_name(entry.error_code),
        )
        for entry in response.entries
        if entry.error_code != Code.NONE
    }


def _sorted_entity(parts: Any) -> Entity:
    return tuple(sorted(parts, key=lambda part: str(part[0])))


def _order(entity: Entity) -> list[tuple[str, bool, str]]:
    return [(kind, name is not None, name or "") for kind, name in entity]


def _send(cluster: Cluster, kind: type, request: Any) -> Any:
    with Probe(wire(cluster.config, "admin"), cluster.label) as probe:
        probe.open(_OPEN_S)
        if probe.too_old_for({kind: 0}):
            raise Refused(
                f"the {cluster.label} cluster does not support quotas over its protocol",
                unchanged="No quota was changed.",
                hint="Quotas need Kafka 2.6.",
            )
        return probe.run(lambda connection: _send_repeatedly(connection, request))


async def _send_repeatedly(connection: Wire, request: Any) -> Any:
    until = monotonic() + _REQUEST_S
    while True:
        try:
            return await connection.send(request, None, max(0.5, until - monotonic()))
        except (NotSent, OutcomeUnknown) as error:
            # Both requests have the same result when they are repeated.
            if monotonic() > until:
                raise TimedOut(
                    f"the {connection.label} cluster did not answer about quotas: {error}",
                    hint="Check that it is up and reachable from here.",
                ) from error
        await connection.loop.sleep(_PAUSE_S)


def _check(cluster: Cluster, what: str, code: int) -> None:
    if code == Code.NONE:
        return
    text = f"{what} on the {cluster.label} cluster: {code_name(code)}"
    if code == Code.CLUSTER_AUTHORIZATION_FAILED:
        raise Refused(
            text,
            unchanged="No quota was changed.",
            hint="Grant the admin principal DescribeConfigs and AlterConfigs on the cluster.",
        )
    raise K2kError(text)
