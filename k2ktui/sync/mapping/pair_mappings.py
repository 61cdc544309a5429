"""Positions and mappings of all pipelines that copy from one cluster to another.

The mapping application has a name of its own and replicates nothing. It uses the mappings of every
pipeline whose run record names its source cluster, its target cluster and its mapping topic. Runs
of earlier releases do not name their clusters: they are unknown, and not used.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.cluster_pair import ClusterPair, find_ids
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import ConnectionFailed, K2kError, TimedOut
from k2ktui.kafka.clients import Cluster
from k2ktui.replication.ownership.commit_state import CommitState, CommitStatesReader
from k2ktui.sync.commit_snapshots import read_known_commits
from k2ktui.sync.mapping.pipeline_mappings import READ_S, PipelineMappings
from k2ktui.sync.mapping.source import NoPipelineFound
from k2ktui.sync.store import StateStore
from k2ktui.text import safe_text

log = logging.getLogger(__name__)


class PairMappings(PipelineMappings):
    """The mappings of the pipelines between two clusters, whatever their names.

    Where several have copied a source partition, the mappings of the one that was started last are
    used, and the conflict is reported.

    Attributes:
        pairs_elsewhere: pairs of other run records, whose aliases ``may_exist`` follows.
    """

    def __init__(self, config: PipelineConfig, source: Cluster, target: Cluster) -> None:
        super().__init__(config, target, source)
        self._states = CommitStatesReader(target)
        self._source = source
        self._source_id = ""
        self._is_kept = False  # the source's id is that of the kept commits
        self._known: list[ClusterPair] = []
        self.pairs_elsewhere: Sequence[ClusterPair] = ()

    def positions(self) -> Mapping[SourcePartition, Position]:
        """Read the positions of the pipelines between the two clusters.

        Raises:
            NoPipelineFound: no pipeline is known to copy between them.
            ConnectionFailed, TimedOut: as the protocol says.
        """
        pair = ClusterPair(
            self._find_source(), self._target.cluster_id(), self._config.offset_mapping.topic
        )
        topic = self._target.find(self._config.coordination.commit.topic)
        states = self._states.read(topic, READ_S) if topic else {}
        self._known = [state.run.pair for state in states.values()]
        used = {name: state for name, state in states.items() if self._is_of(state.run.pair, pair)}
        if not used:
            raise self._none_found(pair, states)
        # The same order in every reading, so that a partition does not change its pipeline.
        names = sorted(used, key=lambda name: (-used[name].run.started_ms, name))
        positions: dict[SourcePartition, Position] = {}
        owners: dict[SourcePartition, str] = {}
        for name in names:
            for at, position in used[name].positions.items():
                if owners.setdefault(at, name) == name:
                    positions[at] = position
        others = {
            name for name, state in states.items() if state.run.pair.is_known and name not in used
        }
        self._store.choose(names, owners, others)
        self._pair = pair.follow(used[names[0]].run.pair)
        # The newest first, as for positions: the last move of a topic counts.
        self._moved_by = tuple(used[name] for name in reversed(names))
        self._two_way = {at for at, name in owners.items() if used[name].run.bidirectional}
        return positions

    def may_exist(self) -> bool:
        """Whether one may have copied between the clusters, although none was found.

        Its run record may be of an earlier release, or name another mapping topic, or the id that
        a cluster had before it was restored.
        """
        pairs = *self._known, *self.pairs_elsewhere
        sources = find_ids(self._find_source(), pairs)
        targets = find_ids(self._target.cluster_id(), pairs)
        return any(
            not pair.is_known or (pair.source in sources and pair.target in targets)
            for pair in self._known
        )

    def _copier(self) -> str:
        return "these pipelines"

    def _is_of(self, recorded: ClusterPair, now: ClusterPair) -> bool:
        """Whether a run copied between these clusters.

        A cluster that answers must have the id on record: of the positions of a pipeline for which
        it was not accepted, it is not known whether they are its own. Where the source is down, the
        commits that were kept may be of before it was restored.
        """
        return (
            (recorded.source == now.source or (self._is_kept and now.source in recorded.sources))
            and recorded.target == now.target
            and recorded.mapping_topic == now.mapping_topic
        )

    def _find_source(self) -> str:
        """Return the id of the source cluster; if it is down, that of the kept commits."""
        if not self._source_id:
            try:
                self._source_id = self._source.cluster_id()
            except (ConnectionFailed, TimedOut) as error:
                log.info("id of the source taken from its kept commits: %s", error.message)
                store = StateStore(self._config, self._target)
                try:
                    known = read_known_commits(store.read().commits)
                finally:
                    store.close()
                if known is None:
                    raise
                self._source_id, self._is_kept = known.cluster, True
        return self._source_id

    def _none_found(self, pair: ClusterPair, states: Mapping[str, CommitState]) -> K2kError:
        commits = safe_text(self._config.coordination.commit.topic)
        others = [_describe(name, state.run.pair) for name, state in sorted(states.items())]
        return NoPipelineFound(
            "; ".join(
                [
                    f"no pipeline is known to copy from source cluster {safe_text(pair.source)} to "
                    f"target cluster {safe_text(pair.target)} with mappings in topic "
                    f"{safe_text(pair.mapping_topic)}: topic {commits} has no run of one",
                    *others,
                ]
            ),
            unchanged="No offset was committed.",
            hint="Start a pipeline between these clusters (k2ktui start -f FILE). If one runs, "
            "set coordination.commit.topic and offsetMapping.topic to its topics.",
        )


def _describe(name: str, pair: ClusterPair) -> str:
    if not pair.is_known:
        return (
            f"pipeline {safe_text(name)}: its clusters are unknown: its run record is of an "
            "earlier release, start it again"
        )
    topic = safe_text(pair.mapping_topic)
    return (
        f"pipeline {safe_text(name)}: from cluster {safe_text(pair.source)} to cluster "
        f"{safe_text(pair.target)}, " + (f"with mappings in {topic}" if topic else "no mappings")
    )
