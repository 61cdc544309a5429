"""Composes a run that owns its whole pipeline: ``exclusive``, or a standby whose turn it is.

::

    ownership ─────┐
    discovery ─────┴─► driver of all slots ─► laps in one Spark session
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from k2ktui.config.copying import copy_digest
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.hold import NO_HOLDS, Holds
from k2ktui.kafka.clients import Cluster
from k2ktui.kafka.control.topics import ControlTopics
from k2ktui.replication.driver.driver import Driver
from k2ktui.replication.driver.heartbeat import Heartbeat
from k2ktui.replication.driver.laps import LapRunner
from k2ktui.replication.fencing_errors import OwnershipLost, Superseded
from k2ktui.replication.ownership.commit_state import CommittedPositions
from k2ktui.replication.ownership.lost_positions import LostPositions
from k2ktui.replication.ownership.ownership import Ownership
from k2ktui.replication.ownership.pipeline import make_ownership, read_pair
from k2ktui.replication.reports.events import Finished
from k2ktui.replication.reports.status import RunStatus
from k2ktui.replication.topics.discovery import TopicDiscovery
from k2ktui.replication.topics.pair_topics import PairTopicsReader
from k2ktui.runtime.stop_flag import StopFlag
from k2ktui.sync.drill.guard import refuse_fenced


@dataclass(frozen=True, slots=True)
class RunParts:
    """What a run has made before it takes its pipeline, or a part of it, over.

    Attributes:
        source, target: the clusters.
        options: connection options of the target's producer.
        control: the control topics.
        laps: runs the laps of all slots.
        heartbeat: the run's heartbeat, which was started.
        status: the run's status.
        take_over: fence all other runs first.
        until_caught_up: end when every partition of the pipeline has reached its end at the start.
        holds: returns what operators hold now; never waits.
    """

    source: Cluster
    target: Cluster
    options: Mapping[str, Any]
    control: ControlTopics
    laps: LapRunner
    heartbeat: Heartbeat
    status: RunStatus
    take_over: bool = False
    until_caught_up: bool = False
    holds: Callable[[], Holds] = lambda: NO_HOLDS

    def make_ownership(self, config: PipelineConfig) -> Ownership:
        """Return what owns the pipeline once it is taken over; asks both clusters for their ids."""
        pair = read_pair(config, self.source, self.target)
        self.heartbeat.copies_between(pair)
        return make_ownership(
            config,
            self.target,
            self.options,
            self.control.commit_partitions,
            pair,
            guard=lambda named: refuse_fenced(config, self.target, named),
            digest=copy_digest(config),
        )


class WholeRun:
    """One run that copies its pipeline alone; it can run once.

    Args:
        config: the pipeline.
        parts: what was made before.

    Attributes:
        leads: whether it does what one run does for the whole pipeline.
        has_joined: whether it takes part without slots; it never does.
    """

    leads, has_joined = True, False

    def __init__(self, config: PipelineConfig, parts: RunParts) -> None:
        self._config, self._parts = config, parts
        self._ownership = parts.make_ownership(config)

    def prepare(self) -> None:
        """Do what needs no Spark: nothing, as all else is written or read after the takeover."""

    def run(self, slots: int, stopping: StopFlag) -> Finished:
        """Take the pipeline over, and copy it until stopped, or until caught up.

        Raises:
            Superseded, OwnershipLost: another run has taken it over.
            K2kError: as ``Driver.run``.
        """
        config, parts, ownership = self._config, self._parts, self._ownership
        topics = PairTopicsReader(config, parts.source, parts.target)
        committed = CommittedPositions(parts.target, ownership.topic)
        losses = LostPositions(config, parts.target, lambda: ownership.pair.sources)
        driver = Driver(
            config,
            ownership,
            parts.laps,
            TopicDiscovery(
                config,
                parts.source,
                parts.target,
                topics,
                committed,
                holds=parts.holds,
                losses=losses,
            ),
            parts.status.add_driver(),
            mapping_partitions=parts.control.mapping_partitions,
            until_caught_up=parts.until_caught_up,
            stopping=stopping,
            holds=parts.holds,
        )
        try:
            return driver.run(slots)
        except (Superseded, OwnershipLost):
            ownership.close(fence=False)  # the process may continue as a standby
            raise

    def close(self) -> None:
        """Disconnect; the driver does so when it ends."""
