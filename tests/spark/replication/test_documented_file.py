"""A file with every key that Lenses documents for its replicator, but those of schema ids, runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, create_topic, end_offsets, produce, read_all
from tests.support.commands.cli import k2ktui
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.pipelines.copied import committed
from tests.support.records.lenses import OFFSET_MAPPING_APPLICATION

# All values are the documented defaults or examples, except addresses, the names of topics, and the
# replication factor (the clusters have one broker). Keys of schema ids are refused until they have
# an effect (docs/configuration.md).
FILE = """
name: documented
license:
  acceptEula: true
  token: ${env:string:LENSES_TOKEN}
features:
  exactlyOnce: enabled
  headerReplication: enabled
  schemaMapping: disabled
  offsetMapping: enabled
  bidirectionalReplication: disabled
  optimizeOffsetCommitPartition: enabled
  autoCreateControlTopics: enabled
  autoCreateTopics: enabled
  validateControlTopicSettings: enabled
  keepRecordCreationTimestamp: enabled
  checkKafkaConnectionOnStartup: enabled
  tracingHeaders:
    partition: enabled
    offset: enabled
    topic: disabled
    pipeline: enabled
tracing:
  headers:
    partition: __k2k_partition
    offset: __k2k_offset
    topic: __k2k_topic
    pipeline: __k2k_pipeline
bidirectional:
  mode: cluster
  headers:
    bidirectional: __k2k_bidirectional
errorHandling:
  onCommitSyncTimeout: fail
  onControlMessageDeserializationError: fail
configuration:
  autoControlTopicCreationCheckDelay: 750 milliseconds
  autoControlTopicCreationMaxAttempts: 10
  pipelineParallelism: 1
  partitionParallelism: 1
coordination:
  kafka:
    commit:
      topic: __k2k_consumer-offsets
      group: documented-group
      syncTimeout: 30 seconds
      batchSize: 1000
      batchTimeout: 2 seconds
    assignment:
      topic: __k2k-assignment
      graceWindow: 15 seconds
      fencingMaxParallelism: 5
metrics:
  prefix:
    sourceConsumer: k2k.consumer.source.
    targetConsumer: k2k.consumer.control.
    targetProducer: k2k.producer.
    assignment: k2k.
  kafka:
    topic: __k2k-metrics
source:
  kafka:
    common:
      bootstrap.servers: "SOURCE"
    consumer:
      group.id: k2k.documented
      isolation.level: read_committed
    admin: {}
target:
  kafka:
    common:
      bootstrap.servers: "TARGET"
    consumer: {}
    producer:
      enable.idempotence: true
    admin: {}
    topicPropsExclusionList: [min.insync.replicas]
topicCreation:
  replication:
    common: {partitions: null, replication: null, config: {}}
    rules:
      - pattern: "TOPIC.*"
        properties: {partitions: 3, replication: 1, config: {retention.ms: 86400000}}
  control:
    common: {partitions: 3, replication: 1, config: {}}
replication:
  - source:
      name: source
      topic: ["TOPIC"]
  - sink:
      name: sink
      topic: {suffix: .copy}
      partition: source
"""


@pytest.fixture
def target(tmp_path: Path) -> Iterator[KafkaNode]:
    """A cluster of its own: the control topics have default names and no other form."""
    with KafkaNode("documented", tmp_path / "target", {}) as node:
        yield node


@pytest.mark.slow
@pytest.mark.rotate("common", ["", "common: {partitions: 3, replication: 1, config: {}}"])
@pytest.mark.parametrize("first", ["replicator", "mapper"])
def test_both_published_files_in_either_order(
    source: KafkaNode, target: KafkaNode, tmp_path: Path, first: str, common: str
) -> None:
    """Their ``common`` sections differ, and they share the state, mapping and metrics topics."""
    topic = create_topic(source, partitions=2)
    produce(source, topic, [Out(b"%d" % n, b"k", n % 2) for n in range(40)])
    commit_offsets(source, "my-app-1", {(topic, 0): 10})
    text = FILE.replace("common: {partitions: 3, replication: 1, config: {}}", common or "{}")
    replicator, mapper = tmp_path / "replicator.yaml", tmp_path / "mapper.yaml"
    texts = {replicator: text.replace("TOPIC", topic), mapper: OFFSET_MAPPING_APPLICATION}
    for path, written in texts.items():
        for documented, ours in {
            "SOURCE": source.bootstrap,
            "TARGET": target.bootstrap,
            "source-kafka:9092": source.bootstrap,
            "target-kafka:9093": target.bootstrap,
            "replication: 3": "replication: 1",  # the clusters have one broker
            '"min.insync.replicas": "2"': '"min.insync.replicas": "1"',
        }.items():
            written = written.replace(documented, ours)
        path.write_text(written)
    env = {"LENSES_TOKEN": "t0ken"}
    validated = k2ktui("config", "validate", "-f", str(replicator), env=env)
    said = validated.stdout + validated.stderr
    assert "license" in said and "t0ken" not in said
    notes = ""
    if first == "mapper":
        # There is no mapping yet, which is an error; the topics are created all the same.
        assert "no pipeline" in k2ktui("sync", "-f", str(mapper), "--once", code=1).stderr
        notes = k2ktui("start", "-f", str(replicator), "--until-caught-up", env=env).stderr
    else:
        k2ktui("start", "-f", str(replicator), "--until-caught-up", env=env)
    synced = k2ktui("sync", "-f", str(mapper), "--once")
    assert "1 committed" in synced.stdout
    assert committed(target, "my-app-1", [(f"{topic}.copy", 0)]) == {(f"{topic}.copy", 0): 10}
    expect_copied(target, topic, replicator)
    if (first, common) == ("replicator", ""):
        assert "__k2k_state for heartbeats" in synced.stderr
        assert "has 1 partition; topicCreation.control.common.partitions is 3" in synced.stderr
    if first == "mapper" and common:
        assert "__k2k_offset_mappings for offset mappings has 6 partitions" in notes


def expect_copied(target: KafkaNode, topic: str, file: Path) -> None:
    """All records are there, with what the file says of partitions and of headers."""
    assert end_offsets(target, f"{topic}.copy", "read_committed").keys() == {0, 1, 2}
    copied = read_all(target, f"{topic}.copy")
    assert sorted(int(record.value or b"") for record in copied) == list(range(40))
    assert {name for name, _ in copied[0].headers} == {
        "__k2k_partition",
        "__k2k_offset",
        "__k2k_pipeline",
    }
    status = k2ktui("status", "-f", str(file), "--json", env={"LENSES_TOKEN": "t0ken"})
    assert [row["lag_records"] for row in json.loads(status.stdout)["partitions"]] == [0, 0]
