"""Connection settings of a schema registry, from the properties of Confluent's Java client.

The result can be pickled and needs no files: a Spark task makes its own client from it.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Literal
from urllib.parse import SplitResult, unquote, urlsplit

from k2ktui.errors import ConfigError
from k2ktui.kafka.auth.oauth import OauthClient, is_endpoint
from k2ktui.kafka.auth.security import Tls
from k2ktui.kafka.auth.stores import read_identity, read_trust
from k2ktui.kafka.unusable_property import UnusableProperty, attempt
from k2ktui.text import safe_text

if TYPE_CHECKING:  # executors have no packages for configuration files
    from k2ktui.config.clusters import ClusterConfig

Side = Literal["source", "target"]

NOTHING = "Nothing was changed."

URL = "schema.registry.url"
_PREFIX = "schema.registry."
_VERIFY = "ssl.endpoint.identification.algorithm"
_USE_ID = "apicurio.registry.use-id"
_USER_INFO = "basic.auth.user.info"
_BASIC_SOURCE = "basic.auth.credentials.source"
_BEARER_SOURCE = "bearer.auth.credentials.source"
_TOKEN = "bearer.auth.token"  # noqa: S105
_CLUSTER, _POOL = "bearer.auth.logical.cluster", "bearer.auth.identity.pool.id"
_ISSUER = "bearer.auth.issuer.endpoint.url"
_OAUTH = (_ISSUER, "bearer.auth.client.id", "bearer.auth.client.secret", "bearer.auth.scope")
_STORES = (
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
    "ssl.truststore.certificates",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
)
# Smallest value, default.
_NUMBERS: Mapping[str, tuple[int, int]] = {
    "http.connect.timeout.ms": (1, 10_000),
    "http.read.timeout.ms": (1, 30_000),
    "max.retries": (0, 3),
    "retries.wait.ms": (1, 500),
    "retries.max.wait.ms": (1, 10_000),
}
_KNOWN = (
    *(URL, _VERIFY, _USE_ID, _USER_INFO, _BASIC_SOURCE, _BEARER_SOURCE, _TOKEN, _CLUSTER, _POOL),
    *(*_OAUTH, *_STORES, *_NUMBERS, "proxy.host", "proxy.port"),
)


@dataclass(frozen=True)
class RegistrySettings:
    """How to reach a registry.

    Attributes:
        side: which cluster's registry it is, for messages.
        urls: addresses of its nodes without credentials; the next one is tried if one fails.
        login: basic or bearer authentication as properties of Confluent's Python client.
        tls: TLS settings for https; None without it.
        headers: HTTP headers of every request.
        cache_size: number of schemas that a client keeps in memory.
        connect_timeout_s: limit for a connection, in seconds.
        read_timeout_s: limit for an answer, in seconds.
        max_retries: further attempts after the first.
        retry_wait_ms: pause before the second attempt; doubles with each one.
        max_retry_wait_ms: longest pause between attempts.
        proxy: URL of an HTTP proxy; "" for none.
        uses_global_id: whether ids in keys and values are global ids of Apicurio, else content ids.
        advice: what makes a running process use another login, for errors.
    """

    side: Side
    urls: tuple[str, ...]
    login: Mapping[str, str] = field(default_factory=dict, repr=False)
    tls: Tls | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    cache_size: int = 31
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 30.0
    max_retries: int = 3
    retry_wait_ms: int = 500
    max_retry_wait_ms: int = 10_000
    proxy: str = ""
    uses_global_id: bool = False
    advice: str = ""

    @property
    def issuer(self) -> OauthClient | None:
        """Where tokens are requested from, and how; None with any other login.

        As in Confluent's Python client, the system's certificates are trusted there.
        """
        if _ISSUER not in self.login:
            return None
        endpoint, client_id, secret, scope = (self.login[key] for key in _OAUTH)
        configured = f"{_ISSUER} in {self.side}.registry.config"
        return OauthClient(endpoint, client_id, secret, scope, configured_by=configured)

    @property
    def address(self) -> str:
        """The registry for messages, with host and port of its nodes."""
        hosts = ", ".join(safe_text(urlsplit(url).netloc) for url in self.urls)
        return f"the {self.side}'s schema registry ({hosts})"


def read_registry_settings(cluster: ClusterConfig, side: Side) -> RegistrySettings:
    """Return the settings of a cluster's registry, with its newest login and certificates.

    Raises:
        ConfigError: lists every property that is missing or cannot be used.
    """
    from k2ktui.kafka.properties.renewal import credentials_of  # not for executors

    credentials = credentials_of(cluster)
    settings, problems = _read(credentials.cluster, side)
    if problems:
        lines = [
            f'  {side}.registry.config."{safe_text(problem.key)}": {problem}'
            for problem in problems
        ]
        raise ConfigError(
            "\n".join([f"the {side}'s schema registry cannot be used:", *lines]),
            unchanged=NOTHING,
            hint="Use the property names of Confluent's Java client; see docs/schemas.md.",
        )
    return replace(settings, advice=credentials.registry_advice)


def read_registry_url(url: str, side: Side) -> RegistrySettings:
    """Return the settings of a registry of which only the address is known.

    Raises:
        ConfigError: it is not the address of a registry.
    """
    properties = {URL: url}
    try:
        urls, user_info = _urls(properties)
        return RegistrySettings(
            side, urls, login=_login(properties, user_info), tls=_tls(properties, urls)
        )
    except UnusableProperty as error:
        raise ConfigError(
            f"the URL of the {side}'s schema registry is unusable: {error}"
        ) from error


def find_registry_problems(cluster: ClusterConfig) -> list[UnusableProperty]:
    """Return every property of a cluster's registry that is missing or cannot be used."""
    return _read(cluster, "source")[1]


