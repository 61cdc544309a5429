"""Avro, JSON and Protobuf with schemas of registries: ids on the target are its registry's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from k2ktui.config.load import load
from k2ktui.config.transforms import TransformRule
from k2ktui.errors import K2kError
from k2ktui.replication.transforms.schemas import TransformSchemas
from k2ktui.runtime.node import KafkaNode
from tests.proof.test_transform_faults import origin_of
from tests.spark.transforms.test_transform_protobuf import (
    PROTO,
    SOURCE,
    Order,
    order,
    write_descriptors,
)
from tests.support.clusters.kafka import Got, Out, produce, unique_name
from tests.support.clusters.registries import HasUrl, Registries, call, register
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.pipelines.cases import COMPARE_TIMEOUT, Case, Cases
from tests.support.records.schemas import (
    AvroWriter,
    avro_reader,
    objects,
    order_schema,
    registry_client,
)

pytestmark = pytest.mark.slow
pytest.importorskip("pyarrow")  # of the extra ``transform``
pytest.importorskip("fastavro")  # of the extra ``avro``
pytest.importorskip("grpc_tools")  # of the extra ``protobuf-registry``

FIELDS = {"id": {"type": "integer"}, "item": {"type": "string"}}
SCHEMA = json.dumps({"title": "Order", "type": "object", "properties": FIELDS})
# Another schema for Apicurio, which no consumer has yet.
NEWER = json.dumps({"title": "Order", "type": "object", "properties": FIELDS, "required": ["id"]})
MONEY = 'syntax = "proto3"; package shop; message Money { int64 units = 1; }'
PRICED = """\
syntax = "proto3";
package shop;
import "money.proto";
import "google/protobuf/timestamp.proto";
message Other { string x = 1; }
message Priced { int64 id = 1; Money price = 2; google.protobuf.Timestamp at = 3; }
"""
#: What JSON orders are; the last is longer than what PyArrow parses.
ORDERS: list[dict[str, Any]] = [
    *({"id": n, "item": f"item {n}"} for n in range(5)),
    {"id": 5, "item": "\u00e9" * 600},
]
#: Of two versions of a schema.
VERSIONED: list[dict[str, Any]] = [
    {"id": n, "item": f"item {n}", **({"note": "x"} if n % 2 else {})} for n in range(10)
]
STEMS = ("latest", "version", "file", "subject", "json", "protobuf", "message")


def register_priced(registry: HasUrl, topic: str, text: str = PRICED) -> int:
    """Register PRICED with its import and return its id."""
    register(registry, f"{topic}-money", MONEY, "PROTOBUF")
    imported = {"name": "money.proto", "subject": f"{topic}-money", "version": 1}
    return register(registry, f"{topic}-value", text, "PROTOBUF", [imported])


def prefix(number: int) -> bytes:
    """Return what Confluent's serializers write before a payload."""
    return b"\0" + number.to_bytes(4, "big")


def framed(number: int, units: int) -> bytes:
    """Return a message of PRICED in bytes: id, price {units}, at {seconds: 5}."""
    return b"\x08%c\x12\x02\x08%c\x1a\x02\x08\5" % (number, units)


def context(topic: str, part: str) -> Any:
    from confluent_kafka.serialization import SerializationContext

    return SerializationContext(topic, part)


@dataclass(frozen=True)
class Copied:
    """All cases, copied by one run.

    Attributes:
        cases: their topics.
        registries: of the source and of the target.
        json: the records of ``json``.
        ids: by case, the id that its values have on the target; of keys for ``json-key``.
        report: of ``k2ktui compare``, by case.
    """

    cases: Cases
    registries: Registries
    json: list[Out]
    ids: Mapping[str, int]
    report: Mapping[str, Mapping[str, int]]


