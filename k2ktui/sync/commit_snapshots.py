"""Keep the source's committed offsets on the target, in case the source is lost.

Every poll writes the groups that changed, and one record under an empty group name with the time
of the poll: an offset that has not moved for days is as fresh as the last poll. The offsets of
that record are log start offsets of the source, see :func:`_find_expired`, and its ``ends`` high
watermarks, see :func:`_find_past_end`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.groups import CommittedOffset, GroupView, Partition
from k2ktui.engine.moves.journal import CommitSnapshot, SnapshotKey
from k2ktui.engine.records.cluster_pair import ClusterPair, find_ids
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import K2kError
from k2ktui.kafka.clients import target_cluster
from k2ktui.replication.ownership.pipeline import read_run_pair
from k2ktui.runtime.background import BackgroundRunner
from k2ktui.sync.cluster_readers import SourceClusterReader, SourceView
from k2ktui.sync.store import StateStore

POLL = ""  # a group with this id is not moved, and so not kept
# State of a group that a listing lacked, and that is not known to be gone.
UNLISTED = "Unlisted"
_READ_S = 30.0


def read_known_commits(
    snapshots: Collection[CommitSnapshot],
    cluster: str = "",
    pairs: Iterable[ClusterPair] = (),
) -> SourceView | None:
    """Return the kept commits of one source cluster, None if there are none.

    They are as old as the last complete poll. Its log start offsets are known of partitions in
    which a committed offset was below the log start; the high watermarks where one was above.

    Commits that were kept under the id that the cluster had before a restore count for groups that
    were not seen under its present id: the restore may have lost them. They are as old as the last
    poll of the former id.

    Args:
        snapshots: what is kept, of all clusters.
        cluster: id of the cluster; "" for the one that was read last.
        pairs: those of the run records, with the ids that clusters had before.
    """
    if not snapshots:
        return None
    # A poll is newer than a group that has not changed since.
    newest = max(snapshots, key=lambda snapshot: (snapshot.consumer_group == POLL, snapshot.at_ms))
    chosen = cluster or newest.cluster
    ids = find_ids(chosen, pairs) or {chosen}
    of_all = [snapshot for snapshot in snapshots if snapshot.cluster in ids]
    if not of_all:
        return None
    polls = {snapshot.cluster: snapshot for snapshot in of_all if snapshot.consumer_group == POLL}
    groups: dict[str, CommitSnapshot] = {}
    for snapshot in sorted(of_all, key=lambda kept: (kept.cluster == chosen, kept.at_ms)):
        if snapshot.consumer_group != POLL:
            groups[snapshot.consumer_group] = snapshot
    poll = polls.get(chosen) or max(polls.values(), key=lambda poll: poll.at_ms, default=None)
    latest = poll.cluster if poll is not None else chosen
    at_ms = poll.at_ms if poll is not None else max(group.at_ms for group in groups.values())

    def seen_at(snapshot: CommitSnapshot) -> float | None:
        """Return when a group was seen last, if the latest poll does not show it."""
        if snapshot.state == UNLISTED:
            return snapshot.at_ms / 1000
        if snapshot.cluster == latest:
            return None
        own = polls.get(snapshot.cluster)
        return max(snapshot.at_ms, own.at_ms if own is not None else 0) / 1000

    return SourceView(
        chosen,
        at_ms / 1000,
        {
            # The current state is unknown: an old one must not be reported as current.
            name: GroupView(
                "",
                None,
                snapshot.offsets,
                seen_at=seen_at(snapshot),
            )
            for name, snapshot in groups.items()
        },
        {
            SourcePartition(*at): start.offset
            for at, start in (poll.offsets if poll else {}).items()
        },
        {SourcePartition(*at): end for at, end in (poll.ends if poll else {}).items()},
    )


def list_kept_commits(
    snapshots: Collection[CommitSnapshot], pair: ClusterPair, chosen: Callable[[str], bool]
) -> dict[SourcePartition, set[int]]:
    """Return the offsets that the source's chosen groups had committed when they were last seen."""
    known = read_known_commits(snapshots, pair.source, [pair])
    groups = known.groups if known else {}
    return collect_commits(group for name, group in groups.items() if chosen(name))


