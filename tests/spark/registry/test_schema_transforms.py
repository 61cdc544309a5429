"""Transforms of topics with schema ids: the ids are replaced where the transform leaves them."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from k2ktui.engine.schemas.ids import SchemaRule
from k2ktui.engine.schemas.topics import SchemaTopics
from k2ktui.engine.topics import TopicMapping, TopicSelection
from k2ktui.errors import K2kError
from k2ktui.kafka.wire.cluster import Loop
from k2ktui.log.batch import split_batches
from k2ktui.log.record import TimestampType, record_at
from k2ktui.log.records import Records, decode_records
from k2ktui.registry.mapper import SchemaMapper, SchemaMapperSettings
from k2ktui.registry.settings import RegistrySettings
from k2ktui.replication.copying.known_schemas import KnownSchemas, MapId
from k2ktui.replication.copying.schema_routing import RoutableRecords
from k2ktui.replication.copying.slot_task import FaultKind
from k2ktui.replication.topics.naming import target_names
from k2ktui.replication.transforms.schema_ids import TransformedIds
from tests.support.clusters.group_members import consume
from tests.support.clusters.kafka import Out, create_topic, produce, read_all, unique_name
from tests.support.clusters.registries import Registries as RealRegistries
from tests.support.clusters.registries import call
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets, committed
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.schema_pipeline import UNKNOWN_ID, mapping
from tests.support.records.schemas import KEY_SCHEMA, AvroWriter, avro_reader, objects, order_schema
from tests.unit.config.files import Files
from tests.unit.replication.test_schema_routing import Registries, avro, lap, log

REGISTRIES = """
features: {schemaMapping: enabled}
source: {registry: {config: {schema.registry.url: "http://s"}}}
target: {registry: {config: {schema.registry.url: "http://t"}}}
"""
_CHANGES = "may have schema ids, and the transform decodes or changes them"
_LETTERS = "schemaMapping.onUnknownSchema is deadLetter and replication.transform applies to it"


@pytest.mark.parametrize(
    ("transform", "mapping", "reason"),
    [
        ({"filter": "offset > 3", "set": {"headers.a": "topic"}}, {}, ""),
        ({"set": {"value": "key"}}, {"topics": [{"pattern": ".*", "value": "disabled"}]}, ""),
        ({"set": {"value": "key"}}, {}, _CHANGES),
        ({"decode": {"key": "string"}, "filter": "key > 'a'"}, {}, _CHANGES),
        ({"set": {"headers.__value_schema_id": "key"}}, {}, _CHANGES),
        (
            {"sql": "SELECT key AS key, value AS value, array() AS headers FROM records"},
            {},
            _CHANGES,
        ),
        ({"filter": "offset > 3"}, {"onUnknownSchema": "deadLetter"}, _LETTERS),
        ({"filter": "offset > 3", "onError": "deadLetter"}, {}, ""),
    ],
)
def test_ids_are_replaced_where_the_transform_leaves_them(
    tmp_path: Path, transform: dict[str, Any], mapping: dict[str, Any], reason: str
) -> None:
    more = {
        "schemaMapping": mapping,
        "replication": [
            {"source": {"topic": ["pay"]}},
            {"transform": [transform]},
            {"sink": {"topic": "source"}},
        ],
    }
    config = Files(tmp_path).over_minimal(REGISTRIES, json.dumps(more)).config
    if not reason:
        assert target_names(config, "pay") == ("pay",)
        return
    with pytest.raises(K2kError, match="topic pay is not copied: ") as refused:
        target_names(config, "pay")
    assert reason in refused.value.message


def test_a_topic_with_ids_has_one_target(tmp_path: Path) -> None:
    """An expression may choose the partition; subjects follow from the topic's name only."""
    files = Files(tmp_path)

    def targets(sink: dict[str, Any], mapping: dict[str, Any]) -> tuple[str, ...]:
        replication = [{"source": {"topic": ["pay"]}}, {"sink": sink}]
        more = {"replication": replication, "schemaMapping": mapping}
        return target_names(files.over_minimal(REGISTRIES, json.dumps(more)).config, "pay")

    chosen = {"topic": {"expression": "concat('a', '')", "topics": ["a", "b"]}}
    with pytest.raises(K2kError) as refused:
        targets(chosen, {})
    assert "its key and value may have schema ids" in refused.value.message
    assert "replication.sink.topic has an expression" in refused.value.message
    with pytest.raises(K2kError, match="its value may have schema ids"):
        targets(chosen, {"topics": [{"pattern": "pay", "key": "disabled"}]})
    partition = {"partition": {"expression": "offset % 2"}}
    assert targets(partition, {}) == ("pay",)
    assert targets({**partition, "topic": {"prefix": "dr."}}, {}) == ("dr.pay",)
    with pytest.raises(K2kError, match=r"sink\.partition has an expression: "):
        targets(partition, {"onUnknownSchema": "deadLetter"})


