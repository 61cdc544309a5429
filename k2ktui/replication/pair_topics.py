"""The topics of a pipeline as both clusters describe them, read once for all slots of a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from time import monotonic, thread_time
from typing import Generic, TypeVar

from k2ktui.config.model import PipelineConfig
from k2ktui.errors import K2kError
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.known_settings import KnownSettings
from k2ktui.replication.selected_topics import SelectedTopics
from k2ktui.replication.slot_task import Fault
from k2ktui.replication.targets import TargetTopic, ensure_targets

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PairTopics:
    """The selected source topics and their target topics.

    Attributes:
        topics: the source topics.
        faults: topics that are selected by name and cannot be described.
        targets: the target topics of each source topic.
        refused: source topics that cannot be copied, and why.
        began: monotonic seconds when they were read.
        cpu_s: CPU time of reading them.
    """

    topics: Sequence[TopicDescription]
    faults: Sequence[Fault]
    targets: Mapping[str, Sequence[TargetTopic]]
    refused: Mapping[str, K2kError]
    began: float
    cpu_s: float

    @property
    def partitions(self) -> int:
        """The number of selected source partitions."""
        return sum(topic.partitions for topic in self.topics)


@dataclass(frozen=True, slots=True)
class PartitionCounts:
    """The numbers of partitions of the selected source topics.

    Attributes:
        by_topic: the numbers.
        began: monotonic seconds when they were read.
    """

    by_topic: Mapping[str, int]
    began: float


class SharedReading(Generic[T]):
    """One reading for several threads: each gets one that began late enough for it.

    Threads that ask while another one reads wait for it, and share the next reading. An error is
    shared as well: a cluster that does not answer is not waited for by one thread after another.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._began = float("-inf")
        self._found: T | K2kError | None = None

    def get(self, read: Callable[[], T], since: float) -> T:
        """Return a reading that began at ``since``, in monotonic seconds, or later.

        Args:
            read: called if there is none.
            since: the earliest begin.

        Raises:
            K2kError: what ``read`` raised.
        """
        with self._lock:
            if self._began < since or self._found is None:
                began = monotonic()
                try:
                    self._found = read()
                except K2kError as error:
                    self._found = error
                self._began = began
            if isinstance(self._found, K2kError):
                raise self._found
            return self._found


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

    def read(self, replicated: Collection[str], since: float) -> PairTopics:
        """Return the topics.

        Args:
            replicated: source topics that have a position; if the target topic of one is missing,
                it is not created again.
            since: a reading that began then, in monotonic seconds, is new enough.

        Raises:
            ConnectionFailed, TimedOut: a cluster did not answer.
        """
        return self._topics.get(lambda: self._read(replicated), since)

    def _read_counts(self) -> PartitionCounts:
        began, topics = monotonic(), self._config.topics
        found = self._source.partition_counts()
        chosen = {n: c for n, c in found.items() if n in topics.names or topics.matches(n)}
        return PartitionCounts(chosen, began)

    def _read(self, replicated: Collection[str]) -> PairTopics:
        began, cpu = monotonic(), thread_time()
        self._replicated |= set(replicated)
        topics, faults = self._selected.describe()
        targets, refused = ensure_targets(
            self._config, self._source, self._target, topics, self._replicated, self._settings
        )
        return PairTopics(topics, faults, targets, refused, began, thread_time() - cpu)
