"""Plan, apply and verify the schemas that a pipeline's records need on the target."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum

from k2ktui.engine.schemas.model import (
    RegistryContent,
    Schema,
    SchemaReference,
    SchemaVersion,
    is_same_schema,
)
from k2ktui.engine.schemas.plan import (
    PlannedSchema,
    SchemaAction,
    SchemaPlan,
    find_mapped_subjects,
    plan_schemas,
)
from k2ktui.registry.client import RegistryClient
from k2ktui.registry.content import read_content
from k2ktui.registry.mapper import SchemaMapperSettings
from k2ktui.registry.registering import AppliedSchema, read_target, register_planned


class SchemaAgreement(StrEnum):
    """How a schema of the source compares with its counterpart on the target."""

    EQUAL = "equal"
    DIFFERENT = "different"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class VerifiedSchema:
    """A schema of the source, compared with its counterpart; ``reason`` may be empty."""

    planned: PlannedSchema
    agreement: SchemaAgreement
    target_id: int | None = None
    reason: str = ""


@contextmanager
def open_registries(
    settings: SchemaMapperSettings,
) -> Iterator[tuple[RegistryClient, RegistryClient]]:
    """Yield clients of the source's and the target's registry, and close them."""
    with RegistryClient(settings.source) as source, RegistryClient(settings.target) as target:
        yield source, target


def read_schema_plan(settings: SchemaMapperSettings, *, deleted: bool = False) -> SchemaPlan:
    """Read both registries and plan what to register; nothing is changed.

    Args:
        settings: the registries and rules.
        deleted: include versions that were deleted on the source, but not for good.

    Raises:
        ConnectionFailed: a registry does not respond, or rejects the login.
    """
    with open_registries(settings) as (source, target):
        return _plan(settings, source, target, deleted)[0]


def apply_schema_plan(settings: SchemaMapperSettings, plan: SchemaPlan) -> list[AppliedSchema]:
    """Register what a plan names; what the target has already is left alone.

    A failure affects only schemas that refer to the failed one. If a registry does not respond, the
    rest is not tried.

    Returns:
        Every schema of the plan, in its order.
    """
    with open_registries(settings) as (source, target):
        return register_planned(source, target, plan)


def verify_schemas(
    settings: SchemaMapperSettings, *, deleted: bool = False
) -> list[VerifiedSchema]:
    """Compare every mapped schema of the source with its counterpart on the target.

    The counterpart is read by its id, as a consumer on the target does.

    Args:
        settings: the registries and rules.
        deleted: include versions that were deleted on the source, but not for good.

    Raises:
        ConnectionFailed: a registry does not respond, or rejects the login.
    """
    with open_registries(settings) as (source, target):
        plan, source_content, target_content = _plan(settings, source, target, deleted)
        equal: dict[tuple[str, int], SchemaVersion] = {}
        rows = []
        for schema in plan.schemas:
            row, counterpart = _verify(schema, target, source_content, target_content, equal)
            rows.append(row)
            if counterpart is not None:
                equal[schema.source.subject, schema.source.version] = counterpart
    return rows


def _plan(
    settings: SchemaMapperSettings, source: RegistryClient, target: RegistryClient, deleted: bool
) -> tuple[SchemaPlan, RegistryContent, RegistryContent]:
    source_content = read_content(source, deleted=deleted, modes=False)
    mapped, _ = find_mapped_subjects(source_content, settings.topics.rule, settings.types)
    names = {name for name, _ in mapped.values()}
    target_content = read_target(target, names, source_content)
    plan = plan_schemas(source_content, target_content, settings.topics.rule, settings.types)
    return (
        plan.with_conflicts(_find_incompatible(plan, target, target_content)),
        source_content,
        target_content,
    )


def _find_incompatible(
    plan: SchemaPlan, target: RegistryClient, content: RegistryContent
) -> dict[tuple[str, int], str]:
    """Return why the target's registry would refuse schemas, by target subject and source id.

    Only the first new version of a subject can be asked for: the next ones depend on it.
    """
    reasons: dict[tuple[str, int], str] = {}
    # Its level is part of the plan: today's says nothing.
    asked = {level.subject for level in plan.compatibility}
    for change in plan.changes:
        subject = content.subjects.get(change.target_subject)
        if change.target_subject in asked or subject is None or not subject.versions:
            continue
        asked.add(change.target_subject)
        level = subject.compatibility or content.compatibility
        if level == "NONE":
            # Apicurio would still answer that another record is not compatible.
            continue
        schema = _with_references(change, plan)
        if schema is not None and not target.is_compatible(change.target_subject, schema):
            reasons[change.target_subject, change.source.id] = (
                f"it is not compatible with the latest version of the subject on the target "
                f"(compatibility {level})"
            )
    return reasons


def _with_references(planned: PlannedSchema, plan: SchemaPlan) -> Schema | None:
    """Return a schema that refers to versions on the target; None if one is not there yet."""
    places = {
        (schema.source.subject, schema.source.version): schema
        for schema in plan.schemas
        if schema.action is SchemaAction.PRESENT
    }
    references = []
    for reference in planned.source.schema.references:
        place = places.get((reference.subject, reference.version))
        if place is None or place.target_version is None:
            return None
        references.append(
            SchemaReference(reference.name, place.target_subject, place.target_version)
        )
    return replace(planned.source.schema, references=tuple(references))


def _verify(
    planned: PlannedSchema,
    target: RegistryClient,
    source_content: RegistryContent,
    target_content: RegistryContent,
    equal: dict[tuple[str, int], SchemaVersion],
) -> tuple[VerifiedSchema, SchemaVersion | None]:
    version = planned.source
    if planned.action is SchemaAction.PRESENT:
        assert planned.target_id is not None and planned.target_version is not None
        counterpart = SchemaVersion(
            planned.target_subject, planned.target_version, planned.target_id, version.schema
        )
    else:
        # The registry may take another text for the same schema.
        places = [
            equal.get((reference.subject, reference.version))
            for reference in version.schema.references
        ]
        references = tuple(
            SchemaReference(reference.name, place.subject, place.version)
            for reference, place in zip(version.schema.references, places, strict=True)
            if place is not None
        )
        same = None
        if len(references) == len(places):
            schema = replace(version.schema, references=references)
            same = target.find(planned.target_subject, schema)
        if same is None:
            reason = planned.reason or "it is not registered"
            return VerifiedSchema(planned, SchemaAgreement.MISSING, reason=reason), None
        return VerifiedSchema(planned, SchemaAgreement.EQUAL, same.id), same
    by_id = target.schema(counterpart.id)
    if by_id is None or not is_same_schema(version.schema, source_content, by_id, target_content):
        reason = (
            f"id {counterpart.id} names another schema"
            if by_id
            else f"id {counterpart.id} is unknown"
        )
        return VerifiedSchema(
            planned, SchemaAgreement.DIFFERENT, counterpart.id, reason
        ), counterpart
    return VerifiedSchema(planned, SchemaAgreement.EQUAL, counterpart.id), counterpart