def test_partitions_stop_before_unknown_ids_and_without_registries() -> None:
    registries, loop = Registries(), Loop()
    (batch,) = split_batches(log([[(None, avro(1)), (avro(2), avro(99)), (None, avro(3))]], 0))
    try:
        reader = lap(loop, registries, []).reader
        known = KnownSchemas(lambda: registries.map_id)

        def replace(records: Records) -> RoutableRecords:
            ids = TransformedIds(loop, known, "p")
            replaced: RoutableRecords = loop.run(lambda: ids.replace(reader, records, SchemaRule()))
            return replaced

        registries.down = True
        with_ids = replace(decode_records(batch))
        assert with_ids.fault is not None and not len(with_ids.records)
        assert (with_ids.fault.kind, with_ids.fault.offset) == (FaultKind.UNAVAILABLE, 0)
        registries.down = False
        with_ids = replace(decode_records(batch))
        assert with_ids.fault is not None
        assert (with_ids.fault.kind, with_ids.fault.offset) == (FaultKind.SCHEMA, 1)
        (record,) = (record_at(with_ids.records, row, TimestampType.CREATE) for row in range(1))
        assert len(with_ids.records) == 1 and record.value == avro(101)
    finally:
        loop.close()


def test_a_silent_registry_holds_up_a_micro_batch_once() -> None:
    """It accepts connections and never answers; its client would give up after two minutes."""
    pytest.importorskip("authlib")
    loop = Loop()
    (batch,) = split_batches(log([[(None, avro(1))]], 0))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        settings = SchemaMapperSettings(
            RegistrySettings("source", (url,), max_retries=0),
            RegistrySettings("target", (url,), max_retries=0),
            SchemaTopics(TopicSelection(".*"), TopicMapping()),
            frozenset({"AVRO"}),
        )
        made: list[SchemaMapper] = []

        def make() -> MapId:
            made.append(SchemaMapper(settings))
            return made[-1].map_id

        try:
            ids = TransformedIds(loop, KnownSchemas(make), "p", limit_s=0.3)

            def replace() -> RoutableRecords:
                reader, records = lap(loop, Registries(), []).reader, decode_records(batch)
                replaced: RoutableRecords = loop.run(
                    lambda: ids.replace(reader, records, SchemaRule())
                )
                return replaced

            for _ in range(30):
                with_ids = replace()
                assert with_ids.fault is not None and with_ids.fault.kind is FaultKind.UNAVAILABLE
                assert "a schema registry has not answered for 0.3 s" in with_ids.fault.message
            silent.settimeout(60)  # on a busy machine, it connects later than in 0.3 s
            silent.accept()[0].close()
            silent.setblocking(False)
            with pytest.raises(BlockingIOError):
                silent.accept()  # the others did not ask
        finally:
            loop.close()
            for mapper in made:
                mapper.close()


