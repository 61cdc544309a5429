"""Avro and Protobuf with schemas of files: what SQL sees, and what the target gets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.proof.test_transform_faults import origin_of
from tests.spark.transforms.test_transform_avro import (
    PAYMENT,
    RULE,
    is_large,
    masked,
    payments,
    with_garbage,
    write_schema,
)
from tests.spark.transforms.test_transform_protobuf import SOURCE, Order, order, write_descriptors
from tests.support.clusters.kafka import Got, Out
from tests.support.commands.cli import k2ktui_json
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.cases import Case, Cases
from tests.unit.transforms.test_avro_codec import RECORD, VALUE, logical, written

pytestmark = pytest.mark.slow
pytest.importorskip("pyarrow")  # of the extra ``transform``
pytest.importorskip("fastavro")  # of the extra ``avro``

LETTERS: dict[str, Any] = {
    "decode": {"key": "string", **RULE["decode"]},
    "set": {"key": "upper(key)", "value.state": "if(value.id = 7, 'OLD', value.state)"},
    "onError": "deadLetter",
}
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
#: A schema with a field of every type, and a value of it.
WIDE = {**RECORD, "fields": [*RECORD["fields"], *PAYMENT["fields"][3:], *_MORE]}
WIDE_VALUE = written(WIDE, VALUE | _MORE_VALUES)
TYPES: dict[str, Any] = {
    "decode": {
        "key": {"avro": {"schemaFile": "key.avsc"}},
        "value": {"avro": {"schemaFile": "wide.avsc"}},
    },
    "filter": "value.tags['b'] = 1 AND year(value.at) = 2026 AND value.list[1].x = 2.5",
    "encode": {"key": "string"},
    "set": {"key": "key + 1"},
}
MESSAGES: dict[str, Any] = {
    "decode": {"value": {"protobuf": SOURCE}},
    "filter": "value.id > 3",
    "set": {"value.item": "upper(value.item)", "value.count": "value.count + size(value.tags)"},
    "onError": "deadLetter",
}


def lettered() -> list[Out]:
    """Return payments of which two cannot be decoded, and one cannot be encoded."""
    records = with_garbage()
    records[12] = Out(records[12].value, b"\xff", 0)
    return records


def messages() -> list[Out]:
    records = [Out(order(n).SerializeToString(), b"k%d" % n, n % 2) for n in range(60)]
    records[7] = Out(b"\xff", b"bad", 1)
    records[8] = Out(order(8).SerializeToString() + b"\x48\x01", b"newer", 0)
    return [*records, Out(None, b"deleted", 1)]


CASES = {
    "masked": Case([*payments(200), Out(None, b"deleted", 1)], RULE),
    "letters": Case(lettered(), LETTERS),
    "types": Case([Out(WIDE_VALUE, b"\x0e")], TYPES, partitions=1),
    "messages": Case(messages(), MESSAGES),
}


@pytest.fixture(scope="module")
def copied(
    clusters: tuple[KafkaNode, KafkaNode], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cases]:
    directory = tmp_path_factory.mktemp("files")
    write_schema(directory)
    (directory / "wide.avsc").write_text(json.dumps(WIDE))
    (directory / "key.avsc").write_text('"long"')
    write_descriptors(directory)
    cases = Cases(directory, *clusters, CASES, {"spark.slots": 1})
    try:
        print(cases.copy().tail())
        yield cases
    finally:
        cases.pipeline.close()


def test_groups_of_an_avro_topic_move_exactly(copied: Cases) -> None:
    topic, group = copied.topics["masked"], copied.group("masked")
    rows = {row["topic"]: row for row in k2ktui_json("explain", "-f", copied.file)["topics"]}
    file = f"{copied.pipeline.directory}/payment.avsc"
    assert f"decodes value (avro: {file}), filters" in rows[topic]["reason"]

    def is_copied(got: Got) -> bool:
        return got.value is not None and is_large(got)

    copied.prove("masked", value=masked, copied=is_copied)
    at = {(topic, 0): 60, (topic, 1): 61}
    commit_offsets(copied.source, group, at)
    copied.move_groups()
    assert [got.key for got in copied.unread("masked", group)] == [
        got.key
        for got in copied.sent("masked")
        if got.offset >= at[topic, got.partition] and is_copied(got)
    ]


def test_dead_letters_are_the_original_bytes(copied: Cases) -> None:
    """Of records that cannot be decoded, and of one that cannot be encoded."""
    records = lettered()
    letters = sorted(copied.letters("letters"), key=origin_of)
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
    assert len(copied.copies("letters")) == 17


def test_every_type_passes_through_spark(copied: Cases) -> None:
    (got,) = copied.copies("types")
    assert (got.key, got.value) == (b"8", WIDE_VALUE)


def test_messages_are_filtered_and_changed(copied: Cases) -> None:
    """Each record has its one copy, and those that cannot be decoded are dead letters."""

    def is_copied(got: Got) -> bool:
        if got.value is None or got.key in (b"bad", b"newer"):
            return False
        return bool(Order.FromString(got.value).id > 3)

    def changed(got: Got) -> bytes:
        order = Order.FromString(got.value)
        order.item = order.item.upper()
        if order.HasField("count"):
            order.count += len(order.tags)
        value: bytes = order.SerializeToString(deterministic=True)
        return value

    copied.prove("messages", value=changed, copied=is_copied)
    letters = sorted(copied.letters("messages"), key=origin_of)
    assert [got.key for got in letters] == [b"newer", b"bad"]
    cause = dict(letters[0].headers)["__k2k.error.cause"] or b""
    assert b"the value is not Protobuf of the schema (message shop.Order" in cause
