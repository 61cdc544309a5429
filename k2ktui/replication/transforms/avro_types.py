"""Spark's and Arrow's types of an Avro schema, and how values are converted between them.

Avro's library reads and writes values without logical types; they are converted here, exactly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from k2ktui.replication.transforms.avro_schema import LOGICAL_TYPE, AvroSchema, parse_schema

if TYPE_CHECKING:
    import pyarrow as pa

_PRIMITIVES: Mapping[str, str] = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "bytes": "binary",
    "string": "string",
}
_LOGICAL: Mapping[tuple[str, str], str] = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("long", "local-timestamp-millis"): "timestamp_ntz",
    ("long", "local-timestamp-micros"): "timestamp_ntz",
}
_LARGEST_PRECISION = 38
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_DEEPEST = 100

#: Converts one value; None where nothing is converted.
Convert = Callable[[Any], Any]


class UnsupportedSchema(ValueError):
    """A schema has a type without a counterpart; the text names its field."""


@dataclass(frozen=True, slots=True)
class AvroField:
    """A field of a record; ``has_default`` if a writer may leave it out."""

    name: str
    type: AvroType
    has_default: bool = False


@dataclass(frozen=True, slots=True)
class AvroType:
    """An Avro type, as Spark and Arrow have it.

    Attributes:
        kind: Spark's name of it; ``struct``, ``array`` and ``map`` have parts.
        nullable: whether it is a union with null.
        fields: those of a struct.
        item: the type of an array's items or a map's values.
        load: from what Avro's library reads to what Arrow takes; None if that is the same.
        dump: from a value of Spark, as Arrow gives it, to what Avro's library writes.
        scale: of a decimal.
    """

    kind: str
    dump: Convert
    load: Convert | None = None
    nullable: bool = False
    fields: tuple[AvroField, ...] = ()
    item: AvroType | None = None
    scale: int = 0

    @property
    def ddl(self) -> str:
        """The type as Spark's DDL."""
        if self.kind == "struct":
            return (
                f"STRUCT<{', '.join(f'`{field.name}`: {field.type.ddl}' for field in self.fields)}>"
            )
        if self.item is not None:
            return f"{'MAP<STRING, ' if self.kind == 'map' else 'ARRAY<'}{self.item.ddl}>"
        return self.kind.upper()

    @property
    def arrow(self) -> pa.DataType:
        """The type of the column."""
        import pyarrow as pa

        if self.kind == "struct":
            return pa.struct([(field.name, field.type.arrow) for field in self.fields])
        if self.item is not None:
            inner = self.item.arrow
            return pa.map_(pa.string(), inner) if self.kind == "map" else pa.list_(inner)
        if self.kind.startswith("decimal"):
            precision = int(self.kind[len("decimal(") :].partition(",")[0])
            return pa.decimal128(precision, self.scale)
        return {
            "boolean": pa.bool_(),
            "int": pa.int32(),
            "bigint": pa.int64(),
            "float": pa.float32(),
            "double": pa.float64(),
            "binary": pa.binary(),
            "string": pa.string(),
            "date": pa.date32(),
            "timestamp": pa.timestamp("us", tz="UTC"),
            "timestamp_ntz": pa.timestamp("us"),
        }[self.kind]


def make_type(schema: AvroSchema) -> AvroType:
    """Return the type of a whole key or value.

    Raises:
        UnsupportedSchema: a part of it has no counterpart, with the name of its field.
        ValueError: it is not an Avro schema.
    """
    named: dict[str, Any] = {}
    parsed = parse_schema(schema, named)
    try:
        made = _Builder(named).build(parsed, "")
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        # The library accepts some schemas that are incomplete.
        raise ValueError(f"it is not an Avro schema: {type(error).__name__} {error}") from error
    if made.nullable:
        raise UnsupportedSchema(
            "the whole schema is a union with null: its null would become a record without a value"
        )
    return replace(made, dump=_required(made.dump, ""))


@dataclass
class _Builder:
    """Builds types of a parsed schema; ``named`` has the definitions of its named types."""

    named: Mapping[str, Any]
    opened: list[str] = field(default_factory=list)

    def build(self, schema: Any, path: str) -> AvroType:
        """Return the type of a schema; ``path`` is its field."""
        if isinstance(schema, list):
            return self._union(schema, path)
        if isinstance(schema, str):
            schema = self._named(schema, path)
        match kind := schema["type"]:
            case "null":
                raise UnsupportedSchema(f"{_where(path)} is null alone")
            case "record" | "error":
                return self._record(schema, path)
            case "array":
                return _array(self.build(schema["items"], f"{path}[]"), f"{path}[]")
            case "map":
                return _map(self.build(schema["values"], f"{path}{{}}"), f"{path}{{}}")
            case "enum":
                return _enum(schema)
            case "fixed":
                return _fixed(schema, path)
        return _primitive(kind, schema, path)

    def _named(self, name: str, path: str) -> Any:
        """Return the schema that a name stands for."""
        if name == "null" or name in _PRIMITIVES:
            return {"type": name}
        if name in self.opened:
            raise UnsupportedSchema(f"{_where(path)} contains itself ({name})")
        return self.named[name]

    def _union(self, branches: list[Any], path: str) -> AvroType:
        others = [branch for branch in branches if branch not in ("null", {"type": "null"})]
        if len(others) != 1:
            raise UnsupportedSchema(
                f"{_where(path)} is a union of {len(others)} types; only a union of one type with "
                "null has a counterpart"
            )
        made = self.build(others[0], path)
        if len(others) == len(branches):
            return made
        load, dump = made.load, made.dump
        return replace(
            made,
            nullable=True,
            load=None if load is None else lambda value: None if value is None else load(value),
            dump=lambda value: None if value is None else dump(value),
        )

    def _record(self, schema: Any, path: str) -> AvroType:
        if not schema["fields"]:
            raise UnsupportedSchema(f"{_where(path)} is a record without fields")
        if len(self.opened) >= _DEEPEST:
            raise UnsupportedSchema(f"{_where(path)} is nested too deeply")
        self.opened.append(schema["name"])
        fields: list[AvroField] = []
        for member in schema["fields"]:
            inner = f"{path}.{member['name']}" if path else member["name"]
            if not _NAME.fullmatch(member["name"]):
                raise UnsupportedSchema(f"{_where(inner)} has no name that Avro allows")
            made = self.build(member["type"], inner)
            if not made.nullable:
                made = replace(made, dump=_required(made.dump, inner))
            fields.append(AvroField(member["name"], made, "default" in member))
        self.opened.pop()
        lower = [field.name.lower() for field in fields]
        for at, one in enumerate(lower):
            if one in lower[:at]:
                raise UnsupportedSchema(
                    f"{_where(path)} has two fields whose names differ in case only "
                    f"({fields[at].name}), which are one for Spark"
                )
        return _struct(tuple(fields))


