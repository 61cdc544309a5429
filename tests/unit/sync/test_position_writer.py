"""Plans that a writer of positions refuses before it asks a cluster."""

from __future__ import annotations

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.access import Access
from k2ktui.engine.moves.positions import SET, MoveEffect, PositionMove, PositionPlan
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import Refused
from k2ktui.sync.positions.position_planner import PositionPlanner
from k2ktui.sync.positions.position_writer import PositionWriter


def test_a_plan_of_another_pipeline_is_not_written() -> None:
    there = {"kafka": {"common": {"bootstrap.servers": "localhost:1"}}}
    config = PipelineConfig.model_validate({"name": "p", "source": there, "target": there})
    position = Position(5, 0, -1, "", 1, 0, "t", 0, "", since=1, at_ms=9)
    move = PositionMove(SourcePartition("t", 0), MoveEffect.BACK, position, position, 5)
    writer = PositionWriter(PositionPlanner(config))
    with pytest.raises(Refused, match="the plan is for q, not for pipeline p") as reported:
        writer.apply(PositionPlan(SET, "q", (move,)), Access(writable=True))
    assert reported.value.unchanged == "No position was changed."
