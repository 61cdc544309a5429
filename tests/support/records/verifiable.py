"""Kafka's own VerifiableProducer and VerifiableConsumer, which tell in JSON lines what they did."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from k2ktui.runtime import artifacts, child_process
from k2ktui.runtime.java import find_java
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import TIMEOUT, end_offsets, eventually, unique_name

Sequences = dict[int, list[str]]
_TOOLS = "org.apache.kafka.tools"
_ARTIFACT = f"org.apache.kafka:kafka-tools:{artifacts.KAFKA_VERSION}"


class VerifiableProducer:
    """Writes the numbers from 0 on as values, so many a second, until it is stopped."""

    def __init__(self, node: KafkaNode, topic: str, directory: Path, *, throughput: int) -> None:
        options = {"topic": topic, "throughput": throughput, "acks": -1}
        self._tool = _Tool("VerifiableProducer", node, directory, options)

    def stop(self) -> Sequences:
        """End it in order, and return what was acknowledged: partition to values in order."""
        # One that is killed tells nothing of its last records.
        self._tool.process.stop(TIMEOUT)
        assert self._tool.events("tool_data"), self._tool.log.read_text()[-2000:]
        acknowledged: dict[int, list[tuple[int, str]]] = defaultdict(list)
        for event in self._tool.events("producer_send_success"):
            acknowledged[event["partition"]].append((event["offset"], event["value"]))
        return {p: [value for _, value in sorted(pairs)] for p, pairs in acknowledged.items()}


def consume(node: KafkaNode, topic: str, directory: Path) -> Sequences:
    """Read a topic to its end with a VerifiableConsumer; partition to values in order."""
    config = directory / "consumer.properties"
    config.write_text("isolation.level=read_committed\n")
    options = {
        "topic": topic,
        "group-id": unique_name("verifiable"),
        "reset-policy": "earliest",
        "consumer.config": config,
        "verbose": None,
    }
    tool = _Tool("VerifiableConsumer", node, directory, options)
    ends = end_offsets(node, topic, "read_committed")
    sequences: Sequences = {}

    def all_read() -> bool:
        sequences.clear()
        last: dict[int, int] = {}
        for event in tool.events("record_data"):
            sequences.setdefault(event["partition"], []).append(event["value"])
            last[event["partition"]] = event["offset"]
        # The very last offset may be a marker, which no consumer gets.
        return all(last.get(p, -1) >= end - 2 for p, end in ends.items() if end)

    try:
        eventually(all_read, f"{topic} is read")
    finally:
        tool.process.stop(10)
    return sequences


class _Tool:
    def __init__(
        self, name: str, node: KafkaNode, directory: Path, options: dict[str, object]
    ) -> None:
        jars = artifacts.classpath(_ARTIFACT, artifacts.LOGGING)
        words = [word for key, value in options.items() for word in _option(key, value)]
        self.log = directory / f"{unique_name(name)}.log"
        java = [str(find_java().executable), "-cp", jars.argument, f"{_TOOLS}.{name}"]
        self.process = child_process.spawn(
            [*java, "--bootstrap-server", node.bootstrap, *words], log_path=self.log
        )

    def events(self, kind: str) -> list[dict[str, Any]]:
        data = self.log.read_bytes()
        lines = data[: data.rfind(b"\n") + 1].splitlines()
        entries = [json.loads(line) for line in lines if line.startswith(b"{")]
        return [event for event in entries if event.get("name") == kind]


def _option(key: str, value: object) -> list[str]:
    return [f"--{key}"] if value is None else [f"--{key}", str(value)]
