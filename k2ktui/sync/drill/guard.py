"""Keep a pipeline from starting after a drill has fenced it.

A drill writes its intention before it raises the epochs, and a driver asks after it has raised
them. Either the drill is later and fences the driver, or the driver finds the intention. The run
record names the drill, too: that of a drill may be lost with the state topic.
"""

from __future__ import annotations

from collections.abc import Collection

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.drill.pair_state import PipelineFence, find_fence
from k2ktui.errors import K2kError, Refused
from k2ktui.kafka.clients import Cluster, target_cluster
from k2ktui.replication.ownership.pipeline import read_commits
from k2ktui.replication.preflight.checks import Check
from k2ktui.sync.store import StateStore
from k2ktui.text import safe_text

FENCE = "drill fence"
_READ_S = 30.0


def refuse_fenced(config: PipelineConfig, target: Cluster, named: str = "") -> None:
    """Refuse to copy for a pipeline that a drill has fenced.

    Args:
        config: the pipeline.
        target: its target cluster.
        named: id of the drill that its run record names. If the record of that drill is lost, or
            may not be read, the run record decides.

    Raises:
        Refused: a drill has fenced it, and was neither aborted nor released.
        ConnectionFailed, TimedOut: the target did not answer.
    """
    refuse_if_fenced(config, _read_drills(config, target), named)


def _read_drills(config: PipelineConfig, target: Cluster) -> Collection[Drill]:
    store = StateStore(config, target)
    try:
        return store.read().drills.values()
    except Refused:
        return ()  # without the right to read the topic, no drill of this principal is there
    finally:
        store.close()


def refuse_if_fenced(config: PipelineConfig, drills: Collection[Drill], named: str = "") -> None:
    """As ``refuse_fenced``, for drills that were read already."""
    fence = find_fence(drills, named)
    if fence is not None:
        raise Refused(
            f"pipeline {safe_text(config.name)} was {fence.why}",
            unchanged="Nothing was copied.",
            hint=f"{fence.way_back()}.",
        )


def read_named_fence(config: PipelineConfig, target: Cluster) -> str:
    """Return the id of the drill that a pipeline's run record names; "" without one.

    Raises:
        ConnectionFailed, TimedOut: the target did not answer.
    """
    return read_commits(config, target, _READ_S).run.fenced_by


def read_fence(config: PipelineConfig, target: Cluster) -> PipelineFence | None:
    """Return what keeps a pipeline from starting; None if nothing does.

    Raises:
        ConnectionFailed, TimedOut: the target did not answer.
    """
    return find_fence(_read_drills(config, target), read_named_fence(config, target))


def check_fence(config: PipelineConfig) -> Check:
    """Check that no drill keeps a pipeline from starting; changes nothing."""
    try:
        fence = read_fence(config, target_cluster(config))
    except K2kError as error:
        return Check.unknown(FENCE, error.message, error.hint)
    if fence is None:
        return Check.passes(FENCE, "no drill keeps the pipeline from starting")
    return Check.fails(FENCE, fence.why, f"{fence.way_back()}.", fatal=True)
