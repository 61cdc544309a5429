"""Spark's settings for sessions that transform records."""

from __future__ import annotations

from pathlib import Path

from k2ktui.config.model import SparkSettings
from k2ktui.replication.spark.settings import JAVA_OPTIONS, spark_properties

_DAEMON = "spark.python.daemon.module"


def properties(master: str, transforms: bool, **config: str) -> dict[str, str]:
    settings = SparkSettings(
        master=master, config={k.replace("_", "."): v for k, v in config.items()}
    )
    return spark_properties(settings, "test", Path("/x"), Path("/y"), transforms=transforms)


def test_only_local_workers_are_forked_with_their_modules_loaded() -> None:
    assert properties("local[2]", True)[_DAEMON] == "k2ktui.replication.spark.transform_daemon"
    assert properties("local[2]", False)[_DAEMON] == "k2ktui.replication.spark.copy_daemon"
    # The executors of a cluster have the code only once a worker has started.
    assert _DAEMON not in properties("spark://host:7077", True)
    own = properties("local[2]", True, spark_python_daemon_module="pyspark.daemon")
    assert own[_DAEMON] == "pyspark.daemon"


def test_java_optimizes_what_transforms_and_options_of_the_file_come_last() -> None:
    options = properties("local[2]", True, spark_driver_extraJavaOptions="-Xss2m")[JAVA_OPTIONS]
    assert options.index("TieredStopAtLevel=1") < options.index("TieredStopAtLevel=4")
    assert "-XX:Tier4InvocationThreshold=" in options and options.endswith("-Xss2m")
    assert "Tier4" not in properties("local[2]", False)[JAVA_OPTIONS]


def test_rows_pass_between_java_and_python_in_large_pieces_and_unchecked() -> None:
    made = properties("local[2]", True)
    assert made["spark.buffer.size"] == str(1 << 20)
    assert "-Darrow.enable_unsafe_memory_access=true" in made[JAVA_OPTIONS]
    assert "spark.buffer.size" not in properties("local[2]", False)
    assert "-Darrow" not in properties("local[2]", False)[JAVA_OPTIONS]
    assert properties("local[2]", True, spark_buffer_size="65536")["spark.buffer.size"] == "65536"
