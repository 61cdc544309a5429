"""Take snapshots of both clusters: groups, positions, mappings, logs.

The order of the reads matters:

- Positions before mappings, so that a mapping below a position that is not visible yet is noticed.
- A group's commits before both, so that the copy is never older than what the group had read.
- A group's commits again after its commits on the target: for a group that moves on both clusters,
  a difference counts only if it holds against both readings.
- The ends of the target's logs before positions, so that records copied meanwhile are beyond them.
- The high watermarks of the target after mappings, and those of the source after commits, if a
  mapping or commit lies beyond the ends read before: only then is it certain that a record is lost,
  or a group past the end of the log.
- The records of written commits after the groups' commits on the target: since each record is
  written before its commit, every commit that was read has one.
- The opposite pipeline's mappings before our own, and the target's records after its position last.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType

from k2ktui.engine.mapping.both_directions import translate_both_ways
from k2ktui.engine.mapping.intervals import FOREVER
from k2ktui.engine.mapping.opposite_copy import OppositeCopy
from k2ktui.engine.mapping.replica import Replica, TargetLog, TargetPartition, target_partitions_of
from k2ktui.engine.mapping.translate import Basis, Translation
from k2ktui.engine.moves.groups import GroupView, Snapshot, describe_conflicts
from k2ktui.engine.moves.plan import metadata_length
from k2ktui.engine.moves.written import WrittenCommits
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import ConnectionFailed, K2kError, Refused, TimedOut
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.unreachable import OtherCluster
from k2ktui.sync.cluster_readers import SourceClusterReader, SourceView, TargetClusterReader
from k2ktui.sync.commit_snapshots import collect_commits, list_kept_commits, read_known_commits
from k2ktui.sync.flow import Flow
from k2ktui.sync.mapping.opposite_mappings import OppositeMappings
from k2ktui.sync.mapping.source import NO_TARGET_COMMITS, Commits, CopierState, Copies
from k2ktui.sync.store import StateStore
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

_NOTHING: Commits = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CheckedCopies:
    """The copies, as far as both clusters' logs bear them out.

    Attributes:
        copies: the copies, as they were checked.
        starts: the source's log start offsets.
        logs: bounds of the target's logs, read before the positions.
        target_ids: ids of the target's topics.
        opposite: what the opposite pipeline has copied from the target.
    """

    copies: Copies
    starts: Mapping[SourcePartition, int]
    logs: Mapping[TargetPartition, TargetLog]
    target_ids: Mapping[str, str]
    opposite: Mapping[TargetPartition, OppositeCopy]


@dataclass(frozen=True, slots=True)
class _BothGroups:
    """The groups of both clusters, and why the source does not answer; "" if it does."""

    source: SourceView
    down: str
    target_cluster: str
    target: Mapping[str, GroupView]


class SnapshotReader:
    """Takes snapshots of one flow; keeps connections and mappings between them.

    Args:
        flow: what is read.
        source: its source cluster, if others use it, too; a new connection by default.
        target: the same for its target cluster.
        for_plans: whether plans are made of the snapshots, which takes what was written for groups.
        with_choices: whether to read what operators chose for groups, without ``for_plans``.
        patience_s: as for OppositeMappings.
        store: the state store, if others read it, too; a new one by default.

    Attributes:
        mappings: the source of positions and mappings.
        source_reader: reader of the source cluster.
        target_reader: reader of the target cluster, also used for writing.
        store: the state store.
        copier: what the program that copies said when it was read last.
        last_source: the source as the last snapshot read it, None if it did not answer.
    """

    def __init__(
        self,
        flow: Flow,
        source: Cluster | None = None,
        target: Cluster | None = None,
        *,
        for_plans: bool = True,
        with_choices: bool = False,
        patience_s: float | None = None,
        store: StateStore | None = None,
    ) -> None:
        config = flow.config
        self._for_plans = for_plans
        self._reads_written = for_plans or with_choices
        self._config = config
        self.source_reader = SourceClusterReader(config, source)
        self.target_reader = TargetClusterReader(config, target)
        clusters = self.source_reader.cluster, self.target_reader.cluster
        self.mappings = flow.open_mappings(*clusters)
        self.copier = CopierState()
        both = config.features.bidirectional_replication
        self._opposite = OppositeMappings(config, *clusters, patience_s) if both else None
        self.store = store or StateStore(config, self.target_reader.cluster)
        self.last_source: SourceView | None = None
        self._logged_down, self._logged_notes = False, frozenset[str]()

    def close(self) -> None:
        """Disconnect from both clusters."""
        self.source_reader.close()
        self.mappings.close()
        if self._opposite is not None:
            self._opposite.close()
        self.store.close()
        self.target_reader.close()

    def take(
        self,
        also: Commits = _NOTHING,
        compare: Mapping[TargetPartition, int] = NO_TARGET_COMMITS,
    ) -> Snapshot:
        """Read both clusters now; kept commits replace a source that does not answer.

        Args:
            also: source offsets to look up in addition to the committed ones.
            compare: target offsets whose effect will be counted, in addition to the commits there.

        Raises:
            ConnectionFailed, TimedOut: the target does not answer, or the source does not and no
                commits of it were kept.
            NothingCopied: nothing has been replicated yet.
        """
        copier = self._read_copier()
        replicated = copier.positions
        groups = self._read_groups(replicated)
        source, down, target_groups = groups.source, groups.down, groups.target
        written, unread = self._read_written(source.groups.keys() | target_groups.keys())
        later: Mapping[str, GroupView] = {}
        if not down:
            try:
                later = self.source_reader.read_later(_on_both(source.groups, target_groups))
                past = _find_past([*source.groups.values(), *later.values()], replicated)
                source = replace(source, ends=self.source_reader.read_ends(past))
                self.last_source = source
            except (ConnectionFailed, TimedOut) as error:
                down = error.message
        lowest_commits = _lowest_commits(source.groups, target_groups, replicated)
        for target, offset in compare.items():
            lowest_commits[target] = min(offset, lowest_commits.get(target, offset))
        commits = collect_commits([*source.groups.values(), *later.values()])
        for at, offsets in also.items():
            commits.setdefault(at, set()).update(offsets)
        highest_commits = _highest_commits(target_groups)
        checked = self._read_copies(copier, source, commits, lowest_commits, down, highest_commits)
        copies = checked.copies
        snapshot = Snapshot(
            pipeline=self._config.name,
            source_cluster=source.cluster,
            target_cluster=groups.target_cluster,
            taken_at=time.time(),
            commits_at=source.at,
            source_down=down,
            source=_replicated_only(source.groups, {at.topic for at in copies.replicas}),
            target=target_groups,
            source_later=_replicated_only(later, {at.topic for at in copies.replicas}),
            replicas=copies.replicas,
            opposite=checked.opposite,
            logs=checked.logs,
            target_ids=checked.target_ids,
            conflicting_pipelines=copies.conflicts,
            written=written,
            longest_metadata=self._longest_metadata(source.groups),
            moved=copies.copier.find_moved(),
            mappings_expire_at=self.mappings.expires_at(collect_commits(source.groups.values())),
            unmapped=copies.unmapped,
            notes=(
                *([unread] if unread else []),
                *copies.notes,
                *([self._opposite.note] if self._opposite and self._opposite.note else []),
                *_missing_groups(source.incomplete_reason),
            ),
        )
        policy = self._config.error_handling.on_multiple_target_committed_offsets
        notes = (*snapshot.notes, *describe_conflicts(snapshot, policy))
        self._log_changes(down, notes)
        return replace(snapshot, notes=notes)

    def take_groups(self) -> Snapshot:
        """Read the groups of both clusters alone, with commits and members: no mapping is read.

        Raises:
            ConnectionFailed, TimedOut, NothingCopied: as for :meth:`take`.
        """
        copier = self._read_copier()
        groups = self._read_groups(copier.positions)
        source = groups.source
        return Snapshot(
            pipeline=self._config.name,
            source_cluster=source.cluster,
            target_cluster=groups.target_cluster,
            taken_at=time.time(),
            commits_at=source.at,
            source_down=groups.down,
            source=_replicated_only(source.groups, {at.topic for at in copier.positions}),
            target=groups.target,
            moved=copier.find_moved(),
            notes=tuple(_missing_groups(source.incomplete_reason)),
        )

    def _read_groups(self, replicated: Mapping[SourcePartition, Position]) -> _BothGroups:
        """Read the groups of the source, or those that were kept, and the same on the target."""
        with ThreadPoolExecutor(2) as pool:
            pool.submit(self._read_ahead)
            asked = pool.submit(self.source_reader.read, list(replicated))
            target_cluster = self.target_reader.cluster.cluster_id()
            down, source = "", None
            try:
                source = self._require_source(asked.result())
            except (ConnectionFailed, TimedOut) as error:
                down = error.message
        self.last_source = source
        if source is None:
            source = self._load_kept_commits(down)
        # Read right away: a later commit on the target, for records read since, would look ahead.
        target = self.target_reader.views(sorted(source.groups))
        return _BothGroups(source, down, target_cluster, target)

    def _log_changes(self, down: str, notes: Sequence[str]) -> None:
        """Log what the snapshot before did not say."""
        if bool(down) != self._logged_down:
            self._logged_down = bool(down)
            text = f"does not answer, using its kept commits: {down}" if down else "answers again"
            log.info("the source %s", text)
        for note in notes:
            if note not in self._logged_notes:
                log.info("snapshot: %s", note)
        self._logged_notes = frozenset(notes)

    def _read_ahead(self) -> None:
        """Read the state topic beside the source, so that little of it is left to read later."""
        if self._reads_written:
            with suppress(K2kError):  # told later
                self.store.read_written(())

    def _read_written(self, groups: Collection[str]) -> tuple[Mapping[str, WrittenCommits], str]:
        """Return what was written for groups, and why it is unknown; "" if it is not.

        A group may have been left out that is not on the target yet.
        """
        if not self._reads_written:
            return {}, ""
        try:
            return self.store.read_written(groups), ""
        except Refused as error:
            if not self._for_plans:
                return {}, f"{error.message}: what operators chose for groups is unknown"
            return {}, (
                f"{error.message}: which commits on the target are k2ktui's is unknown, and all "
                "count as the applications' own"
            )

    def _longest_metadata(self, groups: Mapping[str, GroupView]) -> int | None:
        if not self._for_plans:
            return None
        metadata = {commit.metadata for view in groups.values() for commit in view.offsets.values()}
        return self.target_reader.longest_metadata(max(map(metadata_length, metadata), default=0))

    def translate_each(
        self, consumers: Sequence[Mapping[SourcePartition, int]]
    ) -> list[list[Translation]]:
        """Translate offsets that consumers keep outside Kafka; the source is not needed.

        Both clusters are read once, however many consumers there are.

        Raises:
            ConnectionFailed, TimedOut: the target does not answer.
            NothingCopied: nothing has been replicated yet.
        """
        down, source = "", SourceView("", time.time())
        copier = self._read_copier()
        positions = copier.positions
        asked: dict[SourcePartition, set[int]] = {}
        for commits in consumers:
            for at, offset in commits.items():
                asked.setdefault(at, set()).add(offset)
        try:
            source = self._require_source(self.source_reader.read_logs(list(asked)))
            past = [at for at, offsets in asked.items() if _is_past(at, max(offsets), positions)]
            source = replace(source, ends=self.source_reader.read_ends(past))
        except OtherCluster as error:
            # Whose offsets these are is not known, and those of the other one were never copied.
            of_other = {
                at: _of_other_cluster(at, positions[at], error) for at in asked if at in positions
            }
            return [
                [of_other[at] for at in sorted(commits.keys() & of_other)] for commits in consumers
            ]
        except (ConnectionFailed, TimedOut) as error:
            down = error.message
        checked = self._read_copies(copier, source, asked, {}, down)
        replicas = checked.copies.replicas
        known = [
            {at: offset for at, offset in commits.items() if at in replicas}
            for commits in consumers
        ]
        return [
            translate_both_ways(replicas, commits, checked.logs, checked.opposite)
            for commits in known
        ]

    def _require_source(self, source: SourceView) -> SourceView:
        """Return what was read of the source, if it is the cluster that was copied.

        Raises:
            OtherCluster: it is another one, which now answers under the address.
        """
        recorded = self.copier.clusters.source
        if recorded and source.cluster and source.cluster != recorded:
            raise OtherCluster(
                f"the source cluster answers with cluster id {safe_text(source.cluster)}; what was "
                f"copied is of cluster {safe_text(recorded)}",
                hint="Check where bootstrap.servers of source.kafka lead to.",
            )
        return source

    def _read_copier(self) -> CopierState:
        self.copier = self.mappings.read_copier()
        return self.copier

    def find_copies(self, offsets: Commits) -> Copies:
        """Read the mappings that single source offsets need; both clusters are read.

        Raises:
            ConnectionFailed, TimedOut: a cluster does not answer, or the source is another one.
            NothingCopied: nothing has been replicated yet.
        """
        copier = self._read_copier()
        source = self._require_source(self.source_reader.read_logs(list(offsets)))
        return self._read_copies(copier, source, offsets, {}, "").copies

    def find_whole_copies(self, topics: Callable[[str], bool]) -> CheckedCopies:
        """Read the mappings of all retained records of source topics, and the bounds of both logs.

        Those of other source topics with the same target topics are read, too.

        Raises:
            ConnectionFailed, TimedOut, NothingCopied: as for :meth:`find_copies`.
        """
        copier = self._read_copier()
        positions = copier.positions
        names = {
            name
            for at, position in positions.items()
            if topics(at.topic)
            for name in position.target_topics
        }
        source = self._require_source(self.source_reader.read_logs(list(positions)))
        offsets = {
            at: {source.starts.get(at, 0)}
            for at, position in positions.items()
            if names & position.target_topics.keys()
        }
        return self._read_copies(copier, source, offsets, {}, "")

    def read_mappings(self, whole: Callable[[SourcePartition], bool] = lambda _: False) -> Copies:
        """Read the copy's mappings alone; the source is not needed.

        Args:
            whole: of which source partitions all ranges are loaded, not only the newest.

        Raises:
            ConnectionFailed, TimedOut: the target does not answer.
            NothingCopied: nothing has been replicated yet.
        """
        copier = self._read_copier()
        return self.mappings.read(copier, {at: (0,) for at in copier.positions if whole(at)})

    def find_expiry(self) -> float | None:
        """Return when the first mapping expires that the source's groups needed when last seen.

        After ``read_mappings``; the source is not needed. As for a snapshot; None without snapshots
        of commits, too.

        Raises:
            ConnectionFailed, TimedOut, Refused: the target does not answer, or not this.
        """
        pair, chosen = self.copier.clusters, self._config.consumer_groups
        commits = list_kept_commits(self.store.read().commits, pair, chosen.matches)
        return self.mappings.expires_at(commits)

    def _read_copies(
        self,
        before: CopierState,
        source: SourceView,
        commits: Commits,
        lowest_commits: Mapping[TargetPartition, int],
        down: str,
        highest_commits: Mapping[TargetPartition, int] = NO_TARGET_COMMITS,
    ) -> CheckedCopies:
        """Read logs, then positions, then mappings: later copies are beyond the log ends read.

        Args:
            before: positions, read just before.
            source: the source.
            commits: the offsets to translate.
            lowest_commits: the lowest offset to compare on each target partition.
            down: why the source does not answer; "" if it does.
            highest_commits: the highest offset committed on each target partition.
        """
        named = before.positions.values()
        # Ids before log bounds: if a topic is recreated in between, the older id is kept, and a
        # plan that rests on it is refused.
        ids = self.target_reader.topic_ids(
            topic for position in named for topic in position.target_topics
        )
        fixed = {t for position in named for t in target_partitions_of(Replica(position))}
        logs = self.target_reader.logs(fixed)
        opposite = self._opposite
        if opposite is not None:
            opposite.read(commits, down, before.clusters)
            low = opposite.lowest_offsets(logs)
            lowest_commits = {
                at: min(low.get(at, FOREVER), lowest_commits.get(at, FOREVER))
                for at in low.keys() | lowest_commits.keys()
            }
        copier = self._read_copier()
        copies = self.mappings.read(copier, commits, lowest_commits, compare=not down)
        topics = {topic for at in copier.positions.values() for topic in at.target_topics}
        ids |= self.target_reader.topic_ids(topics - ids.keys())
        replicas = {
            at: _check_target_topic(_check_source(at, replica, source), ids)
            for at, replica in copies.replicas.items()
        }
        replicas = self._check_target_ends(replicas, logs, ids)
        wanted = {
            target for replica in replicas.values() for target in target_partitions_of(replica)
        }
        logs |= self.target_reader.logs(wanted - set(logs))
        reached = _find_reached(replicas, highest_commits)
        if opposite is not None:
            for at, end in opposite.copied_ends().items():
                reached[at] = max(end, reached.get(at, 0))
        logs = self.target_reader.read_high(logs, reached)
        ends = _ends(replicas, {at: max(offsets) for at, offsets in commits.items()})
        logs = self.target_reader.find_clear_ends(logs, ends, ids)
        joined: Mapping[TargetPartition, OppositeCopy] = {}
        if opposite is not None:
            topic_ids = source.topic_ids, ids
            joined = opposite.join(replicas, logs, commits, topic_ids, self.target_reader.contents)
        return CheckedCopies(replace(copies, replicas=replicas), source.starts, logs, ids, joined)

    def _check_target_ends(
        self,
        replicas: Mapping[SourcePartition, Replica],
        logs: Mapping[TargetPartition, TargetLog],
        ids: Mapping[str, str],
    ) -> dict[SourcePartition, Replica]:
        """Make copies unusable whose target topic has no id and ends before what was written.

        The ends are read after the positions; those in ``logs`` were read before, and so only say
        which ones need not be read again.
        """
        doubtful = {
            target
            for replica in replicas.values()
            if replica.position is not None
            for at in replica.position.landed
            if not (ids.get(at.topic) and replica.position.target_topics.get(at.topic))
            and ((target := (at.topic, at.partition)) not in logs or logs[target].end < at.end)
        }
        ends = self.target_reader.high_watermarks(doubtful)
        return {at: _check_end(replica, ends) for at, replica in replicas.items()}

    def _load_kept_commits(self, down: str) -> SourceView:
        pair = self.copier.clusters
        known_commits = read_known_commits(self.store.read().commits, pair.source, [pair])
        if known_commits is None:
            raise ConnectionFailed(
                f"{down}, and the target has no snapshot of its consumer groups",
                hint="Translate positions yourself: k2ktui translate -f FILE "
                "TOPIC:PARTITION:OFFSET. start and sync write snapshots while they run.",
            )
        chosen = self._config.consumer_groups
        groups = {name: view for name, view in known_commits.groups.items() if chosen.matches(name)}
        return replace(known_commits, groups=groups)


def _is_past(
    at: SourcePartition, offset: int, positions: Mapping[SourcePartition, Position]
) -> bool:
    """Return whether an offset may be past the source's end: what is copied was below it."""
    position = positions.get(at)
    return position is not None and offset > position.offset


