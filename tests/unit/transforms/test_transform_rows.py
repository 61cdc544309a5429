"""Records become Arrow rows and come back; failed and left-out records are distinguished."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.transforms.model import Format, Routing, Transform, plan_steps
from k2ktui.log.batch import CorruptBatch
from k2ktui.log.record import Header, KafkaRecord, TimestampType, record_at
from k2ktui.log.record_columns import split_records
from k2ktui.log.record_headers import encode_headers, set_headers
from k2ktui.log.records import Records
from k2ktui.log.varints import encode_varint
from k2ktui.replication.copying.slot_task import REPEATED
from k2ktui.replication.spark.executors import transform_reason
from k2ktui.replication.transforms import rows
from k2ktui.replication.transforms.codec_batches import Codecs, encode_batches
from k2ktui.replication.transforms.json_columns import JsonParser
from k2ktui.replication.transforms.rows import (
    InputLayout,
    join_records,
    make_layout,
)
from k2ktui.replication.transforms.transformed import Failure, collect

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = pytest.importorskip("pyarrow")  # of the extra ``transform``
SOURCE = SourcePartition("pay", 1)
EVERY = {"headers", "topic", "partition", "timestamp"}
BYTES = st.none() | st.binary(max_size=5)
HEADERS = st.lists(st.tuples(st.text(max_size=2), BYTES), max_size=3).map(tuple)
RECORDS = st.lists(st.tuples(BYTES, BYTES, HEADERS, st.integers(-1, 1 << 42)), max_size=5)


def records(given_: list[tuple[bytes | None, bytes | None, tuple[Header, ...], int]]) -> Records:
    return join_records(
        [KafkaRecord(7 + n, key, value, h, at) for n, (key, value, h, at) in enumerate(given_)]
    )


def arrow_rows(sent: Records, layout: InputLayout | None = None) -> list[pa.RecordBatch]:
    columns = split_records(sent)
    return list(rows.input_batches(3, SOURCE, columns, layout or InputLayout()))


@given(RECORDS)
def test_records_are_split_and_joined(
    sent: list[tuple[bytes | None, bytes | None, tuple[Header, ...], int]],
) -> None:
    made = records(sent)
    table = [row for batch in arrow_rows(made) for row in batch.to_pylist()]
    assert [row["key"] for row in table] == [key for key, _, _, _ in sent]
    assert [row["value"] for row in table] == [value for _, value, _, _ in sent]
    encoded = [row[rows.HEADERS] for row in table]
    for row, (key, value, headers, at) in enumerate(sent):
        again = record_at(made, row, TimestampType.CREATE)
        assert (again.key, again.value, again.headers, again.timestamp_ms) == (
            key,
            value,
            headers,
            at,
        )
        assert rows.join_record(key, value, encoded[row]) == made.tails[row]


@given(RECORDS)
def test_arrow_rows_have_what_sql_sees(
    sent: list[tuple[bytes | None, bytes | None, tuple[Header, ...], int]],
) -> None:
    table = [row for batch in arrow_rows(records(sent)) for row in batch.to_pylist()]
    assert [row["offset"] for row in table] == list(range(7, 7 + len(sent)))
    for row, (key, value, headers, at) in zip(table, sent, strict=True):
        assert (row[rows.READER], row["topic"], row["partition"]) == (3, "pay", 1)
        assert (row["key"], row["value"], row[rows.TIME]) == (key, value, at)
        visible = [{"key": name, "value": content} for name, content in headers]
        assert row["headers"] == visible
        moment = row["timestamp"]
        assert (moment is None) if at == -1 else (moment.timestamp() == at / 1000)


@pytest.mark.parametrize(
    ("transform", "columns"),
    [
        (Transform(), set()),
        (Transform(filter="`Topic` = 'a'"), {"topic"}),
        (Transform(assignments=(("headers.a", "key"),)), set()),
        (Transform(assignments=(("headers.a", "headers[0].value"),)), {"headers"}),
        (Transform(explode=("value", "array(partition)")), {"partition"}),
        (Transform(routing=Routing("date(TIMESTAMP)", ("t",))), {"timestamp"}),
        (Transform(routing=Routing(partition="0")), {rows.COUNTS}),
        *(
            (Transform(assignments=(("value", text),)), EVERY)
            for text in (
                "to_json(struct(*))",
                "concat('**', \"it's\", to_json(struct(*)), '**')",
                "concat('it''s', `'`, to_json(struct(*)), '`')",
                "concat('\\\\'', to_json(struct(*)), '\\\\'')",
                "to_json(struct(*)) -- it's\n || '*'",
                "to_json(struct(/* it's */ *)) || '*'",
            )
        ),
        *(
            (Transform(assignments=(("value.card", text),)), set[str]())
            for text in ("'****'", "concat('it''s *', `value`.card, ' *')")
        ),
    ],
)
def test_rows_have_the_columns_that_an_expression_can_use(
    transform: Transform, columns: set[str]
) -> None:
    always = {rows.FACTS, rows.READER, rows.TIME, rows.HEADERS, "key", "value", "offset"}
    layout = make_layout(transform, None)
    assert set(layout.columns) == always | columns
    (batch,) = arrow_rows(records([(b"k", b"v", (), 1)]), layout)
    assert batch.schema.names == list(layout.columns)
    assert rows.facts_batch(b"-", layout).schema == batch.schema


def test_values_that_were_parsed_are_left_out_unless_dead_letters_need_them() -> None:
    values = (b'{"a":1}', None, b"{", b'{"b":"\\u0061"}')
    sent = records([(None, value, (), 1) for value in values])
    for transform, expected in (
        (Transform(on_error="skip"), [None, None, *values[2:]]),
        (Transform(on_error="deadLetter"), list(values)),
    ):
        layout = make_layout(transform, JsonParser(SCHEMA))
        (batch,) = arrow_rows(sent, layout)
        table = batch.to_pylist()
        assert [row["value"] for row in table] == expected
        unparsed = [row[rows.PARSED] is None for row in table]
        assert unparsed == [False, True, True, True]
    only = arrow_rows(
        records([(None, values[0], (), 1)] * 3), make_layout(Transform(), layout.parser)
    )
    assert only[0].column("value").null_count == 3


@pytest.mark.parametrize("tail", [b"", b"\x06", b"\x06key", b"\x06key\x0aval", b"\x01\xff"])
@pytest.mark.parametrize("others", [0, 1])
def test_a_damaged_record_is_corrupt(tail: bytes, others: int) -> None:
    """Also where the records after it have the bytes that it lacks."""
    made = records([(b"key", b"value", (), 1)] * (1 + others))
    tails = [tail, *made.tails[1:]]
    with pytest.raises(CorruptBatch):
        split_records(Records(made.offsets, made.timestamps, tails))


def test_a_length_beyond_all_bounds_is_corrupt() -> None:
    at = np.array([1], dtype=np.int64)
    longest = encode_varint((1 << 63) - 1)
    with pytest.raises(CorruptBatch):
        split_records(Records(at, at, [b"\x01" + longest + b"value\x00"]))


SCHEMA = pa.schema(
    [
        ("a", pa.int64()),
        ("b", pa.string()),
        ("c", pa.float64()),
        ("d", pa.bool_()),
        ("n", pa.struct([("x", pa.int32())])),
    ]
)
NONE = dict.fromkeys(SCHEMA.names)


def parsed(*values: bytes | None) -> list[Any]:
    parsed_rows: list[Any] = JsonParser(SCHEMA).parse(pa.array(values, pa.binary())).to_pylist()
    return parsed_rows


def test_json_objects_become_structs() -> None:
    assert parsed(b'{"b": "\xc3\xa9\\n", "other": [{}], "a":1}', None, b"{}", b'{"n":{"x":2}}') == [
        {**NONE, "a": 1, "b": "é\n"},
        None,
        NONE,
        {**NONE, "n": {"x": 2}},
    ]
    assert parsed() == [] and parsed(None) == [None]


@given(st.lists(st.none() | st.tuples(st.sampled_from([b"\0", b"\1", b"{", b""]), st.binary())))
def test_json_follows_a_schema_id(pairs: list[tuple[bytes, bytes] | None]) -> None:
    """Values without an id are left to Spark, which decides that they are an error."""
    objects = (b"", b'{"a":1}', b"{}", b"{", b'{"b":"x"}')
    values = [None if pair is None else pair[0] + pair[1][:4] for pair in pairs]
    values = [
        value if value is None or len(value) < 5 else value + objects[n % len(objects)]
        for n, value in enumerate(values)
    ]
    column = pa.array(values, pa.binary())
    plain = [value[5:] if value is not None and value[:1] == b"\0" else None for value in values]
    assert JsonParser(SCHEMA, has_id=True).parse(column).to_pylist() == parsed(*plain)


def test_a_schema_id_precedes_what_did_not_fail() -> None:
    made = out((0, 1, True, None), (0, 2, True, 0), (0, 3, True, None))
    prefix, at = b"\0\0\0\0\7", rows.OUTPUT.index("key")
    (batch,) = encode_batches([made], Codecs(prefixes={"key": prefix}))
    assert batch.column(at).to_pylist() == [prefix + b"k", b"k", prefix + b"k", None]
    assert batch.column("value") == made.column("value")


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"null", b"[{}]", b" {}", b"{} ", b"{", b"1", b"{}{}", b'{"a":1}\n{"a":2}'),
        *(b'{"a":"1"}', b'{"a":1.0}', b'{"a":1,"a":1}', b'{"a":9223372036854775808}', b'{"b":1}'),
        *(b'{"b":"\\u0061"}', b'{"z":"\xff"}', b'{"z":Inf}', b'{"c":NaN}', b'{"c":-0}', b"{'a':1}"),
        b'{"z":"%s"}' % (b"x" * 1000),
    ],
)
def test_other_values_are_left_to_spark(value: bytes) -> None:
    assert parsed(value) == [None]
    read = parsed(b'{"a":1}', value, b'{"a":2}')
    assert read[1] is None and read[0] in (None, {**NONE, "a": 1})


def test_a_value_does_not_continue_in_the_next() -> None:
    assert parsed(b'{"b":"}', b'{","a":1}', b'{"a":1}{"a":2}') == [None] * 3


def out(*made: tuple[int, int, bool, int | None], facts: bytes | None = b"f") -> pa.RecordBatch:
    """Rows as the plan makes them: partition, offset, kept, failed step."""
    count = len(made)
    columns = {
        rows.FACTS: pa.array([None] * count, pa.binary()),
        rows.READER: pa.array([row[0] for row in made], pa.int32()),
        rows.TIME: pa.array([5] * count, pa.int64()),
        rows.HEADERS: pa.array([b"\x00"] * count, pa.binary()),
        "key": pa.array([b"k"] * count, pa.binary()),
        "value": pa.array([None] * count, pa.binary()),
        "offset": pa.array([row[1] for row in made], pa.int64()),
        rows.KEPT: pa.array([row[2] for row in made], pa.bool_()),
        rows.FAILED: pa.array([row[3] for row in made], pa.int32()),
        rows.ASSIGNED: pa.array([None] * count, pa.list_(pa.binary())),
        rows.TOPIC: pa.array([0] * count, pa.int32()),
        rows.PARTITION: pa.array([row[1] for row in made], pa.int64()),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    if facts is None:
        return batch
    last = pa.RecordBatch.from_pydict(
        {
            name: pa.array([facts if name == rows.FACTS else None], column.type)
            for name, column in columns.items()
        }
    )
    return pa.Table.from_batches([batch, last]).combine_chunks().to_batches()[0]


def test_rows_are_collected_by_partition() -> None:
    collected, facts = collect(
        [out((0, 1, True, None), (0, 2, False, None), (0, 4, False, 1), (1, 1, True, None))]
    )
    assert facts == b"f"
    assert (collected[0].column("offset"), collected[1].column("offset")) == ([1], [1])
    assert collected[0].failures == [Failure(4, 1, 5, b"k", None, b"\x00")]
    assert (
        collected[0].column("key"),
        collected[0].column("value"),
        collected[0].column(rows.TIME),
    ) == (
        [b"k"],
        [None],
        [5],
    )


def test_rows_that_failed_change_nothing_for_the_others() -> None:
    kept: list[tuple[int, int, bool, int | None]] = [
        (number, offset, offset % 3 > 0, None) for offset in range(20) for number in (0, 1)
    ]
    without, _ = collect([out(*kept[:20], facts=None), out(*kept[20:])])
    failed = [out(*kept[:20], (1, 10, True, 0), facts=None), out((0, 10, True, 0), *kept[22:])]
    collected, _ = collect(failed)
    for number, copies in collected.items():
        assert [(one.offset, one.step) for one in copies.failures] == [(10, 0)]
        expected = without[number]
        assert copies.column("offset") == [at for at in expected.column("offset") if at != 10]
        assert (copies.column("key"), copies.assigned) == (
            expected.column("key")[1:],
            expected.assigned[1:],
        )


def test_records_are_cut_off_at_an_offset() -> None:
    collected, _ = collect([out(*((0, n, True, None) for n in (1, 5, 9)))])
    collected[0].cut(5)
    assert (collected[0].column("offset"), len(collected[0].column(rows.HEADERS))) == ([1], 1)


def test_a_record_that_fails_after_an_element_has_no_copy() -> None:
    made = [(0, 1, True, None), *[(0, 2, True, None)] * 2, (0, 2, False, 3), (0, 2, True, None)]
    collected, _ = collect([out(*made, (0, 2, False, 4), (0, 3, True, None), (0, 3, True, None))])
    assert collected[0].column("offset") == [1, 3, 3]
    assert [(failure.offset, failure.step) for failure in collected[0].failures] == [(2, 3)]


def test_elements_after_one_that_failed_have_no_copy_in_the_next_batch_either() -> None:
    first = out((0, 5, True, None), (0, 6, True, None), (0, 6, True, 1), facts=None)
    collected, _ = collect([first, out((0, 6, True, None), (0, 7, True, None))])
    assert collected[0].column("offset") == [5, 7]


def test_another_order_and_a_missing_end_are_errors() -> None:
    with pytest.raises(ValueError, match="changed the order"):
        collect([out((0, 5, True, None), (0, 4, True, None))])
    with pytest.raises(ValueError, match="changed the order"):
        collect([out((0, 5, True, None), (0, 4, True, None), (0, 6, True, 1))])
    with pytest.raises(ValueError, match="without its last row"):
        collect([out((0, 5, True, None), facts=None)])


def test_headers_are_replaced_and_removed() -> None:
    encoded = encode_headers([(b"a", b"1"), (b"b", None), (b"a", b"2")])
    assert set_headers(encoded, [("a", b"3"), ("c", b"")]) == encode_headers(
        [(b"b", None), (b"a", b"3"), (b"c", b"")]
    )
    assert set_headers(encoded, [("a", None)]) == encode_headers([(b"b", None)])


def test_steps_have_the_names_of_the_file() -> None:
    transform = Transform(
        Format("string"),
        Format("json", "a INT"),
        "true",
        (("value.a", "1"),),
        ("value.b",),
        "bytes",
        "json",
        routing=Routing("'t'", ("t",), "1"),
    )
    assert plan_steps(transform) == (
        "decode.key",
        "decode.value",
        "filter",
        "set value.a",
        "sink.topic",
        "sink.partition",
        "encode.value",
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "Job aborted due to stage failure: org.apache.spark.SparkRuntimeException: "
            "[CAST_INVALID_INPUT] The value 'p4yl04d' cannot be cast",
            "[CAST_INVALID_INPUT] (its message may quote a record and is left out)",
        ),
        ("pyarrow.lib.ArrowTypeError: 'p4yl04d'", "ArrowTypeError (its message may quote"),
        (f"org.apache.spark.SparkException: x\nRuntimeError: {REPEATED}\n\tat y", REPEATED),
        ("ExecutorLostFailure (executor 1 exited)", "ExecutorLostFailure (executor 1 exited)"),
    ],
)
def test_the_reason_of_a_failed_job_quotes_no_record(text: str, shown: str) -> None:
    reason = transform_reason(RuntimeError(text))
    assert shown in reason and "p4yl04d" not in reason and "RuntimeError" not in reason
