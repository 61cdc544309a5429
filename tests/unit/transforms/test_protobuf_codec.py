"""Protobuf messages become Arrow columns and come back; what has no counterpart is refused."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.replication.transforms.avro_types import UnsupportedSchema
from k2ktui.replication.transforms.protobuf_codec import (
    MessageSchema,
    ProtobufCodec,
)
from k2ktui.replication.transforms.protobuf_types import (
    index_path,
    make_message_type,
    read_index_path,
    read_message_class,
    write_index_path,
)

pa = pytest.importorskip("pyarrow")  # of the extra ``transform``
descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")  # of ``protobuf``
FIELD = descriptor_pb2.FieldDescriptorProto

SCALARS: dict[str, tuple[int, st.SearchStrategy[Any], str]] = {
    "double": (FIELD.TYPE_DOUBLE, st.floats(allow_nan=False), "DOUBLE"),
    "float": (FIELD.TYPE_FLOAT, st.floats(width=32, allow_nan=False), "FLOAT"),
    "int64": (FIELD.TYPE_INT64, st.integers(-(1 << 63), (1 << 63) - 1), "BIGINT"),
    "uint64": (FIELD.TYPE_UINT64, st.integers(0, (1 << 64) - 1), "DECIMAL(20,0)"),
    "int32": (FIELD.TYPE_INT32, st.integers(-(1 << 31), (1 << 31) - 1), "INT"),
    "fixed64": (FIELD.TYPE_FIXED64, st.integers(0, (1 << 64) - 1), "DECIMAL(20,0)"),
    "fixed32": (FIELD.TYPE_FIXED32, st.integers(0, (1 << 32) - 1), "BIGINT"),
    "bool": (FIELD.TYPE_BOOL, st.booleans(), "BOOLEAN"),
    "string": (FIELD.TYPE_STRING, st.text(max_size=4), "STRING"),
    "bytes": (FIELD.TYPE_BYTES, st.binary(max_size=4), "BINARY"),
    "uint32": (FIELD.TYPE_UINT32, st.integers(0, (1 << 32) - 1), "BIGINT"),
    "sfixed32": (FIELD.TYPE_SFIXED32, st.integers(-(1 << 31), (1 << 31) - 1), "INT"),
    "sfixed64": (FIELD.TYPE_SFIXED64, st.integers(-(1 << 63), (1 << 63) - 1), "BIGINT"),
    "sint32": (FIELD.TYPE_SINT32, st.integers(-(1 << 31), (1 << 31) - 1), "INT"),
    "sint64": (FIELD.TYPE_SINT64, st.integers(-(1 << 63), (1 << 63) - 1), "BIGINT"),
}


def add(message: Any, name: str, kind: int, *, repeated: bool = False, of: str = "") -> Any:
    """Add a field to a message's descriptor."""
    label = FIELD.LABEL_REPEATED if repeated else FIELD.LABEL_OPTIONAL
    field = message.field.add(name=name, number=len(message.field) + 1, type=kind, label=label)
    if of:
        field.type_name = f".t.{of}"
    return field


def add_optional(message: Any, name: str, kind: int) -> None:
    """Add a field with presence, as ``optional`` of proto3."""
    field = add(message, name, kind)
    field.proto3_optional = True
    field.oneof_index = len(message.oneof_decl)
    message.oneof_decl.add(name=f"_{name}")


def add_map(message: Any, name: str, value: int, *, key: int = FIELD.TYPE_STRING) -> None:
    entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
    entry.options.map_entry = True
    add(entry, "key", key)
    add(entry, "value", value)
    add(message, name, FIELD.TYPE_MESSAGE, repeated=True, of=f"{message.name}.{entry.name}")


