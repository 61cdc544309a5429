"""Cases of the transcript: schemas, and what transforms do to records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.schemas.model import Schema, SchemaVersion
from k2ktui.engine.schemas.plan import (
    PlannedCompatibility,
    PlannedSchema,
    SchemaAction,
    SchemaPlan,
    UnmappedSubject,
)
from k2ktui.engine.schemas.subjects import SubjectNaming
from k2ktui.errors import ConnectionFailed, NotInstalled, Refused
from k2ktui.log.record import KafkaRecord
from k2ktui.registry.operations import SchemaAgreement, VerifiedSchema
from k2ktui.registry.registering import AppliedSchema, SchemaOutcome
from k2ktui.replication.preview_records import Preview, PreviewOutcome, PreviewRow
from k2ktui.replication.transform_preview import InferredSchema
from tests.support.commands.transcript import Typed, typed
from tests.unit.golden.cases.common import NO_SOURCE, Cases, protected

REGISTRIES = """
features: {schemaMapping: enabled}
source: {registry: {config: {schema.registry.url: "http://src:8081"}}}
target: {registry: {config: {schema.registry.url: "http://dst:8081"}}}
"""
NO_REGISTRY = ConnectionFailed(
    "the schema registry of the target (http://dst:8081) does not answer",
    unchanged="Nothing was changed.",
    hint="Check its URL.",
)


def planned(number: int, action: SchemaAction, reason: str = "", **where: Any) -> PlannedSchema:
    """A version of a subject, and what becomes of it."""
    version = SchemaVersion(f"topic-{number}-value", 1, 100 + number, Schema("AVRO", '"string"'))
    return PlannedSchema(
        version, version.subject, SubjectNaming.TOPIC, action, where.get("id"), 1, reason
    )


PRESENT = planned(1, SchemaAction.PRESENT, id=101)
NEW = planned(2, SchemaAction.REGISTER)
KEPT = planned(3, SchemaAction.IMPORT, id=103)
CLASH = planned(4, SchemaAction.CONFLICT, "id 104 is another schema on the target")
PLAN = SchemaPlan(
    (CLASH, NEW, KEPT, PRESENT),
    (PlannedCompatibility("topic-2-value", "FULL", False),),
    tuple(UnmappedSubject(f"other-{number}", "no topic has it") for number in range(7)),
    ("the target's registry is in mode READWRITE",),
)
READ, WRITE = "k2ktui.cli.schemas.read_schema_plan", "k2ktui.cli.schemas.apply_schema_plan"


def registries(folder: Path) -> None:
    """Write a file that names both registries."""
    (folder / "registries.yaml").write_text(REGISTRIES)


def schemas_plan(folder: Path) -> list[Typed]:
    """Everything that there is, nothing; a registry that does not answer; none configured."""
    registries(folder)
    plan = "schemas plan -f orders.yaml -f registries.yaml"
    return [
        typed(plan, {READ: PLAN}),
        typed(f"{plan} --json", {READ: PLAN}),
        typed(plan, {READ: SchemaPlan((PRESENT,))}),
        typed(plan, {READ: SchemaPlan()}),
        typed(plan, {READ: NO_REGISTRY}),
        typed("schemas plan -f orders.yaml"),
        typed("schemas plan"),
    ]


def schemas_apply(folder: Path) -> list[Typed]:
    """Registered, in part, not confirmed; nothing to register."""
    registries(folder)
    apply = "schemas apply -f orders.yaml -f registries.yaml"
    rows = [
        AppliedSchema(NEW, SchemaOutcome.REGISTERED, 7, 1),
        AppliedSchema(KEPT, SchemaOutcome.FAILED, None, None, "incompatible with version 1"),
        AppliedSchema(CLASH, SchemaOutcome.UNTRIED),
        AppliedSchema(PRESENT, SchemaOutcome.PRESENT, 101, 1),
    ]
    some = {READ: PLAN, WRITE: rows}
    good = {READ: SchemaPlan((NEW,)), WRITE: rows[:1]}
    bad = {READ: SchemaPlan((KEPT,)), WRITE: rows[1:2]}
    return [
        typed(apply, some, keys="orders\n"),
        typed(apply, some, keys="no\n"),
        typed(apply, some),
        typed(f"{apply} --yes --json", some),
        typed(f"{apply} --yes", good),
        typed(f"{apply} --yes", bad),
        typed(f"{apply} --yes", {READ: SchemaPlan((PRESENT,))}),
        typed(f"{apply} --yes --json", {READ: SchemaPlan((CLASH,))}),
        *protected(folder, "schemas apply -f registries.yaml --yes", some),
        typed("schemas apply"),
    ]


def schemas_verify(folder: Path) -> list[Typed]:
    """Equal, different, missing; all equal; none."""
    registries(folder)
    verify, read = "schemas verify -f orders.yaml -f registries.yaml", "k2ktui.cli.schemas"
    rows = [
        VerifiedSchema(PRESENT, SchemaAgreement.EQUAL, 101),
        VerifiedSchema(KEPT, SchemaAgreement.DIFFERENT, 103, "field x has another type"),
        VerifiedSchema(NEW, SchemaAgreement.MISSING, None, "the subject does not exist"),
    ]
    return [
        typed(verify, {f"{read}.verify_schemas": rows}),
        typed(f"{verify} --json", {f"{read}.verify_schemas": rows}),
        typed(verify, {f"{read}.verify_schemas": rows[:1]}),
        typed(verify, {f"{read}.verify_schemas": []}),
        typed(verify, {f"{read}.verify_schemas": NO_REGISTRY}),
        typed("schemas verify"),
    ]


def record(offset: int, key: bytes | None, value: bytes | None, *headers: Any) -> KafkaRecord:
    """A record of the topic."""
    return KafkaRecord(offset, key, value, tuple(headers), 1_795_262_400_000 + offset)


AT = SourcePartition("payments", 0)
BEFORE = record(7, b"k7", b'{"card":"4111","amount":12}', ("trace", b"1"))
ROWS = (
    PreviewRow(AT, BEFORE, record(7, b"k7", b'{"amount":12}'), PreviewOutcome.COPIED,
               further=(record(7, b"k7", b'{"part":2}'),), target="payments-2"),
    PreviewRow(AT, record(8, None, b"\xff\xfe"), None, PreviewOutcome.DEAD_LETTER, "decode"),
    PreviewRow(AT, record(9, b"k9", None), None, PreviewOutcome.LEFT_OUT, "where"),
)  # fmt: skip
NEEDS = "k2ktui.cli.transform.require_transform_packages"
NO_PACKAGES = NotInstalled(
    "k2ktui transform preview needs packages that are not installed: pandas",
    unchanged="Nothing was started or stopped.",
    hint="Install them.",
)


def transform_preview(_: Path) -> list[Typed]:
    """Each outcome, masked; no records; no rule; packages that are missing."""
    read = "k2ktui.cli.transform.preview_transform"
    show = "transform preview -f orders.yaml --topic payments"
    shown = Preview("payments", "payments", "select amount; where amount > 0", ROWS)
    given = {NEEDS: None, read: shown}
    return [
        typed(show, given),
        typed(f"{show} --json", given),
        typed(f"{show} --mask", given),
        typed(f"{show} --mask --json", given),
        typed(show, {NEEDS: None, read: Preview("payments", "payments", "", ())}),
        typed(show, {NEEDS: None}),
        typed(show, {NEEDS: None, read: NO_SOURCE}),
        typed(show, {NEEDS: NO_PACKAGES}),
        typed(f"{show} --limit 0"),
        typed("transform preview -f orders.yaml"),
    ]


def transform_schema(_: Path) -> list[Typed]:
    """Of values and keys, with ids; none that is JSON; packages that are missing."""
    read = "k2ktui.cli.transform.infer_schema"
    show = "transform schema -f orders.yaml --topic payments"
    sample = ((AT, BEFORE), (AT, record(8, b'{"id":1}', b'{"card":"4112"}')))
    inferred = {NEEDS: None, read: InferredSchema("card STRING, amount BIGINT", sample)}
    with_ids = {NEEDS: None, read: InferredSchema("id BIGINT", sample[1:], True)}
    none = Refused(
        "none of 2 values of payments is a JSON object",
        unchanged="Nothing was written.",
        hint="Read more with --limit, or write the schema by hand.",
    )
    return [
        typed(show, inferred),
        typed(f"{show} --json", inferred),
        typed(f"{show} --mask", inferred),
        typed(f"{show} --key", with_ids),
        typed(f"{show} --key --json", with_ids),
        typed(show, {NEEDS: None, read: none}),
        typed(show, {NEEDS: NO_PACKAGES}),
        typed("transform schema -f orders.yaml"),
    ]


CASES: Mapping[str, Cases] = {
    "schemas apply": schemas_apply,
    "schemas plan": schemas_plan,
    "schemas verify": schemas_verify,
    "transform preview": transform_preview,
    "transform schema": transform_schema,
}
