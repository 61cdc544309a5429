"""A stand-in for Confluent's schema registry where Apicurio Registry cannot take its place.

Apicurio Registry has no GUIDs, and chooses ids in mode ``IMPORT``, too. This is no registry: it
keeps texts in memory, and takes every schema for compatible unless a level is set, for which it
looks at the fields of records. It answers what Confluent's client and serializers ask, over HTTP.
Everything else is tried on Apicurio Registry.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.support.http.server import Handler, http_server

Answer = tuple[int, Any]
_NO_VERSION = 404, {"error_code": 40402, "message": "Version not found."}
_NO_SUBJECT = 404, {"error_code": 40401, "message": "Subject not found."}
_NO_SCHEMA = 404, {"error_code": 40403, "message": "Schema not found."}
_NO_MODE = 404, {"error_code": 40409, "message": "Subject does not have a mode configured."}
_NO_LEVEL = 404, {"error_code": 40408, "message": "Subject does not have a level configured."}


@dataclass
class RegistryStandIn:
    """What it holds.

    Attributes:
        url: its address.
        next_id: the id of the next new schema.
        schemas: text and type by id.
        subjects: ids by subject and version.
        modes: modes of subjects.
        level: the compatibility level of subjects without their own.
        levels: compatibility levels of subjects.
        global_ids: subjects and versions by global id, as Apicurio Registry has them; below
            ``apicurio_url``.
    """

    url: str = ""
    next_id: int = 1
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    subjects: dict[str, dict[int, int]] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)
    level: str = "NONE"
    levels: dict[str, str] = field(default_factory=dict)
    global_ids: dict[int, tuple[str, int]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def apicurio_url(self) -> str:
        """Its address as if it were Apicurio Registry."""
        return f"{self.url}/apis/ccompat/v7"

    def answer(self, method: str, path: str, body: dict[str, Any], query: dict[str, str]) -> Answer:
        """Return the status and body of the answer to a request."""
        parts = [unquote(part) for part in path.strip("/").split("/")]
        with self._lock:
            if parts == ["apis", "registry", "v3", "search", "versions"]:
                return 200, {"versions": self._search(query)}
            return self._answer(
                method, parts[3:] if parts[:2] == ["apis", "ccompat"] else parts, body
            )

    def _search(self, query: dict[str, str]) -> list[dict[str, Any]]:
        rows = [
            {"globalId": global_id, "artifactId": subject, "version": str(version)}
            for global_id, (subject, version) in self.global_ids.items()
        ]
        return [row for row in rows if all(str(row[key]) == query[key] for key in query)]

    def _answer(self, method: str, path: list[str], body: dict[str, Any]) -> Answer:
        match (method, *path):
            case ("GET", "subjects"):
                return 200, sorted(self.subjects)
            case ("GET", "subjects", subject, "versions"):
                versions = self.subjects.get(subject)
                return (200, sorted(versions)) if versions else _NO_SUBJECT
            case ("GET", "subjects", subject, "versions", version):
                number = self.subjects.get(subject, {}).get(int(version))
                return (200, self._version(subject, int(version))) if number else _NO_VERSION
            case ("POST", "subjects", subject):
                return self._find(subject, body)
            case ("POST", "subjects", subject, "versions"):
                return self._register(subject, body)
            case ("GET", "schemas", "types"):
                return 200, ["AVRO", "JSON", "PROTOBUF"]
            case ("GET", "schemas", "ids", number, *rest):
                return self._by_id(int(number), rest)
            case ("GET", "schemas", "guids", guid, *rest):
                numbers = [schema_id for schema_id in self.schemas if self.guid(schema_id) == guid]
                if not numbers:
                    return _NO_SCHEMA
                if rest == ["ids"]:
                    return 200, [{"context": ".", "id": number} for number in numbers]
                return 200, {**self.schemas[numbers[0]], "id": numbers[0], "guid": guid}
            case ("GET", "mode", *rest):
                mode = self.modes.get(rest[0]) if rest else "READWRITE"
                return (200, {"mode": mode}) if mode else _NO_MODE
            case ("GET", "config", *rest):
                level = self.levels.get(rest[0]) if rest else self.level
                return (200, {"compatibilityLevel": level}) if level else _NO_LEVEL
            case ("PUT", "config", subject):
                self.levels[subject] = body["compatibility"]
                return 200, body
            case ("POST", "compatibility", "subjects", subject, *_):
                return 200, {"is_compatible": self._is_compatible(subject, body)}
            case _:
                return 404, {"error_code": 404, "message": f"{method} {'/'.join(path)}"}

    def guid(self, schema_id: int) -> str:
        """Return the GUID of an id, another one in each registry."""
        return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{self.url}/{schema_id}"))

    def _by_id(self, schema_id: int, rest: list[str]) -> Answer:
        if schema_id not in self.schemas:
            return _NO_SCHEMA
        if rest == ["versions"]:
            return 200, [
                {"subject": subject, "version": version}
                for subject, versions in self.subjects.items()
                for version, id_of_version in versions.items()
                if id_of_version == schema_id
            ]
        return 200, {**self.schemas[schema_id], "guid": self.guid(schema_id)}

    def _version(self, subject: str, version: int) -> dict[str, Any]:
        number = self.subjects[subject][version]
        place = {"subject": subject, "version": version, "id": number}
        return {**self.schemas[number], **place, "guid": self.guid(number)}

    def _find(self, subject: str, body: dict[str, Any]) -> Answer:
        wanted = _schema(body)
        for version, number in self.subjects.get(subject, {}).items():
            if self.schemas[number] == wanted:
                return 200, self._version(subject, version)
        return _NO_SCHEMA

    def _is_compatible(self, subject: str, body: dict[str, Any]) -> bool:
        """Whether the level of a subject allows a schema after the latest version, or it is known.

        A reader needs each of its fields, unless that has a default.
        """
        level, versions = self.levels.get(subject, self.level), self.subjects.get(subject)
        wanted = _schema(body)
        if level == "NONE" or not versions or wanted in map(self.schemas.get, versions.values()):
            return True
        latest = self.schemas[versions[max(versions)]]
        new, old = (json.loads(body["schema"])["fields"] for body in (wanted, latest))
        backward = _can_read(new, old) or level == "FORWARD"
        return backward and (_can_read(old, new) or level == "BACKWARD")

    def _register(self, subject: str, body: dict[str, Any]) -> Answer:
        if not self._is_compatible(subject, body):
            return 409, {"error_code": 409, "message": "Schema being registered is incompatible"}
        wanted, versions = _schema(body), self.subjects.setdefault(subject, {})
        if self.modes.get(subject) == "IMPORT":
            number, version = int(body["id"]), int(body["version"])
        else:
            same = [number for number, schema in self.schemas.items() if schema == wanted]
            number = same[0] if same else self.next_id
            known = [
                version for version, id_of_version in versions.items() if id_of_version == number
            ]
            version = known[0] if known else max(versions, default=0) + 1
        if self.schemas.setdefault(number, wanted) != wanted:
            return 422, {"error_code": 42205, "message": f"Overwrite of schema {number}"}
        self.next_id = max(self.next_id, number + 1)
        versions[version] = number
        return 200, self._version(subject, version)


@dataclass(frozen=True, slots=True)
class StandIns:
    """Stand-ins for the registries of a source and of a target."""

    source: RegistryStandIn
    target: RegistryStandIn


@contextmanager
def two_stand_ins() -> Iterator[StandIns]:
    """Run two stand-ins, whose ids begin with 1 and 50."""
    with registry_stand_in() as source, registry_stand_in(50) as target:
        yield StandIns(source, target)


def _can_read(reader: list[dict[str, Any]], writer: list[dict[str, Any]]) -> bool:
    written = {field["name"] for field in writer}
    return all(field["name"] in written or "default" in field for field in reader)


def _schema(body: dict[str, Any]) -> dict[str, Any]:
    answer = {"schema": body["schema"], "schemaType": body.get("schemaType") or "AVRO"}
    return {**answer, "references": body["references"]} if body.get("references") else answer


@contextmanager
def registry_stand_in(first_id: int = 1) -> Iterator[RegistryStandIn]:
    """Run a stand-in on loopback, whose new schemas get ids from ``first_id`` on."""
    state = RegistryStandIn(next_id=first_id)

    class Registry(Handler):
        def do_GET(self) -> None:
            path = urlsplit(self.path)
            status, answer = state.answer(
                self.command,
                path.path,
                json.loads(self.read_body() or b"{}"),
                dict(parse_qsl(path.query)),
            )
            body = json.dumps(answer).encode()
            self.reply(status, body, Content_Type="application/vnd.schemaregistry.v1+json")

        do_PUT = do_POST = do_GET

    with http_server(Registry) as state.url:
        yield state