def _find_past(
    groups: Iterable[GroupView], positions: Mapping[SourcePartition, Position]
) -> set[SourcePartition]:
    """Return the partitions with a commit beyond what is copied."""
    return {
        source
        for view in groups
        for where, commit in view.offsets.items()
        if _is_past(source := SourcePartition(*where), commit.offset, positions)
    }


def _highest_commits(target_groups: Mapping[str, GroupView]) -> dict[TargetPartition, int]:
    """Return the highest offset that any group has committed on each target partition."""
    highest: dict[TargetPartition, int] = {}
    for view in target_groups.values():
        for at, commit in view.offsets.items():
            highest[at] = max(commit.offset, highest.get(at, 0))
    return highest


def _find_reached(
    replicas: Mapping[SourcePartition, Replica], commits: Mapping[TargetPartition, int]
) -> dict[TargetPartition, int]:
    """Return the highest offset of each target partition that a mapping or a commit leads to."""
    reached = dict(commits)
    for replica in replicas.values():
        ends = {at: ranges.target_end for at, ranges in replica.target_ranges.items()}
        position = replica.position
        if replica.anchors is not None and position is not None:
            for at in target_partitions_of(replica):
                ends[at] = replica.anchors.target_end()
        for at, end in (*ends.items(), *_landed_ends(replica).items()):
            reached[at] = max(end or 0, reached.get(at, 0))
    return reached


