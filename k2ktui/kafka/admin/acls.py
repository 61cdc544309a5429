"""Access rules: read all of them; deny Write on topics, and allow it again.

A denied operation is refused to every principal but super users, whatever else allows it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import astuple
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)
from kafka.protocol.admin.acl import DescribeAclsRequest

from k2ktui.engine.acl import Acl
from k2ktui.errors import ConnectionFailed, K2kError, Refused, TimedOut
from k2ktui.kafka.admin.probe import Probe
from k2ktui.kafka.client_errors import reason
from k2ktui.kafka.clients import REQUEST_TIMEOUT_S, Cluster
from k2ktui.kafka.properties.translation import wire
from k2ktui.kafka.wire.cluster import NotSent, OutcomeUnknown

T = TypeVar("T", AclBinding, AclBindingFilter)

EVERY_RULE = AclBindingFilter(
    ResourceType.ANY,
    None,
    ResourcePatternType.ANY,
    None,
    None,
    AclOperation.ANY,
    AclPermissionType.ANY,
)
_EVERYONE, _ANY_HOST = "User:*", "*"
_ANY_KIND = 1
_OPEN_S = 10.0
_NO_AUTHORIZER = frozenset({KafkaError.SECURITY_DISABLED})
_NOT_ALLOWED = frozenset({KafkaError.CLUSTER_AUTHORIZATION_FAILED})


class NoAuthorizer(Refused):
    """The cluster has no authorizer: everyone may do everything."""


def list_acls(cluster: Cluster) -> list[str]:
    """Return all access rules of a cluster as sorted text, for comparison.

    Raises:
        NoAuthorizer: the cluster has no authorizer.
        Refused: the principal may not list its rules.
        ConnectionFailed, TimedOut: the cluster did not answer.
    """
    return sorted("\t".join(astuple(rule)) for rule in read_acls(cluster))


def read_acls(cluster: Cluster) -> frozenset[Acl]:
    """Return all access rules of a cluster; errors as for :func:`list_acls`."""
    what = "listing access rules"
    acls = frozenset(_acl(rule) for rule in _ask(cluster, what, EVERY_RULE))
    if not acls:
        _require_authorizer(cluster, what)
    return acls


def _require_authorizer(cluster: Cluster, what: str) -> None:
    """Raise NoAuthorizer if there is none: librdkafka returns an empty list then, and no error."""
    request = DescribeAclsRequest(
        resource_type_filter=_ANY_KIND,
        resource_name_filter=None,
        pattern_type_filter=_ANY_KIND,
        principal_filter=None,
        host_filter=None,
        operation=_ANY_KIND,
        permission_type=_ANY_KIND,
    )
    try:
        with Probe(wire(cluster.config, "admin"), cluster.label) as probe:
            probe.open(_OPEN_S)
            response = probe.run(lambda connection: connection.send(request))
    except (NotSent, OutcomeUnknown) as error:
        raise TimedOut(f"{what} on the {cluster.label} cluster: {error}") from error
    if response.error_code == KafkaError.SECURITY_DISABLED:
        raise _no_authorizer(cluster, what)


def _no_authorizer(cluster: Cluster, what: str) -> NoAuthorizer:
    return NoAuthorizer(
        f"{what} on the {cluster.label} cluster: it has no authorizer",
        unchanged="No access rule was changed.",
        hint="A drill can fence producers by hand.",
    )


def denied_topics(cluster: Cluster, topics: Collection[str]) -> frozenset[str]:
    """Return the topics to which everyone is denied Write by a rule for exactly this topic.

    Raises:
        Refused, ConnectionFailed, TimedOut: as for :func:`list_acls`.
    """
    rules = _ask(cluster, "listing access rules", _denied_writes(None))
    denied = {str(rule.name) for rule in rules}
    return frozenset(denied & set(topics))


def deny_writes(cluster: Cluster, topics: Sequence[str]) -> None:
    """Deny Write on topics to everyone; a rule that exists stays as it is.

    Raises:
        Refused: the cluster has no authorizer, or the principal may not change its rules.
        ConnectionFailed, TimedOut: the cluster did not answer; some rules may exist.
    """
    what = "denying Write"
    futures = cluster.ask(
        what,
        lambda: cluster.admin.create_acls(
            [_rule(topic) for topic in topics], request_timeout=REQUEST_TIMEOUT_S
        ),
    )
    for future in futures.values():
        _wait(cluster, what, future)


def allow_writes(cluster: Cluster, topics: Sequence[str]) -> None:
    """Delete the rules that :func:`deny_writes` creates; a rule that does not exist is no error.

    Raises:
        Refused, ConnectionFailed, TimedOut: as for :func:`deny_writes`.
    """
    what = "deleting the rules that deny Write"
    rules = [_denied_writes(topic) for topic in topics]
    futures = cluster.ask(
        what, lambda: cluster.admin.delete_acls(rules, request_timeout=REQUEST_TIMEOUT_S)
    )
    for future in futures.values():
        _wait(cluster, what, future)


def create_acls(cluster: Cluster, acls: Collection[Acl]) -> dict[Acl, str]:
    """Create ACLs, one that exists stays as it is; return those that were refused, and why.

    Raises:
        Refused: the cluster has no authorizer.
        ConnectionFailed, TimedOut: the cluster did not answer; some may exist.
    """
    if not acls:
        return {}
    what = "creating ACLs"
    bindings = {_binding(AclBinding, acl): acl for acl in acls}
    futures = cluster.ask(
        what,
        lambda: cluster.admin.create_acls(list(bindings), request_timeout=REQUEST_TIMEOUT_S),
    )
    return _find_refused(cluster, what, {bindings[b]: future for b, future in futures.items()})


def delete_acls(cluster: Cluster, acls: Collection[Acl]) -> dict[Acl, str]:
    """Delete ACLs, one that does not exist is no error; result and errors as for creating them."""
    if not acls:
        return {}
    what = "deleting ACLs"
    filters = {_binding(AclBindingFilter, acl): acl for acl in acls}
    futures = cluster.ask(
        what, lambda: cluster.admin.delete_acls(list(filters), request_timeout=REQUEST_TIMEOUT_S)
    )
    return _find_refused(cluster, what, {filters[f]: future for f, future in futures.items()})


def _find_refused(
    cluster: Cluster, what: str, futures: Mapping[Acl, Future[Any]]
) -> dict[Acl, str]:
    refused: dict[Acl, str] = {}
    for acl, future in futures.items():
        try:
            _wait(cluster, what, future)
        except (ConnectionFailed, TimedOut, NoAuthorizer):
            raise
        except K2kError as error:
            refused[acl] = error.message
    return refused


def _binding(kind: type[T], acl: Acl) -> T:
    return kind(
        ResourceType[acl.kind],
        acl.name,
        ResourcePatternType[acl.pattern],
        acl.principal,
        acl.host,
        AclOperation[acl.operation],
        AclPermissionType[acl.permission],
    )


def _rule(topic: str) -> AclBinding:
    return AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        _EVERYONE,
        _ANY_HOST,
        AclOperation.WRITE,
        AclPermissionType.DENY,
    )


def _denied_writes(topic: str | None) -> AclBindingFilter:
    """Return the filter for the rule of :func:`_rule`, for a topic or for all of them."""
    return AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        _EVERYONE,
        _ANY_HOST,
        AclOperation.WRITE,
        AclPermissionType.DENY,
    )


def _ask(cluster: Cluster, what: str, rules: AclBindingFilter) -> list[Any]:
    future = cluster.ask(
        what, lambda: cluster.admin.describe_acls(rules, request_timeout=REQUEST_TIMEOUT_S)
    )
    bindings: list[Any] = list(_wait(cluster, what, future))
    return bindings


def _wait(cluster: Cluster, what: str, future: Future[Any]) -> Any:
    try:
        return cluster.ask(what, lambda: cluster.wait(future))
    except K2kError as error:
        cause = error.__context__
        code = cause.args[0].code() if isinstance(cause, KafkaException) else 0
        if code in _NO_AUTHORIZER:
            raise _no_authorizer(cluster, what) from error
        if code in _NOT_ALLOWED:
            raise Refused(
                f"{what} on the {cluster.label} cluster: {reason(cause)}",
                unchanged="No access rule was changed.",
                hint="Grant the admin principal Describe and Alter on the cluster; a drill can "
                "also fence producers by hand.",
            ) from error
        raise


def _acl(rule: AclBinding) -> Acl:
    return Acl(
        rule.restype.name,
        rule.name,
        rule.resource_pattern_type.name,
        rule.principal,
        rule.host,
        rule.operation.name,
        rule.permission_type.name,
    )
