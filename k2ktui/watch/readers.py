"""Read a pipeline in four parts, each from only the cluster data that it needs.

The parts: the log bounds of the source, the positions on the target, the groups (which fall back
to the kept commits of the source) and the state topic. If a cluster is down, the others are read.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.rehearsals import KEPT_REHEARSALS
from k2ktui.engine.mapping.strange_records import OtherWriters
from k2ktui.engine.moves.agreement import Agreement
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.admin.probe import Probe
from k2ktui.kafka.clients import (
    Cluster,
    Partition,
    TopicDescription,
    source_cluster,
    target_cluster,
)
from k2ktui.kafka.properties.translation import wire
from k2ktui.log.content import ContentReader
from k2ktui.replication.topics.held_back import HeldBackReader
from k2ktui.replication.topics.record_times import RecordTimes, read_times
from k2ktui.replication.topics.selected_topics import find_deleted
from k2ktui.sync.drill.pair import OppositeDrills
from k2ktui.sync.flow import Flow
from k2ktui.sync.group_lags import GroupLagReader
from k2ktui.sync.mapping.source import (
    CopierState,
    CopiesMissing,
    MappingSource,
    NoPipelineFound,
    NothingCopied,
)
from k2ktui.sync.mapping.strange_reader import StrangeReader, TargetEnds, read_target_ends
from k2ktui.sync.store import StateStore
from k2ktui.watch.facts import (
    ComparisonFacts,
    Facts,
    GroupFacts,
    Known,
    SourceFacts,
    StateFacts,
    TargetFacts,
)
from k2ktui.watch.model import ClusterView, PartName
from k2ktui.watch.unchanged import SnapshotRows

if TYPE_CHECKING:
    from k2ktui.sync.moves.snapshot import SnapshotReader

T = TypeVar("T")

_READ_S = 20.0
_PEEK_S = 1.5
_PROBE_S = 5.0


@dataclass(frozen=True, slots=True)
class Clusters:
    """Both clusters of a flow, whose connections the readers of all parts share."""

    source: Cluster
    target: Cluster

    @classmethod
    def of(cls, config: PipelineConfig) -> Clusters:
        """Return the clusters of a pipeline; connects when a reader first needs them."""
        return cls(source_cluster(config), target_cluster(config))

    def disconnect(self) -> None:
        """Disconnect from both; what was made of them connects again."""
        self.source.disconnect()
        self.target.disconnect()


class ClusterInfoReader:
    """A cluster's id, version and address, requested until they are known."""

    def __init__(self, config: PipelineConfig, side: str) -> None:
        self._config = config.source if side == "source" else config.target
        self._side = side
        self._view = ClusterView(address=self._config.bootstrap_servers)

    def view(self, cluster: Cluster) -> ClusterView:
        """Return the cluster's information, after requesting what is unknown.

        Raises:
            ConnectionFailed, TimedOut: the cluster does not answer.
        """
        # Always requested: it is the cheapest way to notice that the cluster is down.
        cluster_id, version = cluster.cluster_id(), self._view.version
        if not version or cluster_id != self._view.cluster_id:
            with suppress(K2kError), Probe(wire(self._config, "admin"), self._side) as probe:
                probe.open(_PROBE_S)
                version = probe.version
        self._view = replace(self._view, cluster_id=cluster_id, version=version)
        return self._view


class Reader(Protocol):
    """Reads one part; used by one thread."""

    def read(self, known: Known) -> Facts:
        """Read now; ``known`` holds the last values of all parts.

        Raises:
            K2kError: the part could not be read.
        """
        ...

    def close(self) -> None:
        """Disconnect from the clusters."""
        ...


def _by_source(values: Mapping[Partition, T]) -> dict[SourcePartition, T]:
    return {SourcePartition(*at): value for at, value in values.items()}


