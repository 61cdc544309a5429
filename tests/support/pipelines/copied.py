"""A copy made by the test itself, with the records that a pipeline would have left on the target.

Groups, plans and proofs need the state of a pipeline, not the pipeline: this writes data, mappings
and positions as docs/internals/record-formats.md says, in a second instead of a Spark run.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from confluent_kafka import Consumer, TopicPartition

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.engine.records.moved_topic import MovedTopic, moved_topic_key, moved_topic_value
from k2ktui.engine.records.state import (
    Covers,
    FirstLanded,
    Landed,
    MappingRange,
    Position,
    Run,
    SourcePartition,
    mapping_key,
    mapping_value,
    position_key,
    position_value,
    run_key,
    run_value,
)
from k2ktui.engine.records.state import MappingRecord as OffsetMapping
from k2ktui.kafka.clients import Cluster, TopicDescription, target_cluster
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.replication.ownership.commit_state import CommitState, CommitTopic, read_commit_state
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import (
    TIMEOUT,
    Got,
    Out,
    await_stable,
    client,
    create_topic,
    delete_before,
    end_offsets,
    produce,
    read_all,
    start_offsets,
    unique_name,
)
from tests.support.oracle.group_offsets import read_committed_offsets

Where = tuple[str, int]
Span = tuple[int, int]


def only(*topics: str) -> dict[str, object]:
    """Return settings of a pipeline that copies these topics only."""
    return {
        "replication": [
            {"source": {"topic": list(topics)}},
            {"sink": {"topic": "source", "partition": "source"}},
        ]
    }


@dataclass
class Copied:
    """A pipeline's file, and copies of topics by ``copy``; the target has records of its own.

    Attributes:
        prior: native records on each target partition before the copy, so that offsets differ.
    """

    directory: Path
    source: KafkaNode
    target: KafkaNode
    settings: Mapping[str, object] = field(default_factory=dict)
    prior: int = 7
    name: str = field(default_factory=lambda: unique_name("copied"))
    term: int = 1

    def __post_init__(self) -> None:
        suffix = self.name.replace("-", "_")
        self.commits, self.mappings = f"__commits_{suffix}", f"__mappings_{suffix}"
        self.state = f"__state_{suffix}"
        create_topic(self.target, self.commits, 1, {"cleanup.policy": "compact"})
        create_topic(self.target, self.mappings, 1)
        produce(self.target, self.commits, [Out(run_value(Run(1, 1)), run_key(self.name))])

    def put_run(
        self, pair: ClusterPair | None = None, term: int = 1, bidirectional: str = ""
    ) -> None:
        """Write the run record of a release that names the clusters, by default ours."""
        pair = pair or ClusterPair(self.source.cluster_id, self.target.cluster_id, self.mappings)
        started_ms = int(time.time() * 1000)
        run = Run(term, 1, self.name, started_ms=started_ms, pair=pair, bidirectional=bidirectional)
        produce(self.target, self.commits, [Out(run_value(run), run_key(self.name))])

    @property
    def file(self) -> Path:
        """The pipeline's file."""
        tree = {
            "name": self.name,
            "features": {"autoCreateControlTopics": "enabled"},
            "source": {"kafka": {"common": {"bootstrap.servers": self.source.bootstrap}}},
            "target": {"kafka": {"common": {"bootstrap.servers": self.target.bootstrap}}},
            "topicCreation": {"control": {"common": {"replication": 1}}},
            "coordination": {
                "commit": {"topic": self.commits},
                "state": {"topic": self.state},
            },
            "offsetMapping": {"topic": self.mappings},
            "groups": {"pollInterval": "1 second", "consumerGroups": f"{self.name}-.*"},
            "replication": [
                {"source": {"topic": ".*"}},
                {"sink": {"topic": "source", "partition": "source"}},
            ],
            **self.settings,
        }
        path = self.directory / f"{self.name}.yaml"
        path.write_text(yaml.safe_dump(tree))
        return path

    @property
    def config(self) -> PipelineConfig:
        """The pipeline's configuration."""
        return load_checked((str(self.file),)).config

    @property
    def cluster(self) -> Cluster:
        """The target cluster."""
        return target_cluster(self.config)

    def commit_state(self, partitions: int = 1) -> CommitState:
        """Return what the commit topic says of the pipeline, once no transaction is open there.

        A run or a command ends before the markers of its last transaction are written.
        """
        await_stable(self.target, self.commits)
        topic = CommitTopic(self.commits, partitions, self.name)
        return read_commit_state(self.cluster, topic, TIMEOUT)

    def group(self, stem: str) -> str:
        """Return the name of a group that this pipeline looks after."""
        return f"{self.name}-{stem}"

    def copy(
        self, topic: str, records: Iterable[Got] | None = None, *, step: int = 0
    ) -> dict[Where, dict[int, int]]:
        """Copy a source topic; return target offset by source offset, per source partition.

        Args:
            topic: its name, on both clusters.
            records: which records; all by default.
            step: how many records one mapping record maps; 0 is all. A native record follows each,
                where a transaction has its marker.
        """
        got_records = list(read_all(self.source, topic) if records is None else records)
        ends = end_offsets(self.source, topic, "read_committed")
        starts = start_offsets(self.source, topic)
        create_topic(self.target, topic, len(ends))
        natives = [Out(b"native", partition=number) for number in ends for _ in range(self.prior)]
        produce(self.target, topic, natives)
        copies: list[Out] = []
        own: dict[int, list[Got]] = {}
        for partition in ends:
            own[partition] = [got for got in got_records if got.partition == partition]
            outs = [Out(g.value, g.key, partition, g.headers, g.timestamp) for g in own[partition]]
            size = step or max(1, len(outs))
            for at in range(0, len(outs), size):
                copies += outs[at : at + size]
                copies += [Out(b"native", partition=partition)] * (step > 0)
        landed_at: dict[int, list[int]] = {partition: [] for partition in ends}
        for out, offset in zip(copies, produce(self.target, topic, copies), strict=True):
            assert out.partition is not None
            landed_at[out.partition].append(offset)
        landed: dict[Where, dict[int, int]] = {}
        mappings: list[Out] = []
        ids = self._id(self.source, topic), self._id(self.target, topic)
        for partition, offsets in landed_at.items():
            if step:
                offsets = [at for n, at in enumerate(offsets) if n % (step + 1) != step]
            pairs = {
                got.offset: offset for got, offset in zip(own[partition], offsets, strict=True)
            }
            landed[topic, partition] = pairs
            start, end = starts[partition], ends[partition]
            if step:
                self.map_steps(topic, partition, pairs, end, start, step)
            elif end > start:
                mappings.append(self._mapping(topic, partition, pairs, Covers(start, end), topic))
        if mappings:
            produce(self.target, self.mappings, mappings)
        positions = [
            self._position(topic, partition, end, starts[partition], topic, ids)
            for partition, end in ends.items()
        ]
        produce(self.target, self.commits, positions)
        return landed

    def copy_on(self, topic: str, first: int) -> dict[int, int]:
        """Copy the records of partition 0 from ``first`` on, of a topic that was copied before.

        Returns:
            Their target offsets by source offset.
        """
        own = [got for got in read_all(self.source, topic) if got.offset >= first]
        outs = [Out(got.value, got.key, 0, got.headers, got.timestamp) for got in own]
        offsets = produce(self.target, topic, outs)
        pairs = {got.offset: offset for got, offset in zip(own, offsets, strict=True)}
        end = end_offsets(self.source, topic, "read_committed")[0]
        self.record(topic, 0, pairs, end, start_offsets(self.source, topic)[0], first)
        return pairs

    def map_steps(
        self,
        topic: str,
        partition: int,
        pairs: Mapping[int, int],
        position: int,
        start: int,
        step: int,
    ) -> None:
        """Write a mapping record for every ``step`` records, all at once."""
        source = SourcePartition(topic, partition)
        ordered = sorted(pairs.items())
        outs, first = [], start
        for at in range(0, len(ordered), step):
            some = ordered[at : at + step]
            end = ordered[at + step][0] if at + step < len(ordered) else position
            one = MappingRange(some[0][0], some[0][1], len(some))
            mapping = OffsetMapping(
                self.name, source, topic, partition, self.term, (one,), covers=Covers(first, end)
            )
            outs.append(Out(mapping_value(mapping), mapping_key(mapping)))
            first = end
        produce(self.target, self.mappings, outs)

    def record(
        self,
        topic: str,
        partition: int,
        pairs: Mapping[int, int],
        position: int,
        start: int,
        first: int | None = None,
        target_topic: str = "",
    ) -> None:
        """Write the mapping and position records of a partition, copied from ``first`` on.

        ``target_topic`` has the same name by default.
        """
        if position > start:
            covers = Covers(start if first is None else first, position)
            mapping = self._mapping(topic, partition, pairs, covers, target_topic or topic)
            produce(self.target, self.mappings, [mapping])
        self.put_position(topic, partition, position, start, target_topic)

    def _mapping(
        self,
        topic: str,
        partition: int,
        pairs: Mapping[int, int],
        covers: Covers,
        target_topic: str,
    ) -> Out:
        ranges: list[MappingRange] = []
        for at, to in sorted(pairs.items()):
            last = ranges[-1] if ranges else None
            if last and (last.source + last.count, last.target + last.count) == (at, to):
                ranges[-1] = MappingRange(last.source, last.target, last.count + 1)
            else:
                ranges.append(MappingRange(at, to, 1))
        mapping = OffsetMapping(
            self.name,
            SourcePartition(topic, partition),
            target_topic,
            partition,
            self.term,
            tuple(ranges),
            covers=covers,
        )
        return Out(mapping_value(mapping), mapping_key(mapping))

    def put_position(
        self,
        topic: str,
        partition: int,
        position: int,
        start: int,
        target_topic: str = "",
        landed: Span | None = None,
        first: Span | None = None,
    ) -> None:
        """Write the position record of a partition.

        Args:
            topic, partition: the source partition.
            position, start: of the record.
            target_topic: the same name by default.
            landed: the last span on the target.
            first: source and target offset of the first copy.
        """
        target = target_topic or topic
        ids = self._id(self.source, topic), self._id(self.target, target)
        entry = self._position(topic, partition, position, start, target, ids, landed, first)
        produce(self.target, self.commits, [entry])

    def _position(
        self,
        topic: str,
        partition: int,
        position: int,
        start: int,
        target_topic: str,
        ids: tuple[str, str],
        landed: Span | None = None,
        first: Span | None = None,
    ) -> Out:
        target = target_topic, partition
        state = Position(
            position,
            start,
            -1,
            ids[0],
            self.term,
            0,
            target_topic,
            partition,
            ids[1],
            0,
            int(time.time() * 1000),
            landed=() if landed is None else (Landed(*target, *landed),),
            first_landed=None if first is None else (FirstLanded(*target, *first),),
        )
        key = position_key(self.name, SourcePartition(topic, partition))
        return Out(position_value(state), key)

    def move(self, topic: str, drill: str = "20261121-101500-3f2a", target: str = "") -> MovedTopic:
        """Write the record of a drill that moved a topic's clients to the target.

        ``target`` has the same name by default.
        """
        moved = MovedTopic(topic, target or topic, drill, int(time.time() * 1000), "ann@bastion")
        entry = Out(moved_topic_value(moved), moved_topic_key(self.name, topic))
        produce(self.target, self.commits, [entry])
        return moved

    def put_mapping(self, key: bytes, value: bytes) -> None:
        """Write a record of the mapping topic as it is."""
        produce(self.target, self.mappings, [Out(value, key)])

    def _id(self, node: KafkaNode, topic: str) -> str:
        kafka = KafkaClients(common={"bootstrap.servers": node.bootstrap})
        cluster = Cluster(ClusterConfig(kafka=kafka), "x")
        description = cluster.describe([topic])[topic]
        assert isinstance(description, TopicDescription)
        return description.topic_id


def committed(node: KafkaNode, group: str, where: Iterable[Where]) -> dict[Where, int | None]:
    """Return the committed offsets of a group, None where it has none."""
    consumer = Consumer(client(node, group_id=group, enable_auto_commit=False))
    try:
        offsets = read_committed_offsets(consumer, [TopicPartition(t, p) for t, p in where])
    finally:
        consumer.close()
    return {at: offset if offset >= 0 else None for at, offset in offsets.items()}


def delete_records(node: KafkaNode, topic: str) -> None:
    """Delete all records of a topic, as its retention does."""
    for partition, end in end_offsets(node, topic).items():
        delete_before(node, topic, end, partition)
