"""The two clusters of a pipeline: Java client properties and schema registries."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator
from pydantic.alias_generators import to_camel

from k2ktui.config.scalars import JavaText, Name
from k2ktui.secret_values import is_secret_key, without_userinfo
from k2ktui.text import safe_text

TYPED_QUOTES = "has typographic quotes, which are a part of the value; write \" or '"
BOOTSTRAP = "bootstrap.servers"
_BETWEEN = re.compile(r"[,\r\n]")
_SCHEME = re.compile(r"([A-Za-z0-9_.+-]*)://")
_HOST = re.compile(r"\[[0-9A-Fa-f:.%\w-]+\]|[0-9A-Za-z._-]+")
# Double and single ones, high, low and reversed, and guillemets.
_TYPOGRAPHIC = "\u201c\u201d\u201e\u201f\u00ab\u00bb\u2018\u2019\u201a\u201b"
_QUOTES = f"\"'`{_TYPOGRAPHIC}"
# At both ends of a value, or after the equals sign of an option of a login.
_TYPED = re.compile(rf"[{_TYPOGRAPHIC}].*[{_TYPOGRAPHIC}]|.*=\s*[{_TYPOGRAPHIC}].*", re.DOTALL)
_LAST_PORT = 65535


def one_line(servers: str) -> str:
    """Return the addresses with a comma between them; in the file they may be one a line."""
    return ",".join(address for part in _BETWEEN.split(servers) if (address := part.strip()))


def address_problem(servers: str, protocol: str) -> str:
    """Return what is wrong with the first unusable address, with the likely fix; "" if nothing is.

    Args:
        servers: the value of ``bootstrap.servers``; with a variable in it, nothing is wrong.
        protocol: the client's ``security.protocol``, which an address may repeat.
    """
    if "${" in servers:
        return ""
    problems = (
        _problem_of_address(address, protocol)
        for address in one_line(servers).split(",")
        if address
    )
    return next((problem for problem in problems if problem), "")


def has_typed_quotes(value: str) -> bool:
    """Return whether a value is between typographic quotes, or an option in it is."""
    return _TYPED.fullmatch(value.strip()) is not None


def _problem_of_address(address: str, protocol: str) -> str:
    shown = safe_text(address, 80)
    bare = address.strip(_QUOTES)
    if bare != address:
        return f"{shown} has quotes; without them it is {safe_text(bare, 80)}"
    scheme = _SCHEME.match(address)
    rest = address[scheme.end() :] if scheme else address
    if scheme and scheme[1].upper() != protocol.strip().upper():
        how = "" if scheme[1].lower() in ("http", "https") else "; security.protocol chooses it"
        return f"{shown} begins with {safe_text(scheme[0])}: write {safe_text(rest, 80)}{how}"
    rest = rest.rstrip("/") if scheme else rest
    if re.search(r"[\s;]", rest):
        return f'{shown}: expected "," or a new line between addresses'
    host, colon, port = rest.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")) or rest.endswith("]"):
        name = rest if rest.endswith("]") or not colon else f"[{rest}]"
        return f"{shown} has no port; brokers often have 9092: {safe_text(name, 80)}:9092"
    if not (port.isascii() and port.isdecimal() and 1 <= int(port[:6]) <= _LAST_PORT):
        return f"{shown}: expected a port from 1 to {_LAST_PORT} after the host's name"
    return "" if _HOST.fullmatch(host) else f"{shown}: expected HOST:PORT"


Role = Literal["consumer", "producer", "admin"]
Properties = Mapping[Name, JavaText]
#: The sections of a cluster's client properties; the first one with addresses counts.
CLIENT_SECTIONS = ("common", "admin", "consumer", "producer")
_LOGIN_MODULE = "org.apache.kafka.common.security.{}LoginModule"
#: The Java login module of each SASL mechanism with a user and a password.
PASSWORD_LOGINS = {
    "SCRAM-SHA-512": _LOGIN_MODULE.format("scram.Scram"),
    "SCRAM-SHA-256": _LOGIN_MODULE.format("scram.Scram"),
    "PLAIN": _LOGIN_MODULE.format("plain.Plain"),
}
_CONNECTION = re.compile(r"bootstrap\.servers|security\.|sasl\.|ssl\.|client\.dns\.lookup")
_LONGEST_NAME = 40
_REGISTRY_URL = "schema.registry.url"
_RENEWED = (
    "sasl.jaas.config",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.certificates",
    "ssl.keystore.key",
    *(f"ssl.{kind}store.{name}" for kind in ("key", "trust") for name in ("location", "password")),
    *(f"ssl.{kind}store.type" for kind in ("key", "trust")),
    *(f"sasl.oauthbearer.client.credentials.client.{name}" for name in ("id", "secret")),
    *(f"bearer.auth.client.{name}" for name in ("id", "secret")),
    "bearer.auth.token",
    "basic.auth.user.info",
)


def is_connection(key: str) -> bool:
    """Return whether a property says how to connect to a cluster, and not what a client does."""
    return _CONNECTION.match(key) is not None


def is_security_value(key: str) -> bool:
    """Return whether a property may be renewed while a process runs: a login's, or a store's.

    Mechanisms, protocols and how names are verified are configuration. MirrorMaker 2 has prefixes,
    such as ``A.`` and ``source.cluster.``.
    """
    return key.endswith(_RENEWED)


@dataclass(frozen=True)
class ClientFinding:
    """A client library's verdict on one property: rejected, or accepted without effect.

    ``section`` is the section under ``kafka`` that holds it: ``common`` or a role.
    """

    section: str
    key: str
    message: str
    refused: bool

    def __str__(self) -> str:
        return f'{self.section}."{safe_text(self.key)}": {self.message}'


def yaml_name(field: str) -> str:
    """Return the YAML key of a model field: camel case, without the unit suffix ``_s``."""
    return to_camel(field.rstrip("_").removesuffix("_s"))


class Section(BaseModel):
    """Base class of all sections: frozen, rejects unknown keys, keeps values out of errors."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=yaml_name,
        validate_by_name=True,
        validate_by_alias=True,
        hide_input_in_errors=True,
        # Errors name the keys as the file spells them.
        loc_by_alias=True,
    )


