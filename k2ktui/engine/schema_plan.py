"""What schema mapping would register on the target's registry; nothing is registered here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from enum import StrEnum

from k2ktui.engine.schema_subjects import SubjectNaming, TopicRules, map_subject
from k2ktui.engine.schemas import (
    RegistryContent,
    Schema,
    SchemaVersion,
    Subject,
    canonical_text,
    is_same_schema,
    record_names,
)

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
        return tuple(each for each in self.schemas if each.action in _CHANGES)

    @property
    def conflicts(self) -> tuple[PlannedSchema, ...]:
        """Schemas that cannot be registered."""
        return tuple(each for each in self.schemas if each.action is SchemaAction.CONFLICT)

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
        growing = {each.target_subject for each in self.changes if each not in schemas}
        levels = tuple(replace(e, last=e.subject not in growing) for e in self.compatibility)
        return replace(self, schemas=schemas, compatibility=levels)

    def with_conflicts(self, reasons: Mapping[tuple[str, int], str]) -> SchemaPlan:
        """Return the plan with conflicts that only the target's registry can find.

        Schemas that refer to one of them, directly or not, are in conflict, too.

        Args:
            reasons: why a schema cannot be registered, by target subject and source id.
        """
        schemas = list(self.schemas)
        conflicts = {(each.source.subject, each.source.version) for each in self.conflicts}
        for at, each in enumerate(schemas):
            if each.action not in _CHANGES:
                continue
            reason = reasons.get((each.target_subject, each.source.id)) or _find_blocking(
                each.source.schema, conflicts
            )
            if reason:
                conflicts.add((each.source.subject, each.source.version))
                schemas[at] = replace(
                    each,
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
        records = frozenset(name for each in subject.versions for name in record_names(each.schema))
        found = map_subject(subject.name, records, rules)
        other_types = sorted({each.schema.type for each in subject.versions} - types)
        if found is None:
            unmapped[subject.name] = "no topic of the pipeline uses it"
        elif other_types:
            unmapped[subject.name] = (
                f"schemaMapping.supportedTypes does not include {', '.join(other_types)}"
            )
        else:
            mapped[subject.name] = (found.target, found.naming)
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
        for each in self.target.versions():
            key = (each.schema.type, canonical_text(each.schema))
            self.by_text.setdefault(key, []).append(each)

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
            each
            for each in subject.versions
            if is_same_schema(schema, self.source, each.schema, self.target)
        ]
        if existing:
            # Of several equal versions, the one whose id or number is the same, if there is one.
            best = min(
                existing,
                key=lambda each: (
                    each.id != planned.source.id,
                    each.version != planned.source.version,
                    each.version,
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
        missing = [each for each in schema.references if self.source.find(each) is None]
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
            each.id
            for each in self.by_text.get((schema.type, canonical_text(schema)), ())
            if is_same_schema(schema, self.source, each.schema, self.target)
        )
        return next(same, None)


def _find_blocking(schema: Schema, conflicts: Set[tuple[str, int]]) -> str:
    """Return the conflict of a schema that refers to one in conflict; "" if it does not.

    ``conflicts`` are subjects and versions of the source.
    """
    for each in schema.references:
        if (each.subject, each.version) in conflicts:
            return f"it refers to {each.subject}, which is in conflict"
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
                on_stack = {(each.subject, each.version) for each in waiting}
                needed = [each for each in needed if (each.subject, each.version) not in on_stack]
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
    references = [source.find(each) for each in version.schema.references]
    earlier = [
        each for each in source.subjects[version.subject].versions if each.version < version.version
    ]
    return [
        each
        for each in (*earlier, *references)
        if each is not None and (each.subject, each.version) not in done
    ]


def _compatibility(
    source: RegistryContent, target: RegistryContent, planner: _Planner
) -> Iterator[PlannedCompatibility]:
    """Yield the levels of subjects that hold nothing on the target but copies, if anything.

    An interrupted ``apply`` may have registered versions without the level.
    """
    copies = {(each.target_subject, each.target_version) for each in planner.schemas}
    for name, (target_name, _) in sorted(planner.mapped.items()):
        level = source.subjects[name].compatibility
        there = target.subjects.get(target_name) or Subject(target_name)
        is_copy = all((target_name, each.version) in copies for each in there.versions)
        if level and level != target.compatibility and is_copy and not there.compatibility:
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
        there = target.subjects.get(target_name)
        if there is None or not there.versions:
            continue
        ours = source.subjects[name].compatibility or source.compatibility
        theirs = there.compatibility or target.compatibility
        if ours != theirs and (source.subjects[name].compatibility or there.compatibility):
            yield f"{target_name}: compatibility is {theirs}, and {ours} on the source"
