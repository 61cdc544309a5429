"""Notices that a control topic is not the one any more that this process began with.

A run keeps its positions in memory, and would write them to whatever topic has the name. A topic
that was deleted, created again, or cut at its end has lost what runs, drills and commands of other
processes go by: positions, moved topics, holds, mappings.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from confluent_kafka.admin import OffsetSpec

from k2ktui.config.model import ControlTopic, PipelineConfig
from k2ktui.errors import ClusterRefused, Refused
from k2ktui.kafka.clients import Cluster, TopicDescription, target_cluster
from k2ktui.kafka.control.specs import HOLDS
from k2ktui.kafka.topic_description import is_missing
from k2ktui.runtime.background import BackgroundRunner
from k2ktui.text import safe_text

log = logging.getLogger(__name__)

_INTERVAL_S = 5.0
# A broker of a ZooKeeper cluster that has just started answers that no topic exists.
_LOOKS = 3


class ControlTopicsGuard:
    """The control topics as this process has seen them first; not thread-safe.

    Owners of slots are only advice, which runs write again: the assignment topic is not looked at.

    Args:
        config: the pipeline.
        target: its target cluster.
    """

    def __init__(self, config: PipelineConfig, target: Cluster) -> None:
        self._target = target
        self._roles: dict[str, ControlTopic] = {
            config.coordination.commit.topic: "commit",
            config.coordination.state.topic: "state",
        }
        if config.features.offset_mapping:
            self._roles[config.offset_mapping.topic] = "offset_mapping"
        self._ids: dict[str, str] = {}
        self._ends: dict[tuple[str, int], int] = {}
        self._suspected: dict[str, int] = {}

    def look(self) -> None:
        """Compare the topics with those of the earlier calls; the first call remembers them.

        Raises:
            Refused: a topic was created again, or in several calls it was missing, or ended below
                what was written to it.
            ConnectionFailed, TimedOut: the target did not answer.
        """
        described = self._target.describe(sorted(self._roles))
        topics = {n: t for n, t in described.items() if isinstance(t, TopicDescription)}
        for name, topic in topics.items():
            before = self._ids.setdefault(name, topic.topic_id)
            if before and topic.topic_id and before != topic.topic_id:
                raise self._lost(name, "was deleted and created again")
        ends = self._target.offsets(
            [
                (name, number)
                for name, topic in topics.items()
                for number in range(topic.partitions)
            ],
            OffsetSpec.latest(),
        )
        shorter = {at[0]: end for at, end in ends.items() if end < self._ends.get(at, 0)}
        for name in self._ids:
            is_gone = is_missing(described[name])
            if not (is_gone or name in shorter):
                self._suspected.pop(name, None)
                continue
            self._suspected[name] = self._suspected.get(name, 0) + 1
            if self._suspected[name] >= _LOOKS:
                what = "was deleted" if is_gone else "ends below what was written to it"
                raise self._lost(name, what)
        self._ends |= {at: max(end, self._ends.get(at, 0)) for at, end in ends.items()}

    def _lost(self, name: str, what: str) -> Refused:
        return Refused(
            f"topic {safe_text(name)} for {HOLDS[self._roles[name]]} on the target {what}: what it "
            "held is lost",
            unchanged="What was committed before stays.",
            hint="k2ktui check -f FILE says what is lost, and the ways on: k2ktui offsets recover, "
            "offsets set, offsets clear.",
        )


class ControlTopicsWatch(BackgroundRunner):
    """Looks at the control topics of a run every five seconds.

    Args:
        config: the pipeline.
        report: called when the target does not answer, at growing intervals, and when it does.
        stop: called on the thread when a topic is lost; the run has to end.

    Attributes:
        loss: why the run has to end; None while it goes on.
    """

    failing = "the control topics cannot be looked at"
    recovered = "the control topics are looked at again"
    refusals = (ClusterRefused,)

    def __init__(
        self, config: PipelineConfig, report: Callable[[str], None], stop: Callable[[], None]
    ) -> None:
        super().__init__("control topics", _INTERVAL_S, report, immediately=True)
        self._config, self._stop = config, stop
        self._guard: ControlTopicsGuard | None = None
        self.loss: Refused | None = None

    def work(self) -> None:
        """Look once; end the run if a topic is lost."""
        if self.loss is not None:
            return
        if self._guard is None:
            self._guard = ControlTopicsGuard(self._config, target_cluster(self._config))
        try:
            self._guard.look()
        except ClusterRefused:
            raise
        except Refused as error:
            log.error("the run ends: %s", error.message)
            self.loss = error
            self._stop()
