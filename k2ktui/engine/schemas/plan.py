"""What schema mapping would register on the target's registry; nothing is registered here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum

from k2ktui.engine.schemas.model import (
    RegistryContent,
    Schema,
    SchemaVersion,
    Subject,
    canonical_text,
    is_same_schema,
    record_names,
)
from k2ktui.engine.schemas.subjects import SubjectNaming, TopicRules, map_subject

READ_ONLY_MODES = frozenset({"READONLY", "READONLY_OVERRIDE"})
IMPORT_MODE = "IMPORT"


class SchemaAction(StrEnum):
    """What ``schemas apply`` does with a schema."""

    PRESENT = "present"  # nothing: the target's subject has it
    REGISTER = "register"  # the target's registry chooses its id
    IMPORT = "import"  # keeps its id and version
    CONFLICT = "conflict"  # nothing: it cannot be registered


_CHANGES = (SchemaAction.REGISTER, SchemaAction.IMPORT)


@dataclass(frozen=True, slots=True)
class PlannedSchema:
    """One version of a source subject, and what becomes of it on the target.

    Attributes:
        source: the version in the source's registry.
        target_subject: the subject on the target.
        naming: how the subject was recognized.
        action: what to do.
        target_id: its id on the target; None if the target's registry will choose one.
        target_version: its version there; None if the target's registry will choose one.
        reason: why it is a conflict, or a remark; may be empty.
    """

    source: SchemaVersion
    target_subject: str
    naming: SubjectNaming
    action: SchemaAction
    target_id: int | None = None
    target_version: int | None = None
    reason: str = ""

    @property
    def keeps_id(self) -> bool:
        """Whether records keep the id of this schema."""
        return self.target_id == self.source.id


@dataclass(frozen=True, slots=True)
class PlannedCompatibility:
    """A compatibility level to set on a subject of the target that holds only copies.

    ``first`` sets it before the subject's versions are registered: only ``NONE``, which allows all
    of them. Other levels are set afterwards, since a history may break today's level; before only
    if the target's default refuses a version. ``last`` is false while the subject has versions on
    the source that are not registered yet: then it is set only for such a version.
    """

    subject: str
    level: str
    first: bool
    last: bool = True


@dataclass(frozen=True, slots=True)
class UnmappedSubject:
    """A subject of the source's registry that is not mapped, with the reason."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class SchemaPlan:
    """What would be registered, in order: a schema comes after those that it refers to."""

    schemas: tuple[PlannedSchema, ...] = ()
    compatibility: tuple[PlannedCompatibility, ...] = ()
    unmapped: tuple[UnmappedSubject, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def changes(self) -> tuple[PlannedSchema, ...]:
        """Schemas to register."""
        return tuple(schema for schema in self.schemas if schema.action in _CHANGES)

    @property
    def conflicts(self) -> tuple[PlannedSchema, ...]:
        """Schemas that cannot be registered."""
        return tuple(schema for schema in self.schemas if schema.action is SchemaAction.CONFLICT)

    def up_to(self, source: RegistryContent, version: SchemaVersion) -> SchemaPlan:
        """Return the part of the plan that a version needs, in the same order.

        That is the version, the earlier ones of its subject, and the same of all that these refer
        to.
        """
        needed: set[tuple[str, int]] = set()
        waiting = [version]
        while waiting:
            current = waiting.pop()
            needed.add((current.subject, current.version))
            waiting += _needed(source, current, needed)
        schemas = tuple(e for e in self.schemas if (e.source.subject, e.source.version) in needed)
        growing = {change.target_subject for change in self.changes if change not in schemas}
        levels = tuple(replace(e, last=e.subject not in growing) for e in self.compatibility)
        return replace(self, schemas=schemas, compatibility=levels)

    def with_conflicts(self, reasons: Mapping[tuple[str, int], str]) -> SchemaPlan:
        """Return the plan with conflicts that only the target's registry can find.

        Schemas that refer to one of them, directly or not, are in conflict, too.

        Args:
            reasons: why a schema cannot be registered, by target subject and source id.
        """
        schemas = list(self.schemas)
        conflicts = {
            (conflict.source.subject, conflict.source.version) for conflict in self.conflicts
        }
        for at, schema in enumerate(schemas):
            if schema.action not in _CHANGES:
                continue
            reason = reasons.get((schema.target_subject, schema.source.id)) or _find_blocking(
                schema.source.schema, conflicts
            )
            if reason:
                conflicts.add((schema.source.subject, schema.source.version))
                schemas[at] = replace(
                    schema,
                    action=SchemaAction.CONFLICT,
                    target_id=None,
                    target_version=None,
                    reason=reason,
                )
        return replace(self, schemas=tuple(schemas))


def find_mapped_subjects(
    source: RegistryContent, rules: TopicRules, types: Set[str]
) -> tuple[dict[str, tuple[str, SubjectNaming]], tuple[UnmappedSubject, ...]]:
    """Return the target name and naming of every mapped subject, references included.

    Args:
        source: the source's registry.
        rules: the topics that are copied.
        types: the schema types that are mapped.

    Returns:
        The mapped subjects by name, and those that are not mapped.
    """
    mapped: dict[str, tuple[str, SubjectNaming]] = {}
    unmapped = {}
    for subject in source.subjects.values():
        records = frozenset(
            name for version in subject.versions for name in record_names(version.schema)
        )
        mapped_subject = map_subject(subject.name, records, rules)
        other_types = sorted({version.schema.type for version in subject.versions} - types)
        if mapped_subject is None:
            unmapped[subject.name] = "no topic of the pipeline uses it"
        elif other_types:
            unmapped[subject.name] = (
                f"schemaMapping.supportedTypes does not include {', '.join(other_types)}"
            )
        else:
            mapped[subject.name] = (mapped_subject.target, mapped_subject.naming)
    waiting = list(mapped)
    while waiting:
        for version in source.subjects[waiting.pop()].versions:
            for reference in version.schema.references:
                name = reference.subject
                if name not in mapped and name in source.subjects:
                    mapped[name] = (name, SubjectNaming.REFERENCE)
                    unmapped.pop(name, None)
                    waiting.append(name)
    return mapped, tuple(UnmappedSubject(name, why) for name, why in sorted(unmapped.items()))


def plan_schemas(
    source: RegistryContent,
    target: RegistryContent,
    rules: TopicRules,
    types: Set[str],
) -> SchemaPlan:
    """Plan what to register on the target.

    Args:
        source: the source's registry, references included.
        target: the target's registry: at least the subjects that the plan names, and under ``ids``
            the schemas that have an id of the source.
        rules: the topics that are copied.
        types: the schema types that are mapped.
    """
    mapped, unmapped = find_mapped_subjects(source, rules, types)
    plan = plan_mapped(source, target, mapped)
    remarks = tuple(_remarks(source, target, mapped))
    return replace(plan, unmapped=unmapped, remarks=remarks)


def plan_mapped(
    source: RegistryContent,
    target: RegistryContent,
    mapped: Mapping[str, tuple[str, SubjectNaming]],
) -> SchemaPlan:
    """Plan what to register of subjects whose names on the target are known.

    Args:
        source: the versions to register, of the source's registry, references included.
        target: the target's registry, as for :func:`plan_schemas`.
        mapped: target name and naming of every subject of ``source``.
    """
    planner = _Planner(source, target, mapped)
    for version in _in_order(source, mapped):
        planner.add(version)
    return SchemaPlan(tuple(planner.schemas), tuple(_compatibility(source, target, planner)))


@dataclass
class _Planner:
    source: RegistryContent
    target: RegistryContent
    mapped: Mapping[str, tuple[str, SubjectNaming]]
    schemas: list[PlannedSchema] = field(default_factory=list)
    # Subjects and versions of the source.
    conflicts: set[tuple[str, int]] = field(default_factory=set)
    # Versions on the target by the text of their schema.
    by_text: dict[tuple[str, str], list[SchemaVersion]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for version in self.target.versions():
            key = (version.schema.type, canonical_text(version.schema))
            self.by_text.setdefault(key, []).append(version)

    def add(self, version: SchemaVersion) -> None:
        name, naming = self.mapped[version.subject]
        subject = self.target.subjects.get(name) or Subject(name, mode=self.target.mode)
        planned = PlannedSchema(version, name, naming, SchemaAction.REGISTER)
        self.schemas.append(self._decide(planned, subject))
        if self.schemas[-1].action is SchemaAction.CONFLICT:
            self.conflicts.add((version.subject, version.version))

    def _decide(self, planned: PlannedSchema, subject: Subject) -> PlannedSchema:
        schema = planned.source.schema
        existing = [
            version
            for version in subject.versions
            if is_same_schema(schema, self.source, version.schema, self.target)
        ]
        if existing:
            # Of several equal versions, the one whose id or number is the same, if there is one.
            best = min(
                existing,
                key=lambda version: (
                    version.id != planned.source.id,
                    version.version != planned.source.version,
                    version.version,
                ),
            )
            return replace(
                planned,
                action=SchemaAction.PRESENT,
                target_id=best.id,
                target_version=best.version,
            )
        reason = self._find_conflict(planned, subject)
        if reason:
            return replace(planned, action=SchemaAction.CONFLICT, reason=reason)
        if subject.mode == IMPORT_MODE:
            return replace(
                planned,
                action=SchemaAction.IMPORT,
                target_id=planned.source.id,
                target_version=planned.source.version,
            )
        return replace(planned, target_id=self._known_id(schema))

    def _find_conflict(self, planned: PlannedSchema, subject: Subject) -> str:
        version, schema = planned.source, planned.source.schema
        missing = [
            reference for reference in schema.references if self.source.find(reference) is None
        ]
        if missing:
            return (
                f"it refers to version {missing[0].version} of {missing[0].subject}, which the "
                "source's registry does not have"
            )
        if schema.type not in self.target.types:
            return f"the target's registry has no schema type {schema.type}"
        if subject.mode in READ_ONLY_MODES:
            return f"the subject on the target is read-only (mode {subject.mode})"
        blocking = _find_blocking(schema, self.conflicts)
        if blocking:
            return blocking
        if subject.mode != IMPORT_MODE:
            return ""
        taken = self.target.ids.get(version.id)
        if taken is not None and not is_same_schema(schema, self.source, taken, self.target):
            return f"id {version.id} belongs to another schema on the target"
        if subject.version(version.version) is not None:
            return f"version {version.version} of the subject on the target is another schema"
        return ""

    def _known_id(self, schema: Schema) -> int | None:
        """Return the id that the target's registry already gives to a schema; None if unknown."""
        same = (
            version.id
            for version in self.by_text.get((schema.type, canonical_text(schema)), ())
            if is_same_schema(schema, self.source, version.schema, self.target)
        )
        return next(same, None)


def _find_blocking(schema: Schema, conflicts: Set[tuple[str, int]]) -> str:
    """Return the conflict of a schema that refers to one in conflict; "" if it does not.

    ``conflicts`` are subjects and versions of the source.
    """
    for reference in schema.references:
        if (reference.subject, reference.version) in conflicts:
            return f"it refers to {reference.subject}, which is in conflict"
    return ""


def _in_order(source: RegistryContent, mapped: Iterable[str]) -> Iterator[SchemaVersion]:
    """Yield the versions of subjects, each after those that it refers to and its predecessors."""
    done: set[tuple[str, int]] = set()
    for name in sorted(mapped):
        for version in source.subjects[name].versions:
            # An explicit stack: a long chain of references must not exceed Python's.
            waiting = [version]
            while waiting:
                current = waiting[-1]
                done_now = (current.subject, current.version)
                needed = [] if done_now in done else _needed(source, current, done)
                on_stack = {(version.subject, version.version) for version in waiting}
                needed = [
                    version
                    for version in needed
                    if (version.subject, version.version) not in on_stack
                ]
                if needed:
                    waiting.append(needed[0])
                    continue
                waiting.pop()
                if done_now not in done:
                    done.add(done_now)
                    yield current


def _needed(
    source: RegistryContent, version: SchemaVersion, done: Set[tuple[str, int]]
) -> list[SchemaVersion]:
    """Return what must be registered before a version: references and earlier versions."""
    references = [source.find(reference) for reference in version.schema.references]
    earlier = [
        other
        for other in source.subjects[version.subject].versions
        if other.version < version.version
    ]
    return [
        version
        for version in (*earlier, *references)
        if version is not None and (version.subject, version.version) not in done
    ]


def _compatibility(
    source: RegistryContent, target: RegistryContent, planner: _Planner
) -> Iterator[PlannedCompatibility]:
    """Yield the levels of subjects that hold nothing on the target but copies, if anything.

    An interrupted ``apply`` may have registered versions without the level.
    """
    copies = {(schema.target_subject, schema.target_version) for schema in planner.schemas}
    for name, (target_name, _) in sorted(planner.mapped.items()):
        level = source.subjects[name].compatibility
        existing = target.subjects.get(target_name) or Subject(target_name)
        is_copy = all((target_name, version.version) in copies for version in existing.versions)
        if level and level != target.compatibility and is_copy and not existing.compatibility:
            yield PlannedCompatibility(target_name, level, first=level == "NONE")


def _remarks(
    source: RegistryContent, target: RegistryContent, mapped: Mapping[str, tuple[str, object]]
) -> Iterator[str]:
    if source.compatibility != target.compatibility:
        yield (
            f"the default compatibility level is {source.compatibility} on the source and "
            f"{target.compatibility} on the target"
        )
    for name, (target_name, _) in sorted(mapped.items()):
        existing = target.subjects.get(target_name)
        if existing is None or not existing.versions:
            continue
        own_level = source.subjects[name].compatibility
        on_source = own_level or source.compatibility
        on_target = existing.compatibility or target.compatibility
        if on_source != on_target and (own_level or existing.compatibility):
            yield f"{target_name}: compatibility is {on_target}, and {on_source} on the source"