def schema_file() -> Any:
    """A file with every kind of field in the message ``t.All``."""
    file = descriptor_pb2.FileDescriptorProto(name="t.proto", package="t", syntax="proto3")
    state = file.enum_type.add(name="State")
    for number, name in enumerate(("NEW", "DONE")):
        state.value.add(name=name, number=number)
    item = file.message_type.add(name="Item")
    add(item, "sku", FIELD.TYPE_STRING)
    add_optional(item, "count", FIELD.TYPE_INT32)
    every = file.message_type.add(name="All")
    every.oneof_decl.add(name="way")
    for name in ("left", "right"):
        add(every, name, FIELD.TYPE_STRING).oneof_index = 0
    for name, (kind, _, _) in SCALARS.items():
        add(every, f"one_{name}", kind)
        add(every, f"many_{name}", kind, repeated=True)
    for name, (kind, _, _) in SCALARS.items():
        add_optional(every, f"opt_{name}", kind)
    add(every, "state", FIELD.TYPE_ENUM, of="State")
    add(every, "item", FIELD.TYPE_MESSAGE, of="Item")
    add(every, "items", FIELD.TYPE_MESSAGE, repeated=True, of="Item")
    add_map(every, "tags", FIELD.TYPE_SINT32)
    inner = every.nested_type.add(name="Inner")
    add(inner, "x", FIELD.TYPE_BOOL)
    return file


def schema(message: str = "t.All", file: Any = None) -> MessageSchema:
    files = descriptor_pb2.FileDescriptorSet(file=[file or schema_file()])
    return MessageSchema(message, files.SerializeToString())


ALL = schema()
MADE = read_message_class(ALL.descriptors, ALL.name)
ITEM = st.fixed_dictionaries({"sku": st.text(max_size=3)}, optional={"count": st.integers(0, 9)})


@st.composite
def messages(draw: st.DrawFn) -> Any:
    given: dict[str, Any] = {}
    for name, (_, values, _) in SCALARS.items():
        if draw(st.booleans()):
            given[f"one_{name}"] = draw(values)
            given[f"many_{name}"] = draw(st.lists(values, max_size=2))
        if draw(st.booleans()):
            given[f"opt_{name}"] = draw(values)
    given |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "state": st.sampled_from([0, 1]),
                "item": ITEM,
                "items": st.lists(ITEM, max_size=2),
                "tags": st.dictionaries(st.text(max_size=2), st.integers(-9, 9), max_size=2),
            },
        )
    )
    if draw(st.booleans()):
        given[draw(st.sampled_from(["left", "right"]))] = draw(st.text(max_size=2))
    return MADE(**given)


@given(st.lists(messages(), max_size=3))
def test_messages_come_back(sent: list[Any]) -> None:
    """Absent fields with presence stay absent, and others keep their values."""
    encoded = [message.SerializeToString(deterministic=True) for message in sent]
    codec = ProtobufCodec(ALL)
    column = codec.decode(pa.array([*encoded, None], pa.binary()))
    assert column.type == codec.type.arrow and column.null_count == 1
    assert codec.encode(column) == ([*encoded, None], [])


def test_types_are_those_of_spark() -> None:
    ddl = ProtobufCodec(ALL).type.ddl
    for name, (_, _, kind) in SCALARS.items():
        assert f"`one_{name}`: {kind}," in ddl and f"`many_{name}`: ARRAY<{kind}>," in ddl
    assert "`state`: STRING, `item`: STRUCT<`sku`: STRING, `count`: INT>" in ddl
    assert ddl.endswith("`tags`: MAP<STRING, INT>>")


def test_unset_fields_and_enumerations_are_columns() -> None:
    value = MADE(state=1, one_uint64=1 << 63).SerializeToString()
    (row,) = ProtobufCodec(ALL).decode(pa.array([value])).to_pylist()
    assert (row["state"], row["one_uint64"]) == ("DONE", Decimal(1 << 63))
    assert (row["one_string"], row["opt_string"], row["item"]) == ("", None, None)
    assert (row["left"], row["items"], row["tags"]) == (None, [], [])


@pytest.mark.parametrize(
    "change",
    [
        {"state": "OLD"},
        {"one_int32": 1 << 31},
        {"left": "a", "right": "b"},
        {"items": [None]},
        {"tags": [("a", None)]},
        {"one_string": 3},
    ],
)
def test_what_does_not_fit_is_not_encoded(change: dict[str, Any]) -> None:
    assert ProtobufCodec(ALL).encode(pa.array([change, None]))[1] == [0]


