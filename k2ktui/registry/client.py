"""Client of a schema registry with Confluent's API.

Errors are raised as ``k2ktui.errors``; what a registry does not have is None or empty. Thread-safe.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar
from urllib.parse import quote

from k2ktui.engine.schemas.model import AVRO, Schema, SchemaReference, SchemaVersion
from k2ktui.errors import ConnectionFailed, K2kError, LoginFailed, Refused
from k2ktui.registry._confluent import RegistryHttp
from k2ktui.registry.settings import NOTHING, RegistrySettings
from k2ktui.text import safe_text

T = TypeVar("T")

log = logging.getLogger(__name__)

_NOT_FOUND, _UNAUTHORIZED, _FORBIDDEN, _CONFLICT, _UNPROCESSABLE = 404, 401, 403, 409, 422
_LONGEST_REASON, _SHORTEST_SECRET = 300, 4
_REQUIRED: Any = object()
# The parameters of a list that is not cut.
_ALL = {"offset": 0, "limit": -1}
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
        self._http = RegistryHttp(settings)
        self._lock = threading.Lock()
        self._schemas: OrderedDict[int, Schema] = OrderedDict()

    def __enter__(self) -> RegistryClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @property
    def address(self) -> str:
        """The registry for messages."""
        return self.settings.address

    def subjects(self, *, deleted: bool = False) -> tuple[str, ...]:
        """Return the names of all subjects, of deleted ones too if asked for.

        Those of other contexts than the address's are left out.
        """
        return self.ask(
            "list subjects",
            "subjects",
            lambda names: self._own_subjects(map(str, names)),
            query={"deleted": deleted, "deleted_only": False, **_ALL},
        )

    def versions(self, subject: str, *, deleted: bool = False) -> tuple[int, ...]:
        """Return the numbers of a subject's versions, ascending; empty if it does not exist."""
        return self.ask(
            f"list versions of subject {safe_text(subject)}",
            f"subjects/{_quoted(subject)}/versions",
            lambda numbers: tuple(sorted(map(int, numbers))),
            query={"deleted": deleted, "deleted_only": False, **_ALL},
            missing=(),
        )

    def version(self, subject: str, number: int) -> SchemaVersion | None:
        """Return a version of a subject, deleted ones too; None if there is none."""
        return self.ask(
            f"read version {number} of subject {safe_text(subject)}",
            f"subjects/{_quoted(subject)}/versions/{number}",
            lambda answer: _version(subject, answer, self._schema(answer)),
            query={"deleted": True},
            missing=None,
        )

    def schema(self, schema_id: int) -> Schema | None:
        """Return the schema with an id; None if the registry does not have the id.

        The ``cache_size`` schemas that were asked for last are kept in memory.
        """
        with self._lock:
            if schema_id in self._schemas:
                self._schemas.move_to_end(schema_id)
                return self._schemas[schema_id]
        schema = self.ask(
            f"read schema {schema_id}", f"schemas/ids/{schema_id}", self._schema, missing=None
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

        def read(versions: Iterable[Mapping[str, Any]]) -> tuple[tuple[str, int], ...]:
            return tuple(
                sorted(
                    (name, int(row["version"]))
                    for row in versions
                    for name in self._own_subjects([str(row.get("subject"))])
                )
            )

        doing, path = f"list versions of schema {schema_id}", f"schemas/ids/{schema_id}/versions"
        return self.ask(doing, path, read, query=_ALL, missing=()) or self.ask(
            doing, path, read, query={**_ALL, "deleted": True}, missing=()
        )

    def ids_of_guid(self, guid: str) -> tuple[int, ...]:
        """Return the ids of a GUID in the default context; empty if the registry has none."""
        return self.ask(
            f"read schema {safe_text(guid)}",
            f"schemas/guids/{_quoted(guid)}/ids",
            lambda rows: tuple(int(row["id"]) for row in rows if row.get("context") in _DEFAULT),
            missing=(),
        )

    def find(self, subject: str, schema: Schema) -> SchemaVersion | None:
        """Return the version of a subject that the registry takes for the same schema, if any."""
        return self.ask(
            f"look up a schema of subject {safe_text(subject)}",
            f"subjects/{_quoted(subject)}?normalize=False&deleted=False",
            lambda answer: _version(subject, answer, schema),
            body=_body(schema),
            missing=None,
        )

    def register(self, subject: str, schema: Schema) -> int:
        """Register a schema under a subject and return its id; the same again changes nothing.

        Raises:
            SchemaRejected: the registry does not accept it.
        """
        return self.ask(
            f"register a schema under subject {safe_text(subject)}",
            f"subjects/{_quoted(subject)}/versions?normalize=False",
            lambda answer: int(answer.get("id")),
            body=_body(schema),
        )

    def import_version(self, version: SchemaVersion) -> int:
        """Register a schema with its id and version (mode ``IMPORT``) and return the id it got.

        Some registries accept the mode, and choose another id.

        Raises:
            SchemaRejected: the registry does not accept it.
        """
        return self.ask(
            f"import schema {version.id} under subject {safe_text(version.subject)}",
            f"subjects/{_quoted(version.subject)}/versions",
            lambda answer: int(answer["id"]),
            body={**_body(version.schema), "id": version.id, "version": version.version},
        )

    def is_compatible(self, subject: str, schema: Schema) -> bool:
        """Return whether a subject's latest version allows a schema; True without a version."""
        return self.ask(
            f"check a schema against subject {safe_text(subject)}",
            f"compatibility/subjects/{_quoted(subject)}/versions/latest"
            "?normalize=False&verbose=False",
            lambda answer: bool(answer["is_compatible"]),
            body=_body(schema),
            missing=True,
        )

    def types(self) -> frozenset[str]:
        """Return the schema types that the registry accepts."""
        return self.ask("list schema types", "schemas/types", frozenset, missing=frozenset({AVRO}))

    def default_compatibility(self) -> str:
        """Return the compatibility level of subjects without their own."""
        return self.ask("read the compatibility level", "config", _level)

    def compatibility(self, subject: str) -> str:
        """Return a subject's compatibility level; "" if it has none or does not exist."""
        doing = f"read the compatibility level of subject {safe_text(subject)}"
        return self.ask(doing, f"config/{_quoted(subject)}", _level, missing="")

    def set_compatibility(self, subject: str, level: str) -> None:
        """Set a subject's compatibility level."""
        self.ask(
            f"set the compatibility level of subject {safe_text(subject)}",
            f"config/{_quoted(subject)}",
            lambda _: None,
            body={"compatibility": level.upper()},
            method="PUT",
        )

    def default_mode(self) -> str:
        """Return the mode of subjects without their own; registries without modes write."""
        return self.ask("read the mode", "mode", _mode, missing="READWRITE")

    def mode(self, subject: str) -> str:
        """Return a subject's own mode; "" if it has none."""
        doing = f"read the mode of subject {safe_text(subject)}"
        return self.ask(doing, f"mode/{_quoted(subject)}", _mode, missing="")

    def _own_subjects(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the names in the context of the address, without it, sorted.

        In answers, subjects of other contexts than the default are called ``:.context:subject``.
        """
        context = self.settings.urls[0].partition("/contexts/")[2]
        own = f":{context}:"
        own_names = (name.removeprefix(own) if context else name for name in names)
        return tuple(sorted(name for name in own_names if not name.startswith(":.")))

    def _schema(self, answer: Any) -> Schema:
        plain = self._http.library.Schema.from_dict(answer).to_dict()
        references = tuple(
            SchemaReference(
                str(reference["name"]), str(reference["subject"]), int(reference["version"])
            )
            for reference in plain["references"]
        )
        rules = {key: plain[key] for key in ("metadata", "ruleSet") if plain.get(key)}
        rules_text = json.dumps(rules, sort_keys=True, separators=(",", ":")) if rules else ""
        kind, text = plain.get("schemaType", AVRO), plain.get("schema", "")
        if not isinstance(kind, str) or not isinstance(text, str):
            raise TypeError("its schema is not text")
        return Schema(kind or AVRO, text, references, rules_text)

    def ask(
        self,
        doing: str,
        path: str,
        read: Callable[[Any], T],
        *,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        method: str = "POST",
        missing: T = _REQUIRED,
    ) -> T:
        """Send a request and return what ``read`` makes of the answer, which is JSON.

        Args:
            doing: the request as a verb and its object, for messages.
            path: below the registry's URL.
            read: returns the result.
            query: parameters.
            body: sent as JSON; without it, the request is a GET.
            method: of a request with a body.
            missing: the result if the registry has no such object; without one that is an error.
        """
        log.debug("%s: %s", self.address, doing)
        try:
            return read(self._http.send(method if body else "GET", path, query, body))
        except self._http.library.SchemaRegistryError as error:
            if error.http_status_code == _NOT_FOUND and missing is not _REQUIRED:
                return missing
            log.info("%s: status %d when asked to %s", self.address, error.http_status_code, doing)
            raise self._translate(doing, error) from error
        except K2kError:  # no token
            raise
        except Exception as error:
            log.info("%s: %s when asked to %s", self.address, type(error).__name__, doing)
            config = f"{self.settings.side}.registry.config"
            reason = _reason(error, self.settings)
            text = f"{self.address} cannot be reached to {doing}: {reason}"
            hint = f"Check {config}, and that the registry runs."
            if isinstance(error, (ValueError, TypeError, KeyError, AttributeError)):
                text = (
                    f"{self.address} returned a response that is not from a schema registry when "
                    f"asked to {doing}: {reason}"
                )
                hint = f"Check schema.registry.url in {config}."
            raise ConnectionFailed(text, unchanged=NOTHING, hint=hint) from error

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


def _quoted(name: str) -> str:
    return quote(name, safe="")


def _body(schema: Schema) -> dict[str, object]:
    references = [
        {"name": reference.name, "subject": reference.subject, "version": reference.version}
        for reference in schema.references
    ]
    rules = json.loads(schema.rules) if schema.rules else {}
    return {"schema": schema.text, "schemaType": schema.type, "references": references, **rules}


def _version(subject: str, answer: Any, schema: Schema) -> SchemaVersion:
    number, schema_id = int(answer.get("version")), int(answer.get("id"))
    return SchemaVersion(subject, number, schema_id, schema, answer.get("guid") or "")


def _level(answer: Any) -> str:
    return str(answer["compatibilityLevel"])


def _mode(answer: Any) -> str:
    return str(answer["mode"])
