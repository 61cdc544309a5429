"""``replication.transform``: what is read, what is refused and where."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.config.editor_schema import editor_schema
from k2ktui.config.reverse import reverse_file
from k2ktui.config.show import to_yaml
from k2ktui.config.transforms import TransformRule
from k2ktui.engine.transforms.model import Format, SchemaSource, Transform
from k2ktui.replication.topics.naming import dead_letter_name
from tests.unit.config.files import MINIMAL, Files

JSON = '{value: {json: {schema: "id BIGINT"}}}'
RULE = f"""
      - topics: "pay.*"
        decode: {JSON}
        filter: "value.id > 2"
        set: {{value.id: "value.id + 1", headers.a.b: "topic"}}
        drop: [value.id]
        onError: skip
"""


def with_rules(rules: str) -> str:
    start = 'replication:\n  - source: {topic: ".*"}\n'
    return f"{start}  - transform: {rules}\n  - sink: {{topic: source}}\n"


def test_rules_are_read_and_shown(files: Files) -> None:
    loaded = files.over_minimal(with_rules(f"{RULE}      - {{}}\n"))
    replication = loaded.config.replication
    assert replication.transform_for("pay-1") == Transform(
        decode_value=Format("json", "id BIGINT"),
        filter="value.id > 2",
        assignments=(("value.id", "value.id + 1"), ("headers.a.b", "topic")),
        drop=("value.id",),
        encode_value="json",
        on_error="skip",
    )
    assert replication.transform_for("other") is None
    shown = to_yaml(loaded, with_sources=True)
    assert files.load(shown).config.replication == replication
    line = next(line for line in shown.splitlines() if "value.id > 2" in line)
    assert line.endswith("b.yaml:6")
    assert "TransformRule" in editor_schema()["$defs"]


def test_schemas_of_avro_are_files_or_subjects(files: Files, tmp_path: Path) -> None:
    rules = """
      - topics: pay\\.in
        decode: {key: avro, value: {avro: {schemaFile: in/pay.avsc}}}
        encode: {key: string, value: {avro: {schemaFile: /out.avsc, subject: out-value}}}
      - {topics: "b.*", decode: {value: {avro: {subject: b-value, version: 3}}}}
      - {topics: c, decode: {value: string}, encode: {value: {avro: {subject: c}}}}
"""
    registries = "\n".join(
        f'{side}: {{registry: {{config: {{schema.registry.url: "http://{side}"}}}}}}'
        for side in ("source", "target")
    )
    loaded = files.over_minimal(registries, with_rules(rules))
    replication = loaded.config.replication
    file = str(tmp_path / "in/pay.avsc")
    assert replication.transform_for("pay.in") == Transform(
        decode_key=Format("avro", source=SchemaSource(subject="pay.in-key")),
        decode_value=Format("avro", source=SchemaSource(file)),
        encode_key="string",
        encode_value="avro",
        encode_value_schema=SchemaSource("/out.avsc", "out-value"),
    )
    version = Format("avro", source=SchemaSource(subject="b-value", version=3))
    assert replication.transform_for("b1") == Transform(decode_value=version, encode_value="avro")
    assert replication.transform_for("c") == Transform(
        decode_value=Format("string"),
        encode_value="avro",
        encode_value_schema=SchemaSource(subject="c"),
    )
    assert files.load(to_yaml(loaded)).config.replication == replication
    words = [
        transform.words for transform in map(replication.transform_for, ("b1", "c")) if transform
    ]
    assert words == [
        "decodes value (avro: subject b-value version 3)",
        "decodes value (string), encodes value (avro: subject c)",
    ]


def test_messages_of_protobuf_are_in_files(files: Files, tmp_path: Path) -> None:
    rules = """
      - topics: a
        decode: {value: {protobuf: {schemaFile: pay.desc, message: p.Pay, schemaId: enabled}}}
        encode: {value: {protobuf: {subject: a-value, version: 2}}}
      - topics: b
        decode: {key: {protobuf: {schemaFile: pay.desc, message: p.Pay}}}
        encode: {value: {protobuf: {schemaFile: /b.desc, message: B}}}
