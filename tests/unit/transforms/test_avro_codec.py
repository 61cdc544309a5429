"""Avro values become Arrow columns and come back; what has no counterpart is refused by name."""

from __future__ import annotations

import io
import json
import pickle
import socket
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.registry.settings import RegistrySettings
from k2ktui.replication.transforms import avro_codec, rows
from k2ktui.replication.transforms.avro_codec import AvroCodec
from k2ktui.replication.transforms.avro_schema import LOGICAL_TYPE, AvroSchema, find_conflict
from k2ktui.replication.transforms.avro_types import UnsupportedSchema, make_type
from k2ktui.replication.transforms.codec_batches import (
    DECODED,
    ORIGINAL,
    Codecs,
    decode_batches,
    encode_batches,
)

pa = pytest.importorskip("pyarrow")  # of the extra ``transform``
fastavro = pytest.importorskip("fastavro")  # of the extra ``avro``

LONG = st.integers(-(1 << 63), (1 << 63) - 1)
INT = st.integers(-(1 << 31), (1 << 31) - 1)
MICROS = st.integers(-(1 << 52), 1 << 52)


@dataclass(frozen=True)
class Kind:
    """An Avro type, values as Avro's library takes them, and the type in Spark's DDL."""

    schema: Any
    values: st.SearchStrategy[Any]
    ddl: str


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    def make(number: int) -> Decimal:
        return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))

    largest = 10**precision - 1
    return st.integers(-largest, largest).map(make)


LEAVES = [
    Kind("boolean", st.booleans(), "BOOLEAN"),
    Kind("int", INT, "INT"),
    Kind("long", LONG, "BIGINT"),
    Kind("float", st.floats(width=32, allow_nan=False), "FLOAT"),
    Kind("double", st.floats(allow_nan=False), "DOUBLE"),
    Kind("bytes", st.binary(max_size=5), "BINARY"),
    Kind("string", st.text(max_size=5), "STRING"),
    Kind({"type": "string"}, st.text(max_size=5), "STRING"),
    Kind(logical("int", "date"), st.dates().map(lambda d: (d - date(1970, 1, 1)).days), "DATE"),
    Kind(logical("int", "time-millis"), INT, "INT"),
    Kind(logical("long", "time-micros"), LONG, "BIGINT"),
    Kind(logical("long", "timestamp-millis"), st.integers(-(1 << 50), 1 << 50), "TIMESTAMP"),
    Kind(logical("long", "timestamp-micros"), LONG, "TIMESTAMP"),
    Kind(logical("long", "local-timestamp-millis"), MICROS, "TIMESTAMP_NTZ"),
    Kind(logical("long", "local-timestamp-micros"), LONG, "TIMESTAMP_NTZ"),
    Kind(logical("long", "timestamp-nanos"), LONG, "BIGINT"),
    Kind(logical("string", "uuid"), st.uuids().map(str), "STRING"),
    Kind(logical("string", "no-such-type"), st.text(max_size=3), "STRING"),
]
DECIMALS = [(1, 0), (9, 2), (38, 0), (38, 37), (20, 20)]


@st.composite
def kinds(draw: st.DrawFn, depth: int = 3) -> Kind:
    """Draw a supported type; names are unique in a schema."""
    counter = iter(range(1 << 20))
    return draw(_kinds(lambda: f"n{next(counter)}", depth))


