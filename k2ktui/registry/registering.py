"""Register schemas of the source on the target: ``schemas apply`` and copying do it in one way.

A schema comes after those that it refers to and after the earlier versions of its subject: a
registry would refuse an earlier version after a later one. A subject that holds nothing but copies
gets the source's compatibility level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from k2ktui.engine.schemas.model import Schema, SchemaReference, SchemaVersion, is_same_schema
from k2ktui.engine.schemas.plan import (
    IMPORT_MODE,
    PlannedSchema,
    SchemaAction,
    SchemaPlan,
    plan_mapped,
)
from k2ktui.engine.schemas.subjects import SubjectNaming
from k2ktui.errors import ConnectionFailed, K2kError, Refused
from k2ktui.registry.client import RegistryClient, SchemaRejected
from k2ktui.registry.content import read_content, read_target, read_versions
from k2ktui.registry.settings import NOTHING
from k2ktui.text import safe_text

_DEEPEST = 100


class SchemaNotRegistered(Refused):
    """The target's registry lacks a schema, and it must not be registered without consent."""


class SchemaOutcome(StrEnum):
    """What became of a planned schema."""

    REGISTERED = "registered"
    PRESENT = "present"
    FAILED = "failed"
    UNTRIED = "not tried"


@dataclass(frozen=True, slots=True)
class AppliedSchema:
    """A planned schema after ``apply``.

    ``target_id`` and ``target_version`` are what the target's registry has; None if it has none.
    ``reason`` says why it failed, or what differs from the plan; may be empty.
    """

    planned: PlannedSchema
    outcome: SchemaOutcome
    target_id: int | None = None
    target_version: int | None = None
    reason: str = ""


def register_planned(
    source: RegistryClient, target: RegistryClient, plan: SchemaPlan
) -> list[AppliedSchema]:
    """Register what a plan names; what the target has already is left alone.

    A failure affects only schemas that refer to the failed one. If a registry does not respond, the
    rest is not tried.

    Returns:
        Every schema of the plan, in its order.
    """
    names = {schema.source.subject: schema.target_subject for schema in plan.schemas}
    registrar = _Registrar(
        source,
        target,
        lambda version: names.get(version.subject, version.subject),
        registers=True,
    )
    for level in plan.compatibility:
        if level.first:
            target.set_compatibility(level.subject, level.level)
    rows = list(_register_all(registrar, target, plan))
    if all(row.outcome is not SchemaOutcome.UNTRIED for row in rows):
        for level in plan.compatibility:
            if not level.first and level.last:
                target.set_compatibility(level.subject, level.level)
    return rows


def require_schema(
    source: RegistryClient,
    target: RegistryClient,
    version: SchemaVersion,
    subject: str,
    rename: Callable[[SchemaVersion], str],
    *,
    registers: bool,
) -> SchemaVersion:
    """Return a schema's version on the target; if it is missing, register it with what it needs.

    Args:
        source: the source's registry.
        target: the target's registry.
        version: the version in the source's registry.
        subject: its subject on the target.
        rename: returns the name on the target of a subject that a reference names.
        registers: whether schemas may be registered.

    Raises:
        SchemaNotRegistered: it is missing, and must not be registered.
        SchemaRejected: the target's registry does not accept it.
        Refused: a schema that it refers to does not exist on the source.
        ConnectionFailed: a registry does not respond, or rejects the login.
    """
    try:
        return _Registrar(source, target, rename, registers=False).require(version, subject)
    except SchemaNotRegistered:
        if not registers:
            raise
    pair = version.subject, version.version
    source_content = read_versions(source, [pair], [version.subject])
    mapped = {
        name: (
            subject if name == version.subject else rename(source_subject.versions[-1]),
            SubjectNaming.REFERENCE,
        )
        for name, source_subject in source_content.subjects.items()
    }
    target_content = read_target(target, {name for name, _ in mapped.values()}, source_content)
    plan = plan_mapped(source_content, target_content, mapped).up_to(source_content, version)
    register_planned(source, target, plan)
    # What could not be registered says why here.
    return _Registrar(source, target, rename, registers=True).require(version, subject)