"""
    registry = 'target: {registry: {config: {schema.registry.url: "http://t"}}}'
    loaded = files.over_minimal(registry, with_rules(rules))
    replication, file = loaded.config.replication, str(tmp_path / "pay.desc")
    pay = SchemaSource(file, message="p.Pay")
    assert replication.transform_for("a") == Transform(
        decode_value=Format("protobuf", source=replace(pay, has_id=True)),
        encode_value="protobuf",
        encode_value_schema=SchemaSource(subject="a-value", version=2),
    )
    other = replication.transform_for("b")
    assert other == Transform(
        decode_key=Format("protobuf", source=pay),
        encode_key="protobuf",
        encode_value="protobuf",
        encode_value_schema=SchemaSource("/b.desc", message="B"),
    )
    assert other.words == (
        f"decodes key (protobuf: message p.Pay, {file}), "
        "encodes value (protobuf: message B, /b.desc)"
    )
    assert files.load(to_yaml(loaded)).config.replication == replication


def test_messages_of_protobuf_are_in_registries(files: Files) -> None:
    rules = """
      - topics: a
        decode: {value: {protobuf: {subject: a-value, version: 3, message: p.Pay}}}
        encode: {value: {protobuf: {subject: b-value}}}
"""
    registries = "\n".join(
        f'{side}: {{registry: {{config: {{schema.registry.url: "http://{side}"}}}}}}'
        for side in ("source", "target")
    )
    loaded = files.over_minimal(registries, with_rules(rules))
    replication = loaded.config.replication
    transform = replication.transform_for("a")
    assert transform == Transform(
        decode_value=Format("protobuf", source=SchemaSource("", "a-value", 3, "p.Pay", True)),
        encode_value="protobuf",
        encode_value_schema=SchemaSource(subject="b-value"),
    )
    assert transform.registries == {"source", "target"} and not transform.follows_target_name(
        "value"
    )
    assert "(protobuf: message p.Pay, subject a-value version 3)" in transform.words
    assert files.load(to_yaml(loaded)).config.replication == replication


def test_json_with_schema_ids(files: Files) -> None:
    """The id of the source is taken off, and that of the target's registry put in its place."""
    rules = """
      - topics: a
        decode: {value: {json: {schema: "id BIGINT", schemaId: enabled}}}
        encode: {value: {json: {subject: a-value, version: 2}}}
      - topics: b
        decode: {key: {json: {schema: "id INT", schemaId: enabled}}}
        encode: {key: json}
"""
    registry = 'target: {registry: {config: {schema.registry.url: "http://t"}}}'
    loaded = files.over_minimal(registry, with_rules(rules))
    replication = loaded.config.replication
    transform = replication.transform_for("a")
    assert transform == Transform(
        decode_value=Format("json", "id BIGINT", SchemaSource(has_id=True)),
        encode_value="json",
        encode_value_schema=SchemaSource(subject="a-value", version=2),
    )
    assert transform.registries == {"target"}
    assert (
        transform.words == "decodes value (json), encodes value (json: subject a-value version 2)"
    )
    plain = replication.transform_for("b")
    assert plain == Transform(
        decode_key=Format("json", "id INT", SchemaSource(has_id=True)), encode_key="json"
    )
    assert plain.registries == set()
    assert files.load(to_yaml(loaded)).config.replication == replication


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ("decode: {value: {json: {schema: x, schemaId: on}}}", "enabled or disabled for schemaId"),
        ("decode: {value: {json: {schemaId: enabled}}}", "decode.value: expected bytes, string or"),
        (
            "decode: {value: {json: {schema: id INT, schemaId: enabled}}}",
            "expected encode.value: {json: {subject: NAME}} of the target's registry, as decoded",
        ),
        (
            "decode: {value: {protobuf: {schemaFile: a, subject: b, message: c}}}",
            "expected for Protobuf {protobuf: {schemaFile: FILE, message: NAME}}, or decode with s",
        ),
        ("decode: {value: {protobuf: {subject: a}}}", "expected for Protobuf {protobuf: {schemaF"),
        (
            "decode: {value: {protobuf: {schemaFile: a, message: b, version: 1}}}",
            "decode.value: expected subject for version",
        ),
        (
            "decode: {value: {protobuf: {subject: a, message: b, schemaId: enabled}}}",
            "decode.value: expected schemaFile for schemaId",
        ),
        (
            "decode: {value: {protobuf: {subject: a, message: b}}}",
            "expected encode.value: {protobuf: {subject: NAME}} of the target's registry, as dec",
        ),
        ("encode: {value: {json: {version: 1}}}", "expected json or {json: {subject: NAME}}"),
        ("encode: {value: {json: {subject: a}}}", "expected decode.value: {json: …} for encode.va"),
        ("decode: {value: avro}", "expected decode.value: {avro: {subject: NAME}}, as topics is"),
        ("decode: {value: {avro: {schema: x}}}", "for Avro avro, {avro: {schemaFile: FILE}} or"),
        ("decode: {value: {avro: {subject: ''}}}", "decode.value: expected bytes, string or {json"),
        ("decode: {value: {avro: {version: 1}}}", "decode.value: expected bytes, string or {json"),
        (
            "decode: {value: {avro: {subject: a, schemaFile: b}}}",
            "decode.value: expected schemaFile or subject for avro, not both",
        ),
        (
            "decode: {value: {avro: {schemaFile: b, version: 1}}}",
            "decode.value: expected subject without schemaFile for version",
        ),
        (
            "decode: {value: {avro: {subject: a, version: 0}}}",
            "decode.value: expected the number of a version, 1 or more, for version",
        ),
        (
            "decode: {value: {avro: {subject: a, version: ''}}}",
            "decode.value: expected the number of a version, 1 or more, for version",
        ),
        (
            "encode: {value: avro}",
            "expected encode.value: {avro: {schemaFile: …}} or {avro: {subject: …}}, as decode",
        ),
        ("decode: {value: protobuf}", "for Protobuf {protobuf: {schemaFile: FILE, message: NAME}}"),
        ("decode: {value: {protobuf: {schemaFile: a}}}", "expected for Protobuf {protobuf: {schem"),
        (
            "decode: {value: {protobuf: {schemaFile: a, message: b, schemaId: on}}}",
            "expected enabled or disabled for schemaId",
        ),
        (
            "decode: {value: {protobuf: {schemaFile: a, message: b, schemaId: enabled}}}",
            "expected encode.value: {protobuf: {subject: NAME}} of the target's registry, as",
        ),
        ("encode: {value: protobuf}", "{protobuf: {subject: …}}, as decode.value is not protobuf"),
        (
            "encode: {value: {protobuf: {subject: a}}}",
            "expected schemaFile and message in encode.value, as decode.value is not protobuf",
        ),
        (
            "encode: {value: {protobuf: {schemaFile: a, message: b, version: 1}}}",
            "encode.value: expected subject for version",
        ),
        ("encode: {value: {protobuf: {message: b}}}", "or {protobuf: {subject: NAME}}"),
        ("decode: {value: json}", "decode.value: expected bytes, string or {json: {schema"),
        ('decode: {value: {json: {schema: ""}}}', "decode.value: expected bytes, string or"),
        ("encode: {value: json}", "expected decode.value: {json: …} for encode.value: json"),
        ('set: {value.a: "1"}', "expected decode.value: {json: …} for the field value.a"),
        ("drop: [key.a]", "expected decode.key: {json: …} for the field key.a"),
        ('set: {offset: "1"}', "set: expected key, value, key.FIELD, value.FIELD or headers.NAME"),
        ('set: {"value.a-b": "1"}', "set: expected key, value, key.FIELD, value.FIELD or"),
        ('set: {value: " "}', "set: expected a Spark SQL expression for value"),
        ("drop: [headers.a]", "drop: expected a list of key.FIELD and value.FIELD"),
        ("drop: [value]", "drop: expected a list of key.FIELD and value.FIELD"),
        ('filter: ""', "filter: expected a Spark SQL predicate"),
        ("onError: stop", 'onError: expected fail, skip or deadLetter, found "stop"'),
        ("onError: deadLetter, deadLetter: {topic: a b}", "topic: expected the name of a topic"),
        ("deadLetter: {topic: dead}", "expected onError: deadLetter for deadLetter"),
        ("sql: SELECT 1", "sql: expected SELECT … AS key, … AS value FROM records [WHERE …]"),
        ('sql: "SELECT key, value FROM records", filter: "true"', "sql or filter, not both"),
        ("explode: value.a", "explode: expected a mapping"),
        ('explode: {headers.a: "x"}', "explode: expected key, value, key.FIELD or value.FIELD"),
        ('explode: {value: "x", key: "y"}', "explode: expected one column with the expression"),
        ('explode: {value: " "}', "explode: expected a Spark SQL expression for value"),
        ('explode: {value.a: "x"}', "expected decode.value: {json: …} for the field value.a"),
        ('topics: "["', "topics: expected a valid regular expression"),
    ],
)
def test_what_is_refused(files: Files, rule: str, error: str) -> None:
    (problem, *_) = files.errors(MINIMAL, with_rules(f"[{{{rule}}}]"))
    assert problem.startswith("b.yaml:3: replication[1].transform[0]") and error in problem


