"""Ids of the source's registry become ids of the target's: two real registries that disagree."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from k2ktui.engine.schemas.ids import SchemaId, SchemaIdForm, SchemaPart
from k2ktui.engine.schemas.topics import SchemaTopics
from k2ktui.engine.topics import TopicMapping, TopicSelection
from k2ktui.errors import ConfigError, ConnectionFailed
from k2ktui.registry.mapper import SchemaMapper, SchemaMapperSettings
from k2ktui.registry.registering import SchemaNotRegistered
from k2ktui.registry.settings import RegistrySettings
from tests.support.clusters.kafka import TIMEOUT, unique_name
from tests.support.clusters.registries import Registries, avro_record, call, own_ids, register
from tests.support.clusters.registry_front import gate_before

pytestmark = pytest.mark.slow
pytest.importorskip("authlib")

VALUE = SchemaPart.VALUE
SAME = SchemaTopics(TopicSelection(".*"), TopicMapping())


@pytest.fixture
def settings(registries: Registries) -> SchemaMapperSettings:
    return SchemaMapperSettings(
        RegistrySettings("source", (registries.source.url,)),
        RegistrySettings("target", (registries.target.url,)),
        SchemaTopics(TopicSelection(".*"), TopicMapping("affix", prefix="dr.")),
        frozenset({"AVRO", "JSON", "PROTOBUF"}),
        auto_register=True,
    )


@contextmanager
def mapping(settings: SchemaMapperSettings, **changes: Any) -> Iterator[SchemaMapper]:
    # As a Spark task gets them.
    with SchemaMapper(pickle.loads(pickle.dumps(replace(settings, **changes)))) as mapper:
        yield mapper


def prefix(number: int) -> SchemaId:
    return SchemaId(SchemaIdForm.PREFIX, number)


def fresh_record() -> str:
    return avro_record(unique_name("Pay").replace("-", "_"), "a")


def test_a_schema_is_registered_under_the_mapped_topic_with_another_id(
    registries: Registries, settings: SchemaMapperSettings
) -> None:
    topic, schema = unique_name("pay"), fresh_record()
    number = register(registries.source, f"{topic}-value", schema)
    with mapping(settings) as mapper:
        there = mapper.map_id(topic, VALUE, prefix(number))
        assert there is not None and there != number
        registered = call(registries.target, f"/schemas/ids/{there}")
        assert json.loads(registered["schema"]) == json.loads(schema)
        assert call(registries.target, f"/subjects/dr.{topic}-value/versions") == [1]
        # A version that is registered while it runs.
        newer = avro_record(json.loads(schema)["name"], "a", "b")
        second = mapper.map_id(
            topic, VALUE, prefix(register(registries.source, f"{topic}-value", newer))
        )
        assert second not in (None, there)
        assert call(registries.target, f"/subjects/dr.{topic}-value/versions") == [1, 2]


def test_nothing_is_registered_without_consent(
    registries: Registries, settings: SchemaMapperSettings
) -> None:
    topic, schema = unique_name("pay"), fresh_record()
    number = register(registries.source, f"{topic}-value", schema)
    with mapping(settings, auto_register=False) as mapper:
        with pytest.raises(SchemaNotRegistered, match=r"is not registered as dr\.pay") as refused:
            mapper.map_id(topic, VALUE, prefix(number))
        assert "k2ktui schemas apply" in refused.value.hint
        assert f"dr.{topic}-value" not in call(registries.target, "/subjects")
        # As soon as it is registered, it is found; reordered keys are the same schema.
        other = json.dumps(dict(reversed(json.loads(schema).items())), indent=2)
        there = register(registries.target, f"dr.{topic}-value", other)
        assert mapper.map_id(topic, VALUE, prefix(number)) == there


def test_record_and_topic_record_names(
    registries: Registries, settings: SchemaMapperSettings
) -> None:
    topic, schema = unique_name("pay"), fresh_record()
    name = json.loads(schema)["name"]
    number = register(registries.source, name, schema)
    with mapping(settings) as mapper:
        there = mapper.map_id(topic, VALUE, prefix(number))
    assert call(registries.target, f"/subjects/{name}/versions/1")["id"] == there
    register(registries.source, f"{topic}-{name}", schema)
    with mapping(settings) as mapper:
        assert mapper.map_id(topic, VALUE, prefix(number)) == there
    assert call(registries.target, f"/subjects/dr.{topic}-{name}/versions/1")["id"] == there


def test_a_subject_of_another_copied_topic_follows_that_topic(
    registries: Registries, settings: SchemaMapperSettings
) -> None:
    topic, schema = unique_name("pay"), fresh_record()
    number = register(registries.source, f"{topic}-value", schema)
    with mapping(settings) as mapper:
        assert mapper.map_id(unique_name("other"), VALUE, prefix(number))
    assert f"dr.{topic}-value" in call(registries.target, "/subjects")
    only = TopicSelection(None, ("x",))
    again = fresh_record()
    number = register(registries.source, f"{topic}-value", again)
    with mapping(settings, topics=SchemaTopics(only, TopicMapping())) as mapper:
        assert mapper.map_id("x", VALUE, prefix(number))
    assert f"{topic}-value" in call(registries.target, "/subjects"), "a topic that is not copied"


def test_references_are_registered_first(
    registries: Registries, settings: SchemaMapperSettings
) -> None:
    topic, common = unique_name("pay"), unique_name("common")
    record = fresh_record()
    name = json.loads(record)["name"]
    # The target has another first version: the reference gets another number there.
    register(registries.target, common, avro_record("First", unique_name("a").replace("-", "_")))
    register(registries.source, common, record)
    fields = [{"name": "pay", "type": name}]
    text = json.dumps({"type": "record", "name": "Order", "fields": fields})
    reference = {"name": name, "subject": common, "version": 1}
    number = register(registries.source, f"{topic}-value", text, references=[reference])
    with mapping(settings) as mapper:
        there = mapper.map_id(topic, VALUE, prefix(number))
    registered = call(registries.target, f"/schemas/ids/{there}")
    assert registered["references"] == [{**reference, "version": 2}]
    with mapping(settings, auto_register=False) as mapper:
        assert mapper.map_id(topic, VALUE, prefix(number)) == there


@pytest.mark.parametrize("kind", ["JSON", "PROTOBUF"])
def test_other_types(registries: Registries, settings: SchemaMapperSettings, kind: str) -> None:
    topic, title = unique_name("pay"), unique_name("T").replace("-", "")
    text = {
        "JSON": json.dumps({"title": title, "type": "object", "properties": {}}),
        "PROTOBUF": f'syntax = "proto3"; package p;\nmessage {title} {{ string a = 1; }}\n',
    }[kind]
    number = register(registries.source, f"{topic}-value", text, kind)
    with mapping(settings) as mapper:
        there = mapper.map_id(topic, VALUE, prefix(number))
        assert call(registries.target, f"/schemas/ids/{there}")["schemaType"] == kind
    with mapping(settings, types=frozenset({"AVRO"})) as mapper:
        assert mapper.map_id(topic, VALUE, prefix(number)) is None, "supportedTypes"


def test_an_id_that_the_source_does_not_know_is_unknown_until_it_does(
    registries: Registries, settings: SchemaMapperSettings
) -> None:
    topic = unique_name("pay")
    last = register(registries.source, f"{topic}-value", fresh_record())
    with mapping(settings) as mapper:
        assert mapper.map_id(topic, VALUE, prefix(last + 1)) is None
        assert register(registries.source, f"{topic}-value", fresh_record()) == last + 1
        assert mapper.map_id(topic, VALUE, prefix(last + 1)) is not None
        guid = SchemaId(SchemaIdForm.GUID_HEADER, 5)
        assert mapper.map_id(topic, VALUE, guid) is None, "Apicurio has no GUIDs"


@pytest.mark.parametrize(
    "form",
    ["globalIdHeader", "contentIdHeader", "longPrefix", "longPrefix global", "prefix global"],
)
def test_ids_of_apicurio(registries: Registries, settings: SchemaMapperSettings, form: str) -> None:
    """Global ids differ from content ids as soon as two subjects have the same schema."""
    topic, schema = unique_name("pay"), fresh_record()
    register(registries.source, unique_name("twin"), schema)
    register(registries.source, f"{topic}-value", schema)
    is_global = "global" in form
    source = replace(settings.source, uses_global_id=is_global)
    target = replace(settings.target, uses_global_id=is_global)
    ids = own_ids(registries.source, f"{topic}-value")
    schema_id = SchemaId(
        SchemaIdForm(form.partition(" ")[0]),
        ids["globalId" if is_global else "contentId"],
    )
    with mapping(settings, source=source, target=target) as mapper:
        there = mapper.map_id(topic, VALUE, schema_id)
        assert mapper.map_id(topic, VALUE, replace(schema_id, value=2**40)) is None
    expected = own_ids(registries.target, f"dr.{topic}-value")
    assert there == expected["globalId" if is_global else "contentId"]


def test_global_ids_need_apicurios_address(settings: SchemaMapperSettings) -> None:
    other = replace(settings.source, urls=("http://127.0.0.1:1/api",))
    with (
        mapping(settings, source=other) as mapper,
        pytest.raises(ConfigError, match="records hold global ids of Apicurio"),
    ):
        mapper.map_id("t", VALUE, SchemaId(SchemaIdForm.GLOBAL_ID_HEADER, 1))


def test_threads_ask_once_and_mapped_ids_need_no_registry(
    registries: Registries, settings: SchemaMapperSettings
) -> None:
    topic = unique_name("pay")
    number = register(registries.source, f"{topic}-value", fresh_record())
    with gate_before(registries.source.url) as gate:
        source = replace(settings.source, urls=(gate.url,), max_retries=0)
        with mapping(settings, source=source) as mapper:
            barrier = threading.Barrier(4)

            def ask(_: int) -> int | None:
                barrier.wait(TIMEOUT)
                return mapper.map_id(topic, VALUE, prefix(number))

            with ThreadPoolExecutor(4) as pool:
                assert len(set(pool.map(ask, range(4)))) == 1
            assert (
                len(
                    [path for path, _ in gate.asked if path.endswith("/versions?offset=0&limit=-1")]
                )
                == 1
            )
            gate.needed = {"authorization": "none"}
            assert mapper.map_id(topic, VALUE, prefix(number)) is not None
            with pytest.raises(ConnectionFailed, match="does not allow this login"):
                mapper.map_id(topic, VALUE, prefix(number + 1))


def test_the_way_back_maps_back(registries: Registries, settings: SchemaMapperSettings) -> None:
    """Even without consent: the schema is on both sides."""
    topic = unique_name("pay")
    number = register(registries.source, f"{topic}-value", fresh_record())
    with mapping(settings, topics=SAME) as mapper:
        there = mapper.map_id(topic, VALUE, prefix(number))
    assert there is not None
    back = replace(
        settings,
        source=settings.target,
        target=settings.source,
        topics=SAME,
        auto_register=False,
    )
    with mapping(back) as mapper:
        assert mapper.map_id(topic, VALUE, prefix(there)) == number
