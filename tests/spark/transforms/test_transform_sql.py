"""What the SQL of a transform does to records, and what is refused before anything is copied."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import psutil
import pytest

from k2ktui.config.transforms import TransformRule
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.transforms.model import OnError, Routing, Transform
from k2ktui.errors import ConfigError
from k2ktui.log.record import KafkaRecord
from k2ktui.replication.spark.session import SparkRuntime
from k2ktui.replication.transforms.json_columns import make_json_parser
from k2ktui.replication.transforms.rows import PARTITION, TOPIC, join_records
from k2ktui.replication.transforms.transformed import Transformed
from tests.spark.transforms.test_transforms import JSON, RULE
from tests.support.pipelines.selects import SCHEMA, make_select
from tests.support.pipelines.session_records import made, valued

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("session")]
pa = pytest.importorskip("pyarrow")  # of the extra ``transform``


def queries(session: Any) -> int:
    """Return how many queries Spark has described to its listeners."""
    session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(180_000)  # noqa: SLF001 - not in Python
    store = session._jsparkSession.sharedState().statusStore()  # noqa: SLF001 - not in Python
    return int(store.executionsCount())


def test_schemas_are_inferred_from_all_values(spark: SparkRuntime) -> None:
    values = ['{"id": 1, "in": {"a b": [1]}}', f'{{"id": {1 << 40}, "s": "x7"}}']
    inferred = spark.transforms.infer_schema(values)
    assert inferred == "id BIGINT,in STRUCT<`a b`: ARRAY<BIGINT>>,s STRING"


def test_a_lap_is_no_query(spark: SparkRuntime) -> None:
    """Spark describes the plan of each query, whatever its size."""
    from pyspark.sql import SparkSession

    spark.transforms.warm_up(Transform(), 1)
    session = SparkSession.builder.getOrCreate()
    before = queries(session)
    spark.transforms.warm_up(Transform(), 1)
    assert queries(session) == before
    session.range(1).collect()
    assert queries(session) == before + 1


def test_spark_reads_the_same_parts_in_a_select(spark: SparkRuntime) -> None:
    """The plan of a statement is that of its parts, wherever its comments and texts end."""
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    session = SparkSession.builder.getOrCreate()
    session.createDataFrame([], SCHEMA).createOrReplaceTempView("records")
    for seed in range(20):
        text = make_select(seed).text
        rule = TransformRule.model_validate({"sql": text})
        assert rule.transform is not None
        records = session.table("records")
        if rule.transform.filter:
            records = records.where(f.expr(rule.transform.filter))
        columns = dict(rule.transform.assignments)
        if rule.transform.explode is not None:
            name, array = rule.transform.explode
            columns[name] = f"explode({array})"
        statement = session.sql(text)
        parts = [
            f.expr(columns.get(column.lower(), column)).alias(column)
            for column in statement.columns
        ]
        assert statement.sameSemantics(records.select(*parts)), text


REFUSED = {
    "sum(offset) > 1": "the operator Aggregate",
    "row_number() OVER (ORDER BY offset) > 1": "the operator Window",
    "offset IN (SELECT id FROM range(3))": "the operator BroadcastHashJoin",
    "(SELECT max(id) FROM range(3)) > 1": "the operator Subquery",
    "explode(array(1, 2)) > 1": "the operator Generate",
    "rand() > 0.5": "rand() may have another value at the next try",
    "current_user() = 'x'": "current_user() may have another value at the next try",
    "timestamp > TIMESTAMP'now'": "TIMESTAMP'now' may have another value at the next try",
    "nosuch > 1": "`nosuch` cannot be resolved",
    "value.amount >": "Syntax error",
    "value.amount": "filter must be a predicate (BOOLEAN), and is BIGINT",
}


@pytest.mark.parametrize(("filter_", "why"), REFUSED.items())
def test_only_what_needs_the_record_itself_is_allowed(
    spark: SparkRuntime, filter_: str, why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    rule = TransformRule.model_validate({"decode": JSON, "filter": filter_})
    assert rule.transform is not None
    with pytest.raises(ConfigError) as refused:
        spark.check_transforms([("replication.transform[0]", rule.transform)])
    assert refused.value.message.startswith("replication.transform[0]: ")
    assert why in refused.value.message
    assert "at org.apache" not in refused.value.message
    assert capfd.readouterr() == ("", "")


def test_what_bytes_need_is_said(spark: SparkRuntime) -> None:
    rule = TransformRule.model_validate({"set": {"value": "length(value)"}})
    assert rule.transform is not None
    with pytest.raises(ConfigError, match=r"encode.value: bytes needs a BINARY, and is INT"):
        spark.check_transforms([("replication.transform[0]", rule.transform)])


def test_json_is_written_again_from_the_schema(spark: SparkRuntime) -> None:
    values, failed, _ = made(
        spark,
        {"decode": JSON},
        *valued(
            b' {"card": "x", "id": 1, "other": 2} ',
            b'{"id": null, "amount": 3}',
            None,
            b"",
            b"null",
            b"[1]",
            b'{"id": "text"}',
            b"\xff",
            b"{",
        ),
    )
    assert values == {0: b'{"id":1,"card":"x"}', 1: b'{"amount":3}', 2: None}
    assert failed == dict.fromkeys(range(3, 9), "decode.value")


@pytest.mark.parametrize("schema", ["id BIGINT", "id BIGINT, unused DATE", "MAP<STRING, INT>"])
def test_an_object_with_more_behind_it_fails(spark: SparkRuntime, schema: str) -> None:
    """Spark alone would leave out what follows the first object."""
    values, failed, _ = made(
        spark,
        {"decode": {"value": {"json": {"schema": schema}}}},
        *valued(
            b'{"id":1}',
            b' {"id":2}\r\n\t ',
            None,
            b'{"id":3}{"id":4}',
            b'{"id":3}\n{"id":4}',
            b'{"id":3},{"id":4}',
            b'{"id":3} x',
            b'{"id":3}]',
            b'{"id":3}}',
            b'{"id":3},',
            b'{"id":3}null',
            b'{"id":3}\0',
            b" ",
            b"null",
            b'[{"id":3}]',
        ),
    )
    assert values == {0: b'{"id":1}', 1: b'{"id":2}', 2: None}
    assert failed == dict.fromkeys(range(3, 15), "decode.value")


@pytest.mark.parametrize("more", ["", ", unused DATE"])  # PyArrow parses, or Spark does
def test_json_after_a_schema_id(spark: SparkRuntime, more: str) -> None:
    """Without an id, a value is not JSON; a null is null."""
    decoded = {"json": {"schema": f"id BIGINT{more}", "schemaId": "enabled"}}
    prefix = b"\0\0\0\0\7"
    values, failed, _ = made(
        spark,
        {"decode": {"value": decoded}, "encode": {"value": "json"}},
        *valued(
            prefix + b'{"id":1}',
            None,
            prefix + b'{"id":2,"long":"%s"}' % (b"x" * 1000),
            b'{"id":3}',
            prefix,
            b"\0\0",
            b"\1\0\0\0\7" + b'{"id":4}',
            b"\0\0\0\0" + prefix + b'{"id":5}',  # an id of 8 bytes
        ),
    )
    assert values == {0: b'{"id":1}', 1: None, 2: b'{"id":2}'}
    assert failed == dict.fromkeys(range(3, 8), "decode.value")


def test_text_that_is_not_utf_8_fails(spark: SparkRuntime) -> None:
    rule = {"decode": {"value": "string"}, "set": {"value": "upper(value)"}}
    values, failed, _ = made(spark, rule, *valued("ß".encode(), b"\xff", None, b""))
    assert values == {0: b"SS", 2: None, 3: b""} and failed == {1: "decode.value"}


def test_what_looks_like_a_variable_is_text(spark: SparkRuntime) -> None:
    """Spark replaces variables in all of an expression, literals and comments included."""
    texts = [
        "${env:HOME}",
        "${system:java.version}",
        "${spark.app.name}",
        "${hiveconf:spark.app.name}",
        "${nosuch}",
        "$${env:HOME}",
        "${",
    ]
    for text in texts:
        rule = {
            "decode": {"value": "string"},
            "filter": f"value = '{text}'",
            "set": {"value": f"concat(value, '{text}')", "headers.h": f"'{text}'"},
        }
        values, failed, rows = made(spark, rule, *valued(text.encode(), b"other"))
        assert (values, failed) == ({0: text.encode() * 2}, {})
        assert rows.assigned == [[text.encode()]]


def test_records_without_a_true_predicate_are_left_out(spark: SparkRuntime) -> None:
    numbers = valued(*(b'{"amount": %d}' % n for n in range(4)), None, b"{}")
    rule = {"decode": JSON, "filter": "value.amount > 1", "set": {"value.id": "6 / value.amount"}}
    values, failed, _ = made(spark, {**rule, "set": {"value.id": "6 div value.amount"}}, *numbers)
    assert values == {2: b'{"id":3,"amount":2}', 3: b'{"id":2,"amount":3}'}
    assert failed == {}, "steps after the filter see the records that are kept"
    rule = {"decode": JSON, "filter": "value IS NULL OR value.amount > 2"}
    assert set(made(spark, rule, *numbers)[0]) == {3, 4}


def test_the_first_step_that_fails_is_named(spark: SparkRuntime) -> None:
    rule = {
        "decode": JSON,
        "filter": "10 / value.id > 0",
        "set": {"value.amount": "value.amount + 1", "value.card": "CAST(value.card AS INT)"},
    }
    values, failed, _ = made(
        spark,
        rule,
        *valued(
            b"{",
            b'{"id": 0}',
            b'{"id": 1, "amount": 9223372036854775807}',
            b'{"id": 1, "card": "x"}',
            b'{"id": 1, "amount": 1, "card": "7"}',
        ),
    )
    assert failed == {0: "decode.value", 1: "filter", 2: "set value.amount", 3: "set value.card"}
    assert values == {4: b'{"id":1,"amount":2,"card":7}'}


def test_what_expressions_see(spark: SparkRuntime) -> None:
    seen = {
        "headers.all": "concat_ws(',', transform(headers, h -> h.key || '=' || hex(h.value)))",
        "headers.at": "concat_ws(':', topic, partition, offset, unix_millis(timestamp))",
        "value": "concat(key, value)",
        "headers.v": "value",
    }
    headers = (("a", b"\x01"), ("b", None), ("a", b""))
    values, _, rows = made(spark, {"set": seen}, *valued(b"0", b"1", headers=headers))
    assert values == {0: b"k00", 1: b"k11"}
    assert rows.assigned[1] == [b"a=01,a=", b"pay:3:1:1000", b"k11"]


PARSED = "a BIGINT, b STRING, c DOUBLE, d BOOLEAN, e INT, n STRUCT<x: BIGINT, y: STRING>"
DOCUMENTS = [
    b'{"a": 1, "b": "x y", "c": 1.5, "d": true, "e": -7, "n": {"x": 3, "y": "\xc3\xa9"}}',
    b'{"a":null,"b":null,"c":null,"d":null,"e":null,"n":null}',
    b'{"other":[1,{"a":"\\t"},null,-1.5e-3],"b":"\\"\\/\\n\\\\","n":{},"c":12345678901234567890}',
    b'{"a":-0,"c":-0,"e":2147483647,"n":{"y":"","z":{}}}',
    b'{"c":1e999}',
    b'{"c":4.9e-324,"a":9223372036854775807}',
    b'{"a":9223372036854775808}',
    b'{"e":2147483648}',
    b'{"a":1,"a":2}',
    b'{"z":1,"z":2}',
    b'{"c":NaN}',
    b'{"c":"NaN"}',
    b'{"c":Inf}',
    b'{"c":-Infinity}',
    b'{"z":Inf}',
    b'{"b":1.50}',
    b'{"b":{"x": 1}}',
    b'{"b":"\\u0041\\ud83d\\ude00"}',
    b'{"b":"\\ud800"}',
    b'{"z":"\xff"}',
    b'{"a":"1"}',
    b'{"a":1.0}',
    b'{"d":"true"}',
    b'{"n":[{"x":1}]}',
    b'{"A":1}',
    b"{'a':1}",
    b'{"a":1}{"a":2}',
    b'{"a":1} x',
    b'{"a":01}',
    b'{"":1}',
    b'{"b":"\x7f"}',
    b'{"b":"\x01"}',
    b'{"z":' + b"[" * 400 + b"]" * 400 + b"}",
    b'{"z":' + b"1" * 990 + b"}",
]


def test_json_is_the_same_by_either_parser(spark: SparkRuntime) -> None:
    """A schema with a date is for Spark's parser alone."""
    chance = random.Random(7)
    values = list(DOCUMENTS)
    for _ in range(2000):
        value = bytearray(chance.choice(DOCUMENTS[:4]))
        for _ in range(chance.randint(1, 2)):
            at = chance.randrange(len(value))
            value[at : at + chance.randint(0, 2)] = chance.choice(
                [b"", b"0", b"1", b'"', b"{", b"}", b",", b":", b" ", b"\\", b"e", b".", b"-", b"n"]
            )
        values.append(bytes(value))
    by_either = [json_made(spark, schema, values) for schema in (PARSED, f"{PARSED}, unused DATE")]
    for value, arrow, alone in zip(values, *by_either, strict=True):
        assert arrow == alone, value
    from pyspark.sql.types import StructType

    parser = make_json_parser(StructType.fromDDL(PARSED))
    assert parser is not None
    certain = [v for v in values if parser.parse(pa.array([v], pa.binary())).null_count == 0]
    assert len(set(certain)) > 100


