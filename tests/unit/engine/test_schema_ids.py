"""Schema ids are found in every form, and rewritten there and back without another change."""

from __future__ import annotations

import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.schemas.columns import PayloadIds, find_payload_ids, write_payload_ids
from k2ktui.engine.schemas.ids import (
    ID_HEADERS,
    LARGEST_INT,
    LARGEST_LONG,
    Header,
    SchemaId,
    SchemaIdForm,
    SchemaPart,
    encode_schema_id,
    find_schema_ids,
    rewrite_schema_ids,
)

KEY, VALUE = SchemaPart.KEY, SchemaPart.VALUE
GUID = uuid.UUID("89791762-2336-4186-9674-299b90a802e2")

parts = st.sampled_from(SchemaPart)
ints = st.integers(1, LARGEST_INT)
# An 8-byte id from 2^32 on looks like one of 4 bytes.
longs = st.integers(1, 2**32 - 1)
prefixes = st.one_of(
    st.builds(SchemaId, st.just(SchemaIdForm.PREFIX), ints),
    st.builds(SchemaId, st.just(SchemaIdForm.LONG_PREFIX), longs),
)
header_names = st.one_of(
    st.sampled_from([name for names in ID_HEADERS.values() for name in names]), st.text(max_size=9)
)
headers_of_any_kind = st.lists(
    st.tuples(header_names, st.one_of(st.none(), st.binary(max_size=20))), max_size=5
)
# Bytes that often begin like an id.
payloads = st.one_of(
    st.none(),
    st.binary(max_size=20),
    st.builds(lambda zeros, rest: b"\0" * zeros + rest, st.integers(0, 9), st.binary(max_size=12)),
)


@pytest.mark.parametrize("indexes", [None, [0], [2, 1]], ids=["none", "first", "nested"])
def test_an_id_that_confluents_serializer_writes_is_found_and_replaced(
    indexes: list[int] | None,
) -> None:
    """A Protobuf message's indexes follow the id, and stay."""
    ConfluentId = pytest.importorskip("confluent_kafka.schema_registry.serde").SchemaId
    before = ConfluentId("PROTOBUF", 7, None, indexes).id_to_bytes() + b"data"
    after = ConfluentId("PROTOBUF", 70_000, None, indexes).id_to_bytes() + b"data"
    schema_id = SchemaId(SchemaIdForm.PREFIX, 7)
    assert find_schema_ids(VALUE, before) == (schema_id,)
    assert rewrite_schema_ids(VALUE, before, (), {schema_id: 70_000}) == (after, ())


def test_a_guid_in_a_header_that_confluents_serializer_writes_is_found_and_replaced() -> None:
    ConfluentId = pytest.importorskip("confluent_kafka.schema_registry.serde").SchemaId
    before = ConfluentId("PROTOBUF", None, str(GUID), [1]).guid_to_bytes()
    other = uuid.UUID(int=5)
    after = ConfluentId("PROTOBUF", None, str(other), [1]).guid_to_bytes()
    headers: list[Header] = [("a", b"1"), ("__value_schema_id", before), ("__key_schema_id", None)]
    schema_id = SchemaId(SchemaIdForm.GUID_HEADER, GUID.int)
    assert find_schema_ids(VALUE, b"\0\0\0\0\7data", headers) == (schema_id,), "headers come first"
    payload, written = rewrite_schema_ids(VALUE, b"\0\0\0\0\7data", headers, {schema_id: other.int})
    assert payload == b"\0\0\0\0\7data"
    assert written == (headers[0], ("__value_schema_id", after), headers[2])
    assert find_schema_ids(KEY, b"\0\0\0\0\7data", headers) == (SchemaId(SchemaIdForm.PREFIX, 7),)


def test_apicurios_forms_are_found() -> None:
    eight = (9).to_bytes(8, "big")
    schema_ids = find_schema_ids(KEY, b"\0" + eight + b"data")
    assert schema_ids == (SchemaId(SchemaIdForm.LONG_PREFIX, 9),)
    headers: list[Header] = [
        ("apicurio.key.globalId", eight),
        ("apicurio.key.contentId", (4).to_bytes(8, "big")),
        ("apicurio.value.globalId", b""),
    ]
    both = find_schema_ids(KEY, b"{}", headers)
    assert both == (
        SchemaId(SchemaIdForm.GLOBAL_ID_HEADER, 9),
        SchemaId(SchemaIdForm.CONTENT_ID_HEADER, 4),
    )
    assert find_schema_ids(VALUE, b"{}", headers) == ()


@pytest.mark.parametrize(
    "payload",
    [
        None,
        b"",
        b"\0\0\0\0",
        b"\1\0\0\0\7data",
        b"\0\0\0\0\0dat",
        b"\0\x80\0\0\0data",
        b'{"a": 1}',
        (5).to_bytes(8, "big"),
    ],
    ids=str,
)
def test_other_payloads_have_no_id(payload: bytes | None) -> None:
    """Too short, no zero byte, id 0, a negative id, JSON, and a number as Kafka's serializer."""
    assert find_schema_ids(VALUE, payload) == ()


def test_of_two_headers_the_last_counts() -> None:
    one, two = (("apicurio.value.globalId", bytes([*[0] * 7, n])) for n in (1, 2))
    schema_ids = find_schema_ids(VALUE, b"x", [one, two])
    assert schema_ids == (SchemaId(SchemaIdForm.GLOBAL_ID_HEADER, 2),)
    _, written = rewrite_schema_ids(VALUE, b"x", [one, two], {schema_ids[0]: 3})
    assert written == (one, ("apicurio.value.globalId", bytes([*[0] * 7, 3])))