def _register_all(
    registrar: _Registrar, target: RegistryClient, plan: SchemaPlan
) -> Iterator[AppliedSchema]:
    later = {level.subject: level.level for level in plan.compatibility if not level.first}
    stopped = ""
    for schema in plan.schemas:
        if schema.action is SchemaAction.PRESENT:
            yield AppliedSchema(
                schema, SchemaOutcome.PRESENT, schema.target_id, schema.target_version
            )
        elif schema.action is SchemaAction.CONFLICT:
            yield AppliedSchema(schema, SchemaOutcome.FAILED, reason=schema.reason)
        elif stopped:
            yield AppliedSchema(schema, SchemaOutcome.UNTRIED, reason=stopped)
        else:
            try:
                registered = _register(registrar, target, schema, later)
            except ConnectionFailed as error:
                stopped = error.message
                yield AppliedSchema(schema, SchemaOutcome.UNTRIED, reason=stopped)
            except K2kError as error:
                yield AppliedSchema(schema, SchemaOutcome.FAILED, reason=error.message)
            else:
                yield AppliedSchema(
                    schema,
                    SchemaOutcome.REGISTERED,
                    registered.id,
                    registered.version,
                    _import_remark(schema, registered),
                )


def _register(
    registrar: _Registrar,
    target: RegistryClient,
    planned: PlannedSchema,
    later: dict[str, str],
) -> SchemaVersion:
    """Register a schema; if the target's default level refuses it, under the source's level.

    A history may fit the one or the other: the level comes last, unless it is needed before.
    """
    try:
        return registrar.require(planned.source, planned.target_subject)
    except SchemaRejected:
        level = later.pop(planned.target_subject, "")
        if not level:
            raise
    target.set_compatibility(planned.target_subject, level)
    return registrar.require(planned.source, planned.target_subject)


def _import_remark(planned: PlannedSchema, registered: SchemaVersion) -> str:
    if planned.action is SchemaAction.IMPORT and registered.id != planned.source.id:
        return (
            f"the registry chose id {registered.id}, although the subject's mode is {IMPORT_MODE}"
        )
    return ""


@dataclass(frozen=True, slots=True)
class _Registrar:
    """Finds schemas of the source on the target, and registers what it lacks if allowed.

    Attributes:
        source: the source's registry.
        target: the target's registry.
        rename: returns the name on the target of a subject that a reference names.
        registers: whether schemas may be registered.
    """

    source: RegistryClient
    target: RegistryClient
    rename: Callable[[SchemaVersion], str]
    registers: bool

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
        existing = self.target.find(subject, schema) or self._find_equal(version, subject)
        if existing is not None:
            return existing
        if not self.registers:
            raise SchemaNotRegistered(
                f"schema {version.id} (version {version.version} of subject "
                f"{safe_text(version.subject)}) is not registered as {safe_text(subject)} in "
                f"{self.target.address}",
                unchanged="Nothing was registered, and no record with it was copied.",
                hint="Run k2ktui schemas apply, or set schemaMapping.autoRegister: enabled.",
            )
        return self._register(version, subject, schema)

    def _register(self, version: SchemaVersion, subject: str, schema: Schema) -> SchemaVersion:
        mode = self.target.mode(subject) or self.target.default_mode()
        if mode == IMPORT_MODE:
            wanted = SchemaVersion(subject, version.version, version.id, schema)
            schema_id = self.target.import_version(wanted)
        else:
            schema_id = self.target.register(subject, schema)
        registered = self.target.find(subject, schema)
        # The answer to a registration has no version.
        return registered or SchemaVersion(subject, version.version, schema_id, schema)

    def _require_reference(
        self, version: SchemaVersion, reference: SchemaReference, depth: int
    ) -> SchemaVersion:
        referred = self.source.version(reference.subject, reference.version)
        if referred is None:
            raise Refused(
                f"schema {version.id} refers to version {reference.version} of subject "
                f"{safe_text(reference.subject)}, which {self.source.address} does not have",
                unchanged=NOTHING,
                hint="Register it on the source.",
            )
        if depth >= _DEEPEST:
            raise Refused(
                f"schema {version.id} is at the end of a chain of more than {_DEEPEST} references",
                unchanged=NOTHING,
                hint="Simplify the schemas that refer to it.",
            )
        return self.require(referred, self.rename(referred), depth + 1)

    def _find_equal(self, version: SchemaVersion, subject: str) -> SchemaVersion | None:
        """Return a version whose text differs in formatting only; registries may not see that."""
        if not self.target.versions(subject):
            return None
        target_content = read_content(self.target, [subject])
        source_content = read_versions(self.source, [(version.subject, version.version)])
        for candidate in target_content.subjects[subject].versions:
            if is_same_schema(version.schema, source_content, candidate.schema, target_content):
                return candidate
        return None
