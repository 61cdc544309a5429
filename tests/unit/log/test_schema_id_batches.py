"""Schema ids in batches: replaced in place, exactly those that a consumer would look up."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.schemas.ids import (
    Header,
    SchemaId,
    SchemaIdForm,
    SchemaPart,
    SchemaRule,
    encode_schema_id,
    find_schema_ids,
    rewrite_schema_ids,
)
from k2ktui.log.batch import HEADER_BYTES, Batch, CorruptBatch, split_batches, stamp_producer
from k2ktui.log.rebuild import build_batches
from k2ktui.log.record import KafkaRecord, TimestampType, record_at
from k2ktui.log.record_headers import encode_headers
from k2ktui.log.records import Records, decode_records, encode_nullable
from k2ktui.log.schema_id_batches import MappedBatch, UnresolvedSchemas, map_batch, map_records
from k2ktui.log.schema_id_columns import UsedId

KEY, VALUE = SchemaPart.KEY, SchemaPart.VALUE
BOTH = SchemaRule()
PASS = SchemaRule(on_unknown="passthrough")


def avro(number: int, data: bytes = b"data") -> bytes:
    """Return a payload as Confluent's serializer writes it."""
    return encode_schema_id(SchemaId(SchemaIdForm.PREFIX, number)) + data


def prefix(part: SchemaPart, number: int) -> UsedId:
    return part, SchemaId(SchemaIdForm.PREFIX, number)


_IDS = st.integers(1, 12)
_PAYLOADS = st.one_of(
    st.none(),
    st.binary(max_size=12),
    _IDS.map(avro),
    _IDS.map(lambda n: encode_schema_id(SchemaId(SchemaIdForm.LONG_PREFIX, n)) + b"x"),
    st.builds(lambda n, size: avro(n, b"a" * size), _IDS, st.sampled_from((0, 60, 130, 9000))),
)
_HEADER_IDS = st.builds(
    lambda form, n: encode_schema_id(SchemaId(form, n)),
    st.sampled_from([form for form in SchemaIdForm if "Header" in form]),
    _IDS,
)
_NAMES = st.sampled_from(
    ("plain", "__key_schema_id", "__value_schema_id", "apicurio.value.globalId", "apicurio.key.x")
)
_HEADERS = st.lists(st.tuples(_NAMES, st.one_of(st.none(), st.binary(max_size=5), _HEADER_IDS)))
_RECORDS = st.lists(st.tuples(_PAYLOADS, _PAYLOADS, _HEADERS), min_size=1, max_size=8)


@given(_RECORDS, st.sampled_from((0, 1, 2, 3, 4)), st.booleans())
def test_a_batch_gets_the_ids_that_each_record_would(
    records: list[tuple[bytes | None, bytes | None, list[Header]]], codec: int, takes_apart: bool
) -> None:
    batch, before = _batch(records, codec)
    expected: list[tuple[object, ...]] = []
    known: dict[UsedId, int | None] = {}
    for record in before:
        key, value, headers = record.key, record.value, record.headers
        for part in (KEY, VALUE):
            payload = key if part is KEY else value
            ids = {
                schema_id: schema_id.value % 5 + 3
                for schema_id in find_schema_ids(part, payload, headers)
            }
            known |= {(part, schema_id): new for schema_id, new in ids.items()}
            payload, headers = rewrite_schema_ids(part, payload, headers, ids)
            key, value = (payload, value) if part is KEY else (key, payload)
        expected.append((key, value, headers, record.timestamp_ms, record.offset))
    if takes_apart:
        columns = _columns(map_records(decode_records(batch), BOTH, known).records)
    else:
        columns = _columns(decode_records(_parsed(map_batch(batch, BOTH, known))))
    assert columns == expected


