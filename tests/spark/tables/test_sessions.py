"""A user's own session: filters, secrets, refusals, a stream that continues, a cluster."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, create_topic, produce
from tests.support.clusters.secure import SecureNode
from tests.support.clusters.spark_cluster import SparkCluster
from tests.support.commands.spark_script import Ended, run_script
from tests.support.commands.watch import Watch
from tests.support.pipelines.copied import Copied, only

USER, PASSWORD = "ann", "ann-3cr3t"
PARTITIONS, RECORDS = 3, 40
BEGAN_MS = int(time.time() * 1000) - 3_600_000

_SESSION = """
from pyspark.sql import SparkSession
from k2ktui.tables import Pipelines

builder = SparkSession.builder.master({master!r})
for key, value in {config!r}.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
spark.dataSource.register(Pipelines)

def table(name, **options):
    reader = spark.read.format("k2ktui").option("file", "pipeline.yaml")
    return reader.options(**options).load(name)
"""
PUSHING = {"spark.sql.python.filterPushdown.enabled": "true"}
_TABLES = ("ranges", "positions", "groups", "plan", "runs", "journal", "records")


def session(script: str, master: str = "local[2]", config: dict[str, str] | None = None) -> str:
    return _SESSION.format(master=master, config=config or {}) + script


@pytest.fixture
def one(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Copied:
    return Copied(tmp_path, source, target)


def fill(one: Copied, node: KafkaNode, *others: str) -> str:
    """Copy a topic, with two records that were produced later; ``others`` were copied before."""
    topics = list(others)
    topic = create_topic(node, partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        produce(
            node,
            topic,
            [
                Out(b"v%d" % n, b"k", partition, (("h", b"\x00"), ("n", None)), BEGAN_MS + n)
                for n in range(RECORDS)
            ],
        )
    one.copy(topic, step=10)
    produce(node, topic, [Out(b"late", None, 0), Out(None, b"late", 0)])
    topics.append(topic)
    one.settings = {**one.settings, **only(*topics)}
    (one.directory / "pipeline.yaml").write_text(one.file.read_text())
    return topic


FILTERS = """
def both(first, second):
    named = [(first, TOPIC), (second, OTHER)]
    one, two = [frame.where("topic = '" + name + "'").select("topic") for frame, name in named]
    return [row.topic for row in one.union(two).distinct().collect()]

def filtered(pushed):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", str(pushed).lower())
    option = {"pushFilters": "true"} if pushed else {}
    chosen = table("records", **option)
    chosen = chosen.where(f"topic = '{TOPIC}' AND partition IN (0, 2) AND offset < 5")
    shared = table("ranges", **option)
    return {
        "rows": [(r.topic, r.partition, r.offset) for r in chosen.collect()],
        "tasks": chosen.rdd.getNumPartitions(),
        "ranges": table("ranges").where(f"topic <> '{OTHER}' AND partition > 0").count(),
        "loaded": both(table("ranges", **option), table("ranges", **option)),
        "reused": both(shared, shared),
        "later": shared.select("topic").distinct().count(),
        "positions": [row.topic for row in table("positions", topic=OTHER).collect()],
    }

filters = [filtered(True), filtered(False)]
named = table("records", topic=TOPIC, partition="2")
distinct = named.select("topic", "partition").distinct()
places = [(row.topic, row.partition) for row in distinct.collect()]
named_tasks = named.rdd.getNumPartitions()
again = both(table("ranges", topic=TOPIC), table("ranges", topic=OTHER))
"""
BESIDE = """
records = table("records", contents="true", taskOffsets="7", topic=TOPIC)
tasks = records.rdd.getNumPartitions()
copies = dict(records.groupBy("copy").count().collect())
equal = records.where(
    "key <=> target_key AND value <=> target_value AND timestamp <=> target_timestamp"
    " AND headers = target_headers AND target_offset = offset + 7 + offset DIV 10"
).count()
first = records.orderBy("partition", "offset").first()
late = [(r.key, r.value_bytes) for r in records.where("copy <> 'copied'").collect()]
sizes = table("records").columns
shown = [first.value.decode(), [tuple(h) for h in first.headers], first.timestamp.timestamp()]
"""
ERRORS = """
def said(make):
    try:
        make().collect()
    except Exception as error:
        return str(error)

