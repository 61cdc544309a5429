"""Positions and mappings that pipelines of k2ktui have written."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from time import monotonic
from typing import ClassVar

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.mapping.replica import Replica, TargetPartition
from k2ktui.engine.records.cluster_pair import ClusterPair
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import Refused
from k2ktui.kafka.clients import Cluster
from k2ktui.replication.copying.partition_reader import now_ms
from k2ktui.replication.ownership.commit_state import CommitState, CommitStatesReader
from k2ktui.replication.ownership.pipeline import moved_topics
from k2ktui.sync.mapping.by_content import ContentSearch
from k2ktui.sync.mapping.pipelines_of_pair import ChosenPipelines, PipelinesOfPair
from k2ktui.sync.mapping.republish import MappingExpiry
from k2ktui.sync.mapping.sort import MappingReport
from k2ktui.sync.mapping.source import (
    COMPARE_S,
    NO_TARGET_COMMITS,
    READ_S,
    Commits,
    CopierState,
    Copies,
    NothingCopied,
)
from k2ktui.sync.mapping.store import MappingStore
from k2ktui.sync.store import StateStore
from k2ktui.text import counted, list_names, safe_message, safe_text

log = logging.getLogger(__name__)

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
        of_pair: finds all pipelines between two clusters; by default, the pipeline's own are read.
        some_topics: whether a drill moves the configured topics: their positions alone are read,
            as they were before it.
    """

    not_kept: ClassVar[str] = (
        "mappings that consumer groups need are not written again before they expire"
    )

    def __init__(
        self,
        config: PipelineConfig,
        target: Cluster,
        source: Cluster | None = None,
        *,
        of_pair: PipelinesOfPair | None = None,
        some_topics: bool = False,
    ) -> None:
        self._search = None if source is None else ContentSearch(source, target)
        self._config, self._target = config, target
        self._group = config.coordination.commit.group
        self._of_pair, self._some_topics = of_pair, some_topics
        self._states = CommitStatesReader(target, None if of_pair else self._group)
        self._store = MappingStore(config, target)
        self._needed: dict[SourcePartition, int] = {}
        self._logged_term = -1
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

    def read_copier(self, *, heartbeats: bool = False) -> CopierState:
        """Read the commit topic; heartbeats of k2ktui are in the state topic."""
        if self._of_pair is None:
            chosen = self._choose_own(self._read_states())
        else:
            pair = self._of_pair.read_ids()
            chosen = self._of_pair.choose(pair, self._read_states() or {})
        states = chosen.states
        positions: dict[SourcePartition, Position] = {}
        owners: dict[SourcePartition, str] = {}
        for name, state in states.items():
            for at, position in state.positions.items():
                if owners.setdefault(at, name) == name:
                    positions[at] = position
        self._store.choose(tuple(states), owners, chosen.others)
        # The last move of a topic counts.
        newest_last = tuple(reversed(list(states.values())))
        if self._some_topics:
            positions = {
                at: position
                for at, position in positions.items()
                if self._config.topics.matches(at.topic)
            }
            newest_last = ()
        own = states[self._group] if self._of_pair is None else None
        return CopierState(
            positions,
            chosen.pair,
            partial(moved_topics, self._config, newest_last),
            fenced_by="" if own is None else own.run.fenced_by,
            deleted={} if own is None else own.deleted,
            two_way={at for at, name in owners.items() if states[name].run.bidirectional},
            registered=None if own is None else _registered(own),
        )

    def _read_states(self) -> Mapping[str, CommitState] | None:
        """Return the states of pipelines by commit group; None if there is no commit topic."""
        topic = self._target.find(self._config.coordination.commit.topic)
        return None if topic is None else self._states.read(topic, READ_S)

    def _choose_own(self, states: Mapping[str, CommitState] | None) -> ChosenPipelines:
        if states is None:
            raise self._never_ran("does not exist")
        own = states.get(self._group)
        if own is None:
            names = list_names(sorted(states), _NAMED)
            raise self._never_ran(f"has runs of {names}" if names else "has no run of any pipeline")
        run = own.run
        if run.term != self._logged_term:
            self._logged_term = run.term
            positions = counted(len(own.positions), "position")
            text = f", fenced by drill {run.fenced_by}" if run.fenced_by else ""
            name = self._config.coordination.commit.topic
            log.info("%s: %s, last run has term %d%s", name, positions, run.term, text)
        others = {name for name, state in states.items() if _differ(state.run.pair, run.pair)}
        return ChosenPipelines({self._group: own}, others, run.pair)

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

    def read(
        self,
        copier: CopierState,
        commits: Commits,
        lowest_commits: Mapping[TargetPartition, int] = NO_TARGET_COMMITS,
        *,
        compare: bool = False,
        timeout: float = READ_S,
    ) -> Copies:
        """Read the mapping topic; the errors are the protocol's."""
        report = self._store.refresh(timeout, copier.positions)
        self._needed = _lowest(commits)
        self._store.reach(self._needed, lowest_commits)
        report = self._add_running(report)
        replicas = {
            at: self._replica(at, position, copier) for at, position in copier.positions.items()
        }
        notes = _notes(report)
        if compare and self._search is not None and not self._reads_opposite:
            one_way = {at: offsets for at, offsets in commits.items() if at not in copier.two_way}
            anchors = self._search.search(replicas, one_way, COMPARE_S)
            replicas |= {at: replace(replicas[at], compared=anchors[at]) for at in anchors}
            notes += self._search.notes() if anchors else []
        return Copies(
            copier,
            replicas,
            tuple(notes),
            report.conflicting_pipelines,
            report.behind,
            self._explain_none(copier, replicas),
        )

    @property
    def _reads_opposite(self) -> bool:
        """Whether the mappings of the opposite pipelines are read, too."""
        return self._config.features.bidirectional_replication

    def _replica(self, at: SourcePartition, position: Position, copier: CopierState) -> Replica:
        why = "" if self._reads_opposite or at not in copier.two_way else _BOTH_DIRECTIONS
        if position.stopped:
            why = f"it is stopped: {safe_text(position.stopped)}"
        replica = self._store.replica(at)
        return replace(replica, unusable_reason=why) if why else replica

    def _explain_none(
        self, copier: CopierState, replicas: Mapping[SourcePartition, Replica]
    ) -> str:
        """Return why no copied record is mapped; other files may name another mapping topic."""
        copied = {
            at: position.offset
            for at, position in copier.positions.items()
            if position.offset > position.start
        }
        # Where nothing is known, the mapping is complete only from the position on.
        if not copied or any(replicas[at].complete_from != end for at, end in copied.items()):
            return ""
        topic, pair = self._config.offset_mapping.topic, copier.clusters
        whose = (
            f"pipeline {safe_text(self._config.name)}"
            if self._of_pair is None
            else "these pipelines"
        )
        text = f"no record of {whose} is mapped in topic {safe_text(topic)}, which has "
        names = list_names(self._store.pipelines(), _NAMED)
        text += f"mappings of {names}" if names else "no mappings"
        if not pair.is_known or pair.mapping_topic == topic:
            return text
        other = safe_text(pair.mapping_topic)
        return f"{text}; its last run wrote " + (
            f"them to topic {other} (offsetMapping.topic)"
            if other
            else "none (features.offsetMapping)"
        )

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


def _notes(report: MappingReport) -> list[str]:
    notes = []
    if report.malformed_count:
        first = report.malformed[0]
        notes.append(
            f"{report.malformed_count} records of the mapping topic are damaged, the first at "
            f"partition {first.partition} offset {first.offset} ({safe_message(first.why)}); the "
            "records they map are unmapped"
        )
    if report.behind:
        notes.append("the mapping topic could not be read to its end yet")
    return notes


def _lowest(commits: Commits) -> dict[SourcePartition, int]:
    return {at: min(offsets) for at, offsets in commits.items()}


def _registered(state: CommitState) -> Collection[int] | None:
    """Return the registered producer ids; None if the pipeline may have written with others."""
    is_whole = state.run.registers and not state.run.has_unregistered
    return state.registrations.keys() if is_whole else None


def _differ(one: ClusterPair, other: ClusterPair) -> bool:
    """Whether two pipelines are known to copy between different clusters."""
    return one.is_known and other.is_known and not one.is_same(other)