def _landed_ends(replica: Replica) -> dict[TargetPartition, int]:
    """Return how far a source partition was copied by its position, where mappings are missing."""
    if replica.position is None or not replica.is_incomplete:
        return {}
    return {(at.topic, at.partition): at.end for at in replica.position.landed}


def _on_both(
    groups: Mapping[str, GroupView], target_groups: Mapping[str, GroupView]
) -> dict[str, GroupView]:
    """Return the source's groups that have committed on the target, too."""
    return {
        name: view
        for name, view in groups.items()
        if not view.error and view.offsets and name in target_groups and target_groups[name].offsets
    }


def _lowest_commits(
    groups: Mapping[str, GroupView],
    target_groups: Mapping[str, GroupView],
    replicated: Mapping[SourcePartition, Position],
) -> dict[TargetPartition, int]:
    """Return the lowest offset on each target partition that any of these groups has committed."""
    lowest: dict[TargetPartition, int] = {}
    for name, view in groups.items():
        if name in target_groups and any(
            SourcePartition(*where) in replicated for where in view.offsets
        ):
            for at, commit in target_groups[name].offsets.items():
                if commit.offset >= 0:
                    lowest[at] = min(commit.offset, lowest.get(at, commit.offset))
    return lowest


def take_snapshot(
    flow: Flow,
    also: Commits = _NOTHING,
    patience_s: float | None = None,
    *,
    for_plans: bool = True,
    with_choices: bool = False,
    compare: Mapping[TargetPartition, int] = NO_TARGET_COMMITS,
) -> Snapshot:
    """Take one snapshot; arguments and errors as for ``SnapshotReader`` and its ``take``."""
    snapshots = SnapshotReader(
        flow, patience_s=patience_s, for_plans=for_plans, with_choices=with_choices
    )
    try:
        return snapshots.take(also, compare)
    finally:
        snapshots.close()


