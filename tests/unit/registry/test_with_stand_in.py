"""What Apicurio Registry lacks: ids kept in mode ``IMPORT``, GUIDs, Protobuf in binary form.

These run against stand-ins of Confluent's registry (``registry_stand_in.py``).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.engine.schemas.ids import (
    SchemaId,
    SchemaIdForm,
    SchemaPart,
    SchemaRule,
    find_schema_ids,
)
from k2ktui.engine.schemas.model import Schema
from k2ktui.engine.schemas.topics import SchemaTopics
from k2ktui.engine.topics import TopicMapping, TopicSelection
from k2ktui.errors import Refused
from k2ktui.log.record import TimestampType, record_at
from k2ktui.log.records import make_records
from k2ktui.log.schema_id_batches import UnresolvedSchemas, map_records
from k2ktui.registry.client import RegistryClient
from k2ktui.registry.id_lookup import has_schema, read_schema
from k2ktui.registry.mapper import SchemaMapper, SchemaMapperSettings
from k2ktui.registry.settings import RegistrySettings
from tests.brokers.registry.test_schemas_command import Pipeline, part
from tests.support.clusters.kafka import Got
from tests.support.clusters.registries import avro_record, call, register
from tests.support.clusters.registry_stand_in import RegistryStandIn, StandIns, two_stand_ins
from tests.support.records.protobuf_files import Shop
from tests.support.records.schemas import ProtobufWriter, objects, protobuf_reader

pytest.importorskip("authlib")

TOPIC = "pay"


@pytest.fixture
def pair() -> Iterator[StandIns]:
    """A source and a target, whose ids begin with 1 and 50."""
    with two_stand_ins() as pair:
        yield pair


def test_ids_and_versions_are_kept_in_mode_import(pair: StandIns, tmp_path: Path) -> None:
    register(pair.source, "other", avro_record("Other", "a"))
    pipeline = Pipeline(tmp_path, pair, TOPIC)
    ids = [pipeline.register("-value", avro_record("Pay", *fields)) for fields in ("a", "ab")]
    pair.target.modes[f"dr.{TOPIC}-value"] = "IMPORT"
    planned = pipeline.rows("plan")
    assert part(planned, "action") == dict.fromkeys(("-value 1", "-value 2"), "import")
    applied = pipeline.rows("apply", "--yes")
    assert [row["target_id"] for row in applied.values()] == ids == [2, 3]
    assert pair.target.subjects == {f"dr.{TOPIC}-value": {1: 2, 2: 3}}
    assert part(pipeline.rows("verify"), "outcome") == dict.fromkeys(planned, "equal")


def test_an_id_of_another_schema_is_a_conflict_before_the_start(
    pair: StandIns, tmp_path: Path
) -> None:
    pipeline = Pipeline(tmp_path, pair, TOPIC)
    pipeline.register("-value", avro_record("Pay", "a"))
    pair.target.next_id = 1
    register(pair.target, "other", avro_record("Other", "a"))
    pair.target.modes[f"dr.{TOPIC}-value"] = "IMPORT"
    planned = pipeline.rows("plan", code=1)
    assert part(planned, "action") == {"-value 1": "conflict"}
    assert planned["-value 1"]["reason"] == "id 1 belongs to another schema on the target"
    assert list(pair.target.subjects) == ["other"]


def test_bytes_of_a_key_that_look_like_the_id_of_a_value_are_unknown(pair: StandIns) -> None:
    """Kafka's serializer for long writes the number 20,000,000 as 00 00 00 00 01 31 2d 00."""
    key = (20_000_000).to_bytes(8, "big")
    (schema_id,) = find_schema_ids(SchemaPart.KEY, key)
    assert schema_id == SchemaId(SchemaIdForm.PREFIX, 1)
    assert register(pair.source, "customers-value", avro_record("Customer", "a")) == 1
    with SchemaMapper(settings_of(pair)) as mapper:
        for topic in ("customers", "orders"):
            assert mapper.map_id(topic, SchemaPart.KEY, schema_id) is None
        assert not pair.target.schemas
        # In a header, it is an id of a serializer.
        header = SchemaId(SchemaIdForm.ID_HEADER, 1)
        assert mapper.map_id("orders", SchemaPart.KEY, header) == 50
        assert mapper.map_id("orders", SchemaPart.VALUE, schema_id) == 50


@pytest.mark.parametrize(
    ("subjects", "renamed"),
    [
        (["a-value", "Pay"], "Pay"),  # naming by record
        (["a-value", "a-Pay"], "dr.a-Pay"),  # by topic and record
        (["a-value", "common.avsc"], "common.avsc"),
        (["a-value", "a-key"], "dr.a-key"),  # copied to another topic
        (["a-value", "pay"], "dr.pay"),  # Apicurio's simple strategy
    ],
)
def test_a_key_has_an_id_of_any_subject_but_those_of_values(
    pair: StandIns, subjects: list[str], renamed: str
) -> None:
    for subject in subjects:
        assert register(pair.source, subject, avro_record("Pay", "a")) == 1
    with SchemaMapper(settings_of(pair)) as mapper:
        assert mapper.map_id(TOPIC, SchemaPart.KEY, SchemaId(SchemaIdForm.PREFIX, 1)) == 50
    assert list(pair.target.subjects) == [renamed]


