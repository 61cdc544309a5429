"""Records of drills that no drill wrote: anyone who may write to the control topics plants them."""

from __future__ import annotations

from dataclasses import replace

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import (
    Change,
    ChangeKind,
    ChangeStatus,
    Drill,
    DrillOptions,
    new_phases,
)
from k2ktui.engine.moves.journal import DrillKey
from k2ktui.engine.moves.journal_format import state_key, state_value
from k2ktui.kafka.clients import target_cluster
from k2ktui.kafka.control.topics import ensure_state_topic
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.moves.plans import whoami
from tests.support.clusters.kafka import Out, produce

_USUAL = DrillOptions()
PLANTED_ID = "20250101-000000-beef"


def planted(
    config: PipelineConfig,
    kind: DrillKind,
    *changes: Change,
    options: DrillOptions = _USUAL,
    owner: str = "",
) -> Drill:
    """Return an open drill of a pipeline; by default it claims to be of this user and host."""
    who = owner or whoami()
    return Drill(
        id=PLANTED_ID,
        kind=kind,
        pipeline=config.name,
        source_cluster="",
        target_cluster="",
        version="1",
        started_ms=1_735_689_600_000,
        started_by=who,
        options=options,
        owner=who,
        phases=new_phases(kind),
        changes=tuple(replace(change, status=ChangeStatus.MADE) for change in changes),
    )


def change(kind: ChangeKind, before: str = "", after: str = "") -> Change:
    """Return a change with these states."""
    what = f"a change of {kind}"
    return Change(DrillPhase.SHADOW, kind, what, before, after, "undo it so")


def plant(config: PipelineConfig, node: KafkaNode, drill: Drill) -> None:
    """Write a drill's record as any producer with Write on the topic can."""
    ensure_state_topic(config, target_cluster(config))
    key = state_key(config.coordination.commit.group, DrillKey(drill.id))
    produce(node, config.coordination.state.topic, [Out(state_value(drill), key, None)])