def _check_source(at: SourcePartition, replica: Replica, source: SourceView) -> Replica:
    """Return a copy with the bounds of its source log; unusable if that is not what was copied."""
    known, position = source.topic_ids.get(at.topic, ""), replica.position
    why = replica.unusable_reason
    if position is not None and known and position.topic_id and known != position.topic_id:
        why = f"{at.topic} was deleted and created again on the source; its offsets start over"
    return replace(
        replica,
        source_start=source.starts.get(at),
        unusable_reason=why,
        source_end=source.ends.get(at),
    )


def _check_target_topic(replica: Replica, ids: Mapping[str, str]) -> Replica:
    position = replica.position
    if position is None or replica.unusable_reason:
        return replica
    for name, before in position.target_topics.items():
        topic = safe_text(name)
        if name not in ids:
            why = f"{topic} does not exist on the target any more"
            return replace(replica, unusable_reason=why)
        if ids[name] and before and ids[name] != before:
            why = f"{topic} was deleted and created again on the target"
            return replace(replica, unusable_reason=why)
    return replica


def _of_other_cluster(at: SourcePartition, position: Position, error: OtherCluster) -> Translation:
    target = position.target_topic, position.target_partition or 0
    return Translation(target, (at,), None, Basis.UNMAPPED, None, None, error.message)