@pytest.mark.slow
def test_a_filtered_topic_has_the_targets_ids(
    make_pipeline: MakePipeline, registries: RealRegistries
) -> None:
    """Groups move, contents verify; an id that is not known passes through."""
    pytest.importorskip("pyarrow")  # of the extra ``transform``
    pipeline = make_pipeline([])
    topic, group = create_topic(pipeline.source, partitions=2), unique_name("group")
    pipeline.topics = [topic]
    rule = {"filter": "offset % 2 = 0", "set": {"headers.at": "CAST(offset AS STRING)"}}
    pipeline.settings = mapping(
        registries, topics=[{"pattern": ".*", "key": "disabled"}], onUnknownSchema="passthrough"
    ) | {"replication.transform": [rule], "groups.consumerGroups": [group]}
    write = AvroWriter(registries.source, order_schema())
    sent = [Out(write(topic, {"id": n, "item": f"item {n}"}), b"k%d" % n, n % 2) for n in range(40)]
    # Of partition 0, offset 10 has an unknown id.
    sent[20] = Out(UNKNOWN_ID + b"data", b"k20", 0)
    produce(pipeline.source, topic, sent)
    run = pipeline.catch_up()
    (note,) = [e["text"] for e in run.events("note") if "schema mapping" in e["text"]]
    assert "1 record copied with an unknown schema id (onUnknownSchema: passthrough)" in note
    copies, source = read_all(pipeline.target, topic), read_all(pipeline.source, topic)
    kept = [got for got in source if got.offset % 2 == 0]
    known = [
        [got for got in side if got.value and not got.value.startswith(UNKNOWN_ID)]
        for side in (copies, kept)
    ]
    there, here = (
        avro_reader(registry, topic) for registry in (registries.target, registries.source)
    )
    assert objects(known[0], there) == objects(known[1], here)
    assert len(copies) == len(kept) == 20 and len(known[0]) == 19
    assert {got.headers[-1] for got in copies} == {("at", b"%d" % n) for n in range(0, 20, 2)}
    assert not {got.value for got in known[0]} & {got.value for got in source}

    at = {(topic, 0): 3, (topic, 1): 4}
    commit_offsets(pipeline.source, group, at)
    file = pipeline.write()
    plan = file.with_suffix(".plan")
    k2ktui("plan", "-f", file, "-o", plan)
    k2ktui("apply", "-f", file, plan, "--yes")
    moved = committed(pipeline.target, group)
    unread = [got.key for got in copies if got.offset >= moved[topic, got.partition]]
    assert sorted(unread, key=str) == sorted(
        (got.key for got in kept if got.offset >= at[topic, got.partition]), key=str
    )
    verified = k2ktui_json("verify", "-f", file, "--sample", "5")
    assert verified["positions"]["different"] == verified["records"]["different"] == 0, verified
    assert verified["records"]["same"] > 0


@pytest.mark.slow
def test_an_expression_chooses_the_partition_of_records_with_ids(
    make_pipeline: MakePipeline, registries: RealRegistries
) -> None:
    """A group that moves reads all records to the same objects, by the target's registry only."""
    pytest.importorskip("pyarrow")  # of the extra ``transform``
    pipeline = make_pipeline([])
    topic, group = create_topic(pipeline.source), unique_name("group")
    there = f"dr.{topic}"
    pipeline.topics = [topic]
    pipeline.settings = mapping(registries) | {
        "replication.sink.topic": {"prefix": "dr."},
        "replication.sink.partition": {"expression": "offset % 3"},
        "topicCreation.replication.common": {"partitions": 3},
        "groups.consumerGroups": [group],
    }
    keys = AvroWriter(registries.source, KEY_SCHEMA)
    versions = [AvroWriter(registries.source, order_schema(*more)) for more in ((), ("note",))]
    sent = [
        Out(versions[n % 2](topic, {"id": n, "item": f"item {n}"}), keys(topic, {"id": n}, "key"))
        for n in range(60)
    ]
    produce(pipeline.source, topic, sent)
    file = pipeline.write()
    (row,) = k2ktui_json("explain", "-f", file)["topics"]
    assert (row["target"], row["path"]) == (there, "record")
    pipeline.catch_up()
    assert set(call(registries.target, "/subjects")) >= {f"{there}-key", f"{there}-value"}

    here = consume(pipeline.source, group, [topic], until={(topic, 0): 25})[topic, 0]
    plan = file.with_suffix(".plan")
    k2ktui("plan", "-f", file, "-o", plan)
    k2ktui("apply", "-f", file, plan, "--yes")
    verified = k2ktui_json("verify", "-f", file, "--sample", "100")
    assert verified["positions"]["different"] == verified["records"]["different"] == 0, verified
    assert verified["positions"]["same"] == 3 and verified["records"]["same"] == 60
    rest = consume(pipeline.target, group, [there])
    source, target = avro_reader(registries.source, topic), avro_reader(registries.target, there)
    originals = read_all(pipeline.source, topic)
    assert len(here) == 25 and here == originals[:25]
    for partition in range(3):
        chosen = [got for got in originals[25:] if got.offset % 3 == partition]
        unrouted = rest[there, partition]
        assert [target(got) for got in unrouted] == [source(got) for got in chosen] and unrouted
        assert not {got.value for got in unrouted} & {got.value for got in chosen}
