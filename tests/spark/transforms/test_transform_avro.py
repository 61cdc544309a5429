"""Avro in transforms: what SQL sees, what the target gets, and what is refused before the start."""

from __future__ import annotations

import hashlib
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from k2ktui.config.load import load
from k2ktui.config.model import SparkSettings
from k2ktui.config.transform_rules import TransformRule
from k2ktui.errors import ConfigError
from k2ktui.replication.spark.session import SparkRuntime
from k2ktui.replication.transforms.schemas import TransformSchemas
from tests.proof.test_transform_faults import origin_of, place_of
from tests.support.clusters.kafka import Got, Out, create_topic, produce, read_all
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets, committed
from tests.support.oracle.judge import Expected, prove
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.kills import copy_despite_kills
from tests.support.pipelines.pipeline import Pipeline
from tests.unit.transforms.test_avro_codec import RECORD, VALUE, logical, written

pytestmark = pytest.mark.slow
pytest.importorskip("pyarrow")  # of the extra ``transform``
fastavro = pytest.importorskip("fastavro")  # of the extra ``avro``

PAYMENT = {
    "type": "record",
    "name": "Payment",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "amount", "type": logical("bytes", "decimal", precision=9, scale=2)},
        {"name": "card", "type": ["null", "string"], "default": None},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "DONE"]}},
    ],
}
RULE: dict[str, Any] = {
    "decode": {"value": {"avro": {"schemaFile": "payment.avsc"}}},
    "filter": "value.amount > 2.5",
    "set": {"value.card": "sha2(value.card, 256)"},
}


def payment(number: int) -> dict[str, Any]:
    card = None if number % 3 == 0 else f"4000-{number}"
    return {
        "id": number,
        "amount": Decimal(number % 5).quantize(Decimal("0.01")),
        "card": card,
        "state": "NEW" if number % 2 else "DONE",
    }


def payments(count: int) -> list[Out]:
    return [Out(written(PAYMENT, payment(n)), b"k%d" % n, n % 2) for n in range(count)]


def read(encoded: bytes | None, schema: Any = PAYMENT) -> dict[str, Any]:
    parsed = fastavro.parse_schema(schema)
    payment: dict[str, Any] = fastavro.schemaless_reader(io.BytesIO(encoded or b""), parsed, None)
    return payment


def masked(sent: Got) -> bytes:
    payment = read(sent.value)
    if payment["card"] is not None:
        payment["card"] = hashlib.sha256(payment["card"].encode()).hexdigest()
    return written(PAYMENT, payment)


def is_large(sent: Got) -> bool:
    return bool(read(sent.value)["amount"] > 2)


@pytest.fixture
def avro_pipeline(make_pipeline: MakePipeline, tmp_path: Path) -> Pipeline:
    """A pipeline of one topic, with the file of the schema beside its own."""
    pipeline = make_pipeline([])
    pipeline.topics = [create_topic(pipeline.source, partitions=2)]
    (tmp_path / "payment.avsc").write_text(json.dumps(PAYMENT))
    pipeline.settings = {"replication.transform": [RULE]}
    return pipeline


def topic_of(pipeline: Pipeline) -> str:
    """Return the one topic of a pipeline."""
    assert not isinstance(pipeline.topics, str)
    (topic,) = pipeline.topics
    return topic


def test_groups_of_an_avro_topic_move_exactly(avro_pipeline: Pipeline) -> None:
    pipeline, topic = avro_pipeline, topic_of(avro_pipeline)
    group = f"{pipeline.name}-group"
    pipeline.settings = {**pipeline.settings, "groups.consumerGroups": [group]}
    produce(pipeline.source, topic, [*payments(200), Out(None, b"deleted", 1)])
    file = pipeline.write()
    (row,) = k2ktui_json("explain", "-f", file)["topics"]
    assert f"decodes value (avro: {pipeline.directory}/payment.avsc), filters" in row["reason"]
    pipeline.catch_up()
    expected = Expected(
        topic, value=masked, copied=lambda got: got.value is not None and is_large(got)
    )
    prove(pipeline.source, pipeline.target, pipeline.name, expected)

    at = {(topic, 0): 60, (topic, 1): 61}
    commit_offsets(pipeline.source, group, at)
    plan = file.with_suffix(".plan")
    k2ktui("plan", "-f", file, "-o", plan)
    k2ktui("apply", "-f", file, plan, "--yes")
    moved = committed(pipeline.target, group)
    for place, offset in at.items():
        rest = [g for g in read_all(pipeline.source, topic) if (topic, g.partition) == place]
        rest = [g for g in rest if g.offset >= offset and g.value is not None and is_large(g)]
        copies = [g for g in read_all(pipeline.target, topic) if (topic, g.partition) == place]
        unread = sorted((g.offset, g.key) for g in copies if g.offset >= moved[place])
        assert [key for _, key in unread] == [g.key for g in sorted(rest, key=lambda g: g.offset)]


