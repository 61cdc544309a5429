"""The two clusters of a pipeline: Java client properties and schema registries."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator
from pydantic.alias_generators import to_camel

from k2ktui.config.addresses import BOOTSTRAP, one_line
from k2ktui.config.scalars import JavaText, Name
from k2ktui.secret_values import is_secret_key, without_userinfo
from k2ktui.text import safe_text

Role = Literal["consumer", "producer", "admin"]
Properties = Mapping[Name, JavaText]
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
    """Java client properties of one cluster, for all clients and per client.

    Omitted from reprs: they hold secrets.
    """

    common: Properties = Field(default={}, repr=False)
    consumer: Properties = Field(default={}, repr=False)
    producer: Properties = Field(default={}, repr=False)
    admin: Properties = Field(default={}, repr=False)
    topic_props_exclusion_list: tuple[Name, ...] = ()


class Registry(Section):
    """A Confluent-compatible schema registry: client properties and extra HTTP headers."""

    config: Properties = Field(default={}, repr=False)
    headers: Mapping[Name, Name] = Field(default={}, repr=False)
    cache_size: int = Field(default=31, ge=1)


class ClusterConfig(Section):
    """One cluster of a pipeline; without a name, screens show its first bootstrap host.

    ``properties(role)`` returns the properties of a client.
    """

    name: Name = ""
    kafka: KafkaClients
    registry: Registry = Registry()
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
        sections = ("common", "consumer", "producer", "admin")
        kafka = {
            name: _renewed(getattr(self.kafka, name), getattr(other.kafka, name), is_security_value)
            for name in sections
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
        sides = (kafka.common, kafka.admin, kafka.consumer, kafka.producer)
        if not any(side.get("bootstrap.servers", "").strip() for side in sides):
            raise ValueError("bootstrap.servers in common")
        names = ("common", "admin", "consumer", "producer")
        # One address a line in the file; the clients take commas alone.
        sections = {name: _on_one_line(getattr(kafka, name)) for name in names}
        return kafka.model_copy(update=sections)

    @property
    def common(self) -> Mapping[str, str]:
        """Properties that every client of this cluster inherits."""
        return self.kafka.common

    @property
    def consumer(self) -> Mapping[str, str]:
        """Properties of consumers only."""
        return self.kafka.consumer

    @property
    def producer(self) -> Mapping[str, str]:
        """Properties of producers only."""
        return self.kafka.producer

    @property
    def admin(self) -> Mapping[str, str]:
        """Properties of admin clients only."""
        return self.kafka.admin

    @property
    def topic_props_exclusion_list(self) -> tuple[str, ...]:
        """Topic settings that are not copied when a topic is created on this cluster."""
        return self.kafka.topic_props_exclusion_list

    @property
    def bootstrap_servers(self) -> str:
        """The bootstrap list of ``common`` or of the first role that has one; "" if none has."""
        sides = (self.common, self.admin, self.consumer, self.producer)
        lists = (side.get("bootstrap.servers", "") for side in sides)
        return next((servers for servers in lists if servers.strip()), "")

    def properties(self, role: Role) -> dict[str, str]:
        """Return the Java properties of a ``consumer``, ``producer`` or ``admin`` client.

        An empty ``bootstrap.servers`` counts as missing, in ``common`` and in the role's section.
        """
        own: dict[Role, Mapping[str, str]] = {
            "consumer": self.consumer,
            "producer": self.producer,
            "admin": self.admin,
        }
        return {**_with_address(self.common), **_with_address(own[role])}


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
    return {k: v for k, v in properties.items() if k != "bootstrap.servers" or v.strip()}
