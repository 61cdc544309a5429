"""Plan, apply and verify the schemas that a pipeline's records need on the target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from k2ktui.engine.schemas.model import (
    RegistryContent,
    Schema,
    SchemaReference,
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
from k2ktui.registry.content import read_content, read_target
from k2ktui.registry.mapper import SchemaMapperSettings
from k2ktui.registry.registering import AppliedSchema, register_planned

_Place = tuple[str, int]  # a subject and a version


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


def read_schema_plan(settings: SchemaMapperSettings, *, deleted: bool = False) -> SchemaPlan:
    """Read both registries and plan what to register; nothing is changed.

    Args:
        settings: the registries and rules.
        deleted: include versions that were deleted on the source, but not for good.

    Raises:
        ConnectionFailed: a registry does not respond, or rejects the login.
    """
    with RegistryClient(settings.source) as source, RegistryClient(settings.target) as target:
        return _plan(settings, source, target, deleted)[0]


def apply_schema_plan(settings: SchemaMapperSettings, plan: SchemaPlan) -> list[AppliedSchema]:
    """Register what a plan names; what the target has already is left alone.

    A failure affects only schemas that refer to the failed one. If a registry does not respond, the
    rest is not tried.

    Returns:
        Every schema of the plan, in its order.
    """
    with RegistryClient(settings.source) as source, RegistryClient(settings.target) as target:
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
    with RegistryClient(settings.source) as source, RegistryClient(settings.target) as target:
        plan, source_content, target_content = _plan(settings, source, target, deleted)
        places: dict[_Place, _Place] = {}
        return [
            _verify(schema, target, source_content, target_content, places)
            for schema in plan.schemas
        ]


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
    places = {
        (planned.source.subject, planned.source.version): (planned.target_subject, number)
        for planned in plan.schemas
        if planned.action is SchemaAction.PRESENT and (number := planned.target_version)
    }
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
        schema = _refer_to(places, change.source.schema)
        if schema is not None and not target.is_compatible(change.target_subject, schema):
            reasons[change.target_subject, change.source.id] = (
                f"it is not compatible with the latest version of the subject on the target "
                f"(compatibility {level})"
            )
    return reasons


def _refer_to(places: Mapping[_Place, _Place], schema: Schema) -> Schema | None:
    """Return a schema that refers to versions on the target; None if one is not there."""
    pairs = [places.get((one.subject, one.version)) for one in schema.references]
    references = tuple(
        SchemaReference(reference.name, *pair)
        for reference, pair in zip(schema.references, pairs, strict=True)
        if pair is not None
    )
    return replace(schema, references=references) if len(references) == len(pairs) else None


def _verify(
    planned: PlannedSchema,
    target: RegistryClient,
    source_content: RegistryContent,
    target_content: RegistryContent,
    places: dict[_Place, _Place],
) -> VerifiedSchema:
    """Compare a schema with its counterpart, whose place is added to ``places``."""
    version = planned.source
    if planned.action is not SchemaAction.PRESENT:
        # The registry may take another text for the same schema.
        schema = _refer_to(places, version.schema)
        same = target.find(planned.target_subject, schema) if schema else None
        if same is None:
            reason = planned.reason or "it is not registered"
            return VerifiedSchema(planned, SchemaAgreement.MISSING, reason=reason)
        places[version.subject, version.version] = same.subject, same.version
        return VerifiedSchema(planned, SchemaAgreement.EQUAL, same.id)
    assert planned.target_id is not None and planned.target_version is not None
    places[version.subject, version.version] = planned.target_subject, planned.target_version
    by_id = target.schema(planned.target_id)
    if by_id is None:
        reason = f"id {planned.target_id} is unknown"
    elif is_same_schema(version.schema, source_content, by_id, target_content):
        return VerifiedSchema(planned, SchemaAgreement.EQUAL, planned.target_id)
    else:
        reason = f"id {planned.target_id} names another schema"
    return VerifiedSchema(planned, SchemaAgreement.DIFFERENT, planned.target_id, reason)