def test_what_would_be_lost_is_not_decoded() -> None:
    """A field or number of an enumeration that the schema does not have, and other bytes."""
    newer = schema_file()
    add(newer.message_type[0], "added", FIELD.TYPE_STRING)
    other = read_message_class(schema(file=newer).descriptors, "t.All")
    values = [
        other(items=[{"sku": "a", "added": "b"}]).SerializeToString(),
        MADE(state=7).SerializeToString(),
        b"\xff",
        b"",
    ]
    column = ProtobufCodec(ALL).decode(pa.array(values, pa.binary()))
    assert column.is_valid().to_pylist() == [False, False, False, True]


@given(st.binary(max_size=20))
def test_any_bytes_are_decoded_whole_or_not_at_all(value: bytes) -> None:
    column = ProtobufCodec(ALL).decode(pa.array([value], pa.binary()))
    if column[0].is_valid:
        assert ProtobufCodec(ALL).encode(column)[1] == []


def test_an_id_and_the_indexes_of_the_message_come_before_the_data() -> None:
    inner = MessageSchema("t.All.Inner", ALL.descriptors)
    assert index_path(read_message_class(inner.descriptors, "t.Item").DESCRIPTOR) == (0,)
    path = index_path(read_message_class(inner.descriptors, inner.name).DESCRIPTOR)
    assert path[0] == 1 and len(path) == 2
    prefix = b"\0\0\0\0\7"
    data = write_index_path(path) + b"\x08\x01"
    values = [prefix + data, prefix + b"\0\x08\x01", data, prefix, prefix + b"\x80", None]
    column = ProtobufCodec(inner, has_id=True).decode(pa.array(values, pa.binary()))
    assert column.to_pylist() == [{"x": True}, *[None] * 5]
    encoder = ProtobufCodec(inner, prefix=prefix + write_index_path(path))
    assert encoder.encode(column)[0][0] == prefix + data


@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=5).map(tuple), st.binary())
def test_indexes_are_read_as_they_were_written(path: tuple[int, ...], rest: bytes) -> None:
    written = write_index_path(path)
    assert read_index_path(b"id" + written + rest, 2) == (path, 2 + len(written))


def test_indexes_are_those_of_confluents_serializers() -> None:
    assert write_index_path((0,)) == b"\0"
    assert write_index_path((1, 0)) == b"\x04\x02\x00"


def test_what_has_no_counterpart_is_refused_by_name() -> None:
    file = schema_file()
    tree = file.message_type.add(name="Tree")
    add(tree, "next", FIELD.TYPE_MESSAGE, of="Tree")
    file.message_type.add(name="Empty")
    numbers = file.message_type.add(name="Numbers")
    add_map(numbers, "names", FIELD.TYPE_STRING, key=FIELD.TYPE_INT32)
    twice = file.message_type.add(name="Twice")
    add(twice, "card", FIELD.TYPE_STRING)
    add(twice, "Card", FIELD.TYPE_STRING).json_name = "other"
    made_schema = schema(file=file)
    for name, why in {
        "Tree": r"field next contains itself \(t\.Tree\)",
        "Empty": r"it is a message without fields",
        "Numbers": "field names is a map whose keys are not strings",
        "Twice": r"names differ in case only \(Card\)",
    }.items():
        made = read_message_class(made_schema.descriptors, f"t.{name}")
        with pytest.raises(UnsupportedSchema, match=why):
            make_message_type(made.DESCRIPTOR)


def test_what_is_no_descriptor_is_said() -> None:
    with pytest.raises(ValueError, match=r"does not have the message t\.Nosuch"):
        read_message_class(ALL.descriptors, "t.Nosuch")
    with pytest.raises(ValueError, match="not a set of descriptors"):
        read_message_class(b'syntax = "proto3";', "t.All")
    imports = schema_file()
    imports.dependency.append("other.proto")
    with pytest.raises(ValueError, match="with all that it imports"):
        read_message_class(schema(file=imports).descriptors, "t.All")
