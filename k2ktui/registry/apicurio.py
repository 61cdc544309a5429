"""Apicurio Registry's own API, for global ids: Confluent's API has only one kind of id."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from k2ktui.errors import ConfigError
from k2ktui.registry.client import RegistryClient
from k2ktui.registry.settings import NOTHING, RegistrySettings

T = TypeVar("T")

_CONFLUENT, _OWN = "/apis/ccompat/", "/apis/registry/v3"
_DEFAULT_GROUPS = (None, "", "default")


def find_global(registry: RegistrySettings, global_id: int) -> tuple[tuple[str, int], ...]:
    """Return the subject and version with a global id; empty if there is none.

    Raises:
        ConfigError: a URL is not one of Apicurio Registry.
    """

    def read(rows: list[dict[str, Any]]) -> tuple[tuple[str, int], ...]:
        matching = [row for row in rows if int(row["globalId"]) == global_id][:1]
        return tuple((str(row["artifactId"]), int(row["version"])) for row in matching)

    return _search(registry, f"find global id {global_id}", {"globalId": str(global_id)}, read)


def global_id_of(registry: RegistrySettings, subject: str, version: int) -> int | None:
    """Return the global id of a version; None if there is none.

    Raises:
        ConfigError: a URL is not one of Apicurio Registry.
    """
    wanted = {"artifactId": subject, "version": str(version)}

    def read(rows: list[dict[str, Any]]) -> int | None:
        return next((int(row["globalId"]) for row in rows if wanted.items() <= row.items()), None)

    doing = f"read the global id of version {version} of a subject"
    return _search(registry, doing, wanted, read)


def _search(
    registry: RegistrySettings,
    doing: str,
    query: Mapping[str, str],
    read: Callable[[list[dict[str, Any]]], T],
) -> T:
    """Search versions, and return what ``read`` makes of those of the default group.

    The registry's URLs are of Confluent's API.
    """
    own = [url.partition(_CONFLUENT) for url in registry.urls]
    if not all(separator for _, separator, _ in own):
        raise ConfigError(
            f"records hold global ids of Apicurio Registry, and {registry.address} has no "
            "address of its API /apis/ccompat/v7",
            unchanged=NOTHING,
            hint="Use Apicurio's address in schema.registry.url, for example "
            "http://registry:8080/apis/ccompat/v7.",
        )
    urls = tuple(f"{host}{_OWN}" for host, _, _ in own)
    with RegistryClient(replace(registry, urls=urls)) as client:
        return client.ask(
            doing,
            "search/versions",
            lambda answer: read(
                [
                    row
                    for row in (answer or {}).get("versions", ())
                    if row.get("groupId") in _DEFAULT_GROUPS
                ]
            ),
            query=query,
            missing=read([]),
        )
