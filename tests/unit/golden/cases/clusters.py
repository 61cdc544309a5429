"""Answers of a cluster about its topics, for commands that describe topics and ask for offsets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace

from confluent_kafka import KafkaError
from confluent_kafka.admin import OffsetSpec

from k2ktui.errors import K2kError
from k2ktui.kafka.topic_description import TopicDescription
from tests.support.console.views import SOURCE_ID, TOPIC_ID

Partition = tuple[str, int]


@dataclass
class ClusterAnswers:
    """What a cluster says of its topics; nothing is asked.

    Attributes:
        topics: first offset and end of each partition of a topic.
        id: the cluster's.
        topic_id: that of every topic.
        error: raised by every question, if it is set.
    """

    topics: Mapping[str, Collection[tuple[int, int]]] = field(default_factory=dict)
    id: str = SOURCE_ID
    topic_id: str = TOPIC_ID
    error: K2kError | None = None
    label: str = "source"

    def cluster_id(self) -> str:
        self._answer()
        return self.id

    def topic_names(self) -> frozenset[str]:
        self._answer()
        return frozenset(self.topics)

    def partition_counts(self) -> dict[str, int]:
        self._answer()
        return {name: len(logs) for name, logs in self.topics.items()}

    def describe(self, names: Collection[str]) -> dict[str, TopicDescription | KafkaError]:
        self._answer()
        missing = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        return {name: self.find(name) or missing for name in names}

    def find(self, name: str) -> TopicDescription | None:
        self._answer()
        if name not in self.topics:
            return None
        return TopicDescription(name, self.topic_id, len(self.topics[name]), 1)

    def offsets(
        self, partitions: Collection[Partition], spec: OffsetSpec, *_: object, **__: object
    ) -> dict[Partition, int]:
        self._answer()
        earliest = isinstance(spec, type(OffsetSpec.earliest()))
        logs = {
            (topic, number): log
            for topic, of_topic in self.topics.items()
            for number, log in enumerate(of_topic)
        }
        return {at: logs[at][0 if earliest else 1] for at in partitions if at in logs}

    def disconnect(self) -> None:
        return

    @property
    def admin(self) -> SimpleNamespace:
        return SimpleNamespace(poll=lambda *_: 0)

    def _answer(self) -> None:
        if self.error is not None:
            raise self.error
