"""Converts a cluster of a KafkaMirrorMaker2 resource to Java client properties.

As Strimzi does: TLS and authentication become ``security.protocol``, ``ssl.*`` and ``sasl.*``, and
secrets become ``${strimzisecrets:NAMESPACE/SECRET:KEY}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from k2ktui.config.clusters import PASSWORD_LOGINS
from k2ktui.config.javaprops import Property
from k2ktui.config.problems import Problem
from k2ktui.config.tree import Node
from k2ktui.text import safe_text

PROVIDER = "strimzisecrets"
_LOGINS = ("plain", "scram-sha-256", "scram-sha-512")
_OAUTH = "sasl.oauthbearer."
_OAUTH_KEYS = ("type", "tokenEndpointUri", "clientId", "clientSecret", "scope")
_TYPES = (*_LOGINS, "tls", "oauth", "custom")


def scalar(node: Node | None) -> str:
    """Return a scalar's text, "" for any other value or none."""
    return str(node.value) if node is not None and isinstance(node.value, str) else ""


def setting_of(node: Node) -> Property:
    """Return a scalar with its position."""
    return Property(scalar(node), node.mark)


def settings_of(table: Node | None) -> dict[str, Property]:
    """Return the scalars of a table with their positions."""
    return {key: setting_of(node) for key, node in table.table.items()} if table else {}


def listed(node: Node, key: str) -> Sequence[Node]:
    """Return the items of the list at a key, none for any other value or none."""
    below = node.at((key,))
    return below.value if below is not None and isinstance(below.value, list) else ()


def client_properties(
    cluster: Node, namespace: str, problems: list[Problem]
) -> dict[str, Property]:
    """Return the client properties of an entry of ``spec.clusters``, of ``target`` or ``source``.

    The resource's ``config`` comes last and wins.

    Args:
        cluster: the entry.
        namespace: namespace of its secrets; "" for that of the context.
        problems: receives an entry for every error.
    """
    reader = _ClusterReader(namespace, problems)
    servers, tls, login, config = (
        cluster.at((key,)) for key in ("bootstrapServers", "tls", "authentication", "config")
    )
    properties = {} if servers is None else {"bootstrap.servers": setting_of(servers)}
    if tls is not None and (trusted := listed(tls, "trustedCertificates")):
        certificates = "\n".join(map(reader.certificate, trusted))
        properties["ssl.truststore.certificates"] = Property(certificates, tls.mark)
        properties["ssl.truststore.type"] = Property("PEM", tls.mark)
    own = dict(reader.login(login)) if login is not None and login.table else {}
    properties |= {key: Property(value, (login or cluster).mark) for key, value in own.items()}
    protocol = "SSL" if tls is not None and isinstance(tls.value, dict) else "PLAINTEXT"
    if any(key.startswith("sasl.") for key in own):
        protocol = f"SASL_{protocol}"
    properties["security.protocol"] = Property(protocol, (tls or login or cluster).mark)
    return properties | settings_of(config)


class _ClusterReader:
    def __init__(self, namespace: str, problems: list[Problem]) -> None:
        self._namespace, self._problems = namespace, problems

    def login(self, login: Node) -> Iterator[tuple[str, str]]:
        kind = scalar(login.at(("type",)))
        if kind in _LOGINS:
            user = scalar(login.at(("username",))).replace("\\", "\\\\").replace('"', '\\"')
            password = self._secret(login, "passwordSecret", "password")
            login_text = (
                f'{PASSWORD_LOGINS[kind.upper()]} required username="{user}" password="{password}";'
            )
            yield from (("sasl.mechanism", kind.upper()), ("sasl.jaas.config", login_text))
        elif kind == "tls":
            for name, key in (("certificate.chain", "certificate"), ("key", "key")):
                yield f"ssl.keystore.{name}", self._secret(login, "certificateAndKey", key)
            yield "ssl.keystore.type", "PEM"
        elif kind == "oauth":
            yield from self._oauth(login)
        elif kind == "custom":
            given = settings_of(login.at(("config",)))
            yield from ((key, value.value) for key, value in given.items())
        else:
            self._complain(login, f"expected a type out of {', '.join(_TYPES)}")

    def _oauth(self, login: Node) -> Iterator[tuple[str, str]]:
        for key in login.table:
            if key not in _OAUTH_KEYS:
                self._complain(login, f"{safe_text(key)} of type oauth is not supported")
        yield "sasl.mechanism", "OAUTHBEARER"
        yield f"{_OAUTH}token.endpoint.url", scalar(login.at(("tokenEndpointUri",)))
        yield f"{_OAUTH}client.credentials.client.id", scalar(login.at(("clientId",)))
        secret = self._secret(login, "clientSecret", "key")
        yield f"{_OAUTH}client.credentials.client.secret", secret
        if scope := scalar(login.at(("scope",))):
            yield f"{_OAUTH}scope", scope

    def certificate(self, entry: Node) -> str:
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
