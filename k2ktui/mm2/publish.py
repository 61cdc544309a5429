"""Publishes a k2ktui pipeline in MirrorMaker 2's format: checkpoints, heartbeats, offset syncs.

All records are written to the target, to partition 0 of compacted topics with MirrorMaker 2's
names, so that ``RemoteClusterUtils.translateOffsets`` and monitoring work. The source is only read,
so offset syncs go to the same topic as with ``offset-syncs.topic.location=target``.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.mapping.replica import Replica, TargetLog, TargetPartition
from k2ktui.engine.moves.groups import Snapshot, translate_groups
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConfigError, Refused
from k2ktui.kafka.admin.topics import TopicSpec, create_topics
from k2ktui.kafka.clients import Cluster, TopicDescription, target_cluster
from k2ktui.kafka.control.keyed_writer import KeyedWriter
from k2ktui.mm2.flows.formats import (
    Checkpoint,
    GroupPartition,
    Heartbeat,
    OffsetSync,
    checkpoint_key,
    checkpoint_value,
    heartbeat_key,
    heartbeat_value,
    offset_sync_key,
    offset_sync_value,
)
from k2ktui.mm2.flows.policy import HEARTBEATS, ReplicationPolicy
from k2ktui.runtime.background import BackgroundRunner
from k2ktui.sync.flow import Flow
from k2ktui.sync.mapping.source import NothingCopied
from k2ktui.sync.moves.snapshot import SnapshotReader
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

_COMPACTED = {"cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True)
class MirrorNames:
    """The pipeline's cluster aliases and topic names in MirrorMaker 2's terms."""

    source: str
    target: str
    separator: str = "."

    @property
    def _policy(self) -> ReplicationPolicy:
        return ReplicationPolicy("default", self.separator, self.separator, self.source)

    @property
    def checkpoints(self) -> str:
        """The checkpoints topic."""
        return self._policy.checkpoints_topic(self.source)

    @property
    def offset_syncs(self) -> str:
        """The offset-syncs topic, on the target."""
        return self._policy.offset_syncs_topic(self.source)

    @property
    def copied_heartbeats(self) -> str:
        """The name of the copy of the source's heartbeats topic."""
        return self._policy.remote_topic(self.source, HEARTBEATS)

    @property
    def all(self) -> tuple[str, ...]:
        """All topics that are written."""
        return self.checkpoints, self.offset_syncs, HEARTBEATS, self.copied_heartbeats


@dataclass(frozen=True, slots=True)
class Published:
    """Number of records of one turn; ``left_out`` counts group-partitions without a safe offset."""

    checkpoints: int
    offset_syncs: int
    left_out: int


class Publisher:
    """Writes the changes since the previous turn.

    Args:
        flow: a pipeline of k2ktui.
        names: its aliases and topic names.
        force: write even if MirrorMaker 2 seems to own these topics.

    Raises:
        ConfigError: it is a flow of MirrorMaker 2, or an alias is missing.
        Refused: MirrorMaker 2 owns these topics, or they cannot be created.
        ConnectionFailed, TimedOut: the target does not answer.
    """

    def __init__(self, flow: Flow, names: MirrorNames, *, force: bool = False) -> None:
        config = flow.pipeline
        if config is None:
            raise ConfigError(
                "mm2 publish needs a pipeline file, not a MirrorMaker 2 file",
                unchanged="Nothing was published.",
                hint="Give a k2ktui pipeline file with -f.",
            )
        if not (names.source and names.target):
            raise ConfigError(
                "the source alias or the target alias is missing",
                unchanged="Nothing was published.",
                hint="Give --source-alias and --target-alias, or set mm2.sourceAlias and "
                "mm2.targetAlias in the pipeline file.",
            )
        self._names = names
        self._target = target_cluster(config)
        if not force:
            _require_only_publisher(self._target, names)
        _ensure(config, self._target, names)
        self._snapshots = SnapshotReader(flow, for_plans=False)
        self._writers = {topic: self._writer(topic) for topic in names.all}
        self._checkpoints: dict[GroupPartition, Checkpoint] = {}
        self._syncs: dict[SourcePartition, OffsetSync] = {}
        self._logged_left_out = 0

    def turn(self) -> Published:
        """Take a snapshot and write new checkpoints and offset syncs, and heartbeats.

        Raises:
            K2kError: a read or write failed.
        """
        snapshot = self._snapshots.take()
        checkpoints, left_out = checkpoints_of(snapshot)
        syncs = syncs_of(snapshot.replicas, snapshot.logs)
        fresh = [
            checkpoint
            for at, checkpoint in checkpoints.items()
            if self._checkpoints.get(at) != checkpoint
        ]
        moved = [sync for at, sync in syncs.items() if self._syncs.get(at) != sync]
        names = self._names
        self._writers[names.offset_syncs].put(
            (offset_sync_key(sync.source), offset_sync_value(sync)) for sync in moved
        )
        self._writers[names.checkpoints].put(
            (checkpoint_key(checkpoint.at), checkpoint_value(checkpoint)) for checkpoint in fresh
        )
        now = int(time.time() * 1000)
        for topic, beat in (
            (HEARTBEATS, Heartbeat(names.source, names.target, now)),
            (names.copied_heartbeats, Heartbeat(names.target, names.source, now)),
        ):
            self._writers[topic].put([(heartbeat_key(beat), heartbeat_value(beat))])
        if left_out != self._logged_left_out:
            self._logged_left_out = left_out
            log.info("%d group-partitions have no safe offset, no checkpoint for them", left_out)
        log.debug("%d checkpoints and %d offset syncs written", len(fresh), len(moved))
        self._checkpoints, self._syncs = checkpoints, syncs
        return Published(len(fresh), len(moved), left_out)

    def close(self) -> None:
        """Close all connections."""
        self._snapshots.close()
        for writer in self._writers.values():
            writer.close()

    def _writer(self, topic: str) -> KeyedWriter:
        return KeyedWriter(self._target, topic, partition_of=lambda key: 0)