def json_made(spark: SparkRuntime, schema: str, values: list[bytes]) -> list[object]:
    """Return what becomes of values, each in a batch of its own: the bytes, or None if it fails."""
    transform = TransformRule.model_validate(
        {"decode": {"value": {"json": {"schema": schema}}}}
    ).transform
    assert transform is not None
    records = [join_records(valued(value)) for value in values]
    previewed = spark.transforms.preview(
        transform, [(SourcePartition("pay", n), record) for n, record in enumerate(records)]
    )
    assert all(len(rows.column("value")) + len(rows.failures) == 1 for rows in previewed.values())
    return [next(iter(previewed[n].column("value")), None) for n in range(len(values))]


def test_a_warm_up_needs_neither_records_nor_clusters(spark: SparkRuntime) -> None:
    """Also where each of its records fails a step."""
    for rule in (RULE, {"decode": JSON, "set": {"value.id": "1 div 0"}}):
        transform = TransformRule.model_validate(rule).transform
        assert transform is not None
        spark.transforms.warm_up(transform, 2)


def test_one_daemon_without_threads_forks_the_workers_of_all_jobs(spark: SparkRuntime) -> None:
    transform = TransformRule.model_validate(RULE).transform
    assert transform is not None
    spark.transforms.warm_up(transform, 1)
    (daemon,) = daemons()
    workers = {child.pid for child in daemon.children()}
    spark.warm_up(1).result()
    assert daemons() == [daemon] and {child.pid for child in daemon.children()} == workers
    assert daemon.num_threads() == 1
    loaded = [mapped.path for worker in daemon.children() for mapped in worker.memory_maps()]
    assert any("/pyarrow/" in path for path in loaded)
    assert not any("/pandas/" in path for path in loaded)


