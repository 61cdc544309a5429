"""Avro in transforms: which results fit its schemas, and what is refused before the start."""

from __future__ import annotations

import hashlib
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from k2ktui.config.transforms import TransformRule
from k2ktui.errors import ConfigError
from k2ktui.replication.spark.session import SparkRuntime
from tests.support.clusters.kafka import Got, Out, create_topic
from tests.support.pipelines.fixtures import MakePipeline
from tests.support.pipelines.pipeline import Pipeline
from tests.unit.transforms.test_avro_codec import logical, written

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("session")]
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


def write_schema(directory: Path, schema: Any = PAYMENT) -> None:
    """Write the schema's file beside the one of a pipeline with RULE."""
    (directory / "payment.avsc").write_text(json.dumps(schema))


@pytest.fixture
def avro_pipeline(make_pipeline: MakePipeline, tmp_path: Path) -> Pipeline:
    """A pipeline of one topic, with the file of the schema beside its own."""
    pipeline = make_pipeline([])
    pipeline.topics = [create_topic(pipeline.source, partitions=2)]
    write_schema(tmp_path)
    pipeline.settings = {"replication.transform": [RULE]}
    return pipeline


def topic_of(pipeline: Pipeline) -> str:
    """Return the one topic of a pipeline."""
    assert not isinstance(pipeline.topics, str)
    (topic,) = pipeline.topics
    return topic


def with_garbage() -> list[Out]:
    """Return payments of which one, at offset 5 of partition 1, is not Avro."""
    records = payments(20)
    records[11] = Out(b"\x02", b"k11", 1)
    return records


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
