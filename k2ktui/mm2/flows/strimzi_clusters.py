"""Converts a cluster of a KafkaMirrorMaker2 resource to Java client properties.

As Strimzi does: TLS and authentication become ``security.protocol``, ``ssl.*`` and ``sasl.*``, and
secrets become ``${strimzisecrets:NAMESPACE/SECRET:KEY}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from k2ktui.config.javaprops import Property
from k2ktui.config.problems import FilePosition, Problem
from k2ktui.config.tree import Node
from k2ktui.text import safe_text

PROVIDER = "strimzisecrets"
_LOGINS: Mapping[str, tuple[str, str]] = {
    "plain": ("PLAIN", "org.apache.kafka.common.security.plain.PlainLoginModule"),
    "scram-sha-256": ("SCRAM-SHA-256", "org.apache.kafka.common.security.scram.ScramLoginModule"),
    "scram-sha-512": ("SCRAM-SHA-512", "org.apache.kafka.common.security.scram.ScramLoginModule"),
}
_OAUTH = "sasl.oauthbearer."
_OAUTH_KEYS = ("type", "tokenEndpointUri", "clientId", "clientSecret", "scope")
_TYPES = (*_LOGINS, "tls", "oauth", "custom")


def client_properties(
    cluster: Node, namespace: str, problems: list[Problem]
) -> dict[str, Property]:
    """Return the client properties of an entry of ``spec.clusters``, of ``target`` or ``source``.

    Args:
        cluster: the entry.
        namespace: namespace of its secrets; "" for that of the context.
        problems: receives an entry for every error.
    """
    reader = _ClusterReader(namespace, problems)
    return {key: Property(value, mark) for key, value, mark in reader.properties(cluster)}


def scalar(node: Node | None) -> str:
    """Return a scalar's text, "" for any other value or none."""
    return str(node.value) if node is not None and isinstance(node.value, str) else ""


class _ClusterReader:
    def __init__(self, namespace: str, problems: list[Problem]) -> None:
        self._namespace, self._problems = namespace, problems

    def properties(self, cluster: Node) -> Iterator[tuple[str, str, FilePosition]]:
        """Yield names, values and positions; the resource's ``config`` comes last and wins."""
        servers = cluster.at(("bootstrapServers",))
        if servers is not None:
            yield "bootstrap.servers", scalar(servers), servers.mark
        tls, login = cluster.at(("tls",)), cluster.at(("authentication",))
        encrypted = tls is not None and isinstance(tls.value, dict)
        sasl = False
        if tls is not None and encrypted:
            trusted = tls.at(("trustedCertificates",))
            listed = trusted.value if trusted and isinstance(trusted.value, list) else []
            if listed:
                certificates = "\n".join(self._certificate(certificate) for certificate in listed)
                yield "ssl.truststore.certificates", certificates, tls.mark
                yield "ssl.truststore.type", "PEM", tls.mark
        if login is not None and login.table:
            for key, value in self._login(login):
                sasl = sasl or key.startswith("sasl.")
                yield key, value, login.mark
        protocol = ("SASL_SSL" if sasl else "SSL") if encrypted else "PLAINTEXT"
        if sasl and not encrypted:
            protocol = "SASL_PLAINTEXT"
        yield "security.protocol", protocol, (tls or login or cluster).mark
        config = cluster.at(("config",))
        for key, node in config.table.items() if config else ():
            yield key, scalar(node), node.mark

    def _login(self, login: Node) -> Iterator[tuple[str, str]]:
        kind = scalar(login.at(("type",)))
        if kind in _LOGINS:
            mechanism, module = _LOGINS[kind]
            user = scalar(login.at(("username",))).replace("\\", "\\\\").replace('"', '\\"')
            password = self._secret(login, "passwordSecret", "password")
            yield "sasl.mechanism", mechanism
            yield "sasl.jaas.config", f'{module} required username="{user}" password="{password}";'
        elif kind == "tls":
            yield (
                "ssl.keystore.certificate.chain",
                self._secret(login, "certificateAndKey", "certificate"),
            )
            yield "ssl.keystore.key", self._secret(login, "certificateAndKey", "key")
            yield "ssl.keystore.type", "PEM"
        elif kind == "oauth":
            yield from self._oauth(login)
        elif kind == "custom":
            config = login.at(("config",))
            for key, node in config.table.items() if config else ():
                yield key, scalar(node)
        else:
            self._complain(login, f"expected a type out of {', '.join(_TYPES)}")

    def _oauth(self, login: Node) -> Iterator[tuple[str, str]]:
        for key in login.table.keys() - set(_OAUTH_KEYS):
            self._complain(login, f"{safe_text(key)} of type oauth is not supported")
        yield "sasl.mechanism", "OAUTHBEARER"
        yield f"{_OAUTH}token.endpoint.url", scalar(login.at(("tokenEndpointUri",)))
        yield f"{_OAUTH}client.credentials.client.id", scalar(login.at(("clientId",)))
        yield (
            f"{_OAUTH}client.credentials.client.secret",
            self._secret(login, "clientSecret", "key"),
        )
        if scope := scalar(login.at(("scope",))):
            yield f"{_OAUTH}scope", scope

    def _certificate(self, entry: Node) -> str:
        # With a pattern, Strimzi takes every matching entry; its own CA secrets have ca.crt.
        name = scalar(entry.at(("certificate",))) or "ca.crt"
        return self._reference(scalar(entry.at(("secretName",))), name, entry)

    def _secret(self, login: Node, at: str, key: str) -> str:
        secret, entry = login.at((at, "secretName")), login.at((at, key))
        return self._reference(scalar(secret), scalar(entry), login.nearest((at,)))

    def _reference(self, secret: str, key: str, node: Node) -> str:
        if not secret or not key:
            self._complain(node, "expected the name of a secret and of an entry in it")
        place = f"{self._namespace}/{secret}" if self._namespace else secret
        return f"${{{PROVIDER}:{place}:{key}}}"

    def _complain(self, node: Node, message: str) -> None:
        self._problems.append(Problem(node.mark, node.written, message))