def _batch(
    records: list[tuple[bytes | None, bytes | None, list[Header]]], codec: int
) -> tuple[Batch, list[KafkaRecord]]:
    tails = [
        encode_nullable(key)
        + encode_nullable(value)
        + encode_headers([(name.encode(), content) for name, content in headers])
        for key, value, headers in records
    ]
    offsets = range(len(tails))
    batch_records = Records(np.array(offsets), np.array([7 * n for n in offsets]), tails)
    (built,) = build_batches(batch_records, codec, 1 << 20)
    (batch,) = split_batches(built.data)
    return batch, [record_at(batch_records, row, TimestampType.CREATE) for row in offsets]


def _parsed(mapped: MappedBatch | None) -> Batch:
    assert mapped is not None
    stamp_producer(mapped.view, 7, 0, 0, transactional=True)
    (batch,) = split_batches(mapped.view)
    assert batch.crc_ok()
    return batch


def _columns(decoded: Records) -> list[tuple[object, ...]]:
    records = [record_at(decoded, row, TimestampType.CREATE) for row in range(len(decoded))]
    return [(r.key, r.value, r.headers, r.timestamp_ms, r.offset) for r in records]


def _values(records: list[bytes | None], codec: int = 0) -> Batch:
    return _batch([(None, value, []) for value in records], codec)[0]


def test_a_batch_whose_ids_stay_is_the_same_bytes() -> None:
    batch = _values([avro(1), avro(2)], codec=3)
    before = bytes(batch.view)
    mapped = map_batch(batch, BOTH, {prefix(VALUE, 1): 1, prefix(VALUE, 2): 2})
    assert mapped is not None
    assert not mapped.is_changed
    assert bytes(mapped.view) == before


@pytest.mark.parametrize("codec", [0, 3])
def test_ids_that_were_not_looked_up_change_nothing(codec: int) -> None:
    batch = _values([avro(1), avro(2)], codec)
    before = bytes(batch.view)
    with pytest.raises(UnresolvedSchemas) as raised:
        map_batch(batch, BOTH, {prefix(VALUE, 1): 5})
    assert raised.value.ids == {prefix(VALUE, 2)}
    assert bytes(batch.view) == before


@pytest.mark.parametrize("codec", [0, 3])
def test_an_unknown_id_changes_nothing_unless_it_is_passed_through(codec: int) -> None:
    known: Mapping[UsedId, int | None] = {prefix(VALUE, 1): 5, prefix(VALUE, 2): None}
    batch = _values([avro(1), avro(2), avro(1)], codec)
    before = bytes(batch.view)
    assert map_batch(batch, BOTH, known) is None
    assert bytes(batch.view) == before

    passed = map_batch(batch, PASS, known)
    assert passed is not None
    assert passed.unknown.by_row == {1: prefix(VALUE, 2)}
    assert [row[1] for row in _columns(decode_records(_parsed(passed)))] == [
        avro(5),
        avro(2),
        avro(5),
    ]


def test_only_the_parts_of_the_rule_are_looked_at() -> None:
    (batch, _) = _batch([(avro(1), avro(2), [])], 0)
    mapped = map_batch(batch, SchemaRule((VALUE,)), {prefix(VALUE, 2): 9})
    (row,) = _columns(decode_records(_parsed(mapped)))
    assert row[:2] == (avro(1), avro(9))


@pytest.mark.parametrize("byte", [0x00, 0x01, 0x7F, 0x80, 0xFF])
def test_damaged_records_are_a_corrupt_batch(byte: int) -> None:
    """Whatever a byte of the records becomes, nothing but the errors of damaged data is raised."""
    damaged = 0
    for at in range(HEADER_BYTES, len(_values([avro(1), avro(2)]).view)):
        batch = _values([avro(1), avro(2)])
        batch.view[at] = byte
        try:
            map_batch(batch, PASS, {prefix(VALUE, 1): 5, prefix(VALUE, 2): 6})
        except CorruptBatch:
            damaged += 1
        except UnresolvedSchemas:
            pass
    assert damaged