class Sending:
    """Registers the schemas of each case, and writes its records to its topic."""

    def __init__(self, cases: Cases, registries: Registries) -> None:
        self._cases, self._topics = cases, cases.topics
        self._source, self._target = registries.source, registries.target
        self.ids: dict[str, int] = {}

    def _send(self, stem: str, records: list[Out]) -> list[Out]:
        produce(self._cases.source, self._topics[stem], records)
        return records

    def avro(self) -> None:
        writers = [AvroWriter(self._source, order_schema(*more)) for more in ((), ("note",))]
        for stem in ("latest", "version"):
            topic = self._topics[stem]
            self._send(stem, [Out(writers[n % 2](topic, o)) for n, o in enumerate(VERSIONED)])
        for stem in ("file", "subject"):
            self._send(stem, [Out(b'{"id": 1, "item": "a"}'), Out(b'{"id": 2}')])
        register(self._target, f"{self._topics['subject']}-own", order_schema())

    def json(self) -> list[Out]:
        from confluent_kafka.schema_registry.json_schema import JSONSerializer

        topic = self._topics["json"]
        write = JSONSerializer(SCHEMA, registry_client(self._source.url))
        self.ids["json-key"] = register(self._target, f"{topic}-key", NEWER, "JSON")
        self.ids["json"] = register(self._target, f"{topic}-value", SCHEMA, "JSON")
        register(self._target, f"{topic}-value", NEWER, "JSON")
        key, value = context(topic, "key"), context(topic, "value")
        sent = [Out(write(order, value), write({"id": order["id"]}, key)) for order in ORDERS]
        assert (sent[1].value or b"")[:5] != prefix(self.ids["json"])
        plain = Out(b'{"id": 6}', b"plain")
        short, wide = Out(b"\0\0", None), Out(b"\0" * 8 + b'\1{"id": 7}', None)
        return self._send("json", [*sent, Out(None, sent[0].key), plain, short, wide])

    def protobuf(self) -> None:
        topic = self._topics["protobuf"]
        self.ids["protobuf"] = register(self._target, f"{topic}-value", PROTO, "PROTOBUF")
        newer = PROTO.replace("count = 4;", "count = 4; string more = 5;")
        newest = register(self._target, f"{topic}-value", newer, "PROTOBUF")
        assert newest != self.ids["protobuf"]
        # Id 7, the second message.
        values = [prefix(7) + b"\x02\x02" + order(n).SerializeToString() for n in range(5)]
        self._send("protobuf", [Out(value) for value in values])

    def message(self) -> None:
        topic = self._topics["message"]
        number = register_priced(self._source, topic)
        self.ids["message"] = register_priced(self._target, topic)
        assert number != self.ids["message"]
        second = prefix(number) + b"\x02\x02"
        self._send("message", [Out(second + framed(n, n)) for n in range(1, 5)])
        first = prefix(number) + b"\0"
        self._send("message", [Out(framed(3, 3)), Out(first + framed(3, 3))])


