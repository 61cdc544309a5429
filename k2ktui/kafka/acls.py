"""Access rules: read all of them; deny Write on topics, and allow it again.

A denied operation is refused to every principal but super users, whatever else allows it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import astuple
from typing import Any

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

from k2ktui.engine.drill_acls import Acl
from k2ktui.errors import K2kError, Refused, TimedOut
from k2ktui.kafka.client_errors import reason
from k2ktui.kafka.clients import REQUEST_TIMEOUT_S, Cluster
from k2ktui.kafka.probe import Probe
from k2ktui.kafka.properties import wire
from k2ktui.kafka.wire import NotSent, OutcomeUnknown

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
    every = AclBindingFilter(
        ResourceType.ANY,
        None,
        ResourcePatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    what = "listing access rules"
    found = frozenset(_acl(rule) for rule in _ask(cluster, what, every))
    if not found:
        _require_authorizer(cluster, what)
    return found


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
        raise TimedOut(f"{what} on the {cluster.label} cluster: {error}") from None
    if response.error_code == KafkaError.SECURITY_DISABLED:
        raise _no_authorizer(cluster, what)


def _no_authorizer(cluster: Cluster, what: str) -> NoAuthorizer:
    return NoAuthorizer(
        f"{what} on the {cluster.label} cluster: it has no authorizer",
        unchanged="No access rule was changed.",
        hint="Fence the producers by hand, or with a quota.",
    )


def denied_topics(cluster: Cluster, topics: Collection[str]) -> frozenset[str]:
    """Return the topics to which everyone is denied Write by a rule for exactly this topic.

    Raises:
        Refused, ConnectionFailed, TimedOut: as for :func:`list_acls`.
    """
    rules = _ask(cluster, "listing access rules", _denied_writes(None))
    found = {str(rule.name) for rule in rules}
    return frozenset(found & set(topics))


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
    found: list[Any] = list(_wait(cluster, what, future))
    return found


def _wait(cluster: Cluster, what: str, future: Future[Any]) -> Any:
    try:
        return cluster.ask(what, lambda: cluster.wait(future))
    except K2kError as error:
        cause = error.__context__
        code = cause.args[0].code() if isinstance(cause, KafkaException) else 0
        if code in _NO_AUTHORIZER:
            raise _no_authorizer(cluster, what) from None
        if code in _NOT_ALLOWED:
            raise Refused(
                f"{what} on the {cluster.label} cluster: {reason(cause)}",
                unchanged="No access rule was changed.",
                hint="Grant the admin principal Describe and Alter on the cluster, or fence the "
                "producers by hand.",
            ) from None
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