@st.composite
def _kinds(draw: st.DrawFn, name: Callable[[], str], depth: int) -> Kind:
    shape = draw(st.sampled_from(["leaf", "named", "record", "array", "map", "null"]))
    if depth == 0 or shape == "leaf":
        return draw(st.sampled_from(LEAVES))
    if shape == "named":
        return draw(_named(name))
    if shape == "record":
        parts = draw(st.lists(_nullable(name, depth - 1), min_size=1, max_size=3))
        names = [f"f{name()}" for _ in parts]
        fields = [{"name": n, "type": part.schema} for n, part in zip(names, parts, strict=True)]
        ddl = ", ".join(f"`{n}`: {part.ddl}" for n, part in zip(names, parts, strict=True))
        values = st.fixed_dictionaries(
            {n: part.values for n, part in zip(names, parts, strict=True)}
        )
        schema = {"type": "record", "name": name(), "fields": fields}
        if draw(st.booleans()):
            schema["namespace"] = "a.b"
        return Kind(schema, values, f"STRUCT<{ddl}>")
    inner = draw(_nullable(name, depth - 1))
    if shape == "map":
        entries = st.dictionaries(st.text(max_size=3), inner.values, max_size=3)
        return Kind({"type": "map", "values": inner.schema}, entries, f"MAP<STRING, {inner.ddl}>")
    array = {"type": "array", "items": inner.schema}
    return Kind(array, st.lists(inner.values, max_size=3), f"ARRAY<{inner.ddl}>")


@st.composite
def _named(draw: st.DrawFn, name: Callable[[], str]) -> Kind:
    shape = draw(st.sampled_from(["enum", "fixed", "decimal", "fixed decimal"]))
    if shape == "enum":
        symbols = ["A", "B", "C"]
        return Kind(
            {"type": "enum", "name": name(), "symbols": symbols},
            st.sampled_from(symbols),
            "STRING",
        )
    if shape == "fixed":
        values = st.binary(min_size=3, max_size=3)
        return Kind({"type": "fixed", "name": name(), "size": 3}, values, "BINARY")
    precision, scale = draw(st.sampled_from(DECIMALS))
    kind = "bytes" if shape == "decimal" else "fixed"
    schema = logical(kind, "decimal", precision=precision, scale=scale)
    if kind == "fixed":
        schema |= {"name": name(), "size": 17}
    return Kind(schema, decimals(precision, scale), f"DECIMAL({precision},{scale})")


@st.composite
def _nullable(draw: st.DrawFn, name: Callable[[], str], depth: int) -> Kind:
    inner = draw(_kinds(name, depth))
    order = draw(st.sampled_from([None, ("null", inner.schema), (inner.schema, "null")]))
    if order is None:
        return inner
    return Kind(list(order), st.none() | inner.values, inner.ddl)


def schema_of(schema: Any, *before: Any) -> AvroSchema:
    return AvroSchema((*map(json.dumps, before), json.dumps(schema)))


def written(schema: Any, value: Any) -> bytes:
    """Return what Avro's library writes, given values of logical types as numbers or decimals."""
    data = io.BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(schema), value)
    return data.getvalue()


@given(st.data())
def test_values_of_any_schema_come_back(data: st.DataObject) -> None:
    kind = data.draw(kinds())
    values = data.draw(st.lists(kind.values, max_size=4))
    encoded = [written(kind.schema, value) for value in values] + [None]
    schema = schema_of(kind.schema)
    codec = AvroCodec(schema)
    assert codec.type.ddl == kind.ddl
    column = codec.decode(pa.array(encoded, pa.binary()))
    assert column.type == codec.type.arrow and column.null_count == 1
    again, failed = codec.encode(column)
    assert not failed
    if "decimal" in schema.text:  # of any length
        assert [numbers(schema, again_value) for again_value in again] == [
            numbers(schema, value) for value in encoded
        ]
    else:
        assert again == encoded


def numbers(schema: AvroSchema, encoded: bytes | None) -> Any:
    """Return a value as Avro's library reads it, with decimals but times as numbers."""
    text = schema.text.replace("timestamp", "other").replace('"date"', '"other"')
    plain = fastavro.parse_schema(json.loads(text.replace('"time-', '"other-')))
    return None if encoded is None else fastavro.schemaless_reader(io.BytesIO(encoded), plain, None)


RECORD = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "day", "type": logical("int", "date")},
        {"name": "at", "type": ["null", logical("long", "timestamp-millis")], "default": None},
        {"name": "local", "type": logical("long", "local-timestamp-micros")},
        {"name": "price", "type": logical("bytes", "decimal", precision=38, scale=2)},
        {"name": "tags", "type": {"type": "map", "values": "int"}},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
    ],
}
AT = datetime(2026, 11, 22, 12, 0, 0, 123000, tzinfo=UTC)
VALUE = {
    "day": date(1969, 12, 31),
    "at": AT,
    "local": AT.replace(tzinfo=None),
    "price": Decimal("123456789012345678901234567890123456.78"),
    "tags": {"b": 1, "a": 2},
    "raw": b"\0",
}