def collect_commits(groups: Iterable[GroupView]) -> dict[SourcePartition, set[int]]:
    """Return all offsets that groups have committed."""
    commits: dict[SourcePartition, set[int]] = {}
    for view in groups:
        for where, commit in view.offsets.items():
            if commit.offset >= 0:
                commits.setdefault(SourcePartition(*where), set()).add(commit.offset)
    return commits


class CommitSnapshotWriter:
    """Writes the groups of the source cluster that changed since the last poll.

    Commits of another cluster id stay: a new cluster under the same address has none of the groups,
    and their commits are needed most just then. Commits under a former id of a restored cluster
    stay until a group of that name was seen under the present id and is gone.

    Args:
        store: the state store.
        read_pairs: returns the pairs of the run records, with the ids that clusters had before.
    """

    def __init__(
        self, store: StateStore, read_pairs: Callable[[], Iterable[ClusterPair]] = tuple
    ) -> None:
        self._store, self._read_pairs = store, read_pairs
        self._known: dict[tuple[str, str], CommitSnapshot] | None = None

    def keep(
        self,
        view: SourceView,
        topics: Callable[[str], bool],
        find_gone: Callable[[Collection[str]], Collection[str]] = lambda names: (),
    ) -> int:
        """Keep the groups' offsets on matching topics; return the number of groups written.

        Args:
            view: what was read of the source.
            topics: which topics are kept.
            find_gone: returns which of the groups that the listing lacks do not exist; a listing
                leaves out what the login may not describe.

        Raises:
            K2kError: the write to the target failed, or what ``find_gone`` raises.
        """
        if self._known is None:
            read = self._store.read().commits
            self._known = {
                (snapshot.cluster, snapshot.consumer_group): snapshot for snapshot in read
            }
        at_ms = int(view.at * 1000)
        known = {name: s for (cluster, name), s in self._known.items() if cluster == view.cluster}
        now = {
            name: CommitSnapshot(name, view.cluster, at_ms, group.state, offsets)
            for name, group in view.groups.items()
            if name != POLL
            and (offsets := {w: o for w, o in group.offsets.items() if topics(w[0])})
        }
        changed = [
            snapshot for name, snapshot in now.items() if _differs(snapshot, known.get(name))
        ]
        # A group whose offsets could not be read still exists.
        unread = {n for n, group in view.groups.items() if group.error or group.unsettled}
        missing = [name for name in known if name not in now and name not in unread | {POLL}]
        unlisted = [name for name in missing if name not in view.groups]
        gone = set(missing) - set(unlisted)
        if view.incomplete_reason:
            gone = set()
        elif unlisted:
            gone |= set(find_gone(unlisted)) & set(unlisted)
        seen_ms = known[POLL].at_ms if POLL in known else 0
        changed += [
            replace(known[name], state=UNLISTED, at_ms=max(known[name].at_ms, seen_ms))
            for name in unlisted
            if name not in gone and known[name].state != UNLISTED
        ]
        poll = CommitSnapshot(
            POLL, view.cluster, at_ms, "polled", _find_expired(view), _find_past_end(view)
        )
        written = [replace(snapshot, names_cluster=True) for snapshot in (*changed, poll)]
        # The record of an earlier release, which this one replaces.
        earlier = [
            known[name].key
            for name in {snapshot.consumer_group for snapshot in written} & known.keys()
            if not known[name].names_cluster
        ]
        removed = [known[name].key for name in gone]
        removed += [snapshot.key for snapshot in self._find_former(view.cluster, gone)]
        self._store.put(
            written, gone=[key for key in (*removed, *earlier) if _is_other(key, written)]
        )
        for name in gone:
            del self._known[view.cluster, name]
        self._known |= {(view.cluster, snapshot.consumer_group): snapshot for snapshot in written}
        return len(changed)

    def _find_former(self, cluster: str, gone: Collection[str]) -> list[CommitSnapshot]:
        """Remove and return what is kept of these groups under former ids of the cluster."""
        kept = {at: snapshot for at, snapshot in (self._known or {}).items() if at[1] in gone}
        if all(of == cluster for of, _ in kept):
            return []
        former = find_ids(cluster, self._read_pairs()) - {cluster}
        of_former_ids = {at: snapshot for at, snapshot in kept.items() if at[0] in former}
        for at in of_former_ids:
            del self._known[at]  # type: ignore[union-attr]
        return list(of_former_ids.values())


