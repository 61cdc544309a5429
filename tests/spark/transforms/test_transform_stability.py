"""Expressions whose value may differ when a record is copied again, and how they are recognized.

The list is of all functions that Spark 4.3 has (``SHOW FUNCTIONS``).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from k2ktui.replication import _pyspark
from k2ktui.replication.spark.session import SparkRuntime

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("session")]
pytest.importorskip("pyarrow")  # of the extra ``transform``
_RECORD = """
SELECT 'orders' AS topic, id AS offset, TIMESTAMP'2020-01-01 10:11:12' AS timestamp,
    string(id) AS card, binary(string(id)) AS sketch
FROM range(3)
"""


@pytest.fixture(scope="module")
def records(spark: SparkRuntime) -> Any:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.getOrCreate()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    yield session.sql(_RECORD)
    session.conf.unset("spark.sql.session.timeZone")


_NO_VECTOR = "aes_encrypt without an initialization vector"
# Random numbers, the time, what belongs to the session, user or host, and what Spark's engine
# numbers: by the name in the message.
UNSTABLE = {
    "rand() > 0.5": "rand()",
    "rand(5) > 0.5": "rand(5)",
    "randn() > 0.5": "randn()",
    "uniform(1, 2) > 1": "uniform(1, 2)",
    "randstr(5) = 'a'": "randstr(5)",
    "uuid() = 'x'": "uuid()",
    "shuffle(array(1, 2))[0] = 1": "shuffle(",
    "monotonically_increasing_id() > 1": "monotonically_increasing_id()",
    "spark_partition_id() = 1": "SPARK_PARTITION_ID()",
    "input_file_name() = ''": "input_file_name()",
    "java_method('java.util.UUID', 'randomUUID') = 'x'": "java_method(",
    "try_reflect('java.util.UUID', 'randomUUID') = 'x'": "reflect(",
    "kll_sketch_merge_bigint(sketch, sketch) = x''": "kll_sketch_merge_bigint(",
    "kll_sketch_merge_float(sketch, sketch) = x''": "kll_sketch_merge_float(",
    "kll_sketch_merge_double(sketch, sketch) = x''": "kll_sketch_merge_double(",
    "current_timestamp > timestamp": "current_timestamp()",
    "now() > timestamp": "now()",
    "localtimestamp() > timestamp": "localtimestamp()",
    "current_date() > timestamp": "current_date()",
    "current_time() > time'10:00'": "current_time(6)",
    "unix_timestamp() > offset": "current_timestamp()",
    "current_user() = 'x'": "current_user()",
    "user() = 'x'": "user()",
    "session_user() = 'x'": "session_user()",
    "version() = 'x'": "version()",
    "current_timezone() = 'UTC'": "current_timezone()",
    "current_catalog() = 'x'": "current_catalog()",
    "current_database() = 'x'": "current_schema()",
    "current_path() = 'x'": "current_path()",
    "aes_encrypt(card, 'abcdefghijklmnop') = x''": _NO_VECTOR,
    "aes_encrypt(card, 'abcdefghijklmnop', 'CBC') = x''": _NO_VECTOR,
    "aes_encrypt(card, 'abcdefghijklmnop', topic) = x''": _NO_VECTOR,
    "aes_encrypt(card, 'abcdefghijklmnop', 'GCM', 'NONE', '') = x''": _NO_VECTOR,
    # A time of the current day.
    "timestamp > CAST(TIME'10:11' AS TIMESTAMP)": "CAST(TIME '10:11:00' AS TIMESTAMP)",
    # Spark's parser puts the time in their place.
    "timestamp > TIMESTAMP'now'": "TIMESTAMP'now'",
    'timestamp > timestamp_ltz "Now"': 'timestamp_ltz "Now"',
    "timestamp > TIMESTAMP_NTZ'yesterday UTC'": "TIMESTAMP_NTZ'yesterday UTC'",
    "timestamp > TIMESTAMP'\\u006eow'": "TIMESTAMP'",
    "topic = 'é😀' OR timestamp > TIMESTAMP '10:11'": "TIMESTAMP '10:11'",
    "timestamp > DATE'today'": "DATE'today'",
    "timestamp > DATE/* tomorrow */r' tomorrow'": "DATE/* tomorrow */r' tomorrow'",
    "exists(array(timestamp), t -> t > TIMESTAMP'now')": "TIMESTAMP'now'",
    # Spark's optimizer does.
    "timestamp > CAST('now' AS TIMESTAMP)": "CAST('now' AS TIMESTAMP)",
    "timestamp > 'today'": "CAST('today' AS TIMESTAMP)",
    "timestamp > concat('no', 'W ')": "CAST(concat('no', 'W ') AS TIMESTAMP)",
    "timestamp > to_timestamp('now')": "CAST('now' AS TIMESTAMP)",
    "date(timestamp) > to_date(' Tomorrow')": "CAST(' Tomorrow' AS DATE)",
    "timestamp > try_cast('T10:11' AS TIMESTAMP)": "CAST('T10:11' AS TIMESTAMP)",
}

STABLE = (
    "topic = 'now' AND 'today' < '2020'",
    "timestamp > TIMESTAMP'2020-01-01 10:11:12' AND timestamp > timestamp r'2020-1-1'",
    "timestamp > TIMESTAMP_NTZ'epoch' AND timestamp > DATE'epoch'",
    "timestamp > DATE '-0001-01-01' AND TIME'12:13' > TIME'10:11'",
    "timestamp > '2020-01-01' AND date(timestamp) > to_date('2020-02-02')",
    "timestamp > to_timestamp(card)",
    "from_unixtime(offset) > date_format(timestamp, 'yyyy')",
    "aes_encrypt(card, 'abcdefghijklmnop', 'ECB') = x''",
    "aes_encrypt(card, 'abcdefghijklmnop', 'CBC', 'PKCS', topic) = x''",
    "aes_encrypt(card, 'abcdefghijklmnop', 'GCM', 'NONE', 'abcdefghijkl') = x''",
    "aes_encrypt(card, 'abcdefghijklmnop', 'GCM', 'NONE', NULL) = x''",
    "aes_encrypt(card, 'abcdefghijklmnop', 'GCM', 'NONE', substring(sha2(card, 256), 1, 12)) = x''",
    "timestamp > to_timestamp(card, 'yyyy-MM-dd HH:mm')",
    "try_aes_decrypt(sketch, 'abcdefghijklmnop') = x''",
)


@pytest.mark.parametrize(("filter_", "named"), UNSTABLE.items())
def test_what_may_differ_at_the_next_try_is_found(records: Any, filter_: str, named: str) -> None:
    assert named in _pyspark.unstable_expression(records.where(filter_))


@pytest.mark.parametrize("filter_", STABLE)
def test_what_is_always_the_same_is_not(records: Any, filter_: str) -> None:
    assert _pyspark.unstable_expression(records.where(filter_)) == ""


def test_a_time_of_day_in_a_record_gets_the_current_date(records: Any) -> None:
    """It cannot be refused: it depends on the record."""
    given = records.selectExpr("'10:11' AS at", """ '{"at":"10:11"}' AS json""")
    selected = given.selectExpr("CAST(at AS TIMESTAMP)", "from_json(json, 'at TIMESTAMP').at")
    assert _pyspark.unstable_expression(selected) == ""
    before = datetime.now(UTC).date()
    dates = {moment.date() for row in selected.collect() for moment in row}
    assert dates <= {before, datetime.now(UTC).date()}


def test_an_empty_initialization_vector_in_a_record_counts_as_none(records: Any) -> None:
    """It cannot be refused: it depends on the record."""
    text = "aes_encrypt(card, 'abcdefghijklmnop', 'CBC', 'PKCS', substring(card, 1, 0))"
    selected = records.selectExpr(text)
    assert _pyspark.unstable_expression(selected) == ""
    assert selected.collect() != selected.collect()