class KafkaClients(Section):
    """Java client properties of one cluster, for all clients (``common``) and per client.

    Omitted from reprs: they hold secrets.
    """

    common: Properties = Field(
        default={},
        repr=False,
        description="Java client properties that every client of the cluster inherits",
    )
    consumer: Properties = Field(
        default={},
        repr=False,
        description="Properties of consumers; on the target they read the control topics",
    )
    producer: Properties = Field(
        default={},
        repr=False,
        description="Properties of producers; under `source` they have no effect, which is noted",
    )
    admin: Properties = Field(default={}, repr=False, description="Properties of admin clients")
    topic_props_exclusion_list: tuple[Name, ...] = Field(
        default=(),
        description=(
            "Topic settings that are not copied when a topic is created; only under `target`"
        ),
    )

    def section(self, name: str) -> Properties:
        """Return the properties of ``common`` or of a role."""
        properties: Properties = getattr(self, name)
        return properties


class Registry(Section):
    """A Confluent-compatible schema registry: client properties and extra HTTP headers."""

    config: Properties = Field(
        default={},
        repr=False,
        description=(
            "Properties of Confluent's Java registry client, among them `schema.registry.url`"
        ),
    )
    headers: Mapping[Name, Name] = Field(
        default={}, repr=False, description="Additional HTTP headers of requests to the registry"
    )
    cache_size: int = Field(default=31, ge=1, description="Number of schemas that are cached")