def daemons() -> list[psutil.Process]:
    processes = [
        child
        for child in psutil.Process().children(recursive=True)
        if child.status() != psutil.STATUS_ZOMBIE  # Java of another module's session
        and "k2ktui.replication.spark.transform_daemon" in child.cmdline()
    ]
    return [process for process in processes if process.parent() not in processes]


def test_many_records_keep_their_order(spark: SparkRuntime) -> None:
    records = valued(*(b'{"id": %d, "amount": %d}' % (n, n % 5) for n in range(25_000)))
    values, failed, rows = made(spark, RULE, *records)
    assert rows.column("offset") == [n for n in range(25_000) if n % 5 > 2] and not failed
    assert len(values) == 10_000


def routed(
    spark: SparkRuntime,
    routing: Routing,
    *records: KafkaRecord,
    counts: Sequence[int | None] = (),
    on_error: OnError = "skip",
) -> Transformed:
    transform = Transform(routing=routing, on_error=on_error)
    batches = [(SourcePartition("pay", 3), join_records(records))]
    return spark.transforms.preview(transform, batches, counts).get(0, Transformed())


def test_expressions_choose_topics_and_partitions(spark: SparkRuntime) -> None:
    values = valued(b"a", b"b", b"c", None, b"\xff", b"aa", b"bb")
    topic = "upper(validate_utf8(CAST(value AS STRING)))"
    rows = routed(spark, Routing(topic, ("B", "A"), "offset - 1"), *values)
    assert (rows.column("offset"), rows.column(TOPIC), rows.column(PARTITION)) == ([1], [0], [0])
    assert [failure.step for failure in rows.failures] == [1, 0, 0, 0, 0, 0]
    rows = routed(spark, Routing(partition="length(value)"), *values)
    assert (rows.column(TOPIC), rows.column(PARTITION)) == ([None] * 6, [1, 1, 1, 1, 2, 2])
    assert [failure.offset for failure in rows.failures] == [3]