def decoded(decoder: AvroCodec, *values: bytes | None) -> list[Any]:
    rows_decoded: list[Any] = decoder.decode(pa.array(values, pa.binary())).to_pylist()
    return rows_decoded


def test_logical_types_are_dates_times_and_decimals() -> None:
    decoder = AvroCodec(schema_of(RECORD))
    (row,) = decoded(decoder, written(RECORD, VALUE))
    assert row == {**VALUE, "tags": [("b", 1), ("a", 2)]}


REFUSED: list[tuple[Any, str]] = [
    (["null", "string"], "the whole schema is a union with null"),
    (["int", "string"], "it is a union of 2 types"),
    ("null", "it is null alone"),
    ({"type": "record", "name": "E", "fields": []}, "it is a record without fields"),
    (("a", ["null", "int", "string"]), "field a is a union of 2 types"),
    (("a", {"type": "array", "items": {"type": "map", "values": "null"}}), "field a[]{} is null"),
    (("a", ["null", "R"]), r"field a contains itself (R)"),
    (("a", logical("bytes", "decimal", precision=39)), "field a is a decimal(39, 0)"),
    (("a", logical("bytes", "decimal", precision="x")), "field a is a decimal(x, 0)"),
]


@pytest.mark.parametrize(("schema", "why"), REFUSED)
def test_what_has_no_counterpart_is_refused_by_name(schema: Any, why: str) -> None:
    if isinstance(schema, tuple):
        name, kind = schema
        schema = {"type": "record", "name": "R", "fields": [{"name": name, "type": kind}]}
    with pytest.raises(UnsupportedSchema) as refused:
        make_type(schema_of(schema))
    assert why in str(refused.value)


def test_fields_that_differ_in_case_are_refused() -> None:
    fields = [{"name": name, "type": "int"} for name in ("card", "Card")]
    with pytest.raises(UnsupportedSchema, match=r"field r has two fields .* \(Card\)"):
        inner = {"type": "record", "name": "I", "fields": fields}
        make_type(
            schema_of({"type": "record", "name": "R", "fields": [{"name": "r", "type": inner}]})
        )


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "3", '"nosuch"', '{"type": "record"}', '{"type": "record", "name": "a b"}'],
)
def test_what_is_no_schema_is_said(text: str) -> None:
    with pytest.raises(ValueError):
        make_type(AvroSchema((text,)))


@given(st.binary(max_size=40))
def test_bytes_of_another_schema_are_null(value: bytes) -> None:
    """Whatever the bytes are, they are decoded whole or not at all."""
    schema = schema_of(RECORD)
    column = AvroCodec(schema).decode(pa.array([value, written(RECORD, VALUE)], pa.binary()))
    assert column[1].is_valid
    if column[0].is_valid:
        assert AvroCodec(schema).encode(column)[1] == []


def test_a_value_with_more_behind_it_is_null() -> None:
    decoder = AvroCodec(schema_of("string"))
    assert decoded(decoder, b"\x02a", b"\x02ab", b"\x04a", b"", None) == ["a", *[None] * 4]


def test_named_types_of_other_schemas_are_found() -> None:
    money = {
        "type": "record",
        "name": "Money",
        "namespace": "m",
        "fields": [{"name": "cents", "type": "long"}],
    }
    pay = {"type": "record", "name": "Pay", "fields": [{"name": "sum", "type": "m.Money"}]}
    schema = schema_of(pay, money)
    decoder = AvroCodec(schema)
    assert decoder.type.ddl == "STRUCT<`sum`: STRUCT<`cents`: BIGINT>>"
    assert decoded(decoder, b"\x0e") == [{"sum": {"cents": 7}}]
    assert AvroCodec(schema).encode(pa.array([{"sum": {"cents": 7}}])) == ([b"\x0e"], [])


