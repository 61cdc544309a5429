"""What one run gives to all that copies in it: one value, from its composition to its laps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.hold import NO_HOLDS, Holds
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.control.topics import ControlTopics
from k2ktui.replication.copying.slot_task import SlotResult, SlotTask
from k2ktui.replication.driver.heartbeat import Heartbeat
from k2ktui.replication.driver.learned_limits import RequestLimit
from k2ktui.replication.reports.status import RunStatus

Lap = Future[list[SlotResult]]


class LapRunner(Protocol):
    """What a driver needs of Spark; ``SparkRuntime`` describes the methods.

    The drivers of several slots share one: each gives up only its own laps.
    """

    def submit(self, tasks: Sequence[SlotTask]) -> Lap:
        """Begin a lap."""

    def is_waiting(self, lap: Lap) -> bool:
        """Return whether the lap waits for a free core."""

    def give_up(self, lap: Lap) -> None:
        """Cancel one lap; the caller discards its future."""


@dataclass(frozen=True, slots=True)
class RunParts:
    """What a run has made before it takes its pipeline, or a part of it, over.

    Attributes:
        config: the pipeline.
        source, target: the clusters.
        target_options: connection options of the target's producer.
        control: the control topics.
        laps: runs the laps of all slots; it was started before the first lap begins.
        heartbeat: the run's heartbeat, which was started.
        status: the run's status.
        take_over: fence all other runs first.
        until_caught_up: end when every partition of the pipeline has reached its end at the start.
        holds: returns what operators hold now; never waits.
        requests: the size of requests that the target's brokers take, for all slots.
    """

    config: PipelineConfig
    source: Cluster
    target: Cluster
    target_options: Mapping[str, Any]
    control: ControlTopics
    laps: LapRunner
    heartbeat: Heartbeat
    status: RunStatus
    take_over: bool = False
    until_caught_up: bool = False
    holds: Callable[[], Holds] = lambda: NO_HOLDS
    requests: RequestLimit = field(default_factory=RequestLimit)
