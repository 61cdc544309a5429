"""Positions and mappings that a pipeline of k2ktui has written."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from time import monotonic
from typing import ClassVar

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.deleted_logs import DeletedLog
from k2ktui.engine.mapping.anchors import OffsetAnchors
from k2ktui.engine.mapping.ranges import MappingRanges
from k2ktui.engine.mapping.replica import MappingGaps, TargetPartition
from k2ktui.engine.records.cluster_pair import UNKNOWN_PAIR, ClusterPair
from k2ktui.engine.records.moved_topic import MovedTopics
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import Refused
from k2ktui.kafka.clients import Cluster
from k2ktui.replication.copying.partition_reader import now_ms
from k2ktui.replication.ownership.commit_state import CommitState, CommitStatesReader
from k2ktui.replication.ownership.pipeline import moved_topics
from k2ktui.sync.mapping.by_content import ContentSearch, MappedCopy
from k2ktui.sync.mapping.republish import MappingExpiry
from k2ktui.sync.mapping.sort import MappingReport
from k2ktui.sync.mapping.source import Commits, CopierState, NothingCopied
from k2ktui.sync.mapping.store import MappingStore
from k2ktui.sync.store import StateStore
from k2ktui.text import counted, list_names, safe_text

log = logging.getLogger(__name__)

READ_S = 30.0
# Seconds until mappings that could not be republished are tried again.
_REPEAT_AGAIN_S = 30.0
# Number of pipelines that an error names.
_NAMED = 20
_BOTH_DIRECTIONS = (
    "records flow in both directions, and features.bidirectionalReplication is disabled in this "
    "file: an unread record may have come from the target"
)


class PipelineMappings:
    """k2ktui's own mappings: the commit topic and the mapping topic.

    Args:
        config: the pipeline.
        target: its target cluster.
        source: its source cluster, where records are compared if their mappings are missing; None
            if nothing is translated.
    """

    not_kept: ClassVar[str] = (
        "mappings that consumer groups need are not written again before they expire"
    )

    def __init__(
        self, config: PipelineConfig, target: Cluster, source: Cluster | None = None
    ) -> None:
        self._search = None if source is None else ContentSearch(source, target)
        self._config, self._target = config, target
        self._group = config.coordination.commit.group
        self._states = CommitStatesReader(target, self._group)
        self._store = MappingStore(config, target)
        self._pair = UNKNOWN_PAIR
        self._positions: Mapping[SourcePartition, Position] = {}
        self._needed: dict[SourcePartition, int] = {}
        self._fenced_by = ""
        self._logged_term = -1
        self._deleted: Mapping[SourcePartition, DeletedLog] = {}
        self._moved_by: tuple[CommitState, ...] = ()
        # Source partitions of pipelines that leave out what came from the target.
        self._two_way: Collection[SourcePartition] = ()
        self._next_repeat = 0.0
        self._states_of: dict[str, StateStore] = {}

    def close(self) -> None:
        """Disconnect; what was read is kept."""
        self._store.close()
        self._states.close()
        if self._search is not None:
            self._search.close()
        for store in self._states_of.values():
            store.close()

    def positions(self) -> Mapping[SourcePartition, Position]:
        """Read the commit topic; the errors are the protocol's."""
        name = self._config.coordination.commit.topic
        topic = self._target.find(name)
        if topic is None:
            raise self._never_ran("does not exist")
        states = self._states.read(topic, READ_S)
        own = states.get(self._group)
        if own is None:
            names = list_names(sorted(states), _NAMED)
            raise self._never_ran(f"has runs of {names}" if names else "has no run of any pipeline")
        others = {name for name, state in states.items() if _differ(state.run.pair, own.run.pair)}
        self._store.choose((self._group,), dict.fromkeys(own.positions, self._group), others)
        if own.run.term != self._logged_term:
            self._logged_term = own.run.term
            positions, fence = counted(len(own.positions), "position"), own.run.fenced_by
            text = f", fenced by drill {fence}" if fence else ""
            log.info("%s: %s, last run has term %d%s", name, positions, own.run.term, text)
        self._fenced_by = own.run.fenced_by
        self._deleted, self._moved_by = own.deleted, (own,)
        self._two_way = own.positions if own.run.bidirectional else ()
        self._pair = own.run.pair
        return own.positions

    def _never_ran(self, why: str) -> NothingCopied:
        name, group = safe_text(self._config.name), safe_text(self._group)
        if group != name:
            name += f" (coordination.commit.group {group})"
        topic = safe_text(self._config.coordination.commit.topic)
        return NothingCopied(
            f"no run of pipeline {name} is known: topic {topic} on the target cluster {why}",
            hint="If it has copied before, its positions are lost: k2ktui check -f FILE names the "
            "ways on. Otherwise start the pipeline (k2ktui start -f FILE), or check the "
            "name in the file and coordination.commit.topic.",
        )

    def clusters(self) -> ClusterPair:
        """Return those of the last run."""
        return self._pair

    def moved_topics(self) -> MovedTopics:
        """Return what the commit topic said with the positions."""
        return moved_topics(self._config, self._moved_by)

    def refresh(
        self,
        timeout: float,
        positions: Mapping[SourcePartition, Position],
        commits: Commits,
        lowest_commits: Mapping[TargetPartition, int],
    ) -> MappingReport:
        """Read new mappings, and load what these offsets depend on."""
        self._positions = positions
        if self._search is not None:
            self._search.forget()
        report = self._store.refresh(timeout, positions)
        self._needed = _lowest(commits)
        self._store.reach(self._needed, lowest_commits)
        return self._add_running(report)

    def target_ranges(self, source: SourcePartition) -> Mapping[TargetPartition, MappingRanges]:
        """Return the mapping ranges of a source partition."""
        return self._store.target_ranges(source)

    def find_gaps(self, source: SourcePartition) -> MappingGaps:
        """Return the gaps of the mapping ranges."""
        return self._store.find_gaps(source)

    def count_mapped(self, source: SourcePartition) -> int:
        """Return the number of records that the ranges map, including unloaded ranges."""
        return self._store.count_mapped(source)

    def held_from(self, source: SourcePartition) -> int:
        """Return the source offset from which all ranges are loaded."""
        return self._store.held_from(source)

    def anchors(self, source: SourcePartition) -> OffsetAnchors | None:
        """Return None: there are whole ranges."""
        return None

    def compare(self, commits: Commits, timeout: float) -> None:
        """Compare records for offsets whose mapping is missing in the topic."""
        if self._search is None or self._config.features.bidirectional_replication:
            return
        copies = {at: self._copy(at, position) for at, position in self._positions.items()}
        one_way = {at: offsets for at, offsets in commits.items() if at not in self._two_way}
        self._search.search(copies, one_way, timeout)

    def find_unmapped(self, source: SourcePartition, offsets: Collection[int]) -> set[int]:
        """Return the offsets of a copied partition that the topic has no mapping of any more."""
        position = self._positions.get(source)
        return set() if position is None else self._copy(source, position).find_unmapped(offsets)

    def _copy(self, source: SourcePartition, position: Position) -> MappedCopy:
        return MappedCopy(position, self.target_ranges(source), self.find_gaps(source))

    def compared(self, source: SourcePartition) -> OffsetAnchors | None:
        """Return the anchors that comparing records has shown; None if it was not needed."""
        return None if self._search is None else self._search.anchors(source)

    def untranslatable(self, source: SourcePartition) -> str:
        """Return the reason if the pipeline leaves out records that came from the target."""
        return _BOTH_DIRECTIONS if source in self._two_way else ""

    def notes(self) -> Sequence[str]:
        """Return notes on positions whose mapping is missing, and that could not be compared."""
        return () if self._search is None else self._search.notes()

    def explain_none(self) -> str:
        """Return why no copied record is mapped; other files may name another mapping topic."""
        copied = {
            at: position
            for at, position in self._positions.items()
            if position.offset > position.start
        }
        # Where nothing is known, the mapping is complete only from the position on.
        if not copied or any(
            self.find_gaps(at).complete_from != position.offset for at, position in copied.items()
        ):
            return ""
        topic = safe_text(self._config.offset_mapping.topic)
        text = f"no record of {self._copier()} is mapped in topic {topic}, which has "
        names = list_names(self._store.pipelines(), _NAMED)
        text += f"mappings of {names}" if names else "no mappings"
        if not self._pair.is_known or self._pair.mapping_topic == self._config.offset_mapping.topic:
            return text
        other = safe_text(self._pair.mapping_topic)
        return f"{text}; its last run wrote " + (
            f"them to topic {other} (offsetMapping.topic)"
            if other
            else "none (features.offsetMapping)"
        )

    def _copier(self) -> str:
        return f"pipeline {safe_text(self._config.name)}"

    def read_copier(self) -> CopierState:
        """Return what the commit topic said last: heartbeats of k2ktui are in the state topic."""
        return CopierState(fenced_by=self._fenced_by, deleted=self._deleted)

    def expires_at(self, commits: Commits) -> float | None:
        """Return when the first mapping that groups need expires; None as the protocol says."""
        return self._store.expires_at(_lowest(commits))

    def keep(self) -> None:
        """Republish mappings that groups still need, before retention deletes them."""
        if monotonic() < self._next_repeat:
            return
        self._next_repeat = monotonic() + _REPEAT_AGAIN_S
        self._store.republish(self._needed)
        longest = self._config.offset_mapping.retention.schedule_s
        self._next_repeat = monotonic() + self.repeat_interval_s(longest)

    @property
    def expiry(self) -> MappingExpiry | None:
        """Retention of the mapping topic, as last read; None if it was not."""
        return self._store.expiry

    def repeat_interval_s(self, longest: float) -> float:
        """Return the seconds until ``keep`` is due, at most ``longest``."""
        return self._store.repeat_interval_s(longest)

    def _add_running(self, report: MappingReport) -> MappingReport:
        """Add to the conflicts the pipelines with earlier copies that still run.

        One that does not run is a former name: the newer copies are complete without its own.
        """
        conflicts = dict(report.conflicting_pipelines)
        names = {name for earlier in report.earlier_pipelines.values() for name in earlier}
        running = {name for name in names if self._is_running(name)}
        for source, earlier in report.earlier_pipelines.items():
            owner = self._store.owner(source)
            if others := running.intersection(earlier) - {owner}:
                conflicts[source] = tuple(sorted({owner, *others, *conflicts.get(source, ())}))
        return replace(report, conflicting_pipelines=conflicts)

    def _is_running(self, group: str) -> bool:
        """Whether a pipeline runs, or its heartbeats cannot be read."""
        # One store per group: only repeated reads distinguish a silent run from a wrong clock.
        if group not in self._states_of:
            self._states_of[group] = StateStore(self._config, self._target, READ_S, group)
        try:
            return bool(self._states_of[group].read().alive(now_ms()))
        except Refused as error:
            log.info("pipeline %s counts as running: %s", group, error.message)
            return True


def _lowest(commits: Commits) -> dict[SourcePartition, int]:
    return {at: min(offsets) for at, offsets in commits.items()}


def _differ(one: ClusterPair, other: ClusterPair) -> bool:
    """Whether two pipelines are known to copy between different clusters."""
    return one.is_known and other.is_known and not one.is_same(other)
