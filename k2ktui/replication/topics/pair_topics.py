"""The topics of a pipeline as both clusters describe them, read once for all slots of a run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from time import monotonic, thread_time

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.moved_topic import NO_MOVED_TOPICS, MovedTopics
from k2ktui.errors import K2kError
from k2ktui.kafka.admin.known_settings import KnownSettings
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.replication.copying.slot_task import Fault
from k2ktui.replication.topics.dead_letters import ensure_dead_letters
from k2ktui.replication.topics.selected_topics import SelectedTopics
from k2ktui.replication.topics.targets import TargetTopic, ensure_targets
from k2ktui.runtime.shared_reading import SharedReading


@dataclass(frozen=True, slots=True)
class PairTopics:
    """The selected source topics and their target topics.

    Attributes:
        topics: the source topics.
        faults: topics that are selected by name and cannot be described.
        targets: the target topics of each source topic.
        refused: source topics that cannot be copied, and why; those that may not be described are
            not among the ``topics``.
        deleted: replicated topics that a pattern selects, and that do not exist any longer.
        moved: topics that are left out, because a drill has moved them.
        began: monotonic seconds when they were read.
        cpu_s: CPU time of reading them.
    """

    topics: Sequence[TopicDescription]
    faults: Sequence[Fault]
    targets: Mapping[str, Sequence[TargetTopic]]
    refused: Mapping[str, K2kError]
    began: float
    cpu_s: float
    deleted: frozenset[str] = frozenset()
    moved: frozenset[str] = frozenset()

    def without(self, moved: MovedTopics) -> PairTopics:
        """Return what remains when some source topics are left out."""
        if not moved:
            return self
        return replace(
            self,
            topics=[topic for topic in self.topics if topic.name not in moved],
            faults=[fault for fault in self.faults if fault.source.topic not in moved],
            refused={name: error for name, error in self.refused.items() if name not in moved},
            targets={name: topics for name, topics in self.targets.items() if name not in moved},
            deleted=frozenset(name for name in self.deleted if name not in moved),
        )


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """The numbers of partitions of the selected source topics.

    Attributes:
        by_topic: the numbers.
        began: monotonic seconds when they were read.
    """

    by_topic: Mapping[str, int]
    began: float


class PairTopicsReader:
    """Reads the topics of both clusters; creates and grows target topics where allowed.

    Slots of one run that are copied by drivers of their own share it: the work for the clusters
    does not grow with the number of slots.

    Args:
        config: the pipeline.
        source: the source cluster.
        target: the target cluster.
    """

    def __init__(self, config: PipelineConfig, source: Cluster, target: Cluster) -> None:
        self._config, self._source, self._target = config, source, target
        self._selected = SelectedTopics(config, source)
        self._settings = KnownSettings(target)
        self._replicated: set[str] = set()
        self._topics = SharedReading[PairTopics]()
        self._counts = SharedReading[PartitionCounts]()

    def counts(self, since: float) -> PartitionCounts:
        """Return the numbers of partitions of the selected source topics.

        Args:
            since: a reading that began then, in monotonic seconds, is new enough.

        Raises:
            ConnectionFailed, TimedOut: the source did not answer.
        """
        return self._counts.get(self._read_counts, since)

    def read(
        self, replicated: Collection[str], since: float, moved: MovedTopics = NO_MOVED_TOPICS
    ) -> PairTopics:
        """Return the topics without those that are moved; nothing is done to their targets.

        Args:
            replicated: source topics that have a position; if the target topic of one is missing,
                it is not created again.
            since: a reading that began then, in monotonic seconds, is new enough.
            moved: source topics that a drill has moved.

        Raises:
            ConnectionFailed, TimedOut: a cluster did not answer.
        """
        pair = self._topics.get(lambda: self._read(replicated, moved), since)
        if any(name not in moved for name in pair.moved):  # by a slot that knows other moves
            pair = self._topics.get(lambda: self._read(replicated, moved), monotonic())
        return pair.without(moved)

    def _read_counts(self) -> PartitionCounts:
        began, topics = monotonic(), self._config.topics
        counts = self._source.partition_counts()
        chosen = {
            name: count
            for name, count in counts.items()
            if name in topics.names or topics.matches(name, self._replicated)
        }
        return PartitionCounts(chosen, began)

    def _read(self, replicated: Collection[str], moved: MovedTopics) -> PairTopics:
        began, cpu = monotonic(), thread_time()
        # Before topics are created.
        self._source.require_expected()
        self._target.require_expected()
        self._replicated |= set(replicated)
        selected = self._selected.describe(self._replicated)
        # What is copied already does not wait for new topics: they are tried again.
        waits = not self._replicated
        made, refused = ensure_targets(
            self._config,
            self._source,
            self._target,
            selected.topics,
            self._replicated,
            self._settings,
            moved,
            waits=waits,
        )
        targets = ensure_dead_letters(
            self._config,
            self._source,
            self._target,
            made,
            selected.topics,
            refused,
            waits=waits,
        )
        described = targets.keys() | refused.keys()
        topics = [topic for topic in selected.topics if topic.name in described]
        return PairTopics(
            topics,
            selected.faults,
            targets,
            {**refused, **selected.refused},
            began,
            thread_time() - cpu,
            selected.deleted,
            frozenset(topic.name for topic in selected.topics if topic.name not in described),
        )