def test_a_rule_changes_what_its_steps_change() -> None:
    def changed(**keys: object) -> set[str]:
        transform = TransformRule.model_validate(keys).transform
        assert transform is not None
        return {part for part in ("key", "value", "headers") if transform.changes(part)}

    assert changed(filter="true") == set()
    assert changed(set={"headers.a": "topic"}) == {"headers"}
    assert changed(decode={"key": "string"}) == {"key"}
    assert changed(encode={"value": {"avro": {"schemaFile": "a"}}}) == {"value"}
    assert changed(set={"value": "key"}) == {"value"}
    assert TransformRule().transform is None
    assert TransformRule.model_validate({"onError": "skip"}).transform is None


def test_records_are_left_out_by_filters_and_skipped_errors() -> None:
    assert Transform(filter="true").leaves_records_out
    assert Transform(drop=("value.a",), on_error="skip").leaves_records_out
    assert Transform(drop=("value.a",), on_error="deadLetter").leaves_records_out
    assert not Transform(drop=("value.a",)).leaves_records_out


def test_the_dead_letter_topic_has_the_name_of_the_target_or_its_own(files: Files) -> None:
    rules = """
      - {topics: a, filter: "true", onError: deadLetter}
      - {topics: b, filter: "true", onError: deadLetter, deadLetter: {topic: letters}}
      - {topics: c, filter: "true", onError: skip}
"""
    loaded = files.over_minimal(with_rules(rules))
    names = {}
    for topic in "abc":
        names[topic] = dead_letter_name(loaded.config, topic)
    assert names == {"a": "a.dead-letter", "b": "letters", "c": ""}
    assert files.load(to_yaml(loaded)).config.replication == loaded.config.replication


def test_a_select_has_the_steps_of_a_rule() -> None:
    def transform(**keys: object) -> Transform | None:
        return TransformRule.model_validate(keys).transform

    sql = "SELECT key, explode(value.items) AS value, array() AS headers FROM records WHERE key > 1"
    assert transform(sql=sql, decode={"value": "string"}) == Transform(
        decode_value=Format("string"),
        filter="key > 1",
        explode=("value", "value.items"),
        assignments=(("headers", "array()"),),
        encode_value="string",
        is_sql=True,
    )
    assert transform(sql="SELECT key, value FROM records") is None
    exploded = transform(explode={"value": "split(value, ',')"})
    assert exploded is not None and exploded.leaves_records_out
    assert exploded.changes("value") and not exploded.changes("key")


def test_the_opposite_pipeline_has_no_such_rules(files: Files) -> None:
    paths = files.write({"a.yaml": MINIMAL, "b.yaml": with_rules(RULE)})
    reversal = reverse_file(paths)
    assert "transform" not in reversal.text
    assert any("replication.transform was left out" in note for note in reversal.notes)