class SourceReader:
    """Reads the source without consumers or groups, so that it creates nothing there."""

    def __init__(self, config: PipelineConfig, clusters: Clusters) -> None:
        self._config = config
        self._cluster = clusters.source
        self._about = ClusterInfoReader(config, "source")
        self._content = ContentReader(self._cluster)
        self._held_back = HeldBackReader(self._cluster)
        self._drills = OppositeDrills(config, self._cluster)

    def read(self, known: Known) -> SourceFacts:
        """Read the bounds of every selected or replicated partition, and the ages of the lag."""
        about = self._about.view(self._cluster)
        target = known.get(PartName.TARGET)
        positions = target.positions if isinstance(target, TargetFacts) else {}
        names = {n for n in self._cluster.topic_names() if self._config.topics.matches(n)}
        descriptions = self._cluster.describe(sorted(names | {s.topic for s in positions}))
        topics = {n: t for n, t in descriptions.items() if isinstance(t, TopicDescription)}
        where = [(n, p) for n in sorted(topics) for p in range(topics[n].partitions)]
        starts = self._cluster.offsets(where, OffsetSpec.earliest())
        high = self._cluster.offsets(where, OffsetSpec.latest())
        ends = self._cluster.offsets(where, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
        held = self._held_back.read(high, ends)
        waiting = self._times(positions, starts, ends)
        now = time.time()
        ages = {at: max(0.0, now - written) for at, written in waiting.times.items()}
        drills, unread = self._drills.read()
        # MirrorMaker 2 stays before a marker at the end, although it has copied every record.
        exhausted = {SourcePartition(*at): ends[at] for at in waiting.exhausted}
        positions = {
            at: replace(p, offset=exhausted[at]) if at in exhausted else p
            for at, p in positions.items()
        }
        source_ends = _by_source(ends)
        return SourceFacts(
            taken_at=time.time(),
            cluster=about,
            starts=_by_source(starts),
            ends=source_ends,
            topic_ids={name: topic.topic_id for name, topic in topics.items()},
            partitions=tuple(SourcePartition(*at) for at in where),
            ages=_by_source(ages),
            truncated=frozenset(
                at for at, p in positions.items() if source_ends.get(at, p.offset) < p.offset
            ),
            high=_by_source(high),
            held_back=_by_source(held),
            positions=positions,
            drills=drills,
            no_drills=unread,
            deleted=find_deleted(self._config.topics, descriptions),
        )

    def _times(
        self,
        positions: Mapping[SourcePartition, Position],
        starts: Mapping[Partition, int],
        ends: Mapping[Partition, int],
    ) -> RecordTimes:
        """Return when the next record to copy was written, for partitions that have one."""
        offsets = {(s.topic, s.partition): p.offset for s, p in positions.items()}
        waiting = {
            at: offset
            for at, offset in offsets.items()
            if starts.get(at, offset + 1) <= offset < ends.get(at, -1)
        }
        return read_times(self._content, waiting, _PEEK_S)

    def close(self) -> None:
        """Disconnect from the source."""
        self._content.close()
        self._drills.close()


class TargetReader:
    """Reads positions, target log ends, and what a program that copies says about itself."""

    def __init__(self, flow: Flow, clusters: Clusters) -> None:
        self._flow = flow
        self._clusters = clusters
        self._cluster = clusters.target
        self._about = ClusterInfoReader(flow.config, "target")
        self._mappings: MappingSource | None = None
        own = flow.pipeline
        self._strange = None if own is None else StrangeReader(own, clusters.target)

    def read(self, known: Known) -> TargetFacts:
        """Read the positions, and the ends of the target partitions that they name."""
        about = self._about.view(self._cluster)
        if self._mappings is None:
            self._mappings = self._flow.open_mappings(self._clusters.source, self._cluster)
        try:
            copier = self._mappings.read_copier(heartbeats=True)
        except NothingCopied as error:
            return TargetFacts(time.time(), about, nothing_copied=error)
        except (NoPipelineFound, CopiesMissing):
            # The cluster answers; reading the groups reports the error.
            return TargetFacts(time.time(), about)
        target = read_target_ends(self._cluster, copier)
        return TargetFacts(
            time.time(),
            about,
            copier.positions,
            target.ends,
            notes=copier.notes,
            heartbeat_at=copier.heartbeat_at,
            fenced_by=copier.fenced_by,
            recorded=copier.clusters,
            deleted=copier.deleted,
            moved=copier.find_moved(),
            other_writers=self._find_writers(copier, target, known),
        )

    def _find_writers(
        self, copier: CopierState, target: TargetEnds, known: Known
    ) -> OtherWriters | None:
        """Return who else writes to the copies; None while a drill keeps the pipeline away."""
        if self._strange is None or self._mappings is None or copier.fenced_by:
            return None
        groups = known.get(PartName.GROUPS)
        replicas = groups.replicas if isinstance(groups, GroupFacts) else None
        return self._strange.read(copier, target, self._mappings.read_copier, replicas)

    def close(self) -> None:
        """Disconnect from the clusters."""
        if self._mappings is not None:
            self._mappings.close()
        if self._strange is not None:
            self._strange.close()


class MappingReader:
    """Reads the mappings alone, which needs neither the source nor any group."""

    def __init__(self, flow: Flow, clusters: Clusters, store: StateStore | None = None) -> None:
        self._flow, self._store = flow, store
        self._clusters = clusters
        self._snapshots: SnapshotReader | None = None
        self._rows = SnapshotRows()

    def read(self, known: Known) -> GroupFacts:
        """Read the mappings; empty if the pipeline was never started."""
        try:
            copies = self.snapshots.read_mappings()
        except NothingCopied:
            return GroupFacts(time.time())
        expire_at = None
        with suppress(Refused):  # the run may read the state topic, this login not
            expire_at = self.snapshots.find_expiry()
        return GroupFacts(
            time.time(),
            mapped=self._rows.summaries(copies.replicas),
            replicas=copies.replicas,
            notes=copies.notes,
            mappings_expire_at=expire_at,
        )

    @property
    def snapshots(self) -> SnapshotReader:
        """The reader of both clusters."""
        if self._snapshots is None:
            # Imported late, so that the first screen does not wait for it.
            from k2ktui.sync.moves.snapshot import SnapshotReader

            self._snapshots = SnapshotReader(
                self._flow,
                self._clusters.source,
                self._clusters.target,
                for_plans=False,
                with_choices=True,
                store=self._store,
            )
        return self._snapshots

    def close(self) -> None:
        """Disconnect from both clusters."""
        if self._snapshots is not None:
            self._snapshots.close()


class GroupReader(MappingReader):
    """Reads groups and mappings, as ``k2ktui groups`` does."""

    def __init__(self, flow: Flow, clusters: Clusters, store: StateStore | None = None) -> None:
        super().__init__(flow, clusters, store)
        self._agreement = Agreement()
        self._lags = GroupLagReader(clusters.source)
        self._auditor = flow.open_auditor()

    def read(self, known: Known) -> GroupFacts:
        """Take a snapshot and translate it; empty if the pipeline was never started.

        A bad finding is settled only if a later reading agrees. Checkpoints of a program that
        copies are audited on the same snapshot.
        """
        auditor = self._auditor
        if auditor is None:
            return self._read(known)
        auditor.read()
        facts = self._read(known)
        return replace(facts, audit=auditor.audit(facts.rows, facts.taken_at, facts.notes))

    def close(self) -> None:
        """Disconnect from both clusters."""
        if self._auditor is not None:
            self._auditor.close()
        self._lags.close()
        super().close()

    def _read(self, known: Known) -> GroupFacts:
        try:
            snapshot = self.snapshots.take()
        except NothingCopied:  # reading the target says so
            return GroupFacts(time.time(), commits_at=time.time())
        rows = self._rows.rows(snapshot)
        settled = self._agreement.settle(rows, snapshot.commits_at, snapshot.taken_at)
        return GroupFacts(
            taken_at=snapshot.taken_at,
            rows=tuple(settled),
            source=snapshot.source,
            target=snapshot.target,
            mapped=self._rows.summaries(snapshot.replicas),
            replicas=snapshot.replicas,
            commits_at=snapshot.commits_at,
            source_down=snapshot.source_down,
            notes=snapshot.notes,
            mappings_expire_at=snapshot.mappings_expire_at,
            logs=self._lags.read(snapshot),
        )


class StateReader:
    """Reads the state topic.

    Args:
        store: what reads it; others may read it, too.
        settle: whether the first reading waits until it is known which runs are alive.
    """

    def __init__(self, store: StateStore, *, settle: bool = True) -> None:
        self._store, self._settled = store, not settle

    @property
    def is_settled(self) -> bool:
        """Whether the readings so far show which runs are alive."""
        return self._store.is_settled

    def read(self, known: Known) -> StateFacts:
        """Read the runners, and the journal's headers with the newest first."""
        # A single reading cannot show which runs are alive; later ones are compared with it.
        state = self._store.read() if self._settled else self._store.read_settled()
        self._settled = True
        journal = sorted(state.journal.values(), key=lambda entry: entry.order, reverse=True)
        drills = tuple(sorted(state.drills.values(), key=lambda drill: drill.id, reverse=True))
        return StateFacts(
            time.time(),
            state.runners,
            tuple(journal),
            state.malformed,
            drills,
            state.summary,
            state.rehearsals[-KEPT_REHEARSALS:],
            state.holds,
            state.comparison,
        )

    def close(self) -> None:
        """Disconnect from the target."""
        self._store.close()


class ComparisonReader:
    """Audits a flow of MirrorMaker 2 that copies beside the pipeline."""

    def __init__(self, flow: Flow) -> None:
        # Imported late: few sessions compare.
        from k2ktui.mm2.audit import Auditor

        self._auditor = Auditor(flow)

    def read(self, known: Known) -> ComparisonFacts:
        """Audit the flow now."""
        result = self._auditor.audit()
        return ComparisonFacts(result.taken_at, result)

    def close(self) -> None:
        """Disconnect from the clusters."""
        self._auditor.close()


def make_readers(
    flow: Flow,
    parts: Iterable[PartName],
    compare: Flow | None = None,
    *,
    groups: bool = True,
    clusters: Clusters | None = None,
    settle: bool = True,
) -> dict[PartName, Reader]:
    """Return the readers of parts of a flow, in their order; connects to nothing yet.

    Args:
        flow: what is watched.
        parts: what is read of it.
        compare: a flow of MirrorMaker 2 beside it, whose checkpoints are compared.
        groups: whether consumer groups are read, too, or the mappings alone. Without whole ranges,
            what groups committed is compared to learn more of the mapping, so they are always read.
        clusters: the flow's clusters, if the caller disconnects them.
        settle: as for :class:`StateReader`.
    """
    clusters = clusters or Clusters.of(flow.config)
    # What operators chose for groups is on the state topic, too: it is read once for both.
    store = StateStore(flow.config, clusters.target, _READ_S)
    readers: dict[PartName, Reader] = {}
    for part in parts:
        match part:
            case PartName.SOURCE:
                readers[part] = SourceReader(flow.config, clusters)
            case PartName.TARGET:
                readers[part] = TargetReader(flow, clusters)
            case PartName.GROUPS if groups or flow.is_mirror:
                readers[part] = GroupReader(flow, clusters, store)
            case PartName.GROUPS:
                readers[part] = MappingReader(flow, clusters, store)
            case PartName.STATE:
                readers[part] = StateReader(store, settle=settle)
            case PartName.COMPARISON if compare is not None:
                readers[part] = ComparisonReader(compare)
    return readers
