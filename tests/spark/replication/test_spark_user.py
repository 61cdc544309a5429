"""What a Spark user expects of a run: event logs, spark-submit; jobs are in test_secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from k2ktui.runtime.java import spark_java_home
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import create_topic, produce
from tests.support.commands.verbs import k2ktui
from tests.support.oracle.judge import prove
from tests.support.pipelines.pipeline import RUN_TIMEOUT, Pipeline


def logging_to(directory: Path) -> dict[str, str]:
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": directory.as_uri(),
        "spark.eventLog.compress": "false",
    }


def events_of(directory: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(directory.rglob("*")):
        if file.is_file() and not file.name.endswith(".crc"):
            yield from map(json.loads, file.read_text().splitlines())


SUBMIT = Path(pyspark.__file__).parent / "bin" / "spark-submit"


def submit(pipe: Pipeline, *options: str) -> subprocess.CompletedProcess[str]:
    script = pipe.directory / "run.py"
    script.write_text("from k2ktui.cli.main import main\n\nmain()\n")
    start = ["start", "-f", str(pipe.write()), "--until-caught-up"]
    return subprocess.run(
        [str(SUBMIT), *options, str(script), *start],
        env={
            **os.environ,
            "JAVA_HOME": str(spark_java_home()),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT,
        check=False,
    )


@pytest.mark.slow
def test_spark_submit(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    topic = create_topic(source)
    produce(source, topic, [b"v"] * 50)
    pipe = Pipeline(tmp_path, source, target, [topic])

    pipe.settings = {"spark.master": "local[*]"}  # the default: what spark-submit says counts

    refused = submit(pipe, "--master", "local[1]", "--conf", "spark.task.maxFailures=4")
    assert refused.returncode == 5, refused.stdout[-3000:]
    assert "spark.task.maxFailures is 4 and must be 1: Spark would repeat" in refused.stdout
    logs = tmp_path / "events"
    logs.mkdir()
    conf = [
        word for key, value in logging_to(logs).items() for word in ("--conf", f"{key}={value}")
    ]
    done = submit(pipe, "--master", "local[1]", *conf)
    assert done.returncode == 0, done.stdout[-3000:]
    assert prove(source, target, pipe.name, topic).records == 50
    events = list(events_of(logs))
    (environment,) = [e for e in events if e["Event"] == "SparkListenerEnvironmentUpdate"]
    assert environment["Spark Properties"]["spark.master"] == "local[1]"
    assert any(event["Event"] == "SparkListenerJobStart" for event in events)


@pytest.mark.parametrize("command", ["start", "check"])
def test_a_file_with_dynamic_allocation_is_refused(
    source: KafkaNode, target: KafkaNode, tmp_path: Path, command: str
) -> None:
    settings = {"spark.config": {"spark.dynamicAllocation.enabled": "true"}}
    pipe = Pipeline(tmp_path, source, target, [create_topic(source)], settings)
    said = k2ktui(command, "-f", pipe.write())
    assert said.code == 5
    why = "executors would be removed from slots that wait for records"
    assert why in " ".join((said.out + said.err).split())
