"""How far the groups of a snapshot are behind: log ends, and when their next records were written.

Nothing is committed and no group is joined.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping
from contextlib import closing
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING

from confluent_kafka import IsolationLevel
from confluent_kafka.admin import OffsetSpec

from k2ktui.engine.log_times import CommitTimes, LogSpan
from k2ktui.engine.moves.groups import Snapshot, make_group_rows
from k2ktui.engine.moves.lags import (
    NO_LOGS,
    GroupLag,
    ReadLogs,
    measure_lags,
    sum_group_lags,
)
from k2ktui.errors import K2kError
from k2ktui.log.content import ContentReader
from k2ktui.replication.topics.record_times import read_written
from k2ktui.sync.commit_snapshots import collect_commits

if TYPE_CHECKING:
    from k2ktui.kafka.clients import Cluster, Partition
    from k2ktui.sync.moves.snapshot import SnapshotReader

log = logging.getLogger(__name__)


# For the records at committed offsets: of each reading, and of a single one.
_RECORDS_S, _ONCE_S = 1.5, 5.0


def read_groups(snapshots: SnapshotReader) -> tuple[Snapshot, ReadLogs]:
    """Take a snapshot, and read what the lags of its groups are measured against.

    Raises:
        K2kError: as for ``SnapshotReader.take``.
    """
    snapshot = snapshots.take()
    with closing(GroupLagReader(snapshots.source_reader.cluster, once=True)) as lags:
        return snapshot, lags.read(snapshot)


class GroupLagReader:
    """Reads what the lags of groups are measured against; not thread-safe.

    Args:
        cluster: the source.
        once: whether there is one reading: it has more time for the records at committed offsets,
            while others go on with them in the next.
    """

    def __init__(self, cluster: Cluster, *, once: bool = False) -> None:
        self._cluster, self._content = cluster, ContentReader(cluster)
        self._once = once
        self._times = CommitTimes()
        self._last = NO_LOGS

    def read(self, snapshot: Snapshot) -> ReadLogs:
        """Read the logs of a snapshot's groups now; the source's as they were if it is down."""
        if not snapshot.source_down:
            try:
                self._last = self._read(snapshot)
            except K2kError as error:
                log.info("lags of groups not read: %s", error.message)
                self._last = NO_LOGS
        there = {at: bounds.end for at, bounds in snapshot.logs.items()}
        return replace(self._last, target_ends=there, at=snapshot.commits_at)

    def measure(self, snapshot: Snapshot, groups: Collection[str]) -> dict[str, GroupLag]:
        """Return the lags of groups of a snapshot; none while the source is down."""
        if not groups or snapshot.source_down:
            return {}
        wanted = {name: snapshot.source[name] for name in groups}
        part = replace(snapshot, source=wanted, source_later={})
        rows = make_group_rows(part)
        return sum_group_lags(rows, measure_lags(rows, self.read(part)))

    def close(self) -> None:
        """Disconnect the reader of records; the next reading connects again."""
        self._content.close()

    def _read(self, snapshot: Snapshot) -> ReadLogs:
        commits = {
            (at.topic, at.partition): offsets
            for at, offsets in collect_commits(snapshot.source.values()).items()
        }
        starts = {
            (at.topic, at.partition): replica.source_start
            for at, replica in snapshot.replicas.items()
            if replica.source_start is not None
        }
        offsets = self._cluster.offsets
        # What is not copied is read by groups all the same.
        starts |= offsets(commits.keys() - starts.keys(), OffsetSpec.earliest())
        high = offsets(commits, OffsetSpec.latest())
        stable = offsets(commits, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
        bounds = {
            at: LogSpan(start, stable[at], high[at])
            for at, start in starts.items()
            if at in stable and at in high
        }
        self._read_records(commits, bounds)
        return ReadLogs(stable, written=self._times.times(), high=high)

    def _read_records(
        self,
        commits: Mapping[Partition, Collection[int]],
        bounds: Mapping[Partition, LogSpan],
    ) -> None:
        at, until = time.time(), monotonic() + (_ONCE_S if self._once else _RECORDS_S)
        while asked := self._times.observe(commits, bounds, at):
            written = read_written(self._content, asked, max(0.1, until - monotonic()))
            self._times.learn(written)
            if not (self._once and written) or monotonic() >= until:
                return