def test_what_does_not_fit_the_schema_is_not_encoded() -> None:
    schema = schema_of(
        {
            "type": "record",
            "name": "R",
            "fields": [
                {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"]}},
                {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}},
                {"name": "d", "type": logical("bytes", "decimal", precision=3, scale=1)},
                {"name": "n", "type": ["null", "string"], "default": None},
                {"name": "x", "type": "string", "default": "left out"},
            ],
        }
    )
    good = {"e": "A", "f": b"ab", "d": Decimal("-12.8"), "n": None}
    bad: list[dict[str, object]] = [{"e": "B"}, {"f": b"a"}, {"e": None}, {"d": None}]
    bad.append({"d": Decimal("100.0")})
    column = pa.array([good, None, *(good | change for change in bad)])
    encoded, failed = AvroCodec(schema, prefix=b"prefix").encode(column)
    assert failed == [2, 3, 4, 5, 6]
    assert encoded[0] is not None and encoded[0].startswith(b"prefix") and encoded[1] is None
    (row,) = decoded(AvroCodec(schema), encoded[0].removeprefix(b"prefix"))
    assert row == {**good, "x": "left out"}


def test_numbers_with_another_meaning_are_a_conflict() -> None:
    def record(kind: Any, name: str = "at") -> AvroSchema:
        inner = {"type": "record", "name": "I", "fields": [{"name": name, "type": kind}]}
        items = {"type": "array", "items": ["null", inner]}
        return schema_of({"type": "record", "name": "R", "fields": [{"name": "a", "type": items}]})

    millis, micros = (record(logical("long", f"timestamp-{unit}")) for unit in ("millis", "micros"))
    assert find_conflict(millis, micros) == ".a[].at"
    assert find_conflict(millis, millis) == find_conflict(millis, record("long")) == ""
    assert find_conflict(millis, record(logical("long", "timestamp-micros"), "other")) == ""
    cents, mills = (record(logical("bytes", "decimal", precision=9, scale=n)) for n in (2, 3))
    assert find_conflict(cents, mills) == ".a[].at"
    tree = {"name": "next", "type": ["null", "R"]}
    assert find_conflict(schema_of({"type": "record", "name": "R", "fields": [tree]}), micros) == ""


def test_types_with_the_same_short_name_have_their_own_meanings() -> None:
    def record(*units: str) -> AvroSchema:
        fields = [
            {
                "name": unit,
                "type": {
                    "type": "record",
                    "name": f"{unit}.T",
                    "fields": [{"name": "at", "type": logical("long", f"timestamp-{unit}")}],
                },
            }
            for unit in units
        ]
        again = {"name": "again", "type": "millis.T"}
        return schema_of({"type": "record", "name": "R", "fields": [*fields, again]})

    assert find_conflict(record("millis", "micros"), record("micros", "millis")) == ""


def test_a_schema_is_not_taken_for_one_that_is_parsed() -> None:
    """The marks of the library's parsed schemas are attributes without a meaning."""
    marks = {
        "__fastavro_parsed": True,
        "__named_schemas": {"A": {"type": "array", "items": "A"}},
        LOGICAL_TYPE: "timestamp-millis",
    }
    field = {"name": "at", "type": {"type": "long"} | marks}
    made = {"type": "record", "name": "R", "fields": [field]} | marks
    assert make_type(schema_of(made)).ddl == "STRUCT<`at`: BIGINT>"
    field["type"] = "A"
    with pytest.raises(ValueError, match="A"):
        make_type(schema_of(made))
    with pytest.raises(ValueError, match="'logicalType': 'date'"):
        make_type(schema_of(logical("lnog", "date")))


@pytest.mark.parametrize(("count", "fields"), [(3000, "f"), (60, "fg")])
def test_a_writer_with_endless_types_is_not_read(
    monkeypatch: pytest.MonkeyPatch, count: int, fields: str
) -> None:
    records = [
        {
            "type": "record",
            "name": f"R{n}",
            "fields": [{"name": name, "type": f"R{n - 1}" if n else "long"} for name in fields],
        }
        for n in range(count)
    ]
    found = schema_of(records)
    monkeypatch.setattr(f"{avro_codec.__name__}._Registry.find", lambda *_: found)
    settings = RegistrySettings("source", ("http://127.0.0.1:2",))
    assert decoded(AvroCodec(schema_of("long"), settings), b"\0\0\0\0\1\2") == [None]


