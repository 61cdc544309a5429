"""The states of all pipelines that share a commit topic."""

from __future__ import annotations

from collections.abc import Mapping

from k2ktui.engine.state import MalformedRecord, read_commit_record
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.control_reader import ControlRecord
from k2ktui.kafka.control_tail import ControlTail
from k2ktui.replication.commit_state import CommitState, CommitStateFold


class CommitStatesReader:
    """Reads the pipelines' states repeatedly; not thread-safe.

    A commit topic holds every position since its last compaction, so reading it completely is
    slow; only the first call does so.

    Args:
        target: the target cluster.
        only: the pipeline (``coordination.commit.group``) whose positions are read; of the others
            only the runs. None reads the positions of all.
    """

    def __init__(self, target: Cluster, only: str | None = None) -> None:
        self._only = only
        self._tail = ControlTail(target)
        self._folds: dict[str, CommitStateFold] = {}
        # What the keys say: there are as many as partitions, and each is written at every commit.
        self._heads: dict[bytes | None, tuple[str, bool] | None] = {}

    def read(self, topic: TopicDescription, timeout: float) -> Mapping[str, CommitState]:
        """Return the current state of each pipeline, by ``coordination.commit.group``.

        Args:
            topic: current description of the commit topic; a re-created topic is read completely.
            timeout: seconds.

        Raises:
            ConnectionFailed, TimedOut: the topic could not be read.
        """
        if self._tail.begin(topic):
            self._folds, self._heads = {}, {}
        for entry in self._tail.records(timeout):
            self._take(entry)
        return {group: fold.state() for group, fold in self._folds.items()}

    def close(self) -> None:
        """Disconnect; what was read is kept."""
        self._tail.close()

    def _take(self, entry: ControlRecord) -> None:
        head = self._heads.get(entry.key)
        if entry.key not in self._heads:
            head = self._heads[entry.key] = _read_head(entry.key)
        if head is None:
            return
        group, has_source = head
        if not has_source or self._only in (None, group):
            self._folds.setdefault(group, CommitStateFold(group)).take(entry)


def _read_head(key: bytes | None) -> tuple[str, bool] | None:
    """Return a key's group, and whether it is of a position; None if it is not k2ktui's."""
    try:
        group, source, _ = read_commit_record(key, None)
    except MalformedRecord:
        return None
    return group, source is not None
