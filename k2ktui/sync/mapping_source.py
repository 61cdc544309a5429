"""Sources of offset mappings: the pipeline's own topics, or another program's.

``open_mapping_source`` dispatches on the type of the configuration; other types register theirs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import singledispatch
from time import monotonic
from typing import Protocol

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.offset_anchors import OffsetAnchors
from k2ktui.engine.ranges import MappingRanges
from k2ktui.engine.replica import MappingGaps, TargetPartition
from k2ktui.engine.state import Position, SourcePartition
from k2ktui.errors import Refused
from k2ktui.kafka.clients import Cluster
from k2ktui.replication.commit_state import CommitTopicReader
from k2ktui.replication.pipeline import commit_topic
from k2ktui.sync.mapping_store import MappingReport, MappingStore
from k2ktui.text import safe_text

Commits = Mapping[SourcePartition, Collection[int]]

_READ_S = 30.0


class MappingSource(Protocol):
    """The recorded mappings of a flow; used by one thread at a time."""

    def positions(self) -> Mapping[SourcePartition, Position]:
        """Read the replicated positions.

        Raises:
            ConnectionFailed, TimedOut: a cluster does not answer.
            Refused: nothing has been replicated yet.
        """
        ...

    def refresh(
        self,
        timeout: float,
        positions: Mapping[SourcePartition, Position],
        commits: Commits,
        landed: Mapping[TargetPartition, int],
    ) -> MappingReport:
        """Read new mappings, and load what these offsets depend on.

        Args:
            timeout: seconds.
            positions: replicated positions.
            commits: committed offsets on the source, to be translated.
            landed: the lowest committed offset on each target partition, to be compared.
        """
        ...

    def lanes(self, source: SourcePartition) -> Mapping[TargetPartition, MappingRanges]:
        """Return the mapping ranges of a source partition."""
        ...

    def doubts(self, source: SourcePartition) -> MappingGaps:
        """Return the gaps of the mapping ranges."""
        ...

    def mapped(self, source: SourcePartition) -> int:
        """Return the number of records that the ranges map, including unloaded ranges."""
        ...

    def held_from(self, source: SourcePartition) -> int:
        """Return the source offset from which all ranges are loaded."""
        ...

    def cuts(self, source: SourcePartition) -> OffsetAnchors | None:
        """Return the offset anchors where whole ranges are unavailable; None where they exist."""
        ...

    def notes(self) -> Sequence[str]:
        """Return messages for the operator about the mappings."""
        ...

    def keep(self) -> None:
        """Preserve on the target what would be lost otherwise.

        Raises:
            K2kError: the write failed.
        """
        ...

    def close(self) -> None:
        """Disconnect from the clusters."""
        ...


@singledispatch
def open_mapping_source(config: PipelineConfig, source: Cluster, target: Cluster) -> MappingSource:
    """Return the mapping source of a pipeline; reads nothing yet."""
    return _PipelineMappings(config, target)


class _PipelineMappings:
    """k2ktui's own mappings: the commit topic and the mapping topic."""

    def __init__(self, config: PipelineConfig, target: Cluster) -> None:
        self._config, self._target = config, target
        self._books = CommitTopicReader(target)
        self._store = MappingStore(config, target)
        self.lanes = self._store.lanes
        self.doubts = self._store.doubts
        self.mapped = self._store.mapped
        self.held_from = self._store.held_from
        self._needed: dict[SourcePartition, int] = {}
        self._next_repeat = 0.0
        self.close = self._store.close

    def positions(self) -> Mapping[SourcePartition, Position]:
        name = self._config.coordination.commit.topic
        found = self._target.find(name)
        if found is None:
            raise Refused(
                f"pipeline {safe_text(self._config.name)} has not copied anything yet: topic "
                f"{safe_text(name)} does not exist on the target cluster",
                hint="Start it first: k2ktui start -f FILE.",
            )
        topic = commit_topic(self._config, found.partitions)
        return self._books.read(topic, found, _READ_S).positions

    def refresh(
        self,
        timeout: float,
        positions: Mapping[SourcePartition, Position],
        commits: Commits,
        landed: Mapping[TargetPartition, int],
    ) -> MappingReport:
        report = self._store.refresh(timeout, positions)
        self._needed = {at: min(offsets) for at, offsets in commits.items()}
        self._store.reach(self._needed, landed)
        return report

    def cuts(self, source: SourcePartition) -> OffsetAnchors | None:
        return None

    def notes(self) -> Sequence[str]:
        return ()

    def keep(self) -> None:
        """Republish mappings that groups still need, before retention deletes them."""
        if monotonic() >= self._next_repeat:
            self._next_repeat = monotonic() + self._config.offset_mapping.retention.schedule_s
            self._store.republish(self._needed)