def test_a_null_payload_has_no_schema() -> None:
    header = ("apicurio.value.globalId", bytes([*[0] * 7, 1]))
    assert find_schema_ids(VALUE, None, [header]) == ()
    assert rewrite_schema_ids(VALUE, None, [header], {}) == (None, (header,))


@given(parts, payloads, headers_of_any_kind)
def test_what_is_not_replaced_is_unchanged(
    part: SchemaPart, payload: bytes | None, headers: list[Header]
) -> None:
    assert rewrite_schema_ids(part, payload, headers, {}) == (payload, tuple(headers))
    schema_ids = find_schema_ids(part, payload, headers)
    same = {schema_id: schema_id.value for schema_id in schema_ids}
    assert rewrite_schema_ids(part, payload, headers, same) == (payload, tuple(headers))
    if not schema_ids:
        others = {SchemaId(form, 1): 2 for form in SchemaIdForm}
        assert rewrite_schema_ids(part, payload, headers, others) == (payload, tuple(headers))


@given(parts, payloads, headers_of_any_kind, st.lists(ints, min_size=2, max_size=2))
def test_there_and_back_is_the_identity(
    part: SchemaPart, payload: bytes | None, headers: list[Header], numbers: list[int]
) -> None:
    schema_ids = find_schema_ids(part, payload, headers)
    there = dict(zip(schema_ids, numbers, strict=False))
    written, kept = rewrite_schema_ids(part, payload, headers, there)
    assert len(written or b"") == len(payload or b"")
    now = find_schema_ids(part, written, kept)
    assert now == tuple(SchemaId(schema_id.form, there[schema_id]) for schema_id in schema_ids)
    back = {new: old.value for new, old in zip(now, schema_ids, strict=True)}
    assert rewrite_schema_ids(part, written, kept, back) == (payload, tuple(headers))


@given(parts, prefixes, st.binary(max_size=9))
def test_what_is_encoded_is_found(part: SchemaPart, schema_id: SchemaId, data: bytes) -> None:
    assert find_schema_ids(part, encode_schema_id(schema_id) + data) == (schema_id,)


@pytest.mark.parametrize("value", [0, -1, LARGEST_INT + 1])
def test_an_id_that_does_not_fit_is_refused(value: int) -> None:
    schema_id = SchemaId(SchemaIdForm.PREFIX, 7)
    with pytest.raises(ValueError, match="is not a schema id of the form prefix"):
        rewrite_schema_ids(VALUE, encode_schema_id(schema_id), (), {schema_id: value})


def columns(payloads: list[bytes | None]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    data = np.frombuffer(b"".join(payload or b"" for payload in payloads), np.uint8).copy()
    lengths = np.array([-1 if payload is None else len(payload) for payload in payloads], np.int64)
    starts = np.concatenate([[0], np.cumsum(np.maximum(lengths, 0))[:-1]]).astype(np.int64)
    return data, starts[: len(payloads)], lengths


def find_one_by_one(payloads: list[bytes | None]) -> list[tuple[int, int, bool]]:
    return [
        (row, schema_id.value, schema_id.form is SchemaIdForm.LONG_PREFIX)
        for row, payload in enumerate(payloads)
        for schema_id in find_schema_ids(VALUE, payload)
    ]


def listed(payload_ids: PayloadIds) -> list[tuple[int, int, bool]]:
    return list(
        zip(
            payload_ids.rows.tolist(),
            payload_ids.ids.tolist(),
            payload_ids.is_long.tolist(),
            strict=True,
        )
    )


@given(st.lists(payloads, max_size=12), st.data())
def test_columns_and_single_records_agree(
    payloads: list[bytes | None], data: st.DataObject
) -> None:
    buffer, starts, lengths = columns(payloads)
    payload_ids = find_payload_ids(buffer, starts, lengths)
    assert listed(payload_ids) == find_one_by_one(payloads)
    new = data.draw(st.lists(ints, min_size=len(payload_ids), max_size=len(payload_ids)))
    before = buffer.copy()
    write_payload_ids(buffer, starts, payload_ids, np.array(new, np.int64))
    ids: dict[int, int] = dict(zip(payload_ids.rows.tolist(), new, strict=True))
    expected = b"".join(
        rewrite_schema_ids(
            VALUE, payload, (), dict.fromkeys(find_schema_ids(VALUE, payload), ids.get(row, 0))
        )[0]
        or b""
        for row, payload in enumerate(payloads)
    )
    assert buffer.tobytes() == expected
    again = find_payload_ids(buffer, starts, lengths)
    write_payload_ids(buffer, starts, again, payload_ids.ids)
    assert np.array_equal(buffer, before)


def test_columns_refuse_an_id_that_does_not_fit() -> None:
    buffer, starts, lengths = columns([b"\0\0\0\0\7data", b"\0" + (7).to_bytes(8, "big")])
    payload_ids = find_payload_ids(buffer, starts, lengths)
    before = buffer.copy()
    with pytest.raises(ValueError, match="does not fit"):
        write_payload_ids(buffer, starts, payload_ids, np.array([LARGEST_INT + 1, 1]))
    assert np.array_equal(buffer, before)
    write_payload_ids(buffer, starts, payload_ids, np.array([1, LARGEST_LONG]))
    assert listed(find_payload_ids(buffer, starts, lengths))[0] == (0, 1, False)
