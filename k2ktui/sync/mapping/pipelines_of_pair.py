"""Find all pipelines that copy from one cluster to another: whose positions and mappings are used.

The mapping application has a name of its own and replicates nothing. It uses the mappings of every
pipeline whose run record names its source cluster, its target cluster and its mapping topic. Runs
of earlier releases do not name their clusters: they are unknown, and not used.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.cluster_pair import ClusterPair, find_ids
from k2ktui.errors import ConnectionFailed, K2kError, TimedOut
from k2ktui.kafka.clients import Cluster
from k2ktui.replication.ownership.commit_state import CommitState
from k2ktui.sync.commit_snapshots import read_known_commits
from k2ktui.sync.mapping.source import NoPipelineFound
from k2ktui.sync.store import StateStore
from k2ktui.text import safe_text

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChosenPipelines:
    """The pipelines whose positions and mappings are used.

    Attributes:
        states: their states by commit group; where several have copied a source partition, the
            first one counts.
        others: commit groups that copy between other clusters.
        pair: the clusters.
    """

    states: Mapping[str, CommitState]
    others: Collection[str]
    pair: ClusterPair


class PipelinesOfPair:
    """Finds the pipelines between two clusters, whatever their names.

    Where several have copied a source partition, the mappings of the one that was started last are
    used, and the conflict is reported.

    Args:
        config: names the topics of the pipelines.
        source, target: the clusters.
    """

    def __init__(self, config: PipelineConfig, source: Cluster, target: Cluster) -> None:
        self._config, self._source, self._target = config, source, target
        self._source_id = ""
        self._is_kept = False  # the source's id is that of the kept commits
        self._known: list[ClusterPair] = []

    def read_ids(self) -> ClusterPair:
        """Return the two clusters.

        The source's id is the one that it first answered, or that kept commits name; the target's
        is as it answers now.

        Raises:
            ConnectionFailed, TimedOut: the target does not answer, or the source does not and no
                commits of it were kept.
        """
        topic = self._config.offset_mapping.topic
        return ClusterPair(self._find_source(), self._target.cluster_id(), topic)

    def choose(self, pair: ClusterPair, states: Mapping[str, CommitState]) -> ChosenPipelines:
        """Return the pipelines that copy between these clusters.

        Raises:
            NoPipelineFound: no pipeline is known to copy between them.
        """
        self._known = [state.run.pair for state in states.values()]
        used = {name: state for name, state in states.items() if self._is_of(state.run.pair, pair)}
        if not used:
            raise self._none_found(pair, states)
        # The same order in every reading, so that a partition does not change its pipeline.
        names = sorted(used, key=lambda name: (-used[name].run.started_ms, name))
        others = {
            name for name, state in states.items() if state.run.pair.is_known and name not in used
        }
        recorded = used[names[0]].run.pair
        return ChosenPipelines({name: used[name] for name in names}, others, pair.follow(recorded))

    def may_exist(self, elsewhere: ClusterPair) -> bool:
        """Whether one may have copied between the clusters, although none was found.

        Its run record may be of an earlier release, or name another mapping topic, or the id that
        a cluster had before it was restored.

        Args:
            elsewhere: the pair of another run record, whose aliases count.
        """
        pairs = *self._known, elsewhere
        sources = find_ids(self._find_source(), pairs)
        targets = find_ids(self._target.cluster_id(), pairs)
        return any(
            not pair.is_known or (pair.source in sources and pair.target in targets)
            for pair in self._known
        )

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
