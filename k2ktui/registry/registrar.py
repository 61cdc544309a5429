"""Finds and registers schemas of the source on the target's registry, references first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from k2ktui.engine.schemas.model import Schema, SchemaReference, SchemaVersion, is_same_schema
from k2ktui.engine.schemas.plan import IMPORT_MODE
from k2ktui.errors import Refused
from k2ktui.registry.client import RegistryClient
from k2ktui.registry.connection import NOTHING
from k2ktui.registry.content import read_content, read_versions
from k2ktui.text import safe_text

_DEEPEST = 100


class SchemaNotRegistered(Refused):
    """The target's registry lacks a schema, and it must not be registered without consent."""


class SchemaRegistrar:
    """Finds schemas of the source on the target, and registers what it lacks if allowed.

    Args:
        source: the source's registry.
        target: the target's registry.
        rename: returns the name on the target of a subject that a reference names.
        registers: whether schemas may be registered.
    """

    def __init__(
        self,
        source: RegistryClient,
        target: RegistryClient,
        rename: Callable[[SchemaVersion], str],
        *,
        registers: bool,
    ) -> None:
        self._source = source
        self._target = target
        self._rename = rename
        self._registers = registers

    def require(self, version: SchemaVersion, subject: str, depth: int = 0) -> SchemaVersion:
        """Return a schema's version on the target, registered now if it is missing there.

        Args:
            version: the version in the source's registry.
            subject: its subject on the target.
            depth: how many schemas refer to it, one after the other.

        Raises:
            SchemaNotRegistered: it is missing, and must not be registered.
            SchemaRejected: the target's registry does not accept it.
            Refused: a schema that it refers to does not exist on the source.
        """
        references = tuple(
            SchemaReference(reference.name, registered.subject, registered.version)
            for reference in version.schema.references
            for registered in (self._require_reference(version, reference, depth),)
        )
        schema = replace(version.schema, references=references)
        existing = self._target.find(subject, schema) or self._find_equal(version, subject)
        if existing is not None:
            return existing
        if not self._registers:
            raise SchemaNotRegistered(
                f"schema {version.id} (version {version.version} of subject "
                f"{safe_text(version.subject)}) is not registered as {safe_text(subject)} in "
                f"{self._target.address}",
                unchanged="Nothing was registered, and no record with it was copied.",
                hint="Run k2ktui schemas apply, or set schemaMapping.autoRegister: enabled.",
            )
        return self._register(version, subject, schema)

    def _register(self, version: SchemaVersion, subject: str, schema: Schema) -> SchemaVersion:
        mode = self._target.mode(subject) or self._target.default_mode()
        if mode == IMPORT_MODE:
            wanted = SchemaVersion(subject, version.version, version.id, schema)
            schema_id = self._target.import_version(wanted)
        else:
            schema_id = self._target.register(subject, schema)
        registered = self._target.find(subject, schema)
        # The answer to a registration has no version.
        return registered or SchemaVersion(subject, version.version, schema_id, schema)

    def _require_reference(
        self, version: SchemaVersion, reference: SchemaReference, depth: int
    ) -> SchemaVersion:
        referred = self._source.version(reference.subject, reference.version)
        if referred is None:
            raise Refused(
                f"schema {version.id} refers to version {reference.version} of subject "
                f"{safe_text(reference.subject)}, which {self._source.address} does not have",
                unchanged=NOTHING,
                hint="Register it on the source.",
            )
        if depth >= _DEEPEST:
            raise Refused(
                f"schema {version.id} is at the end of a chain of more than {_DEEPEST} references",
                unchanged=NOTHING,
                hint="Simplify the schemas that refer to it.",
            )
        return self.require(referred, self._rename(referred), depth + 1)

    def _find_equal(self, version: SchemaVersion, subject: str) -> SchemaVersion | None:
        """Return a version whose text differs in formatting only; registries may not see that."""
        numbers = self._target.versions(subject)
        if not numbers:
            return None
        target_content = read_content(self._target, [subject])
        source_content = read_versions(self._source, [(version.subject, version.version)])
        for candidate in target_content.subjects[subject].versions:
            if is_same_schema(version.schema, source_content, candidate.schema, target_content):
                return candidate
        return None