def _is_other(key: SnapshotKey, written: Collection[CommitSnapshot]) -> bool:
    """Whether none of the records has the key: one without a cluster id is written under it."""
    return all(snapshot.key != key for snapshot in written)


def _find_expired(view: SourceView) -> dict[Partition, CommittedOffset]:
    """Log start offsets of partitions where a committed offset is below the log start.

    If the source is lost, only this proves that no unread record precedes the start of the copy.
    """
    return {
        where: CommittedOffset(start)
        for group in view.groups.values()
        for where, commit in group.offsets.items()
        if (start := view.starts.get(SourcePartition(*where))) is not None
        and 0 <= commit.offset < start
    }


def _find_past_end(view: SourceView) -> dict[Partition, int]:
    """High watermarks, read after the commits, of partitions with a committed offset above them.

    If the source is lost, only this shows that such a group has not read the copied records.
    """
    return {
        where: end
        for group in view.groups.values()
        for where, commit in group.offsets.items()
        if (end := view.ends.get(SourcePartition(*where))) is not None and commit.offset > end
    }


def _differs(now: CommitSnapshot, before: CommitSnapshot | None) -> bool:
    return before is None or (now.cluster, now.state, dict(now.offsets)) != (
        before.cluster,
        before.state,
        dict(before.offsets),
    )


class CommitSnapshotRunner(BackgroundRunner):
    """Keeps the source's commits beside a running pipeline; stopping it loses nothing.

    Args:
        config: the pipeline.
        report: called when it begins to fail, at growing intervals, and when it works again.
        is_wanted: whether this run writes them now; of runs that share a pipeline, one does.
    """

    failing = "snapshots of the source's consumer groups are not written to the target"
    recovered = "snapshots of the source's consumer groups are written to the target again"

    def __init__(
        self,
        config: PipelineConfig,
        report: Callable[[str], None],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__("commit-snapshots", config.groups.poll_interval_s, report)
        self._config, self._is_wanted = config, is_wanted
        self._open: tuple[SourceClusterReader, StateStore, CommitSnapshotWriter] | None = None

    def work(self) -> None:
        """Read the source's commits and write the changed ones."""
        if not self._is_wanted():
            self.close()  # another run writes them, and this one no longer knows what there is
            return
        if self._open is None:
            target = target_cluster(self._config)
            store = StateStore(self._config, target)

            def read_pairs() -> tuple[ClusterPair]:
                return (read_run_pair(self._config, target, _READ_S),)

            writer = CommitSnapshotWriter(store, read_pairs)
            self._open = SourceClusterReader(self._config), store, writer
        source, _, writer = self._open
        chosen = self._config.topics.matches
        writer.keep(source.read_committed(chosen), chosen, source.find_gone)

    def describe(self, error: K2kError) -> str:
        """Return the sentence for the operator, with the consequence."""
        return (
            f"{super().describe(error)}. If the source fails, offsets are translated from the "
            "last snapshot"
        )

    def close(self) -> None:
        """Disconnect from both clusters."""
        if self._open is not None:
            source, store, _ = self._open
            self._open = None
            source.close()
            store.close()