def test_rows_are_decoded_and_encoded_around_the_sql() -> None:
    """A row that fails to be encoded has its step, and the original key and value.

    What expressions chose for the rows stays with them.
    """
    schema = schema_of({"type": "enum", "name": "E", "symbols": ["A"]})
    codec = {"value": AvroCodec(schema)}
    codecs = Codecs(codec, codec, {"value": 3})
    read = pa.RecordBatch.from_pydict(
        {"key": [b"k", b"l"], "value": pa.array([b"\0", b"\2"], pa.binary())}
    )
    (batch,) = decode_batches([read], codecs)
    assert batch.schema.names == ["key", "value", DECODED["value"]]
    assert batch.column(2).to_pylist() == ["A", None]

    columns: dict[str, Any] = {name: pa.nulls(3) for name in rows.OUTPUT}
    columns |= {"key": pa.array([b"K"] * 3), "value": pa.array(["A", "B", None])}
    columns[rows.FAILED] = pa.array([None, None, 1], pa.int32())
    columns |= {rows.TOPIC: pa.array([1, 0, None]), rows.PARTITION: pa.array([5, 6, None])}
    columns |= {name: pa.array([b"old"] * 3) for name in ORIGINAL.values()}
    (made,) = encode_batches(
        [pa.RecordBatch.from_pydict(columns)], replace(codecs, keeps_originals=True)
    )
    assert tuple(made.schema.names) == rows.OUTPUT
    names = ("key", "value", rows.FAILED, rows.TOPIC, rows.PARTITION)
    shown = {name: made.column(name).to_pylist() for name in names}
    assert shown == {
        "key": [b"K", b"old", b"old"],
        "value": [b"\0", b"old", b"old"],
        rows.FAILED: [None, 3, 1],
        rows.TOPIC: [1, 0, None],
        rows.PARTITION: [5, 6, None],
    }


def test_values_without_a_schema_id_need_no_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("k2ktui.registry.client.RegistryClient", None)
    settings = RegistrySettings("source", ("http://127.0.0.1:1",))
    codec = AvroCodec(schema_of("string"), settings)
    assert decoded(codec) == []
    assert decoded(codec, None, b"", b"\2a", b"\0\0\0\0") == [None] * 4


def test_a_registry_that_does_not_respond_fails_the_micro_batch_only() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and nothing listens
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        settings = RegistrySettings("source", (url,), max_retries=0)
        codecs = Codecs({"value": AvroCodec(schema_of("string"), settings)})
        read = rows.facts_batch(b"-", rows.InputLayout())
        records = read.set_column(
            read.schema.get_field_index("value"), "value", pa.array([b"\0\0\0\0\7data"])
        )
        (batch,) = decode_batches([records, read], codecs)
    assert batch.schema.names == [*read.schema.names, DECODED["value"]]
    facts = pickle.loads(batch.column(rows.FACTS)[0].as_py())
    assert "the source's schema registry" in facts.error and "cannot be reached" in facts.error


def test_a_silent_registry_fails_the_micro_batch_in_time() -> None:
    """Its client would give up after two minutes."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        settings = RegistrySettings("source", (url,), max_retries=0)
        decoder = AvroCodec(schema_of("string"), settings)
        read = rows.facts_batch(b"-", rows.InputLayout())
        at = read.schema.get_field_index("value")
        records = [read.set_column(at, "value", pa.array([b"\0\0\0\0%cdata" % n])) for n in (7, 8)]
        (batch,) = decode_batches([*records, read], Codecs({"value": decoder}), limit_s=0.3)
    facts = pickle.loads(batch.column(rows.FACTS)[0].as_py())
    assert facts.error == "a schema registry has not answered for 0.3 s"
