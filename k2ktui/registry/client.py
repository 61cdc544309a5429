"""Client of a schema registry with Confluent's API, on Confluent's own Python client.

Errors are raised as ``k2ktui.errors``; what a registry does not have is None or empty. Thread-safe.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from k2ktui.engine.schemas.model import AVRO, Schema, SchemaReference, SchemaVersion
from k2ktui.errors import ConnectionFailed, K2kError, LoginFailed, Refused
from k2ktui.registry import _confluent
from k2ktui.registry.connection import NOTHING, import_library, make_client
from k2ktui.registry.settings import RegistrySettings
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

_NOT_FOUND, _UNAUTHORIZED, _FORBIDDEN, _CONFLICT, _UNPROCESSABLE = 404, 401, 403, 409, 422
_LONGEST_REASON, _SHORTEST_SECRET = 300, 4
_REQUIRED = object()
# Names of the default context in answers.
_DEFAULT = (None, ".", ":.:")


class SchemaRejected(Refused):
    """A registry does not accept a schema; the message gives its reason."""


class RegistryClient:
    """Client of one registry.

    Args:
        settings: how to reach it.

    Raises:
        NotInstalled: Confluent's registry client is not installed.
        K2kError: the TLS files or the settings cannot be used.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self.settings = settings
        self._library = import_library()
        self._client = make_client(self._library, settings)
        self._lock = threading.Lock()
        self._schemas: OrderedDict[int, Schema] = OrderedDict()

    def __enter__(self) -> RegistryClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    @property
    def address(self) -> str:
        """The registry for messages."""
        return self.settings.address

    def subjects(self, *, deleted: bool = False) -> tuple[str, ...]:
        """Return the names of all subjects, of deleted ones too if asked for.

        Those of other contexts than the address's are left out.
        """
        subjects: tuple[str, ...] = self._ask(
            "list subjects",
            lambda: self._own_subjects(map(str, self._client.get_subjects(deleted=deleted))),
        )
        return subjects

    def versions(self, subject: str, *, deleted: bool = False) -> tuple[int, ...]:
        """Return the numbers of a subject's versions, ascending; empty if it does not exist."""
        numbers: tuple[int, ...] = self._ask(
            f"list versions of subject {safe_text(subject)}",
            lambda: tuple(sorted(map(int, self._client.get_versions(subject, deleted=deleted)))),
            (),
        )
        return numbers

    def version(self, subject: str, number: int) -> SchemaVersion | None:
        """Return a version of a subject, deleted ones too; None if there is none."""
        version: SchemaVersion | None = self._ask(
            f"read version {number} of subject {safe_text(subject)}",
            lambda: _version(subject, self._client.get_version(subject, number, deleted=True)),
            None,
        )
        self._client.clear_caches()
        return version

    def schema(self, schema_id: int) -> Schema | None:
        """Return the schema with an id; None if the registry does not have the id.

        The ``cache_size`` schemas that were asked for last are kept in memory.
        """
        with self._lock:
            if schema_id in self._schemas:
                self._schemas.move_to_end(schema_id)
                return self._schemas[schema_id]
        schema: Schema | None = self._ask(
            f"read schema {schema_id}",
            lambda: _schema(
                self._library.Schema.from_dict(
                    _confluent.read_schema_of_id(self._client, schema_id)
                )
            ),
            None,
        )
        if schema is None:
            return None
        with self._lock:
            self._schemas[schema_id] = schema
            while len(self._schemas) > self.settings.cache_size:
                self._schemas.popitem(last=False)
        return schema

    def versions_of_id(self, schema_id: int) -> tuple[tuple[str, int], ...]:
        """Return the subjects and versions that have an id, deleted ones only if no other has it.

        Empty if the registry does not have the id.
        """
        return self._versions_of_id(schema_id, False) or self._versions_of_id(schema_id, True)

    def _versions_of_id(self, schema_id: int, deleted: bool) -> tuple[tuple[str, int], ...]:
        def read() -> tuple[tuple[str, int], ...]:
            versions = self._client.get_schema_versions(schema_id, deleted=deleted)
            return tuple(
                sorted(
                    (name, int(version.version))
                    for version in versions
                    for name in self._own_subjects([str(version.subject)])
                )
            )

        versions: tuple[tuple[str, int], ...] = self._ask(
            f"list versions of schema {schema_id}", read, ()
        )
        return versions

    def ids_of_guid(self, guid: str) -> tuple[int, ...]:
        """Return the ids of a GUID in the default context; empty if the registry has none."""

        def read() -> tuple[int, ...]:
            entries = _confluent.read_ids_of_guid(self._client, guid)
            return tuple(int(entry["id"]) for entry in entries if entry.get("context") in _DEFAULT)

        ids: tuple[int, ...] = self._ask(f"read schema {safe_text(guid)}", read, ())
        return ids

    def find(self, subject: str, schema: Schema) -> SchemaVersion | None:
        """Return the version of a subject that the registry takes for the same schema, if any."""
        made = self._make_schema(schema)
        version: SchemaVersion | None = self._ask(
            f"look up a schema of subject {safe_text(subject)}",
            lambda: _version(subject, self._client.lookup_schema(subject, made)),
            None,
        )
        self._client.clear_caches()
        return version

    def register(self, subject: str, schema: Schema) -> int:
        """Register a schema under a subject and return its id; the same again changes nothing.

        Raises:
            SchemaRejected: the registry does not accept it.
        """
        made = self._make_schema(schema)
        schema_id = self._ask(
            f"register a schema under subject {safe_text(subject)}",
            lambda: int(self._client.register_schema(subject, made)),
        )
        # Its cache would hide a schema that is deleted from the registry later.
        self._client.clear_caches()
        return int(schema_id)

    def import_version(self, version: SchemaVersion) -> int:
        """Register a schema with its id and version (mode ``IMPORT``) and return the id it got.

        Some registries accept the mode, and choose another id.

        Raises:
            SchemaRejected: the registry does not accept it.
        """
        body = self._make_schema(version.schema).to_dict()
        schema_id = self._ask(
            f"import schema {version.id} under subject {safe_text(version.subject)}",
            lambda: int(
                _confluent.import_schema(
                    self._client,
                    version.subject,
                    {**body, "id": version.id, "version": version.version},
                )["id"]
            ),
        )
        return int(schema_id)

    def is_compatible(self, subject: str, schema: Schema) -> bool:
        """Return whether a subject's latest version allows a schema; True without a version."""
        made = self._make_schema(schema)
        return bool(
            self._ask(
                f"check a schema against subject {safe_text(subject)}",
                lambda: self._client.test_compatibility(subject, made),
                True,
            )
        )

    def types(self) -> frozenset[str]:
        """Return the schema types that the registry accepts."""
        return frozenset(self._ask("list schema types", self._client.get_schema_types, [AVRO]))

    def default_compatibility(self) -> str:
        """Return the compatibility level of subjects without their own."""
        return str(self._ask("read the compatibility level", self._client.get_compatibility))

    def compatibility(self, subject: str) -> str:
        """Return a subject's compatibility level; "" if it has none or does not exist."""
        return str(
            self._ask(
                f"read the compatibility level of subject {safe_text(subject)}",
                lambda: self._client.get_compatibility(subject),
                "",
            )
        )

    def set_compatibility(self, subject: str, level: str) -> None:
        """Set a subject's compatibility level."""
        self._ask(
            f"set the compatibility level of subject {safe_text(subject)}",
            lambda: self._client.set_compatibility(subject, level),
        )

    def default_mode(self) -> str:
        """Return the mode of subjects without their own; registries without modes write."""
        return str(self._ask("read the mode", self._client.get_global_mode, "READWRITE"))

    def mode(self, subject: str) -> str:
        """Return a subject's own mode; "" if it has none."""
        return str(
            self._ask(
                f"read the mode of subject {safe_text(subject)}",
                lambda: self._client.get_mode(subject),
                "",
            )
        )

    def _own_subjects(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the names in the context of the address, without it, sorted.

        In answers, subjects of other contexts than the default are called ``:.context:subject``.
        """
        context = self.settings.urls[0].partition("/contexts/")[2]
        own = f":{context}:"
        own_names = (name.removeprefix(own) if context else name for name in names)
        return tuple(sorted(name for name in own_names if not name.startswith(":.")))

    def read_json(self, doing: str, path: str, query: Mapping[str, str]) -> Any:
        """Return what a registry answers to a GET request; None if it has no such object.

        Args:
            doing: the request as a verb and its object, for messages.
            path: below the registry's URL.
            query: parameters.
        """
        return self._ask(doing, lambda: _confluent.read_json(self._client, path, query), None)

    def _make_schema(self, schema: Schema) -> Any:
        references = [
            {"name": reference.name, "subject": reference.subject, "version": reference.version}
            for reference in schema.references
        ]
        rules = json.loads(schema.rules) if schema.rules else {}
        return self._library.Schema.from_dict(
            {"schema": schema.text, "schemaType": schema.type, "references": references, **rules}
        )

    def _ask(self, doing: str, request: Callable[[], Any], missing: Any = _REQUIRED) -> Any:
        """Send a request.

        Args:
            doing: the request as a verb and its object, for messages.
            request: sends it.
            missing: the result if the registry has no such object; without one that is an error.
        """
        error_class = self._library.SchemaRegistryError
        log.debug("%s: %s", self.address, doing)
        try:
            return request()
        except error_class as error:
            if error.http_status_code == _NOT_FOUND and missing is not _REQUIRED:
                return missing
            log.info("%s: status %d when asked to %s", self.address, error.http_status_code, doing)
            raise self._translate(doing, error) from error
        except K2kError:  # no token
            raise
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            log.info("%s: %s when asked to %s", self.address, type(error).__name__, doing)
            raise ConnectionFailed(
                f"{self.address} returned a response that is not from a schema registry when asked "
                f"to {doing}: {_reason(error, self.settings)}",
                unchanged=NOTHING,
                hint=f"Check schema.registry.url in {self.settings.side}.registry.config.",
            ) from error
        except Exception as error:
            log.info("%s: %s when asked to %s", self.address, type(error).__name__, doing)
            raise ConnectionFailed(
                f"{self.address} cannot be reached to {doing}: {_reason(error, self.settings)}",
                unchanged=NOTHING,
                hint=f"Check {self.settings.side}.registry.config, and that the registry runs.",
            ) from error

    def _translate(self, doing: str, error: Any) -> K2kError:
        status = int(error.http_status_code)
        reason = _reason(error.error_message, self.settings)
        if status in (_UNAUTHORIZED, _FORBIDDEN):
            return LoginFailed(
                f"{self.address} does not allow this login to {doing} (status {status})",
                unchanged=NOTHING,
                hint=f"Check the credentials in {self.settings.side}.registry.config and their "
                f"rights. {self.settings.advice}".strip(),
            )
        if status in (_CONFLICT, _UNPROCESSABLE):
            return SchemaRejected(
                f"{self.address} refused to {doing}: {reason}",
                unchanged=NOTHING,
                hint="k2ktui schemas plan shows what is in the way.",
            )
        return ConnectionFailed(
            f"{self.address} could not {doing}: {reason} (status {status})",
            unchanged=NOTHING,
            hint="See the registry's log.",
        )


def _reason(error: object, settings: RegistrySettings) -> str:
    """Return an error as one line without the credentials that a proxy or server may repeat."""
    text = str(error) or type(error).__name__
    secrets = [*settings.login.values(), *settings.headers.values()]
    secrets += [login.partition(":")[2] for login in settings.login.values()]
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SHORTEST_SECRET:
            text = text.replace(secret, "***")
    return safe_text(text, _LONGEST_REASON)


def _version(subject: str, answer: Any) -> SchemaVersion:
    return SchemaVersion(
        subject,
        int(answer.version),
        int(answer.schema_id),
        _schema(answer.schema),
        answer.guid or "",
    )


def _schema(library_schema: Any) -> Schema:
    plain = library_schema.to_dict()
    references = tuple(
        SchemaReference(
            str(reference["name"]), str(reference["subject"]), int(reference["version"])
        )
        for reference in plain.get("references") or ()
    )
    rules = {key: plain[key] for key in ("metadata", "ruleSet") if plain.get(key)}
    text = json.dumps(rules, sort_keys=True, separators=(",", ":")) if rules else ""
    return Schema(
        str(plain.get("schemaType") or AVRO), str(plain.get("schema") or ""), references, text
    )
