"""Readers for MirrorMaker 2 flows: positions, heartbeats, checkpoints and their audit."""

from __future__ import annotations

import time
from dataclasses import replace

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.audit import Audit
from k2ktui.errors import Refused
from k2ktui.kafka.clients import TopicDescription, source_cluster, target_cluster
from k2ktui.mm2.audit import Auditor, compare_checkpoints
from k2ktui.mm2.mirror_mappings import MirrorMappings
from k2ktui.mm2.pipeline import MirrorPipeline
from k2ktui.mm2.topics import MirrorTopics
from k2ktui.text import counted
from k2ktui.watch.facts import ComparisonFacts, GroupFacts, Known, TargetFacts
from k2ktui.watch.model import PartName
from k2ktui.watch.readers import (
    ClusterInfoReader,
    GroupReader,
    MappingReader,
    Reader,
    SourceReader,
    StateReader,
    TargetReader,
)

PATH = "mirrormaker2"


class MirrorTargetReader:
    """Reads MirrorMaker 2's own topics on the target, and its offset-syncs."""

    def __init__(self, config: MirrorPipeline) -> None:
        self._config = config
        self._cluster = target_cluster(config)
        self._about = ClusterInfoReader(config, "target")
        self._copies = MirrorMappings(config.flow, config, source_cluster(config), self._cluster)

    def read(self, known: Known) -> TargetFacts:
        """Read positions, the log ends of their target partitions, heartbeats and checkpoints."""
        about = self._about.view(self._cluster)
        try:
            positions = dict(self._copies.positions())
        except Refused:
            return TargetFacts(time.time(), about, started=False)
        wanted = {(p.target_topic, p.target_partition) for p in positions.values()}
        existing = self._cluster.describe(sorted({topic for topic, _ in wanted}))
        where = [
            (topic, partition)
            for topic, partition in wanted
            if partition is not None and isinstance(existing.get(topic), TopicDescription)
        ]
        ends = self._cluster.offsets(where, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
        topics = self._copies.topics
        topics.read_beats()
        topics.read_checkpoints()
        now = time.time()
        notes = (_heartbeat(topics, now), _groups(self._config, topics, now))
        last = topics.beats.last
        beat = None if last is None else last / 1000
        return TargetFacts(now, about, positions, ends, notes=notes, heartbeat_at=beat)

    def close(self) -> None:
        """Disconnect from the clusters."""
        self._copies.close()


class MirrorGroupReader(GroupReader):
    """Reads groups and audits MirrorMaker 2's checkpoints, both on the same snapshot."""

    def __init__(self, config: MirrorPipeline) -> None:
        super().__init__(config)
        self._name = config.name
        sides = source_cluster(config), target_cluster(config)
        self._topics = MirrorTopics(config.flow, *sides)

    def read(self, known: Known) -> GroupFacts:
        """Read checkpoints, then take a snapshot."""
        # In this order: a checkpoint written after the groups were read would be ahead of them.
        self._topics.read_checkpoints()
        found = super().read(known)
        rows = compare_checkpoints(found.rows, self._topics.checkpoints, found.taken_at)
        notes = (*self._topics.unseen_checkpoints(), *self._topics.unreadable(), *found.notes)
        return replace(found, audit=Audit(self._name, found.taken_at, tuple(rows), notes))

    def close(self) -> None:
        """Disconnect from the clusters."""
        self._topics.close()
        super().close()


class ComparisonReader:
    """Audits a flow that copies beside the pipeline."""

    def __init__(self, config: MirrorPipeline) -> None:
        self._auditor = Auditor(config)

    def read(self, known: Known) -> ComparisonFacts:
        """Audit the flow now."""
        found = self._auditor.audit()
        return ComparisonFacts(found.taken_at, found)

    def close(self) -> None:
        """Disconnect from the clusters."""
        self._auditor.close()


def mirror_readers(config: MirrorPipeline) -> dict[PartName, Reader]:
    """Return the readers of the parts that differ from a k2ktui pipeline."""
    return {
        PartName.TARGET: MirrorTargetReader(config),
        PartName.GROUPS: MirrorGroupReader(config),
    }


def make_readers(
    config: PipelineConfig, compare: MirrorPipeline | None = None, *, groups: bool = True
) -> dict[PartName, Reader]:
    """Return the reader of each part of a pipeline; connects to nothing yet.

    Args:
        config: the pipeline.
        compare: a MirrorMaker 2 flow beside it, whose checkpoints are compared.
        groups: whether consumer groups are read, too, or the mappings alone.
    """
    found: dict[PartName, Reader] = {
        PartName.SOURCE: SourceReader(config),
        PartName.TARGET: TargetReader(config),
        PartName.GROUPS: GroupReader(config) if groups else MappingReader(config),
        PartName.STATE: StateReader(config),
    }
    if isinstance(config, MirrorPipeline):
        found |= mirror_readers(config)
    if compare is not None:
        found[PartName.COMPARISON] = ComparisonReader(compare)
    return found


def _heartbeat(topics: MirrorTopics, now: float) -> str:
    last = topics.beats.last
    if last is None:
        return "MirrorMaker 2 has written no heartbeat"
    return f"MirrorMaker 2's last heartbeat was {max(0.0, now - last / 1000):.0f} s ago"


def _groups(config: MirrorPipeline, topics: MirrorTopics, now: float) -> str:
    done = "commits them on the target" if config.flow.syncs_groups else "does not commit them"
    if not topics.checkpoints:
        return f"MirrorMaker 2 has written no checkpoint of a group; it {done}"
    newest = max(each.at_ms for each in topics.checkpoints.values())
    age = max(0.0, now - newest / 1000)
    count = counted(len(topics.checkpoints), "checkpoint")
    return f"MirrorMaker 2 has {count} of group-partitions, the newest {age:.0f} s old; it {done}"
