"""Transforms that make several records of one: their order, what fails, and what is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from k2ktui.config.transforms import TransformRule
from k2ktui.errors import ConfigError
from k2ktui.replication.spark.session import SparkRuntime
from tests.support.clusters.kafka import Got
from tests.support.pipelines.session_records import made, valued

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("session")]
pytest.importorskip("pyarrow")  # of the extra ``transform``

SCHEMA = "order BIGINT, items ARRAY<STRUCT<sku: STRING, n: INT>>"
RULE: dict[str, Any] = {
    "decode": {"value": {"json": {"schema": SCHEMA}}},
    "filter": "value.order % 7 <> 0",
    "explode": {"value": "value.items"},
    "set": {"value.n": "value.n * 2"},
}


def order(number: int) -> bytes:
    items = [{"sku": f"s{number}-{n}", "n": n} for n in range(number % 4)]
    return json.dumps({"order": number, "items": items}).encode()


def items_of(sent: Got) -> list[bytes | None]:
    order = json.loads(sent.value or b"")
    if not order["order"] % 7:
        return []
    doubled = [{"sku": item["sku"], "n": 2 * item["n"]} for item in order["items"]]
    return [json.dumps(item, separators=(",", ":")).encode() for item in doubled]


def test_elements_keep_their_order_and_a_record_fails_as_a_whole(spark: SparkRuntime) -> None:
    rule = {**RULE, "set": {"value.n": "100 div value.n"}, "onError": "deadLetter"}
    _, failed, rows = made(
        spark,
        rule,
        *valued(
            order(1).replace(b'"n": 0', b'"n": 50'),
            b'{"order": 1, "items": [{"n": 1}, {"n": 0}, {"n": 2}]}',
            b'{"order": 1, "items": []}',
            b'{"order": 1}',
            b'{"order": 7, "items": [{"n": 1}]}',
            b"{",
            b'{"order": 1, "items": [{"n": 5}, null, {"n": 4}]}',
        ),
    )
    assert list(zip(rows.column("offset"), rows.column("value"), strict=True)) == [
        (0, b'{"sku":"s1-0","n":2}'),
        (6, b'{"n":20}'),
        (6, None),
        (6, b'{"n":25}'),
    ]
    assert failed == {1: "set value.n", 5: "decode.value"}
    (whole, _) = rows.failures
    assert whole.value == b'{"order": 1, "items": [{"n": 1}, {"n": 0}, {"n": 2}]}'


def test_many_elements_cross_the_limits_of_arrow_batches(spark: SparkRuntime) -> None:
    records = valued(*(order(n) for n in range(12_000)))
    _, failed, rows = made(spark, {**RULE, "set": {}}, *records)
    wanted = [n for n in range(12_000) if n % 7 for _ in range(n % 4)]
    assert rows.column("offset") == wanted and not failed
    assert rows.column("value")[:2] == [b'{"sku":"s1-0","n":0}', b'{"sku":"s2-0","n":0}']


def test_the_expressions_of_a_select_see_the_record_as_it_was(spark: SparkRuntime) -> None:
    rule = {
        "decode": {"key": "string", "value": "string"},
        "sql": "SELECT value AS key, explode(split(value, ',')) AS value, concat(filter(headers, "
        "h -> h.key <> 'b'), array(named_struct('key', 'n', 'value', CAST(key AS BINARY)), "
        "named_struct('key', 'null', 'value', CAST(NULL AS BINARY)))) "
        "AS headers FROM records WHERE value <> 'out' AND 1 / length(value) > 0",
    }
    headers = (("a", b"\x01"), ("b", None))
    _, failed, rows = made(spark, rule, *valued(b"x,y", b"out", b"", b"z", headers=headers))
    assert list(
        zip(rows.column("offset"), rows.column("key"), rows.column("value"), strict=True)
    ) == [
        (0, b"x,y", b"x"),
        (0, b"x,y", b"y"),
        (3, b"z", b"z"),
    ]
    assert rows.assigned[2] == [b"a", b"\x01", b"n", b"k3", b"null", None]
    assert failed == {2: "sql WHERE"}


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"explode": {"value": "key"}}, "explode value needs an ARRAY, and is BINARY"),
        ({"explode": {"value": "collect_list(key)"}}, "the operator Aggregate"),
        ({"explode": {"value": "array(explode(array(key)))"}}, "the operator Generate"),
        (
            {"sql": "SELECT key, CAST(uuid() AS BINARY) AS value FROM records"},
            "uuid() may have another",
        ),
        ({"sql": "SELECT key, sum(offset) AS value FROM records"}, "the operator Aggregate"),
        (
            {"sql": "SELECT key, value FROM records WHERE key IN (SELECT X'00')"},
            "the operator",
        ),
        ({"sql": "SELECT key, value, topic AS headers FROM records"}, "STRING"),
        ({"sql": "SELECT length(key) AS key, value FROM records"}, "needs a BINARY, and is INT"),
    ],
)
def test_what_is_refused(spark: SparkRuntime, rule: dict[str, Any], why: str) -> None:
    transform = TransformRule.model_validate(rule).transform
    assert transform is not None
    with pytest.raises(ConfigError) as refused:
        spark.check_transforms([("replication.transform[0]", transform)])
    assert why in refused.value.message
