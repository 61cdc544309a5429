"""Keep a pipeline from starting after a drill has fenced it.

A drill writes its intention before it raises the epochs, and a driver asks after it has raised
them. Either the drill is later and fences the driver, or the driver finds the intention.
"""

from __future__ import annotations

from collections.abc import Iterable

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill import Drill
from k2ktui.engine.pair_state import fences_pipeline
from k2ktui.errors import Refused
from k2ktui.kafka.clients import Cluster
from k2ktui.sync.store import StateStore
from k2ktui.text import safe_text


def refuse_fenced(config: PipelineConfig, target: Cluster) -> None:
    """Refuse to copy for a pipeline that a drill has fenced.

    Raises:
        Refused: a drill has fenced it, and was neither aborted nor released.
        ConnectionFailed, TimedOut: the target did not answer.
    """
    store = StateStore(config, target)
    try:
        drills = store.read().drills.values()
    except Refused:
        return  # without the right to read the topic, no drill could be recorded
    finally:
        store.close()
    refuse_if_fenced(config, drills)


def refuse_if_fenced(config: PipelineConfig, drills: Iterable[Drill]) -> None:
    """As ``refuse_fenced``, for drills that were read already."""
    fencing = [drill for drill in drills if fences_pipeline(drill)]
    if fencing:
        name = safe_text(fencing[-1].id)
        raise Refused(
            f"pipeline {safe_text(config.name)} was fenced by drill {name}, begun by "
            f"{safe_text(fencing[-1].started_by)}: the target may be open for producers",
            unchanged="Nothing was copied.",
            hint=f"Run k2ktui drill release {name} -f FILE if it may copy again, or abort the "
            "drill.",
        )