def _plain(key: str) -> str:
    """Return a property's name without the prefix that Java allows before most of them."""
    return key if key == URL else key.removeprefix(_PREFIX)


def _read(cluster: ClusterConfig, side: Side) -> tuple[RegistrySettings, list[UnusableProperty]]:
    """Return the settings, and the properties that are missing or cannot be used."""
    registry, problems = cluster.registry, list[UnusableProperty]()
    properties = {_plain(key): text.strip() for key, text in registry.config.items()}
    urls, user_info = attempt(lambda: _urls(properties), problems) or ((), "")
    numbers = {key: attempt(partial(_number, properties, key), problems) or 0 for key in _NUMBERS}
    settings = RegistrySettings(
        side,
        urls,
        login=attempt(lambda: _login(properties, user_info), problems) or {},
        tls=attempt(lambda: _tls(properties, urls), problems),
        headers=dict(registry.headers),
        cache_size=registry.cache_size,
        connect_timeout_s=numbers["http.connect.timeout.ms"] / 1000,
        read_timeout_s=numbers["http.read.timeout.ms"] / 1000,
        max_retries=numbers["max.retries"],
        retry_wait_ms=numbers["retries.wait.ms"],
        max_retry_wait_ms=numbers["retries.max.wait.ms"],
        proxy=attempt(lambda: _proxy(properties), problems) or "",
        uses_global_id=attempt(lambda: _uses_global_id(properties), problems) or False,
    )
    for key in registry.config:
        if _plain(key) not in _KNOWN:
            close = difflib.get_close_matches(_plain(key), _KNOWN, n=1, cutoff=0.7)
            advice = f"did you mean {close[0]}?" if close else "see docs/schemas.md"
            problems.append(UnusableProperty(key, f"unknown property; {advice}"))
    return settings, problems


