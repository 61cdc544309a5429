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

from k2ktui.engine.drill_acls import Acl
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.clients import REQUEST_TIMEOUT_S, Cluster, reason

_EVERYONE, _ANY_HOST = "User:*", "*"
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
    return frozenset(_acl(rule) for rule in _ask(cluster, "listing access rules", every))


def denied_topics(cluster: Cluster, topics: Collection[str]) -> frozenset[str]:
    """Return the topics to which everyone is denied Write by a rule for exactly this topic.

    Raises:
        Refused, ConnectionFailed, TimedOut: as for :func:`list_acls`.
    """
    rules = AclBindingFilter(
        ResourceType.TOPIC,
        None,
        ResourcePatternType.LITERAL,
        _EVERYONE,
        _ANY_HOST,
        AclOperation.WRITE,
        AclPermissionType.DENY,
    )
    found = {str(rule.name) for rule in _ask(cluster, "listing access rules", rules)}
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
    rules = [
        AclBindingFilter(
            ResourceType.TOPIC,
            topic,
            ResourcePatternType.LITERAL,
            _EVERYONE,
            _ANY_HOST,
            AclOperation.WRITE,
            AclPermissionType.DENY,
        )
        for topic in topics
    ]
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
            raise NoAuthorizer(
                f"{what} on the {cluster.label} cluster: it has no authorizer",
                unchanged="No access rule was changed.",
                hint="Fence the producers by hand, or with a quota.",
            ) from None
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
