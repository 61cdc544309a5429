"""The two clusters of a pipeline: Java client properties and schema registries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from k2ktui.config.addresses import BOOTSTRAP, one_line
from k2ktui.config.scalars import JavaText, Name
from k2ktui.text import safe_text

Role = Literal["consumer", "producer", "admin"]
Properties = Mapping[Name, JavaText]
_LONGEST_NAME = 40


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


def _on_one_line(properties: Mapping[str, str]) -> Mapping[str, str]:
    if BOOTSTRAP not in properties:
        return properties
    return {**properties, BOOTSTRAP: one_line(properties[BOOTSTRAP])}


def _with_address(properties: Mapping[str, str]) -> Mapping[str, str]:
    return {k: v for k, v in properties.items() if k != "bootstrap.servers" or v.strip()}