def _urls(properties: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """Return the addresses without credentials, and the credentials of the first that has some."""
    if not properties.get(URL):
        raise UnusableProperty(URL, "missing; for example http://registry:8081")
    urls, user_info = [], ""
    for text in properties[URL].split(","):
        parts = _split(text)
        if parts.username is not None and not user_info:
            user_info = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        host = parts.netloc.rpartition("@")[2]
        urls.append(f"{parts.scheme}://{host}{parts.path.rstrip('/')}")
    return tuple(urls), user_info


def _split(text: str) -> SplitResult:
    reason = "expected URLs such as https://registry:8081, separated by commas"
    try:
        parts = urlsplit(text.strip())
        _ = parts.port
    except ValueError:
        # The cause quotes what it takes for the port, which may be a part of a password.
        raise UnusableProperty(URL, reason) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise UnusableProperty(URL, reason)
    return parts


def _login(properties: Mapping[str, str], user_info: str) -> dict[str, str]:
    given = properties.get(_USER_INFO, "")
    source = properties.get(_BASIC_SOURCE, "").upper()
    if source not in ("", "URL", "USER_INFO"):
        raise UnusableProperty(_BASIC_SOURCE, "expected URL or USER_INFO")
    if given and user_info:
        raise UnusableProperty(_USER_INFO, f"{URL} holds a user, too; remove one of them")
    if source == "USER_INFO" and not given:
        raise UnusableProperty(_USER_INFO, f"missing; {_BASIC_SOURCE} is USER_INFO")
    if given and ":" not in given:
        raise UnusableProperty(_USER_INFO, "expected user:password")
    basic = given or user_info
    bearer = _bearer(properties)
    if basic and bearer:
        raise UnusableProperty(_BEARER_SOURCE, "basic authentication is set, too; remove one")
    return bearer or ({_USER_INFO: basic} if basic else {})


def _bearer(properties: Mapping[str, str]) -> dict[str, str]:
    default = "STATIC_TOKEN" if properties.get(_TOKEN) else ""
    source = properties.get(_BEARER_SOURCE, default).upper()
    if not source:
        return {}
    needed = {"STATIC_TOKEN": (_TOKEN,), "OAUTHBEARER": _OAUTH}.get(source)
    if needed is None:
        raise UnusableProperty(_BEARER_SOURCE, "expected STATIC_TOKEN or OAUTHBEARER")
    missing = [key for key in needed if not properties.get(key)]
    if missing:
        raise UnusableProperty(missing[0], f"missing; {_BEARER_SOURCE} is {source}")
    if source == "OAUTHBEARER" and not is_endpoint(properties[_ISSUER]):
        reason = "expected the http(s) URL of the token endpoint, without user and password"
        raise UnusableProperty(_ISSUER, reason)
    optional = {_POOL: properties[_POOL]} if properties.get(_POOL) else {}
    return {
        _BEARER_SOURCE: source,
        **{key: properties[key] for key in needed},
        # Confluent's Python client needs the cluster, which only Confluent Cloud reads.
        _CLUSTER: properties.get(_CLUSTER, ""),
        **optional,
    }


def _tls(properties: Mapping[str, str], urls: tuple[str, ...]) -> Tls | None:
    verify = properties.get(_VERIFY, "https").lower()
    if verify not in ("https", ""):
        raise UnusableProperty(_VERIFY, 'expected https, or "" to skip host name verification')
    if not any(url.startswith("https:") for url in urls):
        given = next((key for key in (*_STORES, _VERIFY) if properties.get(key)), None)
        if given and urls:
            raise UnusableProperty(given, f"{URL} has no https address")
        return None
    return Tls(read_trust(properties), read_identity(properties), verify != "")


def _number(properties: Mapping[str, str], key: str) -> int:
    smallest, default = _NUMBERS[key]
    text = properties.get(key, "")
    if not text:
        return default
    if not text.isascii() or not text.isdecimal() or int(text) < smallest:
        raise UnusableProperty(key, f"expected a whole number of at least {smallest}")
    return int(text)


def _proxy(properties: Mapping[str, str]) -> str:
    host, port = properties.get("proxy.host", ""), properties.get("proxy.port", "")
    if not host and not port:
        return ""
    if not host or not port.isascii() or not port.isdecimal():
        key = "proxy.port" if host else "proxy.host"
        raise UnusableProperty(key, "expected proxy.host and a port number in proxy.port")
    return f"http://{host}:{port}"


def _uses_global_id(properties: Mapping[str, str]) -> bool:
    chosen = properties.get(_USE_ID, "contentId")
    if chosen not in ("contentId", "globalId"):
        raise UnusableProperty(_USE_ID, "expected contentId or globalId")
    return chosen == "globalId"
