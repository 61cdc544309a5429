"""What would be registered: names, order, kept ids, conflicts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.schemas.ids import SchemaPart
from k2ktui.engine.schemas.model import (
    RegistryContent,
    Schema,
    SchemaReference,
    SchemaVersion,
    Subject,
    is_same_schema,
    record_names,
)
from k2ktui.engine.schemas.plan import (
    PlannedCompatibility,
    PlannedSchema,
    SchemaAction,
    SchemaPlan,
    plan_schemas,
)
from k2ktui.engine.schemas.subjects import (
    MappedSubject,
    SubjectNaming,
    TopicRule,
    TopicRules,
    map_subject,
)

TYPES = frozenset({"AVRO", "JSON", "PROTOBUF"})
PAY = {"pay": TopicRule("dr.pay")}.get
PROTO = """
syntax = "proto3"; // message Wrong {
package com.acme;
/* message Wrong { } */
message Outer { string message = 1; message Inner { int32 x = 1; } enum Kind { A = 0; } }
message Last {}
"""


def avro(name: str, *fields: str, references: tuple[SchemaReference, ...] = ()) -> Schema:
    listed = [{"name": field, "type": "string"} for field in fields]
    text = json.dumps({"type": "record", "name": name, "namespace": "acme", "fields": listed})
    return Schema("AVRO", text, references)


def subject(name: str, *versions: tuple[int, Schema], **changes: str) -> Subject:
    made = [
        SchemaVersion(name, at + 1, schema, version)
        for at, (schema, version) in enumerate(versions)
    ]
    return replace(Subject(name, tuple(made)), **changes)  # type: ignore[arg-type]


def content(
    *subjects: Subject, mode: str = "READWRITE", level: str = "BACKWARD"
) -> RegistryContent:
    ids = {version.id: version.schema for subject in subjects for version in subject.versions}
    return RegistryContent({subject.name: subject for subject in subjects}, level, mode, TYPES, ids)


def plan(
    source: RegistryContent,
    target: RegistryContent | None = None,
    rules: TopicRules = PAY,
    types: frozenset[str] = TYPES,
) -> SchemaPlan:
    return plan_schemas(source, target or content(), rules, types)


def only(schema_plan: SchemaPlan) -> PlannedSchema:
    (schema,) = schema_plan.schemas
    return schema


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        (avro("Pay"), {"acme.Pay"}),
        (Schema("AVRO", '{"type": "record", "name": "Pay", "fields": []}'), {"Pay"}),
        (Schema("AVRO", '{"type": "enum", "name": "a.B", "namespace": "c"}'), {"a.B"}),
        (Schema("AVRO", '"string"'), set()),
        (Schema("AVRO", "not JSON"), set()),
        (Schema("JSON", '{"title": "Pay"}'), {"Pay"}),
        (Schema("JSON", "{}"), set()),
        (Schema("PROTOBUF", PROTO), {"com.acme.Outer", "com.acme.Outer.Inner", "com.acme.Last"}),
    ],
)
def test_names_of_records(schema: Schema, names: set[str]) -> None:
    assert record_names(schema) == names


@pytest.mark.parametrize(
    ("name", "target", "naming"),
    [
        ("pay-value", "dr.pay-value", SubjectNaming.TOPIC),
        ("pay-key", "dr.pay-key", SubjectNaming.TOPIC),
        ("pay", "dr.pay", SubjectNaming.TOPIC),
        ("pay-acme.Pay", "dr.pay-acme.Pay", SubjectNaming.TOPIC_RECORD),
        ("acme.Pay", "acme.Pay", SubjectNaming.RECORD),
        ("other-value", None, None),
        ("pay-x", None, None),
        ("pay-value-value", None, None),
    ],
)
def test_a_subject_is_recognized_by_its_name(
    name: str, target: str | None, naming: SubjectNaming | None
) -> None:
    mapped = map_subject(name, {"acme.Pay"}, PAY)
    assert mapped == (MappedSubject(target, naming) if target and naming else None)


def test_a_topic_name_that_contains_another_is_not_confused() -> None:
    topics = {"pay": TopicRule("a"), "pay-eu": TopicRule("b")}
    mapped = map_subject("pay-eu-value", {"eu-value"}, topics.get)
    assert mapped == MappedSubject("b-value", SubjectNaming.TOPIC)


def test_a_part_that_is_not_mapped_has_no_subject() -> None:
    only_values = {"pay": TopicRule("pay", frozenset({SchemaPart.VALUE}))}.get
    assert map_subject("pay-key", set(), only_values) is None
    assert map_subject("pay-value", set(), only_values) is not None
    nothing = {"pay": TopicRule("pay", frozenset())}.get
    assert map_subject("pay-acme.Pay", {"acme.Pay"}, nothing) is None
    assert map_subject("pay", set(), nothing) is None


def test_a_pattern_does_not_make_every_subject_a_topic() -> None:
    def anything(topic: str) -> TopicRule:
        return TopicRule(f"dr.{topic}", exact=False)

    assert map_subject("common.proto", {"acme.Common"}, anything) is None
    assert map_subject("-value", set(), anything) is None
    mapped = map_subject("any-value", set(), anything)
    assert mapped == MappedSubject("dr.any-value", SubjectNaming.TOPIC)


def test_a_new_schema_is_registered_under_the_mapped_topic() -> None:
    planned = only(plan(content(subject("pay-value", (4, avro("Pay", "a"))))))
    assert planned.action is SchemaAction.REGISTER and planned.target_subject == "dr.pay-value"
    assert planned.target_id is None and not planned.keeps_id


def test_a_schema_that_the_target_has_is_not_registered_again() -> None:
    """Formatting and the number of the version make no difference."""
    pay = avro("Pay", "a")
    spaced = replace(pay, text=json.dumps(json.loads(pay.text), indent=3))
    there = subject("dr.pay-value", (8, avro("Old")), (9, spaced))
    planned = only(plan(content(subject("pay-value", (4, pay))), content(there)))
    assert planned.action is SchemaAction.PRESENT
    assert (planned.target_id, planned.target_version) == (9, 2)


def test_an_id_that_the_target_gives_to_the_schema_elsewhere_is_known() -> None:
    pay = avro("Pay", "a")
    there = content(subject("elsewhere", (9, pay)))
    planned = only(plan(content(subject("pay-value", (4, pay))), there))
    assert planned.action is SchemaAction.REGISTER and planned.target_id == 9


def test_ids_are_kept_in_import_mode() -> None:
    source = content(subject("pay-value", (4, avro("Pay", "a"))))
    planned = only(plan(source, content(mode="IMPORT")))
    assert planned.action is SchemaAction.IMPORT and planned.keeps_id
    assert (planned.target_id, planned.target_version) == (4, 1)
    # A subject's own mode comes before the default.
    planned = only(plan(source, content(subject("dr.pay-value", mode="IMPORT"))))
    assert planned.action is SchemaAction.IMPORT


def test_what_is_in_the_way_of_an_import_is_a_conflict() -> None:
    source = content(subject("pay-value", (4, avro("Pay", "a"))))
    taken = content(subject("other", (4, avro("Other"))), mode="IMPORT")
    assert only(plan(source, taken)).reason == "id 4 belongs to another schema on the target"
    version = content(subject("dr.pay-value", (9, avro("Pay", "b")), mode="IMPORT"))
    schema_plan = plan(source, version)
    assert only(schema_plan).reason == "version 1 of the subject on the target is another schema"
    assert schema_plan.conflicts == schema_plan.schemas and not schema_plan.changes


def test_a_read_only_subject_is_a_conflict() -> None:
    source = content(subject("pay-value", (4, avro("Pay", "a"))))
    planned = only(plan(source, content(mode="READONLY")))
    assert "is read-only (mode READONLY)" in planned.reason
    there = subject("dr.pay-value", (9, avro("Pay", "a")), mode="READONLY")
    assert only(plan(source, content(there))).action is SchemaAction.PRESENT


def test_a_type_that_the_target_lacks_is_a_conflict() -> None:
    source = content(subject("pay-value", (4, Schema("YANG", "module x {}"))))
    schema_plan = plan(source, types=TYPES | {"YANG"})
    assert only(schema_plan).reason == "the target's registry has no schema type YANG"
    schema_plan = plan(source)
    assert not schema_plan.schemas
    assert "supportedTypes does not include YANG" in schema_plan.unmapped[0].reason


def test_references_come_first_and_follow_their_subjects() -> None:
    """A subject that only references name keeps its name, even if its own topic is not copied."""
    third = subject("z-common", (1, avro("Common")))
    second = subject(
        "money-value",
        (2, avro("Money", references=(SchemaReference("acme.Common", "z-common", 1),))),
    )
    first = subject(
        "pay-value", (3, avro("Pay", references=(SchemaReference("acme.Money", "money-value", 1),)))
    )
    schema_plan = plan(content(first, second, third, subject("unused", (9, avro("Unused")))))
    assert [(schema.target_subject, schema.naming) for schema in schema_plan.schemas] == [
        ("z-common", SubjectNaming.REFERENCE),
        ("money-value", SubjectNaming.REFERENCE),
        ("dr.pay-value", SubjectNaming.TOPIC),
    ]
    assert [unmapped.name for unmapped in schema_plan.unmapped] == ["unused"]


def test_a_schema_with_a_missing_or_conflicting_reference_is_a_conflict() -> None:
    to_money = (SchemaReference("acme.Money", "money", 1),)
    pay = subject("pay-value", (3, avro("Pay", references=to_money)))
    lacks = only(plan(content(pay)))
    assert "refers to version 1 of money, which the source's registry does not have" in lacks.reason
    money = subject("money", (2, avro("Money")))
    blocked = content(subject("money", mode="READONLY"))
    schema_plan = plan(content(pay, money), blocked)
    assert [schema.reason for schema in schema_plan.schemas] == [
        "the subject on the target is read-only (mode READONLY)",
        "it refers to money, which is in conflict",
    ]


def test_equal_texts_with_different_references_are_different_schemas() -> None:
    pay = avro("Pay", references=(SchemaReference("acme.Money", "money", 1),))
    ours = content(subject("money", (1, avro("Money", "a"))), subject("pay-value", (2, pay)))
    theirs = content(subject("money", (1, avro("Money", "b"))), subject("dr.pay-value", (2, pay)))
    assert not is_same_schema(pay, ours, pay, theirs)
    assert is_same_schema(pay, ours, pay, ours)
    assert [schema.action for schema in plan(ours, theirs).schemas] == [SchemaAction.REGISTER] * 2


def test_protobuf_is_compared_without_comments_and_blanks() -> None:
    one = Schema("PROTOBUF", PROTO)
    other = Schema("PROTOBUF", " ".join(PROTO.replace("// message Wrong {", "").split()))
    nothing = content()
    assert is_same_schema(one, nothing, other, nothing)
    changed = Schema("PROTOBUF", PROTO.replace("int32 x = 1", "int32 x = 2"))
    assert not is_same_schema(one, nothing, changed, nothing)


def test_a_new_subject_gets_the_compatibility_level_of_the_source() -> None:
    """NONE first, since it allows the history; other levels after it."""
    pay = (4, avro("Pay", "a"))
    source = content(
        subject("pay-key", pay, compatibility="NONE"),
        subject("pay-value", pay, compatibility="FULL"),
    )
    assert plan(source).compatibility == (
        PlannedCompatibility("dr.pay-key", "NONE", first=True),
        PlannedCompatibility("dr.pay-value", "FULL", first=False),
    )
    own = (7, avro("Own"))
    there = content(
        subject("dr.pay-key", pay, own), subject("dr.pay-value", pay, own), level="FULL"
    )
    schema_plan = plan(source, there)
    assert not schema_plan.compatibility
    assert schema_plan.remarks == (
        "the default compatibility level is BACKWARD on the source and FULL on the target",
        "dr.pay-key: compatibility is FULL, and NONE on the source",
    )


def test_the_level_of_an_interrupted_apply_is_set_later() -> None:
    """Not if the subject holds a schema of its own, or has a level."""
    first, second = (4, avro("Pay", "a")), (5, avro("Pay", "b"))
    source = content(subject("pay-value", first, second, compatibility="FULL"))
    half = subject("dr.pay-value", (9, first[1]))
    expected = (PlannedCompatibility("dr.pay-value", "FULL", first=False),)
    assert plan(source, content(half)).compatibility == expected
    assert not plan(source, content(replace(half, compatibility="FULL"))).compatibility
    other = subject("dr.pay-value", (9, first[1]), (10, avro("Own")))
    assert not plan(source, content(other)).compatibility


def test_what_only_the_registry_can_find_becomes_a_conflict() -> None:
    source = content(subject("pay-value", (4, avro("Pay", "a"))))
    schema_plan = plan(source).with_conflicts({("dr.pay-value", 4): "incompatible"})
    assert only(schema_plan).reason == "incompatible" and not schema_plan.changes
    same = plan(source).with_conflicts({("dr.pay-value", 5): "incompatible"})
    assert same == plan(source)


def test_what_refers_to_such_a_conflict_is_in_conflict_too() -> None:
    def refers_to(name: str) -> tuple[SchemaReference, ...]:
        return (SchemaReference(name, name, 1),)

    source = content(
        subject("common", (1, avro("Common"))),
        subject("money", (2, avro("Money", references=refers_to("common")))),
        subject("pay-value", (3, avro("Pay", references=refers_to("money")))),
        subject("pay-key", (4, avro("Key"))),
    )
    here = subject("money", (8, source.subjects["money"].versions[0].schema))
    common = subject("common", (7, source.subjects["common"].versions[0].schema))
    schema_plan = plan(source).with_conflicts({("common", 1): "incompatible"})
    assert {conflict.source.subject: conflict.reason for conflict in schema_plan.conflicts} == {
        "common": "incompatible",
        "money": "it refers to common, which is in conflict",
        "pay-value": "it refers to money, which is in conflict",
    }
    assert [change.source.subject for change in schema_plan.changes] == ["pay-key"]
    # What the target has already is no conflict, and nor is what refers to it.
    schema_plan = plan(source, content(common, here)).with_conflicts(
        {("common", 1): "incompatible"}
    )
    assert not schema_plan.conflicts


names = st.sampled_from(["pay-key", "pay-value", "acme.A", "acme.B", "common", "unused"])


@st.composite
def registries(draw: st.DrawFn) -> RegistryContent:
    """A registry in which every reference names a version that was registered before."""
    subjects: dict[str, list[SchemaVersion]] = {}
    for number in range(draw(st.integers(0, 8))):
        name = draw(names)
        earlier = [version for versions in subjects.values() for version in versions]
        chosen = draw(st.lists(st.sampled_from(earlier), max_size=2)) if earlier else []
        references = tuple(
            SchemaReference(f"r{at}", version.subject, version.version)
            for at, version in enumerate(chosen)
        )
        versions = subjects.setdefault(name, [])
        schema = avro(draw(st.sampled_from("AB")), f"f{number}", references=references)
        versions.append(SchemaVersion(name, len(versions) + 1, number + 1, schema))
    return content(*(Subject(name, tuple(subject)) for name, subject in subjects.items()))


@given(registries())
def test_registering_in_the_order_of_the_plan_always_works(source: RegistryContent) -> None:
    """References exist when they are needed, and a second plan finds nothing to do."""
    schema_plan = plan(source)
    ids = {schema.source.id for schema in schema_plan.schemas}
    assert len(ids) == len(schema_plan.schemas), "each version once"
    there: dict[str, list[SchemaVersion]] = {}
    places: dict[tuple[str, int], tuple[str, int]] = {}
    for planned in schema_plan.schemas:
        versions = there.setdefault(planned.target_subject, [])
        references = tuple(
            SchemaReference(one.name, *places[one.subject, one.version])
            for one in planned.source.schema.references
        )
        schema = replace(planned.source.schema, references=references)
        made = SchemaVersion(
            planned.target_subject, len(versions) + 1, 100 + planned.source.id, schema
        )
        versions.append(made)
        places[planned.source.subject, planned.source.version] = (made.subject, made.version)
    after = content(*(Subject(name, tuple(versions)) for name, versions in there.items()))
    again = plan(source, after)
    assert not again.changes and not again.conflicts
    assert all(schema.target_id == 100 + schema.source.id for schema in again.schemas)
