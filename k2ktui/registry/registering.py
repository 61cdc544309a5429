"""Register schemas of the source on the target: ``schemas apply`` and copying do it in one way.

A schema comes after those that it refers to and after the earlier versions of its subject: a
registry would refuse an earlier version after a later one. A subject that holds nothing but copies
gets the source's compatibility level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from k2ktui.engine.schemas.model import RegistryContent, SchemaVersion, Subject
from k2ktui.engine.schemas.plan import (
    IMPORT_MODE,
    PlannedSchema,
    SchemaAction,
    SchemaPlan,
    plan_mapped,
)
from k2ktui.engine.schemas.subjects import SubjectNaming
from k2ktui.errors import ConnectionFailed, K2kError
from k2ktui.registry.client import RegistryClient, SchemaRejected
from k2ktui.registry.content import read_content, read_history, read_modes, with_ids
from k2ktui.registry.registrar import SchemaNotRegistered, SchemaRegistrar


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


def read_target(
    target: RegistryClient, names: set[str], source_content: RegistryContent
) -> RegistryContent:
    """Read what a plan needs of the target's registry.

    Args:
        target: the registry.
        names: the subjects that the plan names.
        source_content: what the source's registry has, whose ids count in mode ``IMPORT``.
    """
    content = read_content(target, names)
    new = read_modes(target, names - content.subjects.keys())
    # A mode can be set before a subject has a version.
    empty = {
        name: Subject(name, mode=mode)
        for name, mode in new.items()
        if mode not in ("", content.mode)
    }
    content = replace(content, subjects={**content.subjects, **empty})
    modes = {content.mode, *(subject.mode for subject in content.subjects.values())}
    return with_ids(target, content, source_content.ids) if IMPORT_MODE in modes else content


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
    registrar = SchemaRegistrar(
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
        return SchemaRegistrar(source, target, rename, registers=False).require(version, subject)
    except SchemaNotRegistered:
        if not registers:
            raise
    source_content = read_history(source, version.subject, version.version)
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
    return SchemaRegistrar(source, target, rename, registers=True).require(version, subject)


def _register_all(
    registrar: SchemaRegistrar, target: RegistryClient, plan: SchemaPlan
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
    registrar: SchemaRegistrar,
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