class ClusterConfig(Section):
    """One cluster of a pipeline; without a name, screens show its first bootstrap host.

    ``properties(role)`` returns the properties of a client.
    """

    name: Name = Field(
        default="",
        description=(
            "The cluster's name in the console and in `watch`: at most 40 printable characters, "
            "different for the two clusters; by default the first bootstrap host"
        ),
    )
    kafka: KafkaClients
    registry: Registry = Registry()
    writers: Literal["pipeline", "shared"] = Field(
        default="pipeline",
        description=(
            "Who writes to the target topics: with `pipeline`, records of other writers are a "
            "problem, with `shared` a note; only under `target`"
        ),
    )
    # Not a key of the file, and not compared.
    _origin: Origin | None = PrivateAttr(default=None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterConfig) and self.__dict__ == other.__dict__

    @property
    def origin(self) -> Origin | None:
        """Where it was read from; None if no file says it."""
        return self._origin

    def set_origin(self, origin: Origin) -> None:
        """Say where it was read from; whoever has read it does, before anything else uses it."""
        self._origin = origin

    def with_security_of(self, other: ClusterConfig) -> ClusterConfig:
        """Return the same with the logins and stores of another reading, and nothing else of it."""
        kafka = {
            name: _renewed(self.kafka.section(name), other.kafka.section(name), is_security_value)
            for name in CLIENT_SECTIONS
        }
        ours, theirs = self.registry, other.registry
        config = _renewed(ours.config, theirs.config, is_security_value)
        url = theirs.config.get(_REGISTRY_URL, "")
        if without_userinfo(url) == without_userinfo(ours.config.get(_REGISTRY_URL, "")) and url:
            config[_REGISTRY_URL] = url
        headers = _renewed(ours.headers, theirs.headers, is_secret_key)
        return self.model_copy(
            update={
                "kafka": self.kafka.model_copy(update=kafka),
                "registry": ours.model_copy(update={"config": config, "headers": headers}),
            }
        )

    @field_validator("name")
    @classmethod
    def _is_short_and_printable(cls, name: str) -> str:
        if len(name) > _LONGEST_NAME or name != name.strip() or safe_text(name) != name:
            raise ValueError(f"a printable text of at most {_LONGEST_NAME} characters")
        return name

    @field_validator("kafka")
    @classmethod
    def _has_an_address(cls, kafka: KafkaClients) -> KafkaClients:
        if not _bootstrap_servers(kafka):
            raise ValueError("bootstrap.servers in common")
        # One address a line in the file; the clients take commas alone.
        sections = {name: _on_one_line(kafka.section(name)) for name in CLIENT_SECTIONS}
        return kafka.model_copy(update=sections)

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap list of ``common`` or of the first role that has one; "" if none has."""
        return _bootstrap_servers(self.kafka)

    def properties(self, role: Role) -> dict[str, str]:
        """Return the Java properties of a ``consumer``, ``producer`` or ``admin`` client.

        An empty ``bootstrap.servers`` counts as missing, in ``common`` and in the role's section.
        """
        return {**_with_address(self.kafka.common), **_with_address(self.kafka.section(role))}


@dataclass(frozen=True, slots=True)
class Reading:
    """A cluster's section as its files have it now.

    Attributes:
        cluster: the section.
        files: the files that it was read from, and those that templates name.
        variables: keys of logins and stores, with the environment variables in their values.
        rest: a digest of everything in the files that is not renewed while a process runs.
    """

    cluster: ClusterConfig
    files: frozenset[str]
    variables: frozenset[tuple[str, str]]
    rest: str


class Origin(ABC):
    """Where a cluster's section was read from; equal ones read the same.

    Attributes:
        label: ``source`` or ``target``.
    """

    label: str

    @abstractmethod
    def read(self) -> Reading:
        """Read the section again.

        Raises:
            ConfigError: the files cannot be read now, or have errors.
        """


def _bootstrap_servers(kafka: KafkaClients) -> str:
    lists = (kafka.section(name).get(BOOTSTRAP, "") for name in CLIENT_SECTIONS)
    return next((servers for servers in lists if servers.strip()), "")


def _renewed(
    ours: Mapping[str, str], theirs: Mapping[str, str], is_renewed: Callable[[str], bool]
) -> dict[str, str]:
    kept = {key: text for key, text in ours.items() if not is_renewed(key)}
    return kept | {key: text for key, text in theirs.items() if is_renewed(key)}


def _on_one_line(properties: Mapping[str, str]) -> Mapping[str, str]:
    if BOOTSTRAP not in properties:
        return properties
    return {**properties, BOOTSTRAP: one_line(properties[BOOTSTRAP])}


def _with_address(properties: Mapping[str, str]) -> Mapping[str, str]:
    return {k: v for k, v in properties.items() if k != BOOTSTRAP or v.strip()}
