"""Apicurio Registry's own API, for global ids: Confluent's API has only one kind of id."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from k2ktui.errors import ConfigError
from k2ktui.registry.client import RegistryClient
from k2ktui.registry.connection import NOTHING
from k2ktui.registry.settings import RegistrySettings

_CONFLUENT, _OWN = "/apis/ccompat/", "/apis/registry/v3"
_DEFAULT_GROUPS = (None, "", "default")


class ApicurioClient:
    """Finds the versions of global ids, and the other way round.

    Args:
        settings: the registry; its URLs are those of Confluent's API.

    Raises:
        ConfigError: a URL is not one of Apicurio Registry.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        own = [url.partition(_CONFLUENT) for url in settings.urls]
        if not all(separator for _, separator, _ in own):
            raise ConfigError(
                f"records hold global ids of Apicurio Registry, and {settings.address} has no "
                "address of its API /apis/ccompat/v7",
                unchanged=NOTHING,
                hint="Use Apicurio's address in schema.registry.url, for example "
                "http://registry:8080/apis/ccompat/v7.",
            )
        urls = tuple(f"{host}{_OWN}" for host, _, _ in own)
        self._client = RegistryClient(replace(settings, urls=urls))

    def __enter__(self) -> ApicurioClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def version_of(self, global_id: int) -> tuple[str, int] | None:
        """Return the subject and version with a global id; None if there is none."""
        answer = self._client.read_json(
            f"find global id {global_id}", "search/versions", {"globalId": str(global_id)}
        )
        pairs = [
            (str(version["artifactId"]), int(version["version"]))
            for version in (answer or {}).get("versions", ())
            if version.get("groupId") in _DEFAULT_GROUPS and int(version["globalId"]) == global_id
        ]
        return pairs[0] if pairs else None

    def global_id(self, subject: str, version: int) -> int | None:
        """Return the global id of a version; None if there is none."""
        answer: Any = self._client.read_json(
            f"read the global id of version {version} of a subject",
            "search/versions",
            {"artifactId": subject, "version": str(version)},
        )
        ids = [
            int(row["globalId"])
            for row in (answer or {}).get("versions", ())
            if row.get("groupId") in _DEFAULT_GROUPS
            and row.get("artifactId") == subject
            and row.get("version") == str(version)
        ]
        return ids[0] if ids else None