def test_a_record_that_is_not_avro_stops_its_partition_with_its_offset(
    avro_pipeline: Pipeline,
) -> None:
    pipeline, topic = avro_pipeline, topic_of(avro_pipeline)
    records = payments(20)
    records[11] = Out(b"\x02", b"k11", 1)
    produce(pipeline.source, topic, records)
    run = pipeline.catch_up(code=1)
    (fault,) = [event["fault"] for event in run.events("stopped")]
    assert (fault["source"]["partition"], fault["offset"]) == (1, 5)
    assert "fails at the record at offset 5 (decode.value)" in fault["message"]


def test_dead_letters_are_the_original_bytes(avro_pipeline: Pipeline) -> None:
    """Of records that cannot be decoded, and of one that cannot be encoded."""
    pipeline, topic = avro_pipeline, topic_of(avro_pipeline)
    rule = {
        "decode": {"key": "string", **RULE["decode"]},
        "set": {"key": "upper(key)", "value.state": "if(value.id = 7, 'OLD', value.state)"},
        "onError": "deadLetter",
    }
    pipeline.settings = {"replication.transform": [rule]}
    records = payments(20)
    records[11] = Out(b"\x02", b"k11", 1)
    records[12] = Out(records[12].value, b"\xff", 0)
    produce(pipeline.source, topic, records)
    pipeline.catch_up()
    letters = sorted(read_all(pipeline.target, f"{topic}.dead-letter"), key=origin_of)
    assert [(got.key, got.value) for got in letters] == [
        (b"\xff", records[12].value),
        (b"k7", records[7].value),
        (b"k11", b"\x02"),
    ]
    steps = [dict(got.headers)["__k2k.error.step"] for got in letters]
    assert steps == [b"decode.key", b"encode.value", b"decode.value"]
    causes = [dict(got.headers)["__k2k.error.cause"] or b"" for got in letters]
    assert b"the value is not Avro of the schema" in causes[2]
    assert causes[1] == b"the value cannot be encoded"
    assert len(read_all(pipeline.target, topic)) == 17


def test_a_preview_shows_fields_and_masks_them(avro_pipeline: Pipeline) -> None:
    pipeline, topic = avro_pipeline, topic_of(avro_pipeline)
    produce(pipeline.source, topic, [payments(9)[8], Out(b"\x02", b"bad", 0)])
    options = ("-f", pipeline.write(), "--topic", topic)
    shown = k2ktui_json("transform", "preview", *options)["records"]
    before, after = (json.loads(shown[0][name]["value"]) for name in ("before", "after"))
    assert before == {"id": 8, "amount": "3.00", "card": "4000-8", "state": "DONE"}
    assert after == before | {"card": hashlib.sha256(b"4000-8").hexdigest()}
    assert (shown[1]["outcome"], shown[1]["step"]) == ("stops the partition", "decode.value")
    hidden = k2ktui_json("transform", "preview", "--mask", *options)["records"]
    assert json.loads(hidden[0]["before"]["value"])["card"] == "9999-9"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory = tmp_path_factory.mktemp("spark")
    file = directory / "p.yaml"
    file.write_text(
        'name: p\nsource: {kafka: {common: {bootstrap.servers: "s:1"}}}\n'
        'target: {kafka: {common: {bootstrap.servers: "t:1"}}}\n'
        'replication: [{source: {topic: ".*"}}, {sink: {topic: source}}]\n'
    )
    schemas = TransformSchemas(load([file]).config)
    runtime = SparkRuntime(SparkSettings(master="local[1]"), "avro", {}, {}, schemas=schemas)
    runtime.start()
    yield runtime
    runtime.stop()


ENCODED: list[tuple[dict[str, Any], str]] = [
    ({"drop": ["value.id"]}, "the schema has the field value.id without a default"),
    ({"set": {"value.more": "1"}}, "the column has the field value.more, and the schema does not"),
    ({"set": {"value.id": "'x'"}}, "value.id is STRING, and the schema wants BIGINT; cast it"),
    ({"set": {"value.id": "NULL"}}, "value.id is VOID, and the schema wants BIGINT"),
    ({"set": {"value.amount": "value.amount / 3"}}, "value.amount is DECIMAL"),
    ({"set": {"value": "1"}}, "value is INT, and the schema wants STRUCT<`id`: BIGINT"),
]


