"""The source topics that a pipeline selects, as the source cluster describes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from time import monotonic, sleep

from confluent_kafka import KafkaError

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.state import SourcePartition
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.replication.slot_task import Fault, FaultKind

_GONE_AFTER_S, _POLL_S = 3.0, 0.2

Described = Mapping[str, TopicDescription | KafkaError]


class SelectedTopics:
    """Describes the selected topics; not thread-safe.

    Args:
        config: the pipeline.
        source: the source cluster.
    """

    def __init__(self, config: PipelineConfig, source: Cluster) -> None:
        self._config, self._source = config, source
        self._here: set[str] = set()

    def describe(
        self, replicated: Collection[str] = ()
    ) -> tuple[list[TopicDescription], list[Fault]]:
        """Return the topics, and a fault for each that is selected by name and has no description.

        Args:
            replicated: topics that have a position.

        Raises:
            ConnectionFailed, TimedOut: the cluster did not answer.
        """
        listed = set(self._config.topics.names)
        found = self._describe_all(listed, replicated)
        topics, faults = [], list[Fault]()
        for name, topic in found.items():
            if isinstance(topic, TopicDescription):
                topics.append(topic)
            elif name in listed:
                faults.append(
                    Fault(
                        SourcePartition(name, 0),
                        FaultKind.GONE,
                        f"topic {name} is selected by name but cannot be described on the "
                        f"source: {topic.str()}",
                        "Create it, grant Describe and Read on it, or remove it from "
                        "replication.source.topic.",
                    )
                )
        return topics, faults

    def _describe_all(self, listed: set[str], replicated: Collection[str]) -> Described:
        """Describe the selected topics; retry while one that existed last time is missing.

        A broker of a ZooKeeper cluster that has just started knows no topics until its controller
        sends it the metadata. Until then it answers as if they had been deleted.
        """
        until = monotonic() + _GONE_AFTER_S
        while True:
            names, topics = self._source.topic_names(), self._config.topics
            chosen = {name for name in names if topics.matches(name, replicated)}
            found = self._source.describe(sorted(chosen | listed))
            here = {name for name, topic in found.items() if isinstance(topic, TopicDescription)}
            if self._here <= here or monotonic() > until:
                self._here = here
                return found
            sleep(_POLL_S)
