"""Spark's and Arrow's types of a Protobuf message, and how values are converted between them."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from k2ktui.log.varints import encode_varint, read_varint
from k2ktui.replication.transforms.avro_types import AvroField, AvroType, Convert, UnsupportedSchema

_UINT64 = "decimal(20,0)"


def read_message_class(descriptors: bytes, name: str) -> Any:
    """Return the class of a message.

    Args:
        descriptors: a ``FileDescriptorSet``, with the files that are imported.
        name: full name of the message.

    Raises:
        ValueError: it is not a set of descriptors, or does not have the message.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory

    file_set = descriptor_pb2.FileDescriptorSet()
    pool = descriptor_pool.DescriptorPool()
    try:
        file_set.ParseFromString(descriptors)
        for file in file_set.file:
            pool.Add(file)
        descriptor = pool.FindMessageTypeByName(name)
    except message.DecodeError as error:
        raise ValueError(
            "it is not a set of descriptors, as protoc --descriptor_set_out writes"
        ) from error
    except (KeyError, TypeError) as error:
        raise ValueError(
            f"it does not have the message {name} with all that it imports ({error})"
        ) from error
    return message_factory.GetMessageClass(descriptor)


def make_message_type(descriptor: Any) -> AvroType:
    """Return the type of a message; ``dump`` returns a message.

    Raises:
        UnsupportedSchema: a part of it has no counterpart, with the name of its field.
    """
    return _message(descriptor, "", ())


def index_path(descriptor: Any) -> tuple[int, ...]:
    """Return the indexes of a message in its file, from the outermost message on."""
    outer = descriptor.containing_type
    names = outer.nested_types if outer is not None else descriptor.file.message_types_by_name
    own = [message if isinstance(message, str) else message.name for message in names].index(
        descriptor.name
    )
    return (*(index_path(outer) if outer is not None else ()), own)


def read_index_path(data: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """Return the indexes of a message between a schema's id and the data, and where they end.

    Raises:
        IndexError, ValueError: the bytes end within them, or are no indexes.
    """
    count, at = read_varint(data, start)
    if not 0 <= count <= len(data):
        raise ValueError("a number of indexes that is larger than the data")
    indexes = []
    for _ in range(count):
        index, at = read_varint(data, at)
        indexes.append(index)
    return tuple(indexes) or (0,), at


def write_index_path(path: tuple[int, ...]) -> bytes:
    """Return the indexes of a message as serializers write them after a schema's id."""
    if path == (0,):
        return b"\0"
    return b"".join(map(encode_varint, (len(path), *path)))


def _message(descriptor: Any, path: str, opened: tuple[str, ...]) -> AvroType:
    from google.protobuf import message_factory

    where = f"field {path}" if path else "it"
    if descriptor.full_name in opened:
        raise UnsupportedSchema(f"{where} contains itself ({descriptor.full_name})")
    if not descriptor.fields:
        raise UnsupportedSchema(f"{where} is a message without fields ({descriptor.full_name})")
    made = message_factory.GetMessageClass(descriptor)
    inner = (*opened, descriptor.full_name)
    fields, loads, dumps = [], [], []
    lower: set[str] = set()
    for field in descriptor.fields:
        name = field.name
        if name.lower() in lower:
            raise UnsupportedSchema(
                f"{where} has two fields whose names differ in case only ({name}), which are one "
                "for Spark"
            )
        lower.add(name.lower())
        kind, dump = _field(field, f"{path}.{name}" if path else name, inner)
        fields.append(AvroField(name, kind, not field.is_required))
        loads.append((name, field.has_presence, kind.load or _same))
        dumps.append((name, dump))
    oneofs = [[member.name for member in one.fields] for one in descriptor.oneofs]

    def load(message: Any) -> dict[str, Any]:
        return {
            name: convert(getattr(message, name))
            if not optional or message.HasField(name)
            else None
            for name, optional, convert in loads
        }

    def dump_message(value: dict[str, Any]) -> Any:
        for one in oneofs:
            if sum(value.get(name) is not None for name in one) > 1:
                raise ValueError("a oneof with more than one field")
        message = made()
        for name, set_field in dumps:
            given = value.get(name)
            if given is not None:
                set_field(message, given)
        return message

    return AvroType("struct", dump_message, load, nullable=True, fields=tuple(fields))


#: Sets a field of a message.
_Set = Callable[[Any, Any], None]


def _field(field: Any, path: str, opened: tuple[str, ...]) -> tuple[AvroType, _Set]:
    name = field.name
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return _map(field, path, opened)
    kind = _single(field, path, opened)
    dump = kind.dump
    if field.is_repeated:
        load = kind.load or _same

        def extend(message: Any, values: Any) -> None:
            getattr(message, name).extend([dump(_given(value)) for value in values])

        made = AvroType("array", _same, lambda values: [load(value) for value in values], item=kind)
        return made, extend
    if field.message_type is not None:

        def copy(message: Any, value: Any) -> None:
            inner = getattr(message, name)
            inner.SetInParent()
            inner.CopyFrom(dump(value))

        return kind, copy
    return kind, lambda message, value: setattr(message, name, dump(value))


def _map(field: Any, path: str, opened: tuple[str, ...]) -> tuple[AvroType, _Set]:
    name = field.name
    key, value = (field.message_type.fields_by_name[field_name] for field_name in ("key", "value"))
    if key.cpp_type != key.CPPTYPE_STRING:
        raise UnsupportedSchema(f"field {path} is a map whose keys are not strings")
    item = _single(value, f"{path}{{}}", opened)
    load, dump = item.load or _same, item.dump

    def fill(message: Any, pairs: Any) -> None:
        target = getattr(message, name)
        for own, given in pairs:
            if value.message_type is not None:
                target[own].CopyFrom(dump(_given(given)))
            else:
                target[own] = dump(_given(given))

    made = AvroType(
        "map",
        _same,
        lambda entries: [(own, load(given)) for own, given in entries.items()],
        item=item,
    )
    return made, fill


def _single(field: Any, path: str, opened: tuple[str, ...]) -> AvroType:
    if field.type == field.TYPE_GROUP:
        raise UnsupportedSchema(f"field {path} is a group")
    if field.message_type is not None:
        return _message(field.message_type, path, opened)
    if field.enum_type is not None:
        return _enum(field.enum_type)
    if field.cpp_type == field.CPPTYPE_UINT64:
        return AvroType(_UINT64, int, Decimal, nullable=True)
    kinds = {
        field.CPPTYPE_INT32: "int",
        field.CPPTYPE_INT64: "bigint",
        field.CPPTYPE_UINT32: "bigint",
        field.CPPTYPE_DOUBLE: "double",
        field.CPPTYPE_FLOAT: "float",
        field.CPPTYPE_BOOL: "boolean",
        field.CPPTYPE_STRING: "binary" if field.type == field.TYPE_BYTES else "string",
    }
    return AvroType(kinds[field.cpp_type], _same, nullable=True)


def _enum(kind: Any) -> AvroType:
    names = {member.number: member.name for member in reversed(kind.values)}
    numbers = {member.name: member.number for member in kind.values}
    load: Convert = names.__getitem__  # the number of a newer schema is a KeyError
    return AvroType("string", numbers.__getitem__, load, nullable=True)


def _same(value: Any) -> Any:
    return value


def _given(value: Any) -> Any:
    if value is None:
        raise ValueError("an element that is null")
    return value
