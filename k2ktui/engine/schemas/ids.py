"""Schema ids in records: find them in payloads and headers, and write other ids in their place.

A registry's serializer marks a key or value with the id of its schema, in one of these forms:

- a zero byte and the id in 4 bytes, then the data (Confluent, Apicurio). With Protobuf, the indexes
  of the message in its file follow the id; they belong to the schema and stay as they are.
- a zero byte and the id in 8 bytes (Apicurio's older form). Ids begin at 1, so that 4 zero bytes
  after the first distinguish it from the 4-byte form for ids below 2^32.
- a header that holds the byte 1 and a 16-byte GUID, or the byte 0 and a 4-byte id (Confluent).
- a header that holds an 8-byte global id or content id (Apicurio).

Deserializers read headers first and look into the payload only without one; so does this module.
All ids have a fixed width: a rewritten key, value or header has the length of the original.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal
from uuid import UUID

Header = tuple[str, bytes | None]

LARGEST_INT = 2**31 - 1
LARGEST_LONG = 2**63 - 1

_ZERO = 0
_GUID_MARK = 1


class SchemaPart(StrEnum):
    """The part of a record that a schema describes."""

    KEY = "key"
    VALUE = "value"


OnUnknownSchema = Literal["fail", "passthrough", "deadLetter"]


@dataclass(frozen=True, slots=True)
class SchemaRule:
    """Whose schema ids are replaced in the records of a topic.

    Attributes:
        parts: key, value or both.
        on_unknown: what happens to a record with an id that has no counterpart on the target.
    """

    parts: tuple[SchemaPart, ...] = (SchemaPart.KEY, SchemaPart.VALUE)
    on_unknown: OnUnknownSchema = "fail"


class SchemaIdForm(StrEnum):
    """How a record holds a schema id."""

    PREFIX = "prefix"  # in the payload, 4 bytes
    LONG_PREFIX = "longPrefix"  # in the payload, 8 bytes
    GUID_HEADER = "guidHeader"  # __key_schema_id or __value_schema_id, 16 bytes
    ID_HEADER = "idHeader"  # __key_schema_id or __value_schema_id, 4 bytes
    GLOBAL_ID_HEADER = "globalIdHeader"  # apicurio.key.globalId or apicurio.value.globalId, 8 bytes
    CONTENT_ID_HEADER = "contentIdHeader"  # apicurio.key.contentId or apicurio.value.contentId


@dataclass(frozen=True, slots=True)
class SchemaId:
    """A schema id as a record holds it.

    Attributes:
        form: where it is, and how wide.
        value: the id; of a GUID, its 128 bits as a number (``uuid.UUID(int=value)``).
    """

    form: SchemaIdForm
    value: int


@dataclass(frozen=True, slots=True)
class _Layout:
    """The bytes around an id: a mark of 0 or 1 bytes, and the width and largest value of the id."""

    mark: bytes
    width: int
    largest: int

    @property
    def end(self) -> int:
        return len(self.mark) + self.width


_LAYOUTS: Mapping[SchemaIdForm, _Layout] = {
    SchemaIdForm.PREFIX: _Layout(bytes([_ZERO]), 4, LARGEST_INT),
    SchemaIdForm.LONG_PREFIX: _Layout(bytes([_ZERO]), 8, LARGEST_LONG),
    SchemaIdForm.GUID_HEADER: _Layout(bytes([_GUID_MARK]), 16, 2**128 - 1),
    SchemaIdForm.ID_HEADER: _Layout(bytes([_ZERO]), 4, LARGEST_INT),
    SchemaIdForm.GLOBAL_ID_HEADER: _Layout(b"", 8, LARGEST_LONG),
    SchemaIdForm.CONTENT_ID_HEADER: _Layout(b"", 8, LARGEST_LONG),
}

#: Header names by part, with the forms that such a header may have.
ID_HEADERS: Mapping[SchemaPart, Mapping[str, tuple[SchemaIdForm, ...]]] = {
    part: {
        f"__{part}_schema_id": (SchemaIdForm.GUID_HEADER, SchemaIdForm.ID_HEADER),
        f"apicurio.{part}.globalId": (SchemaIdForm.GLOBAL_ID_HEADER,),
        f"apicurio.{part}.contentId": (SchemaIdForm.CONTENT_ID_HEADER,),
    }
    for part in SchemaPart
}
#: Forms that are in the key or value itself, where other bytes may look like them.
IN_PAYLOAD = (SchemaIdForm.PREFIX, SchemaIdForm.LONG_PREFIX)


def describe_schema_id(schema_id: SchemaId) -> str:
    """Return an id as registries show it."""
    if schema_id.form is SchemaIdForm.GUID_HEADER:
        return str(UUID(int=schema_id.value))
    return str(schema_id.value)


def find_schema_ids(
    part: SchemaPart, payload: bytes | None, headers: Sequence[Header] = ()
) -> tuple[SchemaId, ...]:
    """Return the schema ids of a key or value, in the order in which they are looked for.

    Usually none or one. Apicurio's headers may hold two, a global id and a content id: both name
    the same schema. Of several headers of one name the last counts, as in Kafka's deserializers.
    Whether a registry has the id is not known here: four bytes after a zero byte may look like an
    id by chance.

    Args:
        part: whether ``payload`` is the key or the value.
        payload: the key or value; null has no schema, whatever the headers hold.
        headers: the record's headers, in order.
    """
    if payload is None:
        return ()
    schema_ids = [
        SchemaId(form, value)
        for at, forms in _id_headers(part, headers)
        for form, value in _first(forms, headers[at][1])
    ]
    if not schema_ids:
        schema_ids = [SchemaId(form, value) for form, value in _first(IN_PAYLOAD, payload)]
    return tuple(schema_ids)


def rewrite_schema_ids(
    part: SchemaPart,
    payload: bytes | None,
    headers: Sequence[Header],
    ids: Mapping[SchemaId, int],
) -> tuple[bytes | None, tuple[Header, ...]]:
    """Return the payload and headers with other ids in place of those found.

    Args:
        part: whether ``payload`` is the key or the value.
        payload: the key or value.
        headers: the record's headers, in order.
        ids: the new value of each id that :func:`find_schema_ids` returns; others stay.

    Raises:
        ValueError: a new value does not fit into the form of the old one.
    """
    replaced = list(headers)
    for schema_id in find_schema_ids(part, payload, headers):
        if schema_id not in ids:
            continue
        if schema_id.form in IN_PAYLOAD:
            payload = _replace(payload or b"", schema_id.form, ids[schema_id])
            continue
        for at, forms in _id_headers(part, headers):
            name, value = replaced[at]
            if schema_id.form in forms and value is not None:
                replaced[at] = (name, _replace(value, schema_id.form, ids[schema_id]))
    return payload, tuple(replaced)


def encode_schema_id(schema_id: SchemaId) -> bytes:
    """Return the bytes of an id with the mark before it: a payload's prefix or a header's value.

    Raises:
        ValueError: the value does not fit into the form.
    """
    layout = _LAYOUTS[schema_id.form]
    if not 0 < schema_id.value <= layout.largest:
        raise ValueError(f"{schema_id.value} is not a schema id of the form {schema_id.form}")
    return layout.mark + schema_id.value.to_bytes(layout.width, "big")


def _id_headers(
    part: SchemaPart, headers: Sequence[Header]
) -> list[tuple[int, tuple[SchemaIdForm, ...]]]:
    """Return the index of the last header of each name that holds ids, with its possible forms."""
    if not headers:
        return []
    last = {name: at for at, (name, _) in enumerate(headers)}
    return [(last[name], forms) for name, forms in ID_HEADERS[part].items() if name in last]


def _first(
    forms: Sequence[SchemaIdForm], data: bytes | None
) -> tuple[tuple[SchemaIdForm, int], ...]:
    """Return the first form that the bytes have, with the id; empty if they have none."""
    for form in forms:
        value = _read(form, data)
        if value is not None:
            return ((form, value),)
    return ()


def _read(form: SchemaIdForm, data: bytes | None) -> int | None:
    layout = _LAYOUTS[form]
    if data is None or len(data) < layout.end or not data.startswith(layout.mark):
        return None
    if form in (SchemaIdForm.GLOBAL_ID_HEADER, SchemaIdForm.CONTENT_ID_HEADER) and (
        len(data) != layout.end
    ):
        return None
    value = int.from_bytes(data[len(layout.mark) : layout.end], "big")
    return value if 0 < value <= layout.largest else None


def _replace(data: bytes, form: SchemaIdForm, value: int) -> bytes:
    return encode_schema_id(SchemaId(form, value)) + data[_LAYOUTS[form].end :]
