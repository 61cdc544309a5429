"""The demo with two schema registries: ids are mapped, objects stay, and nothing is left behind."""

from __future__ import annotations

import random
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from k2ktui.config.load import load
from k2ktui.demo.beside import schema_topic
from k2ktui.demo.pipeline import write_yaml
from k2ktui.demo.topics import SCHEMA_TOPIC
from tests.spark.demo.test_real import COMMAND, FLOWING_SECONDS, mark, marked
from tests.support.clusters.kafka import eventually

__all__ = ["mark"]  # a fixture

COUNT = 100
READ_SECONDS = 5.0


def test_the_pipeline_maps_the_ids_of_one_topic(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    write_yaml(file, "s:1", "t:1", registries=("http://s/api", "http://t/api"))
    config = load([file]).config
    rule = config.schema_rule_for(SCHEMA_TOPIC)
    assert rule is not None and rule.parts == ("value",)
    assert config.schema_rule_for("orders") is None
    assert config.topics.matches(SCHEMA_TOPIC)
    write_yaml(file, "s:1", "t:1")
    assert not load([file]).config.features.schema_mapping


def test_records_begin_with_the_id_of_their_schema() -> None:
    record = schema_topic(4).make(random.Random(1), 300)
    assert record.value is not None
    assert record.value.startswith(b"\0\0\0\0\4" + b"\xd8\4")  # 300 as Avro's long


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_consumers_of_both_clusters_read_the_same_orders(mark: str, tmp_path: Path) -> None:
    demo = subprocess.Popen(
        [*COMMAND, "--with-schemas"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    file = tmp_path / "k2ktui" / "demo" / "data" / "pipeline.yaml"
    try:

        def orders() -> list[list[object]]:
            assert demo.poll() is None, demo.stderr and demo.stderr.read()
            if not file.exists():
                return []
            config = yaml.safe_load(file.read_text())
            sides = [read_orders(config[side]) for side in ("source", "target")]
            return sides if all(len(side) == COUNT for side in sides) else []

        source, target = eventually(orders, "orders on both sides", 2 * FLOWING_SECONDS)
        assert source == target
    finally:
        demo.send_signal(signal.SIGINT)
        demo.wait(120)
    eventually(lambda: not marked(mark), "everything is gone")


def read_orders(cluster: dict[str, Any]) -> list[object]:
    """Return the first orders of one partition, by the cluster's own registry."""
    address = cluster["kafka"]["common"]["bootstrap.servers"]
    consumer = Consumer({"bootstrap.servers": address, "group.id": "reader", "log_level": 0})
    url = cluster["registry"]["config"]["schema.registry.url"]
    read = AvroDeserializer(SchemaRegistryClient({"url": url}))
    at = SerializationContext(SCHEMA_TOPIC, MessageField.VALUE)
    try:
        consumer.assign([TopicPartition(SCHEMA_TOPIC, 0, OFFSET_BEGINNING)])
        messages = consumer.consume(COUNT, READ_SECONDS)
    finally:
        consumer.close()
    return [read(message.value(), at) for message in messages if message.error() is None]
