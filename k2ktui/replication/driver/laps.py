"""The task of a slot's next lap, and the time limit of a lap."""

from __future__ import annotations

from contextlib import suppress
from math import inf

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import ConfigError
from k2ktui.kafka.properties.renewal import credentials_of
from k2ktui.registry.mapper import SchemaMapperSettings, read_mapper_settings
from k2ktui.replication.copying.slot_settings import CommitPolicy, fetch_settings, produce_settings
from k2ktui.replication.copying.slot_task import (
    Assignment,
    Route,
    SlotTask,
    StateTopics,
)
from k2ktui.replication.driver.run_parts import RunParts
from k2ktui.replication.ownership.ownership import Ownership
from k2ktui.replication.slots import SlotState
from k2ktui.replication.topics.directions import opposite_pipeline, origin_header

# A worker first connects to both clusters, each within 15 s.
_START_S = 30.0
_SHARED_LAP_S = 0.5


def longest_lap_s(config: PipelineConfig, ownership: Ownership) -> float:
    """Return the seconds after which a lap can no longer commit.

    A lap starts, copies for its duration, then commits its open transaction. The coordinator
    aborts a transaction older than its timeout; without transactions, a batch that is not
    delivered in time fails the lap.
    """
    return _START_S + config.spark.lap_s + ownership.longest_commit_s


class LapPlanner:
    """Creates the slot tasks of one pipeline's laps.

    Args:
        parts: the run's.
        ownership: bumps the slots' epochs.
    """

    def __init__(self, parts: RunParts, ownership: Ownership) -> None:
        config = self._config = parts.config
        self._ownership, self._requests = ownership, parts.requests
        self._mapping_partitions = parts.control.mapping_partitions
        self._registries = read_mapper_settings(config) if config.features.schema_mapping else None
        self._generations = self._read_generations()

    @property
    def longest_s(self) -> float:
        """Seconds after which a lap can no longer commit, see ``longest_lap_s``."""
        return longest_lap_s(self._config, self._ownership)

    def make_task(
        self,
        slot: SlotState,
        assignments: tuple[Assignment, ...],
        is_shared: bool = False,
        longest_s: float = inf,
    ) -> SlotTask:
        """Bump the slot's epoch and return its task; raises as ``Ownership.renew``.

        Args:
            slot: the slot.
            assignments: the partitions of the lap.
            is_shared: other partitions of the slot wait for the next lap.
            longest_s: the lap ends after so many seconds at the latest.
        """
        config = self._config
        slot.copied = tuple(assignment.source for assignment in assignments)
        registries = self._read_registries()
        longest_s = min(longest_s, _SHARED_LAP_S) if is_shared else longest_s
        lap_s = min(config.spark.lap_s, longest_s)
        return SlotTask(
            slot=slot.number,
            producer=self._ownership.renew(slot.identity),
            transactional=config.features.exactly_once,
            state_topics=self._state_topics(slot),
            policy=CommitPolicy(
                lap_s=lap_s,
                batch_timeout_s=config.coordination.commit.batch_timeout_s,
                batch_size=config.coordination.commit.batch_size,
            ),
            assignments=assignments,
            continue_on_loss=config.on_source_data_loss == "continue",
            fetch=fetch_settings(config),
            produce=self._requests.apply(produce_settings(config)),
            opposite=opposite_pipeline(config, self._ownership.pair),
            origin=origin_header(config, self._ownership.pair),
            clusters=self._ownership.pair,
            recoveries=slot.recoveries,
            registries=registries if any(a.route.schemas for a in assignments) else None,
        )

    def needs(self, slot: SlotState, source: SourcePartition, route: Route) -> set[tuple[str, int]]:
        """Return the target partitions that a transaction with records of ``source`` may have."""
        return self._state_topics(slot).targets(source).union(route.every_target)

    def _read_generations(self) -> tuple[int, ...]:
        if self._registries is None:
            return ()
        return tuple(
            credentials_of(side).generation for side in (self._config.source, self._config.target)
        )

    def _read_registries(self) -> SchemaMapperSettings | None:
        """Return how tasks reach the registries, with their newest logins and certificates."""
        if (generations := self._read_generations()) != self._generations:
            # A file that is half written is read again before the next lap.
            with suppress(ConfigError):
                self._registries = read_mapper_settings(self._config)
                self._generations = generations
        return self._registries

    def _state_topics(self, slot: SlotState) -> StateTopics:
        topic = self._ownership.topic
        return StateTopics(
            pipeline=self._config.name,
            group=topic.group,
            term=self._ownership.run.term,
            commit_topic=topic.name,
            commit_partition=topic.partition(slot.number),
            mapping_topic=self._config.offset_mapping.topic if self._mapping_partitions else "",
            mapping_partitions=self._mapping_partitions,
        )
