"""Translate Java client properties for both client libraries.

``librdkafka`` returns the settings of a confluent-kafka client, ``wire`` those of kafka-python's
connection manager. ``load_checked`` loads a pipeline and reports every unusable property with its
location in the files. ``property_table`` holds the rule for each property.
"""

from __future__ import annotations

import difflib
import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from k2ktui.config.clusters import BOOTSTRAP, ClientFinding, ClusterConfig, Role, address_problem
from k2ktui.config.load import Loaded, load
from k2ktui.config.templates import PROVIDERS_KEY
from k2ktui.errors import ConfigError
from k2ktui.kafka.auth.logins import RENEWAL, Renewal
from k2ktui.kafka.auth.security import Security, for_librdkafka, for_wire, resolve
from k2ktui.kafka.properties.renewal import ROLES, credentials_of
from k2ktui.kafka.properties.table import ALL, JAVA_FOR_LIBRDKAFKA, RULES, PropertyRule
from k2ktui.kafka.unusable_property import UnusableProperty
from k2ktui.secret_values import remember_secrets
from k2ktui.text import safe_text

_PROTOCOL, _PLAINTEXT = "security.protocol", "PLAINTEXT"
_CLIENT_ID = "k2ktui"
_RECEIVE_BUFFER_BYTES, _LARGEST_BUFFER_BYTES = 4 << 20, 100_000_000
_NUMBER = re.compile(r"-?[0-9]+")


def librdkafka(cluster: ClusterConfig, role: Role) -> dict[str, Any]:
    """Return the settings of a confluent-kafka client of this role, with its newest login.

    The values include secrets and key material, so the client needs no files.

    Raises:
        ConfigError: lists every property that cannot be used.
    """
    properties, security = _usable(cluster, role)
    settings: dict[str, Any] = {"client.id": _CLIENT_ID}
    for key, text in properties.items():
        rule = RULES[role].get(key)
        if rule and rule.librdkafka:
            settings[rule.librdkafka] = _value(rule, text)
    return {**settings, **for_librdkafka(security)}


def wire(cluster: ClusterConfig, role: Role) -> dict[str, Any]:
    """Return keyword arguments for ``kafka.net.manager.KafkaConnectionManager``.

    They include secrets and key material and can be pickled: the receiving machine needs none of
    the original files.

    Raises:
        ConfigError: lists every property that cannot be used.
    """
    credentials = credentials_of(cluster)
    generation = credentials.generation  # before the login is read: at worst it is read twice
    properties, security = _usable(cluster, role)
    settings: dict[str, Any] = {"client_id": _CLIENT_ID}
    for key, text in properties.items():
        rule = RULES[role].get(key)
        if rule and rule.wire:
            value = _value(rule, text)
            settings[rule.wire] = int(value) if rule.bounds else value
    settings["socket_options"] = _socket_options(properties)
    settings[RENEWAL] = Renewal(credentials, role, credentials.advice, generation)
    return {**settings, **for_wire(security)}


def findings(cluster: ClusterConfig) -> list[ClientFinding]:
    """Return all findings about the client properties of one cluster."""
    distinct: dict[ClientFinding, None] = {}
    for role in ROLES:
        # A cluster may lack a role: the source has no producer.
        if role == "producer" and not cluster.kafka.producer:
            continue
        distinct |= dict.fromkeys(_findings(cluster, role))
    return list(distinct)


def load_checked(
    paths: Iterable[str | Path], *, need_replication: bool = True, templates: bool = True
) -> Loaded:
    """Load a pipeline and check its client properties; arguments as for ``load``.

    Raises:
        ConfigError: lists every error with its location, including those of client properties.
    """
    return load(
        paths,
        need_replication=need_replication,
        templates=templates,
        client_check=lambda cluster: [*findings(cluster), *unused_security(cluster)],
    )


def unused_security(cluster: ClusterConfig) -> Iterator[ClientFinding]:
    """Yield a finding for every property of a login or of TLS that no client's protocol uses.

    A protocol that is a variable may use them.
    """
    unused: dict[tuple[str, str], tuple[str, str]] = {}
    used = set()
    for role in ROLES:
        properties = cluster.properties(role)
        protocol = properties.get(_PROTOCOL, "").strip().upper()
        for key, text in properties.items():
            needed = key.partition(".")[0].upper()
            if needed not in ("SASL", "SSL") or not text.strip():
                continue
            place = _section(cluster, role, key), key
            if _uses(protocol, needed):
                used.add(place)
            else:
                unused[place] = (protocol, needed)
    for place, (protocol, needed) in unused.items():
        if place not in used:
            said = f"is {safe_text(protocol)}" if protocol else f"is not given ({_PLAINTEXT})"
            users = "SASL_SSL or SASL_PLAINTEXT" if needed == "SASL" else "SSL or SASL_SSL"
            yield ClientFinding(
                *place, f"has no effect: {_PROTOCOL} {said}; {users} uses it", False
            )


