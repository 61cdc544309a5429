"""Resolve a client's TLS and SASL settings from Java properties, and translate them.

``resolve`` reads and checks all properties once; ``for_librdkafka`` and ``for_wire`` translate the
result for each library.
"""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from k2ktui.kafka.auth.jaas import JaasEntry, parse_jaas
from k2ktui.kafka.auth.kerberos import (
    KERBEROS,
    KerberosLogin,
    kerberos_for_librdkafka,
    read_kerberos,
)
from k2ktui.kafka.auth.msk import MSK_MECHANISM, MskSigner, MskTokens, read_signer, uses_msk
from k2ktui.kafka.auth.oauth import OauthClient, TokenProvider, is_endpoint
from k2ktui.kafka.auth.stores import Identity, read_identity, read_trust
from k2ktui.kafka.unusable_property import UnusableProperty, attempt
from k2ktui.text import safe_text

#: Values of ``security.protocol``. Executors have this module, and no configuration.
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_JAAS = "sasl.jaas.config"
_MECHANISM = "sasl.mechanism"
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_VERIFY = "ssl.endpoint.identification.algorithm"
_CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
_CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105
_SCOPE = "sasl.oauthbearer.scope"

# The login module that the JAAS line of each mechanism must name.
_MODULES: dict[str, str] = {
    "PLAIN": "PlainLoginModule",
    "SCRAM-SHA-256": "ScramLoginModule",
    "SCRAM-SHA-512": "ScramLoginModule",
    "OAUTHBEARER": "OAuthBearerLoginModule",
    KERBEROS: "Krb5LoginModule",
    MSK_MECHANISM: "IAMLoginModule",
}


@dataclass(frozen=True)
class Tls:
    """TLS settings of a client.

    Attributes:
        trust: trusted certificates as PEM, "" for the system's.
        identity: the client's certificate and key, if any.
        verify_name: whether the broker's host name must match its certificate.
    """

    trust: str
    identity: Identity | None
    verify_name: bool


@dataclass(frozen=True)
class Login:
    """A SASL login: ``oauth`` or ``msk`` for OAUTHBEARER, ``kerberos``, or a password."""

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    oauth: OauthClient | None = None
    msk: MskSigner | None = None
    kerberos: KerberosLogin | None = None


@dataclass(frozen=True)
class Security:
    """Result of ``resolve``; ``tls`` or ``login`` is None if the protocol does not use it."""

    protocol: str
    tls: Tls | None
    login: Login | None


def resolve(properties: Mapping[str, str], problems: list[UnusableProperty]) -> Security:
    """Read protocol, stores and login from Java properties; append errors to ``problems``.

    This is the only function here that reads the configured files.
    """
    protocol = properties.get("security.protocol", "PLAINTEXT").strip().upper()
    if protocol not in PROTOCOLS:
        problems.append(
            UnusableProperty("security.protocol", f"expected one of {', '.join(PROTOCOLS)}")
        )
        return Security("PLAINTEXT", None, None)
    tls = _tls(properties, problems) if protocol.endswith("SSL") else None
    login = attempt(lambda: _login(properties), problems) if "SASL" in protocol else None
    return Security(protocol, tls, login)


def _tls(properties: Mapping[str, str], problems: list[UnusableProperty]) -> Tls:
    verify = properties.get(_VERIFY, "https").strip().lower()
    if verify not in {"https", ""}:
        problems.append(
            UnusableProperty(_VERIFY, 'expected https, or "" to skip host name verification')
        )
    trust = attempt(lambda: read_trust(properties), problems)
    identity = attempt(lambda: read_identity(properties), problems)
    return Tls(trust or "", identity, verify != "")


def _login(properties: Mapping[str, str]) -> Login:
    mechanism = properties.get(_MECHANISM, KERBEROS).strip().upper()  # Java's default
    if mechanism not in _MODULES:
        known = ", ".join(_MODULES)
        reason = f"expected one of {known}; {safe_text(mechanism, 40)} is not supported"
        raise UnusableProperty(_MECHANISM, reason)
    line = properties.get(_JAAS, "").strip()
    entry = _entry(line, mechanism) if line else None
    if uses_msk(properties, mechanism):
        # MSK brokers accept OAUTHBEARER tokens in place of Java's own mechanism.
        signer = read_signer(properties, entry.options if entry else {})
        return Login("OAUTHBEARER", msk=signer)
    if mechanism == KERBEROS:
        return Login(KERBEROS, kerberos=read_kerberos(properties, entry.options if entry else {}))
    if mechanism == "OAUTHBEARER":
        options = entry.options if entry else {}
        return Login(mechanism, oauth=_oauth(properties, options))
    if entry is None:
        raise UnusableProperty(_JAAS, f"missing; {mechanism} needs it, with username and password")
    if entry.options.get("tokenauth", "false").lower() == "true":
        raise UnusableProperty(_JAAS, "delegation tokens (tokenauth) are not supported")
    missing = [name for name in ("username", "password") if not entry.options.get(name)]
    if missing:
        raise UnusableProperty(_JAAS, f"it has no {' and no '.join(missing)}")
    return Login(mechanism, entry.options["username"], entry.options["password"])