def _primitive(kind: str, schema: Mapping[str, Any], path: str) -> AvroType:
    logical = str(schema.get(LOGICAL_TYPE, ""))
    if kind == "bytes" and logical == "decimal":
        return _decimal(schema, path, 0)
    spark_type = _LOGICAL.get((kind, logical), _PRIMITIVES[kind])
    if logical.endswith("timestamp-millis") and spark_type != "bigint":
        return AvroType(spark_type, lambda value: value // 1000, lambda value: value * 1000)
    if kind == "bytes":  # the default of a field is text
        return AvroType(spark_type, _same, _bytes)
    return AvroType(spark_type, _same)


def _decimal(schema: Mapping[str, Any], path: str, size: int) -> AvroType:
    precision, scale = schema.get("precision", 0), schema.get("scale", 0)
    numbers = isinstance(precision, int) and isinstance(scale, int)
    if not numbers or not 0 < precision <= _LARGEST_PRECISION or not 0 <= scale <= precision:
        raise UnsupportedSchema(
            f"{_where(path)} is a decimal({precision}, {scale}); Spark's have up to "
            f"{_LARGEST_PRECISION} digits"
        )

    def load(value: Any) -> Decimal:
        number = int.from_bytes(_bytes(value), "big", signed=True)
        return Decimal(f"{number}E-{scale}")

    def dump(value: Decimal) -> bytes:
        sign, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int) and exponent >= -scale  # by the types' check
        number: int = int("".join(map(str, digits))) * 10 ** (scale + exponent)
        if number >= 10**precision:
            raise ValueError("a decimal has too many digits")
        number = -number if sign else number
        length = size or (number.bit_length() // 8 + 1)
        return number.to_bytes(length, "big", signed=True)

    return AvroType(f"decimal({precision},{scale})", dump, load, scale=scale)


def _fixed(schema: Mapping[str, Any], path: str) -> AvroType:
    size = int(schema["size"])
    if schema.get(LOGICAL_TYPE) == "decimal":
        return _decimal(schema, path, size)

    def dump(value: bytes) -> bytes:
        if len(value) != size:
            raise ValueError("a value of another size than the schema's")
        return value

    return AvroType("binary", dump, _bytes)


def _enum(schema: Mapping[str, Any]) -> AvroType:
    symbols = frozenset(schema["symbols"])

    def dump(value: str) -> str:
        if value not in symbols:
            raise ValueError("a value that is no symbol of the enumeration")
        return value

    return AvroType("string", dump)


def _array(item: AvroType, path: str) -> AvroType:
    inner = item.dump if item.nullable else _required(item.dump, path)
    load = item.load
    return AvroType(
        "array",
        lambda values: [inner(value) for value in values],
        None if load is None else lambda values: [load(value) for value in values],
        item=item,
    )


def _map(item: AvroType, path: str) -> AvroType:
    inner = item.dump if item.nullable else _required(item.dump, path)
    load = item.load or _same
    return AvroType(
        "map",
        lambda pairs: {name: inner(value) for name, value in pairs},
        lambda entries: [(name, load(value)) for name, value in entries.items()],
        item=item,
    )


def _struct(fields: tuple[AvroField, ...]) -> AvroType:
    loaded = [(field.name, field.type.load) for field in fields if field.type.load is not None]

    def load(record: dict[str, Any]) -> dict[str, Any]:
        return record | {name: convert(record[name]) for name, convert in loaded}

    def dump(record: dict[str, Any]) -> dict[str, Any]:
        return {
            field.name: field.type.dump(record[field.name])
            for field in fields
            if field.name in record
        }

    return AvroType("struct", dump, load if loaded else None, fields=fields)


def _required(dump: Convert, path: str) -> Convert:
    def convert(value: Any) -> Any:
        if value is None:
            raise ValueError(f"{_where(path)} must not be null")
        return dump(value)

    return convert


def _same(value: Any) -> Any:
    return value


def _bytes(value: Any) -> bytes:
    data: bytes = value.encode("latin-1") if isinstance(value, str) else value
    return data


def _where(path: str) -> str:
    return f"field {path}" if path else "it"