@pytest.mark.parametrize("form", [SchemaIdForm.PREFIX, SchemaIdForm.LONG_PREFIX])
def test_global_ids_of_apicurio_in_keys_and_values(pair: StandIns, form: SchemaIdForm) -> None:
    """Each side by its own property: Apicurio's serializers write them in 4 bytes, too."""
    schema = avro_record("Pay", "a")
    assert register(pair.source, f"{TOPIC}-value", avro_record("Other", "a")) == 1
    assert register(pair.source, f"{TOPIC}-value", schema) == 2
    assert register(pair.target, f"dr.{TOPIC}-value", schema) == 50
    pair.source.global_ids = {1: (f"{TOPIC}-value", 2), 2: (f"{TOPIC}-value", 1)}
    pair.target.global_ids = {9: (f"dr.{TOPIC}-value", 1)}
    schema_id = SchemaId(form, 1)
    source = RegistrySettings("source", (pair.source.apicurio_url,), uses_global_id=True)
    target = RegistrySettings("target", (pair.target.apicurio_url,), uses_global_id=True)
    settings = replace(settings_of(pair), source=source, target=target, auto_register=False)
    with SchemaMapper(settings) as mapper:
        assert mapper.map_id(TOPIC, SchemaPart.VALUE, schema_id) == 9
        assert mapper.map_id(TOPIC, SchemaPart.VALUE, SchemaId(form, 3)) is None
        assert mapper.name_same_schema(schema_id, SchemaId(form, 9))
    with SchemaMapper(replace(settings, target=replace(target, uses_global_id=False))) as mapper:
        assert mapper.map_id(TOPIC, SchemaPart.VALUE, schema_id) == 50
    with RegistryClient(source) as client:
        assert read_schema(client, schema_id) == Schema("AVRO", schema)
        assert has_schema(client, schema_id) and not has_schema(client, SchemaId(form, 3))
    pair.target.global_ids = {2**31: (f"dr.{TOPIC}-value", 1)}
    with SchemaMapper(settings) as mapper:
        if form is SchemaIdForm.LONG_PREFIX:
            assert mapper.map_id(TOPIC, SchemaPart.VALUE, schema_id) == 2**31
            return
        with pytest.raises(
            Refused, match=r"the id 2147483648, which is too large for the form prefix"
        ):
            mapper.map_id(TOPIC, SchemaPart.VALUE, schema_id)


def guid(registry: RegistryStandIn, number: int) -> SchemaId:
    return SchemaId(SchemaIdForm.GUID_HEADER, uuid.UUID(registry.guid(number)).int)


def settings_of(pair: StandIns) -> SchemaMapperSettings:
    return SchemaMapperSettings(
        RegistrySettings("source", (pair.source.url,)),
        RegistrySettings("target", (pair.target.url,)),
        SchemaTopics(TopicSelection(".*"), TopicMapping("affix", prefix="dr.")),
        frozenset({"AVRO", "PROTOBUF"}),
        auto_register=True,
    )


@pytest.mark.parametrize("message", ["Order", "Refund", "Order.Refund"])
def test_indexes_of_protobuf_messages_stay(pair: StandIns, message: str) -> None:
    """First, later and nested messages of a file that imports another one; keys and values.

    Confluent's serializer for Python registers them in binary form. Apicurio Registry takes that,
    and cannot give it back to the deserializer.
    """
    shop = Shop()
    key, value = shop.message("Key"), shop.message(message)
    keys, values = (ProtobufWriter(pair.source, schema) for schema in (key, value))
    sent = [
        Got(
            0,
            n,
            keys(TOPIC, key(id=n), "key"),
            values(TOPIC, value(id=n, total=shop.money(cents=n, currency="EUR"))),
        )
        for n in range(5)
    ]
    records = make_records([(got.offset, 0, got.key, got.value) for got in sent])
    with pytest.raises(UnresolvedSchemas) as unknown:
        map_records(records, SchemaRule(), {})
    used = unknown.value.ids
    assert {part for part, _ in used} == set(SchemaPart)
    with SchemaMapper(settings_of(pair)) as mapper:
        known = {used_id: mapper.map_id(TOPIC, *used_id) for used_id in used}
    mapped = map_records(records, SchemaRule(), known).records
    rows = [record_at(mapped, row, TimestampType.CREATE) for row in range(len(mapped))]
    copies = [Got(0, row.offset, row.key, row.value) for row in rows]
    here = protobuf_reader(pair.source, TOPIC, key, value)
    there = protobuf_reader(pair.target, f"dr.{TOPIC}", key, value)
    assert objects(copies, there) == objects(sent, here)
    assert f"dr.{TOPIC}-value" in pair.target.subjects
    assert not {got.value for got in copies} & {got.value for got in sent}


def test_a_guid_becomes_that_of_the_target(pair: StandIns) -> None:
    schema = avro_record("Pay", "a")
    number = register(pair.source, f"{TOPIC}-value", schema)
    with SchemaMapper(settings_of(pair)) as mapper:
        mapped = mapper.map_id(TOPIC, SchemaPart.VALUE, guid(pair.source, number))
        assert mapped == guid(pair.target, 50).value
        assert mapper.map_id(TOPIC, SchemaPart.VALUE, guid(pair.target, 50)) is None
    there = call(pair.target, f"/schemas/guids/{uuid.UUID(int=mapped or 0)}")
    assert there["schema"] == schema
