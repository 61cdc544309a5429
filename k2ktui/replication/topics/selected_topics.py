"""The source topics that a pipeline selects, as the source cluster describes them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from time import monotonic, sleep

from confluent_kafka import KafkaError

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.topics import TopicSelection
from k2ktui.errors import ClusterRefused, K2kError
from k2ktui.kafka.clients import Cluster, TopicDescription
from k2ktui.kafka.topic_description import is_missing
from k2ktui.replication.copying.partition_faults import UNDESCRIBED
from k2ktui.replication.copying.slot_task import Fault
from k2ktui.text import list_names, safe_text

log = logging.getLogger(__name__)

_GONE_AFTER_S, _POLL_S = 3.0, 0.2
# Number of topics that a log line names.
_NAMED = 10

Described = Mapping[str, TopicDescription | KafkaError]


@dataclass(frozen=True, slots=True)
class SelectedNow:
    """The selected topics at one moment.

    Attributes:
        topics: those that exist.
        faults: a fault for each that is selected by name and has no description.
        deleted: replicated topics that a pattern selects, and that do not exist any longer.
        refused: replicated topics that may not be described, and why.
    """

    topics: list[TopicDescription] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    deleted: frozenset[str] = frozenset()
    refused: Mapping[str, K2kError] = field(default_factory=dict)


class SelectedTopics:
    """Describes the selected topics; not thread-safe.

    Args:
        config: the pipeline.
        source: the source cluster.
    """

    def __init__(self, config: PipelineConfig, source: Cluster) -> None:
        self._config, self._source = config, source
        self._here: set[str] = set()

    def describe(self, replicated: Collection[str] = ()) -> SelectedNow:
        """Return the topics, and what is wrong with those that have no description.

        Args:
            replicated: topics that have a position.

        Raises:
            ConnectionFailed, TimedOut: the cluster did not answer.
        """
        listed = set(self._config.topics.names)
        described = self._describe_all(listed, replicated)
        topics, faults, refused = [], list[Fault](), dict[str, K2kError]()
        for name, topic in described.items():
            if isinstance(topic, TopicDescription):
                topics.append(topic)
            elif name in listed:
                faults.append(UNDESCRIBED.at(SourcePartition(name, 0), -1, reason=topic.str()))
            elif topic.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                refused[name] = ClusterRefused(
                    f"the source principal may not describe {safe_text(name)}",
                    hint=f"Grant it Describe and Read on topic {safe_text(name)}.",
                )
        deleted = find_deleted(self._config.topics, described)
        return SelectedNow(topics, faults, deleted, refused)

    def _describe_all(self, listed: set[str], replicated: Collection[str]) -> Described:
        """Describe the selected topics; retry while one that existed last time is missing.

        A broker of a ZooKeeper cluster that has just started knows no topics until its controller
        sends it the metadata. Until then it answers as if they had been deleted.

        Topics that have a position are asked for by name, although they are not in the list of all
        topics: only then does a broker say whether one does not exist, or may not be described.
        """
        until = monotonic() + _GONE_AFTER_S
        while True:
            names, topics = self._source.topic_names(), self._config.topics
            names |= frozenset(replicated)
            chosen = {name for name in names if topics.matches(name, replicated)}
            described = self._source.describe(sorted(chosen | listed))
            here = {
                name for name, topic in described.items() if isinstance(topic, TopicDescription)
            }
            if self._here <= here or monotonic() > until:
                if gone := self._here - here:
                    log.info("not on the source any more: %s", list_names(sorted(gone), _NAMED))
                self._here = here
                return described
            sleep(_POLL_S)


def find_deleted(topics: TopicSelection, described: Described) -> frozenset[str]:
    """Return the pattern-selected topics that do not exist on the source.

    A topic that is listed by name stays required even if it is deleted; a pattern requires no
    particular topic. A missing right does not show that a topic does not exist.

    Args:
        topics: the selection.
        described: what the source answered when it was asked for topics by name.
    """
    return frozenset(
        name
        for name, answer in described.items()
        if is_missing(answer) and name not in topics.names
    )
