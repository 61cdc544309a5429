"""Plan, apply and verify the schemas that a pipeline's records need on the target."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum

from k2ktui.engine.schema_plan import (
    PlannedSchema,
    SchemaAction,
    SchemaPlan,
    find_mapped_subjects,
    plan_schemas,
)
from k2ktui.engine.schemas import (
    RegistryContent,
    Schema,
    SchemaReference,
    SchemaVersion,
    is_same_schema,
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
        plan, ours, theirs = _plan(settings, source, target, deleted)
        found: dict[tuple[str, int], SchemaVersion] = {}
        rows = []
        for each in plan.schemas:
            row, there = _verify(each, target, ours, theirs, found)
            rows.append(row)
            if there is not None:
                found[each.source.subject, each.source.version] = there
    return rows


def _plan(
    settings: SchemaMapperSettings, source: RegistryClient, target: RegistryClient, deleted: bool
) -> tuple[SchemaPlan, RegistryContent, RegistryContent]:
    ours = read_content(source, deleted=deleted, modes=False)
    mapped, _ = find_mapped_subjects(ours, settings.topics.rule, settings.types)
    names = {name for name, _ in mapped.values()}
    theirs = read_target(target, names, ours)
    plan = plan_schemas(ours, theirs, settings.topics.rule, settings.types)
    return plan.with_conflicts(_find_incompatible(plan, target, theirs)), ours, theirs


def _find_incompatible(
    plan: SchemaPlan, target: RegistryClient, theirs: RegistryContent
) -> dict[tuple[str, int], str]:
    """Return why the target's registry would refuse schemas, by target subject and source id.

    Only the first new version of a subject can be asked for: the next ones depend on it.
    """
    reasons: dict[tuple[str, int], str] = {}
    # Its level is part of the plan: today's says nothing.
    asked = {each.subject for each in plan.compatibility}
    for each in plan.changes:
        there = theirs.subjects.get(each.target_subject)
        if each.target_subject in asked or there is None or not there.versions:
            continue
        asked.add(each.target_subject)
        level = there.compatibility or theirs.compatibility
        if level == "NONE":
            # Apicurio would still answer that another record is not compatible.
            continue
        schema = _with_references(each, plan)
        if schema is not None and not target.is_compatible(each.target_subject, schema):
            reasons[each.target_subject, each.source.id] = (
                f"it is not compatible with the latest version of the subject on the target "
                f"(compatibility {level})"
            )
    return reasons


def _with_references(planned: PlannedSchema, plan: SchemaPlan) -> Schema | None:
    """Return a schema that refers to versions on the target; None if one is not there yet."""
    places = {
        (each.source.subject, each.source.version): each
        for each in plan.schemas
        if each.action is SchemaAction.PRESENT
    }
    references = []
    for each in planned.source.schema.references:
        there = places.get((each.subject, each.version))
        if there is None or there.target_version is None:
            return None
        references.append(SchemaReference(each.name, there.target_subject, there.target_version))
    return replace(planned.source.schema, references=tuple(references))


def _verify(
    planned: PlannedSchema,
    target: RegistryClient,
    ours: RegistryContent,
    theirs: RegistryContent,
    found: dict[tuple[str, int], SchemaVersion],
) -> tuple[VerifiedSchema, SchemaVersion | None]:
    version = planned.source
    if planned.action is SchemaAction.PRESENT:
        assert planned.target_id is not None and planned.target_version is not None
        there = SchemaVersion(
            planned.target_subject, planned.target_version, planned.target_id, version.schema
        )
    else:
        # The registry may take another text for the same schema.
        places = [found.get((each.subject, each.version)) for each in version.schema.references]
        references = tuple(
            SchemaReference(each.name, place.subject, place.version)
            for each, place in zip(version.schema.references, places, strict=True)
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
    by_id = target.schema(there.id)
    if by_id is None or not is_same_schema(version.schema, ours, by_id, theirs):
        reason = f"id {there.id} names another schema" if by_id else f"id {there.id} is unknown"
        return VerifiedSchema(planned, SchemaAgreement.DIFFERENT, there.id, reason), there
    return VerifiedSchema(planned, SchemaAgreement.EQUAL, there.id), there