def rules(topics: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the transform of each case; ``file`` and ``subject`` write Avro from JSON."""
    subjects = {stem: f"{topic}-value" for stem, topic in topics.items()}
    plain = {"decode": {"value": {"json": {"schema": "id INT, item STRING"}}}, "onError": "skip"}
    own = {stem: f"{topics[stem]}-own" for stem in ("file", "subject")}
    with_ids = {"json": {"schema": "id BIGINT, item STRING", "schemaId": "enabled"}}
    return {
        "latest": {"decode": {"value": "avro"}, "set": {"value.item": "upper(value.item)"}},
        "version": {
            "decode": {"value": {"avro": {"subject": subjects["version"], "version": 1}}},
            "encode": {"value": "json"},
        },
        "file": {
            **plain,
            "encode": {"value": {"avro": {"schemaFile": "order.avsc", "subject": own["file"]}}},
        },
        "subject": {
            **plain,
            "encode": {"value": {"avro": {"subject": own["subject"], "version": 1}}},
        },
        "json": {
            "decode": {"key": with_ids, "value": with_ids},
            "filter": "value.id > 0",
            "set": {"value.item": "upper(value.item)", "headers.n": "string(10 / (value.id - 3))"},
            "encode": {
                "key": {"json": {"subject": f"{topics['json']}-key"}},
                "value": {"json": {"subject": subjects["json"], "version": 1}},
            },
            "onError": "deadLetter",
        },
        "protobuf": {
            "decode": {"value": {"protobuf": {**SOURCE, "schemaId": "enabled"}}},
            "set": {"value.id": "value.id + 1"},
            "encode": {"value": {"protobuf": {"subject": subjects["protobuf"], "version": 1}}},
        },
        "message": {
            "decode": {
                "value": {"protobuf": {"subject": subjects["message"], "message": "shop.Priced"}}
            },
            "filter": "value.price.units > 1 AND value.at.seconds = 5",
            "set": {"value.price.units": "value.price.units * 2"},
            "encode": {"value": {"protobuf": {"subject": subjects["message"]}}},
            "onError": "skip",
        },
    }


@pytest.fixture(scope="module")
def copied(
    clusters: tuple[KafkaNode, KafkaNode],
    running_registries: Registries,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Copied]:
    registries, directory = running_registries.start(), tmp_path_factory.mktemp("registered")
    write_descriptors(directory)
    (directory / "order.avsc").write_text(order_schema())
    mapping = {"autoRegister": "disabled"}
    settings = {
        "spark.slots": 1,
        "schemaMapping": mapping,
        "source.registry.config": {"schema.registry.url": registries.source.url},
        "target.registry.config": {"schema.registry.url": registries.target.url},
    }
    cases = Cases(
        directory,
        *clusters,
        {stem: Case(partitions=1) for stem in STEMS},
        settings,
        suffix=".copy",
    )
    sending = Sending(cases, registries)
    sending.avro()
    sent = sending.json()
    sending.protobuf()
    sending.message()
    try:
        file = cases.write_rules(rules(cases.topics))
        refused = k2ktui("start", "-f", file, "--until-caught-up", code=None)
        assert "is not registered as" in refused.stderr
        assert "Fix: Register it there, or set schemaMapping.autoRegister" in refused.stderr
        assert f"{cases.copy_of('latest')}-value" not in call(registries.target, "/subjects")

        mapping["autoRegister"] = "enabled"
        file = cases.write_rules(rules(cases.topics))
        print(cases.copy().tail())
        report = k2ktui_json("compare", "-f", file, timeout=COMPARE_TIMEOUT)
        assert report["ignored"] == {}
        stems = {topic: stem for stem, topic in cases.topics.items()}
        counts = {stems[one["topic"]]: one["counts"] for one in report["partitions"]}
        yield Copied(cases, registries, sent, sending.ids, counts)
    finally:
        cases.pipeline.close()


def avro_values(copied: Copied, stem: str) -> list[Any]:
    """Return the objects of a case's copies, by the target's registry."""
    reader = avro_reader(copied.registries.target, copied.cases.copy_of(stem))
    return [value for _, value in objects(copied.cases.copies(stem), reader)[0]]


def test_avro_gets_the_latest_schema_of_its_topic(copied: Copied) -> None:
    """Records of two versions get the latest one, and its id on the target."""
    assert avro_values(copied, "latest") == [
        {"note": None, **order, "item": order["item"].upper()} for order in VERSIONED
    ]
    versions = f"/subjects/{copied.cases.copy_of('latest')}-value/versions"
    assert call(copied.registries.target, versions) == [1, 2]
    assert copied.report["latest"] == {"equal": 10}


def test_a_version_of_a_subject_stays_the_schema(copied: Copied) -> None:
    values = [json.loads(got.value or b"") for got in copied.cases.copies("version")]
    assert values == [{"id": order["id"], "item": order["item"]} for order in VERSIONED]


def test_avro_is_written_by_a_file_and_by_a_version(copied: Copied) -> None:
    """The schema of the file is registered for the target; a comparison registers none."""
    for stem in ("file", "subject"):
        topic = copied.cases.topics[stem]
        assert avro_values(copied, stem) == [{"id": 1, "item": "a"}]
        assert call(copied.registries.target, f"/subjects/{topic}-own/versions") == [1]
        assert copied.report[stem] == {"equal": 1, "never copied": 1}
    nosuch = unique_name("nosuch")
    rule = rules(copied.cases.topics)["file"]
    encode = {"value": {"avro": {"schemaFile": "order.avsc", "subject": nosuch}}}
    file = copied.cases.write_rules({"file": {**rule, "encode": encode}})
    refused = k2ktui("compare", "-f", file, code=5)
    assert f"is not registered as {nosuch}" in refused.stderr
    assert nosuch not in call(copied.registries.target, "/subjects")


def test_json_has_the_targets_ids(copied: Copied) -> None:
    """Confluent's deserializer reads the target's records, which have the id of its registry."""
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer

    copies = copied.cases.copies("json")
    assert {(got.value or b"")[:5] for got in copies} == {prefix(copied.ids["json"])}
    assert {(got.key or b"")[:5] for got in copies} == {prefix(copied.ids["json-key"])}
    assert [json.loads((got.key or b"")[5:]) for got in copies] == [{"id": n} for n in (1, 2, 4, 5)]
    read = JSONDeserializer(SCHEMA)
    at = context(copied.cases.copy_of("json"), "value")
    assert [read(got.value, at) for got in copies] == [
        {**ORDERS[n], "item": ORDERS[n]["item"].upper()} for n in (1, 2, 4, 5)
    ]
    assert copied.report["json"] == {"equal": 4, "never copied": 6}
    letters = sorted(copied.cases.letters("json"), key=origin_of)
    # As they were, with their own ids.
    originals = [copied.json[3], *copied.json[-3:]]
    assert [(got.key, got.value) for got in letters] == [(o.key, o.value) for o in originals]
    causes = [cause_of(got) for got in letters[1:]]
    assert causes[0].startswith(b"the key is not JSON of the schema")
    assert all(cause.startswith(b"the value is not JSON of the schema id") for cause in causes[1:])


def cause_of(letter: Got) -> bytes:
    return dict(letter.headers)["__k2k.error.cause"] or b""


def test_protobuf_has_the_targets_ids(copied: Copied) -> None:
    """Confluent's deserializer reads the target's records, which have the id of its registry."""
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer

    copies = copied.cases.copies("protobuf")
    second = prefix(copied.ids["protobuf"]) + b"\x02\x02"
    assert {(got.value or b"")[:7] for got in copies} == {second}
    deserialize = ProtobufDeserializer(Order, {"use.deprecated.format": False})
    at = context(copied.cases.copy_of("protobuf"), "value")
    assert [deserialize(got.value, at).id for got in copies] == [1, 2, 3, 4, 5]
    assert copied.report["protobuf"] == {"equal": 5}


def test_a_message_of_a_registry(copied: Copied) -> None:
    """Its text and that of its import are compiled at the start; ids are those of the target."""
    second = prefix(copied.ids["message"]) + b"\x02\x02"
    values = [got.value for got in copied.cases.copies("message")]
    assert values == [second + framed(n, 2 * n) for n in (2, 3, 4)]


def test_what_a_registry_lacks_is_refused(copied: Copied) -> None:
    topics, registries = copied.cases.topics, copied.registries
    schemas = TransformSchemas(load([copied.cases.file]).config)
    here, there = unique_name("avro"), unique_name("avro")
    for registry, subject in ((registries.source, here), (registries.target, there)):
        register(registry, subject, '{"type": "string"}')
    json_rule, priced = rules(topics)["json"], rules(topics)["message"]
    value, written = f"{topics['message']}-value", json_rule["encode"]
    wrong: list[tuple[dict[str, Any], str]] = [
        (
            {**json_rule, "encode": {**written, "value": {"json": {"subject": "nosuch"}}}},
            "does not have subject nosuch",
        ),
        (
            {**json_rule, "encode": {**written, "value": {"json": {"subject": there}}}},
            "is not a JSON schema",
        ),
        (
            {**priced, "encode": {"value": {"protobuf": {"subject": "nosuch"}}}},
            "does not have subject nosuch",
        ),
    ]
    for source, why in (
        ({"subject": value, "message": "shop.Nosuch"}, "it does not have the message shop.Nosuch"),
        ({"subject": here, "message": "M"}, "is not a Protobuf schema"),
        ({"subject": "nosuch", "message": "M"}, "does not have message M, subject nosuch"),
    ):
        wrong.append(({**priced, "decode": {"value": {"protobuf": source}}}, why))
    for rule, why in wrong:
        transform = TransformRule.model_validate(rule).transform
        assert transform is not None
        with pytest.raises(K2kError) as refused:
            schemas.codecs(transform, "replication.transform[0]", writes=True)
        assert why in refused.value.message
