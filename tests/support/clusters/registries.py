"""Two schema registries whose ids disagree, and requests to them."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from k2ktui.runtime.registry_node import RegistryNode
from tests.support.clusters.kafka import START_S

# Seconds for one answer, and how often it is asked for: see ``records.schemas.registry_client``.
ANSWER_S = 20.0
_ATTEMPTS = 4

# Schemas that only the source has: a subject's first schema gets another id there.
_ONLY_ON_SOURCE = 7


class HasUrl(Protocol):
    """A registry that runs."""

    @property
    def url(self) -> str:
        """Address of Confluent's API."""


class RegistryPair(Protocol):
    """The registries of a source and of a target."""

    @property
    def source(self) -> HasUrl:
        """That of the source."""

    @property
    def target(self) -> HasUrl:
        """That of the target."""


@dataclass(frozen=True, slots=True)
class Registries:
    """The registries of a source and of a target."""

    source: RegistryNode
    target: RegistryNode

    def start(self) -> Registries:
        """Start what does not run."""
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda node: node.start(START_S), (self.source, self.target)))
        return self

    def close(self) -> None:
        """Stop both."""
        self.source.close()
        self.target.close()


def start_registries(data: Path) -> Registries:
    """Start two registries; no schema that a test registers gets the same id on both."""
    registries = Registries(
        RegistryNode("source", data / "source"), RegistryNode("target", data / "target")
    )
    try:
        registries.start()
        for number in range(_ONLY_ON_SOURCE):
            register(registries.source, "only-on-source", avro_record("Only", f"field_{number}"))
    except BaseException:
        registries.close()
        raise
    return registries


def avro_record(name: str, *fields: str) -> str:
    """Return an Avro record of optional text fields."""
    listed = [{"name": field, "type": ["null", "string"], "default": None} for field in fields]
    return json.dumps({"type": "record", "name": name, "fields": listed})


def register(
    registry: HasUrl,
    subject: str,
    schema: str,
    kind: str = "AVRO",
    references: Sequence[Mapping[str, object]] = (),
) -> int:
    """Register a schema and return its id."""
    body: dict[str, object] = {"schema": schema, "schemaType": kind}
    if references:
        body["references"] = list(references)
    return int(call(registry, f"/subjects/{subject}/versions", body)["id"])


def own_ids(registry: HasUrl, subject: str, version: int = 1) -> dict[str, int]:
    """Return the global id and the content id of a version, by Apicurio's own API."""
    answer = request(f"{_own(registry)}/groups/default/artifacts/{subject}/versions/{version}")
    return {name: int(answer[name]) for name in ("globalId", "contentId")}


def content_id_of(registry: HasUrl, global_id: int) -> int:
    """Return the content id of a global id, by Apicurio's own API."""
    (artifact,) = request(f"{_own(registry)}/search/versions?globalId={global_id}")["versions"]
    return int(artifact["contentId"])


def _own(registry: HasUrl) -> str:
    return registry.url.replace("/apis/ccompat/v7", "/apis/registry/v3")


def call(
    registry: HasUrl,
    path: str,
    body: Mapping[str, object] | None = None,
    method: str | None = None,
) -> Any:
    """Send a request, with ``body`` a POST by default, and return what the answer holds."""
    return request(registry.url + path, body, method)


def request(url: str, body: Mapping[str, object] | None = None, method: str | None = None) -> Any:
    """Send a request to any address, as :func:`call` does."""
    data = None if body is None else json.dumps(body).encode()
    media = "application/vnd.schemaregistry.v1+json"
    headers = {"Content-Type": media}
    asked = urllib.request.Request(url, data, headers, method=method)
    return _answer(asked, _ATTEMPTS)


def _answer(asked: urllib.request.Request, attempts: int) -> Any:
    try:
        with urllib.request.urlopen(asked, timeout=ANSWER_S) as response:
            return json.load(response)
    except TimeoutError:
        if attempts == 1:
            raise
        return _answer(asked, attempts - 1)
