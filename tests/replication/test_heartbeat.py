"""What the heartbeat of a run says, without a cluster."""

from __future__ import annotations

import time

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.journal import RunnerState
from k2ktui.replication.events import SlotsAssigned, Started
from k2ktui.replication.heartbeat import Heartbeat


def test_a_standby_owns_no_slots_and_the_same_ones_again_when_it_copies() -> None:
    """The generation of owners stays if all its drivers were fenced, and start again."""
    there = {"kafka": {"common": {"bootstrap.servers": "localhost:1"}}}
    config = PipelineConfig.model_validate({"name": "p", "source": there, "target": there})
    heart = Heartbeat(config, time.time(), print)
    heart.observe(SlotsAssigned(7, (0, 2)))
    heart.observe(Started("p", 3, 2, 5, 0.1))
    copying = heart.record(RunnerState.RUNNING)
    assert (copying.generation, copying.slots, copying.owned) == (7, 2, (0, 2))
    heart.stand_by(waiting=True)
    waiting = heart.record(RunnerState.STANDBY)
    assert (waiting.generation, waiting.slots, waiting.owned) == (7, 0, ())
    heart.observe(Started("p", 3, 2, 5, 0.1))
    assert heart.record(RunnerState.RUNNING).owned == (0, 2)
