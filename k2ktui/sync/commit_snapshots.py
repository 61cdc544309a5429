"""Keep the source's commits on the target, for the day the source does not answer any more.

Every poll writes the groups that changed and one record, under an empty group name, that says when
all of them were last seen: an offset that has not moved for days is as fresh as the last poll. The
offsets of that record are log start offsets of the source, see :func:`_expired`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.groups import CommittedOffset, GroupView, Partition
from k2ktui.engine.journal import CommitSnapshot, SnapshotKey
from k2ktui.engine.state import SourcePartition
from k2ktui.kafka.clients import target_cluster
from k2ktui.sync.background import BackgroundRunner
from k2ktui.sync.cluster_readers import SourceClusterReader, SourceView
from k2ktui.sync.store import StateStore

POLL = ""  # no group has this name; brokers refuse commits under it


@dataclass(frozen=True, slots=True)
class KnownCommits:
    """What was kept of the source's groups; ``at`` is epoch seconds of the last complete poll.

    ``starts`` are log start offsets then, of the partitions in which a group was further back.
    """

    cluster: str
    at: float
    groups: Mapping[str, GroupView]
    starts: Mapping[SourcePartition, int] = field(default_factory=dict)


def read_known_commits(snapshots: Mapping[str, CommitSnapshot]) -> KnownCommits | None:
    """Return what was kept, None if nothing was."""
    groups = {name: each for name, each in snapshots.items() if name != POLL}
    poll = snapshots.get(POLL)
    if poll is None and not groups:
        return None
    newest = poll or max(groups.values(), key=lambda each: each.at_ms)
    return KnownCommits(
        newest.cluster,
        newest.at_ms / 1000,
        {
            # Nobody knows who consumes there now: the state it had is not told as if it were.
            name: GroupView("", None, each.offsets)
            for name, each in groups.items()
            if each.cluster == newest.cluster
        },
        {
            SourcePartition(*at): start.offset
            for at, start in (poll.offsets if poll else {}).items()
        },
    )


class CommitSnapshotWriter:
    """Writes what changed since the last poll."""

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._known: dict[str, CommitSnapshot] | None = None

    def keep(self, view: SourceView, topics: Callable[[str], bool]) -> int:
        """Keep the groups' offsets of the topics; return how many groups were written.

        Raises:
            K2kError: the target does not take them.
        """
        if self._known is None:
            self._known = dict(self._store.read().commits)
        known, at_ms = self._known, int(view.at * 1000)
        now = {
            name: CommitSnapshot(name, view.cluster, at_ms, group.state, offsets)
            for name, group in view.groups.items()
            if (offsets := {w: o for w, o in group.offsets.items() if topics(w[0])})
        }
        changed = [each for name, each in now.items() if _differs(each, known.get(name))]
        # A group whose offsets could not be read has not gone.
        unread = {name for name, group in view.groups.items() if group.error}
        missing = [name for name in known if name not in now and name not in unread | {POLL}]
        gone = [] if view.unheard else missing
        poll = CommitSnapshot(POLL, view.cluster, at_ms, "polled", _expired(view))
        self._store.put([*changed, poll], gone=[SnapshotKey(name) for name in gone])
        for name in gone:
            del known[name]
        known.update({each.consumer_group: each for each in [*changed, poll]})
        return len(changed)


def _expired(view: SourceView) -> dict[Partition, CommittedOffset]:
    """Log start offsets where a group's committed offset lies before it.

    Without the source nobody could tell that nothing unread was left before the copy began.
    """
    return {
        where: CommittedOffset(start)
        for group in view.groups.values()
        for where, each in group.offsets.items()
        if (start := view.starts.get(SourcePartition(*where))) is not None
        and 0 <= each.offset < start
    }


def _differs(now: CommitSnapshot, before: CommitSnapshot | None) -> bool:
    return before is None or (now.cluster, now.state, dict(now.offsets)) != (
        before.cluster,
        before.state,
        dict(before.offsets),
    )


class CommitSnapshotRunner(BackgroundRunner):
    """Keeps the source's commits beside a running pipeline; nothing is lost by ending it.

    Args:
        config: the pipeline.
        note: told once when it fails, and once when it works again.
    """

    BACK = "consumer groups of the source are kept on the target again"

    def __init__(self, config: PipelineConfig, note: Callable[[str], None]) -> None:
        super().__init__("commit-keeper", config.groups.poll_interval_s, note)
        self._config = config
        self._open: tuple[SourceClusterReader, StateStore, CommitSnapshotWriter] | None = None

    def turn(self) -> None:
        """Read the source's commits and keep what is new."""
        if self._open is None:
            store = StateStore(self._config, target_cluster(self._config))
            self._open = SourceClusterReader(self._config), store, CommitSnapshotWriter(store)
        source, _, keeper = self._open
        chosen = self._config.topics.matches
        keeper.keep(source.read_committed(chosen), chosen)

    def failure(self, why: str) -> str:
        """Return what is told when nothing can be kept."""
        return (
            f"consumer groups of the source are not kept on the target: {why}. If the source "
            "is lost, their offsets are translated from the last ones kept"
        )

    def close(self) -> None:
        """Disconnect."""
        if self._open is not None:
            source, store, _ = self._open
            source.close()
            store.close()
