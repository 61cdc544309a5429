"""Checkpoints of Structured Streaming, as Spark itself writes them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from k2ktui.errors import ConfigError
from k2ktui.runtime.java import spark_java_home
from k2ktui.sync.moves.spark_checkpoints import (
    read_checkpoint,
)
from tests.unit.sync.test_checkpoints import AUDIT, KAFKA, ORDERS, ORDERS_10, shifted

REAL = """
import os, sys, time
from pyspark.sql import SparkSession
settings = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "OFF",
}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
for version in sys.argv[2:]:
    spark.conf.set("spark.sql.streaming.offsetLog.formatVersion", version)
    batches = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    seconds = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
    both = batches.select("value").union(seconds.select("value"))
    where = os.path.join(sys.argv[1], version)
    query = both.writeStream.format("noop").option("checkpointLocation", where).start()
    while not os.path.exists(os.path.join(where, "commits", "1")):
        assert query.isActive, query.exception()
        time.sleep(0.05)
    query.stop()
spark.stop()
"""


@pytest.mark.slow
def test_checkpoints_that_spark_wrote(tmp_path: Path) -> None:
    """Its own files and layout; Kafka's source is not in PySpark, so a rate source's line is it."""
    env = os.environ | {"JAVA_HOME": str(spark_java_home())}
    command = [sys.executable, "-c", REAL, str(tmp_path), "1", "2"]
    subprocess.run(command, env=env, check=True, timeout=600, capture_output=True)
    for version in ("1", "2"):
        where = tmp_path / version
        with pytest.raises(ConfigError, match="none of its 2 sources has Kafka offsets"):
            read_checkpoint(where)
        newest = max(int(p.name) for p in (where / "commits").iterdir() if p.name.isdigit())
        (where / "commits" / str(newest)).unlink()
        path = where / "offsets" / str(newest - 1)
        (line,) = [line for line in path.read_text().split("\n") if '"timestamp":' in line]
        theirs = line[line.index("{") :]
        path.write_text(path.read_text().replace(theirs, KAFKA))
        checkpoint = read_checkpoint(where)
        assert checkpoint.version == int(version) and checkpoint.batch == newest - 1
        assert newest in checkpoint.unfinished
        assert checkpoint.positions == {ORDERS: 120, ORDERS_10: 7, AUDIT: 5}
        assert json.loads(checkpoint.metadata)["batchTimestampMs"] > 0
        moved = '{"dr.audit":{"0":6},"dr.orders":{"0":121,"10":8}}'
        # Spark ends no last line; it reads line by line, so one more end changes nothing.
        assert checkpoint.render(shifted) == path.read_text().replace(KAFKA, moved) + "\n"