def _uses(protocol: str, needed: str) -> bool:
    if "${" in protocol:
        return True
    return protocol.startswith("SASL") if needed == "SASL" else protocol.endswith("SSL")


def _socket_options(properties: Mapping[str, str]) -> list[tuple[int, int, int]]:
    """Return socket options; a buffer of -1 keeps the system's size, as in Java."""
    options = [
        (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    ]
    for key, option, default in (
        ("receive.buffer.bytes", socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES),
        ("send.buffer.bytes", socket.SO_SNDBUF, -1),
    ):
        size = min(int(properties.get(key) or default), _LARGEST_BUFFER_BYTES)
        if size > 0:
            options.append((socket.SOL_SOCKET, option, size))
    return options


def _error(what: str, lines: list[str]) -> ConfigError:
    return ConfigError(
        "\n".join([f"{what}:", *(f"  {line}" for line in lines)]),
        hint="Use the property names of Kafka's Java clients; see docs/configuration.md.",
    )


def _usable(cluster: ClusterConfig, role: Role) -> tuple[dict[str, str], Security]:
    # Files may be half written now: only what was never usable is an error.
    security = credentials_of(cluster).security(role)
    checked = _findings(cluster, role) if security is None else _plain_findings(cluster, role)
    refused = [str(finding) for finding in checked if finding.refused]
    if refused:
        raise _error(f"the {role}'s client properties cannot be used", refused)
    properties = cluster.properties(role)
    remember_secrets(properties.items())
    return properties, security or resolve(properties, [])


def _findings(cluster: ClusterConfig, role: Role) -> Iterator[ClientFinding]:
    yield from _plain_findings(cluster, role)
    problems: list[UnusableProperty] = []
    resolve(cluster.properties(role), problems)
    for problem in problems:
        yield ClientFinding(_section(cluster, role, problem.key), problem.key, str(problem), True)


def _plain_findings(cluster: ClusterConfig, role: Role) -> Iterator[ClientFinding]:
    """Yield the findings that do not depend on the content of files."""
    properties = cluster.properties(role)
    for key, text in properties.items():
        section = _section(cluster, role, key)
        verdict = _verdict(key, text, role if section != "common" else None)
        if verdict is not None:
            kind, message = verdict
            yield ClientFinding(section, key, message, kind == "refused")
    servers = properties.get(BOOTSTRAP, "")
    if not servers.strip():
        yield ClientFinding("common", BOOTSTRAP, f"missing; the {role} needs it", True)
    elif wrong := address_problem(servers, properties.get(_PROTOCOL, _PLAINTEXT)):
        yield ClientFinding(_section(cluster, role, BOOTSTRAP), BOOTSTRAP, wrong, True)


def _section(cluster: ClusterConfig, role: Role, key: str) -> str:
    return role if key in cluster.kafka.section(role) else "common"


def _verdict(
    key: str, text: str, role: Role | None
) -> tuple[Literal["refused", "ignored"], str] | None:
    if key.startswith(f"{PROVIDERS_KEY}."):
        return None  # checked when the file was read
    rule = (RULES[role] if role else ALL).get(key)
    if rule is None and key in ALL:
        return "ignored", f"Java's {role} has no such property"
    if rule is None:
        return "refused", f"unknown property; {_nearest(key)}"
    value = text.strip().lower()
    if not value or any(value.endswith(harmless) for harmless in rule.harmless if harmless):
        return None
    if rule.one_of and value not in rule.one_of:
        return "refused", f"expected {', '.join(rule.one_of)}"
    if rule.refused:
        return "refused", rule.refused
    if rule.ignored:
        return "ignored", f"has no effect: {rule.ignored}"
    if rule.bounds and not _NUMBER.fullmatch(value):
        return "refused", "expected a whole number"
    return None


def _nearest(key: str) -> str:
    java = JAVA_FOR_LIBRDKAFKA.get(key)
    if java:
        return f"that is librdkafka's name; use {java}"
    close = difflib.get_close_matches(key.lower(), ALL, n=1, cutoff=0.7)
    return f"did you mean {close[0]}?" if close else "no Kafka client has a similar property"


def _value(rule: PropertyRule, text: str) -> str:
    value = rule.values.get(text.strip(), text.strip())
    if rule.bounds:
        low, high = rule.bounds
        value = str(min(max(int(value) // rule.divide, low), high))
    return value
