"""The Kafka exporter: what a run leaves in the metrics topic of the target."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from socket import create_server
from typing import Any

import pytest

from k2ktui.engine.records.state import SourcePartition
from k2ktui.kafka.control import metrics_exporter
from k2ktui.replication.telemetry import exporters
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Got,
    create_topic,
    eventually,
    produce,
    read_all,
    unique_name,
)
from tests.support.pipelines.pipeline import RUN_TIMEOUT
from tests.support.pipelines.telemetry import Start, measured, pipeline


@pytest.fixture
def start() -> Iterator[Start]:
    """Begin measured runs; they end with the test."""
    with measured() as begin:
        yield begin


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an export take its time, also the last one of a run: a busy broker answers late."""
    monkeypatch.setattr(exporters, "_CLOSE_S", TIMEOUT)
    monkeypatch.setattr(exporters, "_EXPORT_S", TIMEOUT)
    monkeypatch.setattr(metrics_exporter, "_DELIVERY_S", TIMEOUT)


def by_name(values: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {value["name"]: value for value in values}


def read_back(target: KafkaNode, topic: str) -> tuple[list[Got], dict[str, dict[str, Any]]]:
    records = read_all(target, topic)
    return records, by_name([json.loads(record.value or b"") for record in records])


@pytest.mark.usefixtures("patient")
def test_kafka(start: Start, target: KafkaNode) -> None:
    topic = create_topic(target, unique_name("__k2k_metrics"), 3)
    config = pipeline(target.bootstrap, metrics={"kafka": {"topic": topic}})
    # What exactly-once pipelines set for their records must not matter here.
    properties = {"enable.idempotence": "true", "delivery.timeout.ms": "120000", "acks": "all"}
    kafka = {"common": {"bootstrap.servers": target.bootstrap}, "producer": properties}
    config = config.model_copy(update={"target": pipeline(target={"kafka": kafka}).target})
    run = start("kafka", config)
    before_ms = int(time.time() * 1000)
    run.begin()
    run.exporters.close()

    records, metrics_read = read_back(target, topic)
    assert {record.key for record in records} == {b"p"}
    assert len({record.partition for record in records}) == 1
    lag = metrics_read["k2k.consumer.source.lag"]
    at, resource = lag.pop("at"), lag.pop("resource")
    assert lag == {
        "v": 1,
        "pipeline": "p",
        "name": "k2k.consumer.source.lag",
        "kind": "gauge",
        "unit": "{record}",
        "points": [{"topic": "orders", "partition": 0, "value": 10}],
    }
    assert before_ms <= at <= time.time() * 1000
    assert {record.timestamp for record in records} >= {at}
    assert resource.keys() >= {"service.name", "service.version"}
    counted = metrics_read["k2k.producer.records"]
    assert (counted["kind"], counted["points"][0]) == ("counter", {"slot": 0, "value": 100})
    assert before_ms <= counted["since"] <= counted["at"]
    assert run.notes == []


@pytest.mark.usefixtures("patient")
def test_kafka_splits_what_no_record_could_hold(start: Start, target: KafkaNode) -> None:
    topic = create_topic(
        target, unique_name("__k2k_metrics"), config={"max.message.bytes": "65536"}
    )
    config = pipeline(target.bootstrap, metrics={"kafka": {"topic": topic}})
    run = start("kafka", config, METRIC_EXPORT_INTERVAL=200)
    many = [SourcePartition("t" * 60, number) for number in range(1201)]
    run.survey(dict.fromkeys(many, 9))
    run.export()

    def first_export() -> list[list[dict[str, int]]]:
        values = [json.loads(record.value or b"") for record in read_all(target, topic)]
        ends = [value["points"] for value in values if value["name"] == "k2k.consumer.source.end"]
        return ends[:3] if len(ends) >= 3 else []

    ends = eventually(first_export, "all partitions are exported")
    run.exporters.close()
    assert [len(points) for points in ends] == [500, 500, 201]
    assert {p["partition"] for points in ends for p in points} == set(range(1201))
    assert run.notes == []


def test_kafka_out_of_reach(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporters, "_EXPORT_S", 0.3)
    monkeypatch.setattr(exporters, "_PAUSES_S", (3600.0,))  # however long this test takes
    run = start("kafka", pipeline("127.0.0.1:1"), METRIC_EXPORT_INTERVAL=20)
    run.begin()
    eventually(lambda: run.notes, "the failure is noted")
    tried = list[object]()
    (pusher,) = run.exporters.pushers
    monkeypatch.setattr(pusher, "_write", lambda *given: tried.append(given))
    run.exporters.close()
    assert tried == [], "at its end a run does not wait for an exporter that fails"
    assert len(run.notes) == 1
    assert "__k2k_metrics" in run.notes[0]


def test_an_end_within_its_time_whatever_hangs(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three seconds; without that bound it would be this hour, and the suite ends the test."""
    monkeypatch.setattr(exporters, "_EXPORT_S", 3600.0)
    monkeypatch.setattr(metrics_exporter, "_DELIVERY_S", 3600.0)
    with closing(create_server(("127.0.0.1", 0))) as mute:  # accepts, and never answers
        run = start("kafka", pipeline(f"127.0.0.1:{mute.getsockname()[1]}"))
        run.begin()
        run.exporters.close()


def yaml(path: Path, source: KafkaNode, target: KafkaNode, topic: str, metrics: str) -> Path:
    path.write_text(f"""
name: {topic}
features: {{autoCreateControlTopics: enabled}}
source: {{kafka: {{common: {{bootstrap.servers: "{source.bootstrap}"}}}}}}
target: {{kafka: {{common: {{bootstrap.servers: "{target.bootstrap}"}}}}}}
replication: [{{source: {{topic: [{topic}]}}}}, {{sink: {{topic: source, partition: source}}}}]
coordination: {{commit: {{topic: {topic}-commits}}}}
offsetMapping: {{topic: {topic}-mappings}}
metrics: {{kafka: {{topic: {metrics}}}}}
spark: {{master: "local[1]"}}
""")
    return path


@pytest.mark.slow
def test_start_until_caught_up(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> None:
    topic, metrics = create_topic(source, partitions=2), unique_name("__k2k_metrics")
    produce(source, topic, [f"value {number}".encode() for number in range(300)])
    config = yaml(tmp_path / "p.yaml", source, target, topic, metrics)
    done = subprocess.run(
        [sys.executable, "-m", "k2ktui", "start", "-f", str(config), "--until-caught-up"],
        env=os.environ | {"OTEL_METRICS_EXPORTER": "kafka"},
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "note: metrics" not in done.stdout

    records, metrics_read = read_back(target, metrics)
    assert {record.key for record in records} == {topic.encode()}
    points = {
        p["partition"]: p["value"] for p in metrics_read["k2k.consumer.source.position"]["points"]
    }
    assert points == {0: 300, 1: 0}
    lags = {p["partition"]: p["value"] for p in metrics_read["k2k.consumer.source.lag"]["points"]}
    assert lags == {0: 0, 1: 0}
    (sent,) = metrics_read["k2k.producer.records"]["points"]
    assert sent == {"slot": 0, "value": 300}
    assert metrics_read["k2k.first.record.time"]["points"][0]["value"] > 0
    (age,), (ready,) = (metrics_read[f"k2k.{n}"]["points"] for n in ("heartbeat.age", "ready.time"))
    assert age["value"] < ready["value"], "the last heartbeat was written at the end of the run"
