"""Decodes Protobuf messages into Arrow columns, and encodes columns as messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from k2ktui.replication.transforms.avro_types import AvroType
from k2ktui.replication.transforms.columns import encode_column, make_column
from k2ktui.replication.transforms.protobuf_types import (
    index_path,
    make_message_type,
    read_index_path,
    read_message_class,
    write_index_path,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from k2ktui.registry.lookup_limit import LookupLimit

_MAGIC, _PREFIX = 0, 5


@dataclass(frozen=True)
class MessageSchema:
    """A message: its full name, and the set of descriptors that has it."""

    name: str
    descriptors: bytes = field(repr=False)

    @property
    def indexes(self) -> bytes:
        """The message's indexes, as they stand after a schema's id."""
        return write_index_path(index_path(_read(self)[0].DESCRIPTOR))

    def check(self) -> None:
        """Raise ValueError if it cannot be used, with the name of the field."""
        _read(self)


@dataclass(frozen=True)
class ProtobufCodec:
    """Decodes and encodes messages.

    Attributes:
        schema: the message.
        has_id: whether a schema's id and the message's indexes stand before each value that is
            decoded.
        prefix: what stands before each value that is encoded: nothing, or the id and the indexes.
    """

    schema: MessageSchema
    has_id: bool = False
    prefix: bytes = b""

    @property
    def type(self) -> AvroType:
        """The column's type."""
        return _read(self.schema)[1]

    def decode(self, values: pa.BinaryArray, limit: LookupLimit | None = None) -> pa.Array:
        """Return a value for each; null where it is null or cannot be decoded."""
        made, kind = _read(self.schema)
        assert kind.load is not None
        decoded = []
        for value in values.to_pylist():
            try:
                message = None if value is None else self._parse(value, made)
                decoded.append(None if message is None else kind.load(message))
            except Exception:  # any bytes are possible, and so is any error of the library
                decoded.append(None)
        return make_column(decoded, kind.arrow)

    def encode(self, column: pa.Array) -> tuple[list[bytes | None], list[int]]:
        """Return the bytes of each value, and the rows that cannot be encoded."""
        _, kind = _read(self.schema)

        def write(value: Any) -> bytes:
            message: bytes = kind.dump(value).SerializeToString(deterministic=True)
            return self.prefix + message

        return encode_column(column, write)

    def _parse(self, value: bytes, made: Any) -> Any:
        start = 0
        if self.has_id:
            if len(value) < _PREFIX or value[0] != _MAGIC:
                return None
            path, start = read_index_path(value, _PREFIX)
            if path != index_path(made.DESCRIPTOR):
                return None
        message = made()
        message.ParseFromString(value[start:])
        # A field that the message does not have would be lost.
        size = message.ByteSize()
        message.DiscardUnknownFields()
        return message if message.ByteSize() == size else None


@lru_cache(256)
def _read(schema: MessageSchema) -> tuple[Any, AvroType]:
    made = read_message_class(schema.descriptors, schema.name)
    return made, make_message_type(made.DESCRIPTOR)
