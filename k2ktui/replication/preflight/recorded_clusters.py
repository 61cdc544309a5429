"""Preflight: both clusters are those that the pipeline's positions belong to.

An address is not a cluster: one that was built again, or restored from a backup, has another
cluster id under the same address, and its offsets are others.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.cluster_pair import ClusterPair, Side
from k2ktui.errors import K2kError
from k2ktui.replication.fencing_errors import describe_changed
from k2ktui.replication.ownership.commit_state import read_commit_state
from k2ktui.replication.ownership.pipeline import commit_topic
from k2ktui.replication.preflight.checks import (
    Check,
    error_check,
    failed_check,
    passed_check,
    unknown_check,
)
from k2ktui.replication.preflight.clusters import CheckedCluster
from k2ktui.text import counted, safe_text

_NAME = "cluster ids"
_READ_S = 20.0


def _options(changed: Sequence[tuple[Side, str, str]]) -> str:
    return " ".join(f"--accept-cluster {shlex.quote(safe_text(now))}" for _, _, now in changed)


def check_recorded_ids(
    config: PipelineConfig, source: CheckedCluster, target: CheckedCluster
) -> Check:
    """Compare the ids of both clusters with those that the last run recorded."""
    try:
        description = target.cluster.find(config.coordination.commit.topic)
        if description is None:
            return passed_check(_NAME, "the pipeline has copied nothing yet")
        topic = commit_topic(config, description.partitions)
        state = read_commit_state(target.cluster, topic, _READ_S)
    except K2kError as error:
        return error_check(_NAME, error)
    if not state.positions:
        return passed_check(_NAME, "the pipeline has no positions")
    pair, now = state.run.pair, ClusterPair(source.cluster_id, target.cluster_id)
    if not pair.is_known or not now.is_known:
        side = "the last run" if now.is_known else "a cluster"
        return unknown_check(_NAME, f"the cluster ids of {side} are not known")
    changed = pair.find_changed(now)
    if not changed:
        return passed_check(_NAME, "both clusters are those of the last run")
    return failed_check(
        _NAME,
        f"{describe_changed(changed)} ({counted(len(state.positions), 'partition')})",
        "If an address is wrong, correct bootstrap.servers. If the cluster was restored from a "
        f"backup, stop every run and accept it: k2ktui start -f FILE {_options(changed)}. For a "
        "new cluster beside the old one, set another coordination.commit.group; for a new start in "
        "place of the old cluster, clear the positions: k2ktui offsets clear -f FILE --topic "
        "'.*'.",
        fatal=True,
    )
