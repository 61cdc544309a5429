"""What runs of the demo are looked at with; they are in the modules beside this one."""

from __future__ import annotations

import contextlib
import os
import random
import re
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from k2ktui.config.load import load
from k2ktui.demo.beside import schema_topic
from k2ktui.demo.pipeline import write_yaml
from k2ktui.demo.topics import SCHEMA_TOPIC
from tests.support.records.schemas import registry_client

COMMAND = [sys.executable, "-m", "k2ktui", "demo", "--headless"]
# Generous: a machine that also runs other things needs it.
FLOWING_SECONDS = 300.0
COUNT = 100
READ_SECONDS = 5.0


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An environment variable's value by which every process of the demo is known."""
    value = uuid.uuid4().hex
    monkeypatch.setenv("K2KTUI_TEST_MARK", value)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    yield value
    for process in marked(value):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def marked(value: str) -> list[psutil.Process]:
    """The processes that inherited the mark, this one excepted."""
    processes = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get("K2KTUI_TEST_MARK") == value:
                processes.append(process)
        except psutil.Error:
            continue
    return processes


def command_lines(value: str) -> dict[psutil.Process, str]:
    """The command lines of these processes, of which some may end meanwhile."""
    lines = {}
    for process in marked(value):
        with contextlib.suppress(psutil.Error):
            lines[process] = " ".join(process.cmdline())
    return lines


def orders_of(cluster: dict[str, Any]) -> list[object]:
    """Return the first orders of one partition, by the cluster's own registry."""
    address = cluster["kafka"]["common"]["bootstrap.servers"]
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reader",
            "enable.auto.commit": False,  # it is none of the demo's groups
            "log_level": 0,
        }
    )
    url = cluster["registry"]["config"]["schema.registry.url"]
    read = AvroDeserializer(registry_client(url))
    at = SerializationContext(SCHEMA_TOPIC, MessageField.VALUE)
    try:
        consumer.assign([TopicPartition(SCHEMA_TOPIC, 0, OFFSET_BEGINNING)])
        messages = consumer.consume(COUNT, READ_SECONDS)
    finally:
        consumer.close()
    return [read(message.value(), at) for message in messages if message.error() is None]


def check_lines(said: str) -> bool:
    """Whether the last view shows that records flow, and what each tool would read again."""
    _, _, view = said.rpartition(" pipeline demo: ")
    return (
        re.search(r"  throughput [1-9][\d,]* records/s\n", view) is not None
        # Six topics, and the one of Avro records.
        and "  partitions 19: " in view
        # The group that has read everything is read again by neither; others by it, not by us.
        and "    archive: k2ktui 0" in view
        and all(
            re.search(rf"    {group}: k2ktui [\d,]+.*, MirrorMaker 2 ", view)
            for group in ("billing", "fulfilment", "recommender")
        )
    )


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