def _entry(line: str, mechanism: str) -> JaasEntry:
    try:
        entry = parse_jaas(line)
    except ValueError as error:
        raise UnusableProperty(_JAAS, f"expected {error}") from error
    if entry.module != _MODULES[mechanism]:
        reason = f"expected {_MODULES[mechanism]}, because {_MECHANISM} is {mechanism}"
        raise UnusableProperty(_JAAS, reason)
    return entry


def _oauth(properties: Mapping[str, str], options: Mapping[str, str]) -> OauthClient:
    if any(name.startswith("unsecured") for name in options):
        raise UnusableProperty(_JAAS, "unsecured tokens are not supported, only client credentials")
    endpoint = properties.get(_ENDPOINT, "").strip()
    if not is_endpoint(endpoint):
        reason = "expected the http(s) URL of the token endpoint, without user and password"
        raise UnusableProperty(_ENDPOINT, reason)
    client_id = properties.get(_CLIENT_ID) or options.get("clientId")
    secret = properties.get(_CLIENT_SECRET) or options.get("clientSecret")
    if not client_id or not secret:
        raise UnusableProperty(
            _JAAS, f"it has no clientId and clientSecret (nor {_CLIENT_ID} and …secret)"
        )
    return OauthClient(
        endpoint=endpoint,
        client_id=client_id,
        secret=secret,
        scope=properties.get(_SCOPE) or options.get("scope", ""),
        extensions={
            name.removeprefix("extension_"): text
            for name, text in options.items()
            if name.startswith("extension_")
        },
        # As in Java, the endpoint's trust store is an option of the JAAS line.
        trust=read_trust(options),
    )


def for_librdkafka(security: Security) -> dict[str, Any]:
    """Translate ``security`` to librdkafka properties; key material stays in memory.

    Call ``oauth.check_token`` before a client is made from them.
    """
    settings: dict[str, Any] = {"security.protocol": security.protocol}
    if security.tls is not None:
        settings |= _tls_for_librdkafka(security.tls)
    if security.login is not None:
        settings |= {"sasl.mechanism": security.login.mechanism}
        settings |= _login_for_librdkafka(security.login)
    return settings


def _login_for_librdkafka(login: Login) -> dict[str, Any]:
    if login.msk:
        return {"oauth_cb": MskTokens(login.msk)}
    if login.oauth:
        return {"oauth_cb": TokenProvider(login.oauth)}
    if login.kerberos:
        return kerberos_for_librdkafka(login.kerberos)
    return {"sasl.username": login.username, "sasl.password": login.password}


def _tls_for_librdkafka(tls: Tls) -> dict[str, Any]:
    settings = {_VERIFY: "https" if tls.verify_name else "none"}
    if tls.trust:
        settings["ssl.ca.pem"] = tls.trust
    if tls.identity is not None:
        settings["ssl.certificate.pem"] = tls.identity.certificates
        settings["ssl.key.pem"] = tls.identity.key
    return settings


def for_wire(security: Security) -> dict[str, Any]:
    """Translate ``security`` to keyword arguments of kafka-python's connection manager.

    They can be pickled, including keys, so a Spark task needs none of the driver's files.
    """
    settings: dict[str, Any] = {"security_protocol": security.protocol}
    if security.tls is not None:
        settings["ssl_context"] = ssl_context(security.tls)
        settings["ssl_check_hostname"] = security.tls.verify_name
    login = security.login
    if login is not None:
        settings["sasl_mechanism"] = login.mechanism
        if login.msk:
            settings["sasl_oauth_token_provider"] = MskTokens(login.msk)
        elif login.oauth:
            settings["sasl_oauth_token_provider"] = TokenProvider(login.oauth)
        elif login.kerberos:
            settings["sasl_kerberos_service_name"] = login.kerberos.service
        else:
            settings["sasl_plain_username"] = _wire_username(login)
            settings["sasl_plain_password"] = login.password
    return settings


def _wire_username(login: Login) -> str:
    # kafka-python does not apply the escaping of "=" and "," that RFC 5802 requires.
    if login.mechanism.startswith("SCRAM"):
        return login.username.replace("=", "=3D").replace(",", "=2C")
    return login.username


class PortableContext(ssl.SSLContext):
    """A context that can be pickled: unpickling rebuilds it from its ``Tls`` settings."""

    tls: Tls

    def __reduce__(self) -> tuple[object, ...]:
        return ssl_context, (self.tls,)


def ssl_context(tls: Tls) -> ssl.SSLContext:
    """Create a picklable client context for TLS 1.2 or newer."""
    context = PortableContext(ssl.PROTOCOL_TLS_CLIENT)
    context.tls = tls
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = tls.verify_name
    if tls.trust:
        context.load_verify_locations(cadata=tls.trust)
    else:
        context.load_default_certs()
    if tls.identity is not None:
        _load_identity(context, tls.identity)
    return context


def _load_identity(context: ssl.SSLContext, identity: Identity) -> None:
    # Python's ssl loads these from files only, so a private file exists until they are loaded.
    with tempfile.TemporaryDirectory(prefix="k2ktui-") as directory:
        pem = Path(directory, "identity.pem")
        pem.touch(mode=0o600)
        pem.write_text(identity.certificates + identity.key)
        context.load_cert_chain(pem)
