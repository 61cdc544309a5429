"""The states of all pipelines that share a commit topic."""

from __future__ import annotations

from collections.abc import Mapping

from k2ktui.engine.state import MalformedRecord, read_commit_record
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.control_reader import ControlRecord, read_committed, stable_ends
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
        self._target, self._only = target, only
        self._of: tuple[str, str, int] | None = None
        self._folds: dict[str, CommitStateFold] = {}
        self._next: dict[int, int] = {}

    def read(self, topic: TopicDescription, timeout: float) -> Mapping[str, CommitState]:
        """Return the current state of each pipeline, by ``coordination.commit.group``.

        Args:
            topic: current description of the commit topic; a re-created topic is read completely.
            timeout: seconds.

        Raises:
            ConnectionFailed, TimedOut: the topic could not be read.
        """
        identity = (topic.name, topic.topic_id, topic.partitions)
        ends = stable_ends(self._target, topic.name, topic.partitions)
        if identity != self._of or any(self._next.get(p, 0) > end for p, end in ends.items()):
            self._of, self._folds, self._next = identity, {}, {}
        found = read_committed(
            self._target, topic.name, topic.partitions, timeout, ends=ends, since=self._next
        )
        for entry in found:
            self._take(entry)
            self._next[entry.partition] = entry.offset + 1
        self._next.update(ends)
        return {group: fold.state() for group, fold in self._folds.items()}

    def _take(self, entry: ControlRecord) -> None:
        try:
            group, source, _ = read_commit_record(entry.key, None)
        except MalformedRecord:
            return  # not k2ktui's
        if source is None or self._only in (None, group):
            self._folds.setdefault(group, CommitStateFold(group)).take(entry)