def test_a_partition_that_a_topic_does_not_have_fails(spark: SparkRuntime) -> None:
    """Each topic has its own number of partitions; of one that does not exist it is not known."""
    values = valued(b"a", b"a", b"b", b"b", b"c", b"c")
    routing = Routing("CAST(value AS STRING)", ("a", "b", "c"), "offset * 4 % 7")
    rows = routed(spark, routing, *values, counts=[3, 7, None], on_error="deadLetter")
    assert (rows.column("offset"), rows.column(TOPIC)) == ([0, 2, 3, 4, 5], [0, 1, 1, 2, 2])
    assert rows.column(PARTITION) == [0, 1, 5, 2, 6]
    (failure,) = rows.failures
    # The dead letter is the record as it was.
    assert (failure.offset, failure.step) == (1, 1)
    assert (failure.key, failure.value, failure.timestamp) == (b"k1", b"a", 1000)
    huge = routed(spark, Routing(partition="5000000000 + offset"), *values, counts=[3])
    assert not huge.column("offset") and len(huge.failures) == 6


BAD_ROUTES = {
    Routing("length(value)", ("a",)): "sink.topic must be a STRING, and is INT",
    Routing(partition="topic"): "sink.partition must be an INT, and is STRING",
    Routing(partition="CAST(rand() * 3 AS INT)"): "rand() may have another value at the next try",
    Routing("first(topic)", ("a",)): "the operator Aggregate",
}


@pytest.mark.parametrize(("routing", "why"), BAD_ROUTES.items(), ids=list(BAD_ROUTES.values()))
def test_routes_need_the_record_itself(spark: SparkRuntime, routing: Routing, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        spark.check_transforms([("replication.sink", Transform(routing=routing))])
    assert refused.value.message.startswith("replication.sink: ") and why in refused.value.message