@pytest.mark.parametrize(("steps", "why"), ENCODED)
def test_what_does_not_fit_the_schema_is_refused_by_name(
    spark: SparkRuntime, tmp_path: Path, steps: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        check(spark, tmp_path, PAYMENT, steps)
    assert refused.value.message.startswith("replication.transform[0]: encode.value: ")
    assert why in refused.value.message


@pytest.mark.parametrize(
    "steps",
    [
        {"drop": ["value.card"]},
        {"set": {"value.id": "1", "value.card": "NULL", "value.amount": "value.amount * 2"}},
    ],
)
def test_what_fits_the_schema_is_accepted(
    spark: SparkRuntime, tmp_path: Path, steps: dict[str, Any]
) -> None:
    check(spark, tmp_path, PAYMENT, steps)


def test_an_unsupported_field_is_named(spark: SparkRuntime, tmp_path: Path) -> None:
    fields = [{"name": "either", "type": ["int", "string"]}]
    with pytest.raises(ConfigError, match=r"decode\.value: .* field either is a union of 2 types"):
        check(spark, tmp_path, {"type": "record", "name": "R", "fields": fields}, {})
    with pytest.raises(ConfigError, match=r"decode\.value: .*nosuch\.avsc cannot be read: No such"):
        check(spark, tmp_path, None, {})


def check(spark: SparkRuntime, directory: Path, schema: Any, steps: dict[str, Any]) -> None:
    file = directory / ("nosuch.avsc" if schema is None else "schema.avsc")
    if schema is not None:
        file.write_text(json.dumps(schema))
    how = {"decode": {"value": {"avro": {"schemaFile": str(file)}}}}
    transform = TransformRule.model_validate({**how, **steps}).transform
    assert transform is not None
    spark.check_transforms([("replication.transform[0]", transform)])


def test_every_type_passes_through_spark(avro_pipeline: Pipeline, tmp_path: Path) -> None:
    pipeline, topic = avro_pipeline, topic_of(avro_pipeline)
    wide = {**RECORD, "fields": [*RECORD["fields"], *PAYMENT["fields"][3:], *_MORE]}
    (tmp_path / "payment.avsc").write_text(json.dumps(wide))
    value = written(wide, VALUE | _MORE_VALUES)
    pipeline.settings = {
        "replication.transform": [
            {
                "decode": {"key": {"avro": {"schemaFile": "key.avsc"}}, **RULE["decode"]},
                "filter": "value.tags['b'] = 1 AND year(value.at) = 2026 AND value.list[1].x = 2.5",
                "encode": {"key": "string"},
                "set": {"key": "key + 1"},
            }
        ]
    }
    (tmp_path / "key.avsc").write_text('"long"')
    produce(pipeline.source, topic, [Out(value, b"\x0e")])
    pipeline.catch_up()
    (got,) = read_all(pipeline.target, topic)
    assert (got.key, got.value) == (b"8", value)


_MORE: list[dict[str, Any]] = [
    {
        "name": "list",
        "type": {
            "type": "array",
            "items": {
                "type": "record",
                "name": "I",
                "fields": [{"name": "x", "type": ["float", "null"]}],
            },
        },
    },
    {"name": "pin", "type": {"type": "fixed", "name": "Pin", "size": 2}},
    {"name": "yes", "type": "boolean"},
    {
        "name": "money",
        "type": {"name": "M", "size": 9, **logical("fixed", "decimal", precision=20, scale=3)},
    },
]
_MORE_VALUES = {
    "state": "NEW",
    "list": [{"x": None}, {"x": 2.5}],
    "pin": b"\0\xff",
    "yes": True,
    "money": Decimal("-0.001"),
}


@pytest.mark.proof
@pytest.mark.seeds(1)
def test_workers_killed_with_avro(
    pipeline: Pipeline, topics: dict[str, int], seed: int, tmp_path: Path
) -> None:
    """Values are Avro if their first byte happens to be their length; others are dead letters."""
    (tmp_path / "bytes.avsc").write_text('"bytes"')
    rule = {
        "decode": {"value": {"avro": {"schemaFile": "bytes.avsc"}}},
        "set": {"value": "concat(value, X'21')"},
        "onError": "deadLetter",
    }
    pipeline.settings = {"replication.transform": [rule]}
    pipeline.prefixes = (b"\x04", b"\x06", b"\x08")
    pipeline.mode = "shared"
    sent = copy_despite_kills(pipeline, topics, seed)

    def is_copied(got: Got) -> bool:
        return got.value is None or (got.value != b"" and got.value[0] == 2 * (len(got.value) - 1))

    def longer(got: Got) -> bytes | None:
        return got.value and bytes([got.value[0] + 2]) + got.value[1:] + b"!"

    expected = [Expected(topic, value=longer, copied=is_copied) for topic in topics]
    proof = prove(pipeline.source, pipeline.target, pipeline.name, *expected)
    assert proof.records >= sent // 10
    dead = 0
    for topic in topics:
        failed = [got for got in read_all(pipeline.source, topic) if not is_copied(got)]
        letters = read_all(pipeline.target, f"{topic}.dead-letter")
        assert sorted(map(origin_of, letters)) == sorted(map(place_of, failed))
        dead += len(letters)
    assert dead