def _check_end(replica: Replica, ends: Mapping[TargetPartition, int]) -> Replica:
    position = replica.position
    landed = None if position is None or replica.unusable_reason else position.beyond(ends)
    if landed is None:
        return replica
    why = (
        f"{safe_text(landed.topic)}-{landed.partition} was created again on the target, or has "
        f"lost records: it ends at {ends[landed.topic, landed.partition]}, and {landed.end} "
        "was reached"
    )
    return replace(replica, unusable_reason=why)


def _ends(
    replicas: Mapping[SourcePartition, Replica], furthest: Mapping[SourcePartition, int]
) -> dict[TargetPartition, int]:
    """Return where the last copied record landed, for partitions that a group has fully read."""
    ends: dict[TargetPartition, int] = {}
    for at, replica in replicas.items():
        for target, ranges in replica.target_ranges.items():
            end, landed = ranges.end, ranges.target_end
            if end is not None and landed is not None and furthest.get(at, -1) >= end:
                ends[target] = max(landed, ends.get(target, 0))
        if furthest.get(at, -1) >= replica.known_from:
            for target, landed in _landed_ends(replica).items():
                ends[target] = max(landed, ends.get(target, 0))
    return ends


def _missing_groups(why: str) -> Sequence[str]:
    return [f"groups of the source may be missing here: {why}"] if why else []


def _replicated_only(
    groups: Mapping[str, GroupView], topics: Collection[str]
) -> dict[str, GroupView]:
    """Return the groups that concern this pipeline, with only their offsets on its topics."""
    replicated = {}
    for name, view in groups.items():
        offsets = {where: commit for where, commit in view.offsets.items() if where[0] in topics}
        if offsets or view.error:
            replicated[name] = replace(view, offsets=offsets)
    return replicated