other_file = lambda name: spark.read.format("k2ktui").option("file", name)
errors = [
    said(lambda: table("offsets")),
    said(lambda: table("ranges", topics="x")),
    said(lambda: other_file("no.yaml").load("positions")),
    said(lambda: other_file("another.yaml").load("ranges")),
]
"""
STREAM = """
def run():
    stream = spark.readStream.format("k2ktui").option("file", "pipeline.yaml").load("ranges")
    writer = stream.writeStream.format("parquet").option("path", "mapping")
    query = writer.option("checkpointLocation", "checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()
    return spark.read.schema(stream.schema).parquet("mapping")

streamed = [list(row) for row in run().collect()]
streamed_again = run().count()
"""


@pytest.mark.slow
def test_a_session(one: Copied) -> None:
    """Filters, records beside their copies, errors, and a stream that another one continues."""
    other = fill(one, one.source)
    topic = fill(one, one.source, other)
    (one.directory / "another.yaml").write_text(one.file.read_text().replace(one.name, "another"))
    names = f"\nTOPIC, OTHER = {topic!r}, {other!r}\n"
    ended = run_script(
        session(names + FILTERS + BESIDE + ERRORS + STREAM),
        one.directory,
        [
            *("filters", "places", "named_tasks", "again"),
            *("tasks", "copies", "equal", "late", "shown", "sizes"),
            *("errors", "streamed", "streamed_again"),
        ],
    )
    assert ended.code == 0, ended.err[-4000:]
    values = ended.values
    for pushed, filtered in zip((True, False), values["filters"], strict=True):
        check_filters(filtered, topic, other, pushed=pushed)
    assert (values["places"], values["named_tasks"]) == ([[topic, 2]], 1)
    assert sorted(values["again"]) == sorted([topic, other])
    check_records(values)
    check_errors(values["errors"])
    check_stream(values, [topic, other])

    third = fill(one, one.source, topic, other)
    ended = run_script(session(STREAM), one.directory, ["streamed", "streamed_again"])
    assert ended.code == 0, ended.err[-4000:]
    check_stream(ended.values, [topic, other, third])


def check_filters(values: Mapping[str, Any], topic: str, other: str, *, pushed: bool) -> None:
    """The result is the same, and only what passes is read where filters are pushed."""
    assert sorted(values["rows"]) == [[topic, p, n] for p in (0, 2) for n in range(5)]
    assert values["ranges"] == 4 * (PARTITIONS - 1)
    assert values["tasks"] == (2 if pushed else 2 * PARTITIONS)
    assert sorted(values["loaded"]) == sorted([topic, other])
    # The page says so; once Spark keeps partitions for each scan, filters can always be pushed.
    assert sorted(values["reused"]) == ([other] if pushed else sorted([topic, other]))
    assert values["later"] == (1 if pushed else 2)
    assert values["positions"] == [other] * PARTITIONS


def check_records(values: Mapping[str, Any]) -> None:
    assert values["tasks"] == 6 + 6 + 6
    assert values["copies"] == {"copied": PARTITIONS * RECORDS, "not copied yet": 2}
    assert values["equal"] == PARTITIONS * RECORDS
    assert len(values["late"]) == 2
    assert values["shown"][0] == "v0" and values["shown"][2] == BEGAN_MS / 1000
    assert not {"key", "value", "headers"} & set(values["sizes"])


def check_errors(errors: Sequence[str]) -> None:
    """What cannot be read is said in a sentence."""
    for error, words in zip(
        errors, ("no table 'offsets'", "unknown options: topics", "no.yaml", "another"), strict=True
    ):
        assert words in error, error


def check_stream(values: Mapping[str, Any], topics: Sequence[str]) -> None:
    rows = values["streamed"]
    assert values["streamed_again"] == len(rows) == 4 * PARTITIONS * len(topics)
    assert {row[0] for row in rows} == {*topics}
    # Known from where the oldest mapping of its micro-batch begins.
    assert all(row[8] in range(0, row[2] + 1, 10) for row in rows)


def read_all_tables(one: Copied, logs: Path, master: str, site: dict[str, str]) -> Ended:
    """Read every table, with its plans and Spark's own records of it.

    The site's settings are where Spark has them.
    """
    logs.mkdir()
    defaults = one.directory / "conf" / "spark-defaults.conf"
    defaults.parent.mkdir()
    defaults.touch(mode=0o600)
    defaults.write_text("".join(f"{key} {text}\n" for key, text in site.items()))
    script = session(
        """
import urllib.request
spark.sparkContext.setLogLevel("INFO")
counts, plans = {}, []
for name in TABLES:
    frame = table(name, **({"contents": "true"} if name == "records" else {}))
    counts[name] = len(frame.collect())
    plans.append(frame._jdf.queryExecution().toString())
    plans.append(str(frame._jdf.queryExecution().executedPlan()))
root = spark.sparkContext.uiWebUrl + "/api/v1/applications/" + spark.sparkContext.applicationId
for page in ("environment", "jobs", "stages?details=true", "sql?details=true"):
    plans.append(urllib.request.urlopen(f"{root}/{page}").read().decode())
spark.stop()
""".replace("TABLES", repr(_TABLES)),
        master,
        {
            **PUSHING,
            "spark.ui.enabled": "true",
            "spark.ui.port": "0",
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": logs.as_uri(),
            "spark.eventLog.compress": "false",
            "spark.local.dir": str(one.directory / "scratch"),
        },
    )
    where = {"SPARK_CONF_DIR": str(defaults.parent)}
    return run_script(script, one.directory, ["counts", "plans"], where)


def assert_no_secret(ended: Ended, logs: Path) -> None:
    text = "".join(file.read_text(errors="replace") for file in logs.rglob("*") if file.is_file())
    assert "SparkListenerSQLExecutionStart" in text and "k2ktui" in text
    for shown in (json.dumps(ended.values["plans"]), text, ended.out, ended.err):
        # Without a comparison of texts this long, which takes pytest minutes.
        assert not any(word in shown for word in (PASSWORD, "ScramLoginModule"))


def login(secure: SecureNode, topic: str) -> dict[str, Any]:
    secure.allow(USER, [AclOperation.READ, AclOperation.DESCRIBE], topic)
    return {"source": {"kafka": {"common": secure.java(USER)}}}


@pytest.mark.slow
def test_two_workers_without_a_secret(
    secure: SecureNode, target: KafkaNode, tmp_path: Path
) -> None:
    """Executors of a cluster read a source with logins; plans, the UI and event logs have none."""
    one = Copied(tmp_path, secure.node, target)
    secure.allow_all(USER)
    topic = fill(one, secure.node)
    one.settings = {**one.settings, **login(secure, topic)}
    (tmp_path / "pipeline.yaml").write_text(one.file.read_text())
    (tmp_path / "scratch").mkdir()
    with (
        SparkCluster(tmp_path / "spark") as cluster,
        Watch(tmp_path / "scratch", [PASSWORD]) as watch,
    ):
        ended = read_all_tables(one, tmp_path / "events", cluster.master, cluster.settings)
    assert ended.code == 0, ended.err[-4000:]
    assert ended.values["counts"]["records"] == PARTITIONS * RECORDS + 2
    assert ended.values["counts"]["ranges"] == 4 * PARTITIONS
    # Which of them was there first had all tasks, perhaps.
    ran = [text for text in ended.values["plans"] if re.search(r'"executorId" : "\d+"', text)]
    assert ran, "tasks ran on the workers"
    assert_no_secret(ended, tmp_path / "events")
    assert not watch.shown and not watch.stored