class PublisherThread(BackgroundRunner):
    """Publishes while a pipeline runs, as configured in its ``mm2`` section, and once at its end.

    Args:
        config: the pipeline.
        report: called when publishing fails, at growing intervals, and when it works again.
        is_wanted: whether this run publishes now; of runs that share a pipeline, one does.
    """

    failing = "checkpoints and heartbeats are not written in MirrorMaker 2's format"
    recovered = "MirrorMaker 2's checkpoints and heartbeats are written again"

    def __init__(
        self,
        config: PipelineConfig,
        report: Callable[[str], None],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__("mm2-publisher", config.mm2.interval_s, report, last_turn=True)
        self._config, self._is_wanted = config, is_wanted
        self._publisher: Publisher | None = None

    def work(self) -> None:
        """Write the changes; raises the same errors as ``Publisher``."""
        if not self._is_wanted():
            if self._publisher is not None:
                log.info("another run writes MirrorMaker 2's checkpoints now")
            self.close()  # another run publishes, and this one no longer knows what there is
            return
        if self._publisher is None:
            chosen = self._config.mm2
            names = MirrorNames(chosen.source_alias, chosen.target_alias, chosen.separator)
            log.info("writing MirrorMaker 2's checkpoints to %s", names.checkpoints)
            self._publisher = Publisher(Flow(self._config), names, force=chosen.force)
        # The run that this thread belongs to records itself a moment after its start.
        with suppress(NothingCopied):
            self._publisher.turn()

    def close(self) -> None:
        """Close all connections."""
        if self._publisher is not None:
            self._publisher.close()
            self._publisher = None


def checkpoints_of(snapshot: Snapshot) -> tuple[dict[GroupPartition, Checkpoint], int]:
    """Return the checkpoints of all groups, and how many rows have no safe offset; pure."""
    checkpoints, left_out = {}, 0
    for group in translate_groups(snapshot):
        for row in group.translations:
            if row.offset is None or row.skipped is None or row.skipped or len(row.sources) > 1:
                left_out += 1
                continue
            source = row.sources[0]
            committed = group.source.offsets[source.topic, source.partition]
            at = GroupPartition(group.group, *row.target)
            checkpoints[at] = Checkpoint(at, committed.offset, row.offset, committed.metadata)
    return checkpoints, left_out


def syncs_of(
    replicas: Mapping[SourcePartition, Replica], logs: Mapping[TargetPartition, TargetLog]
) -> dict[SourcePartition, OffsetSync]:
    """Return the last copied record of each source partition as a sync; same partition only.

    None where the target has lost that record, or does not say whether it has.
    """
    syncs = {}
    for at, replica in replicas.items():
        for target, ranges in replica.target_ranges.items():
            target_log = logs.get(target)
            if (
                target[1] == at.partition
                and ranges.end is not None
                and ranges.last_landed is not None
                and target_log is not None
                and ranges.last_landed < target_log.written
            ):
                syncs[at] = OffsetSync(at, ranges.end - 1, ranges.last_landed)
    return syncs


def _require_only_publisher(target: Cluster, names: MirrorNames) -> None:
    storage = f"mm2-offsets.{names.source}.internal"
    if isinstance(target.describe([storage])[storage], TopicDescription):
        raise Refused(
            f"a MirrorMaker 2 stores its positions of {safe_text(names.source)} on the target "
            f"({safe_text(storage)}), and two publishers of the same topics contradict each "
            "other",
            unchanged="Nothing was written.",
            hint="Choose another alias, or give --force (mm2.force: enabled) if it no longer runs.",
        )


def _ensure(config: PipelineConfig, target: Cluster, names: MirrorNames) -> None:
    present = target.describe(names.all)
    missing = [n for n in names.all if not isinstance(present[n], TopicDescription)]
    replication = config.topic_creation.control.common.replication
    specs = [TopicSpec(name, 1, replication, _COMPACTED) for name in missing]
    for problem in create_topics(target, specs).values():
        if problem is not None:
            raise problem
