"""What a look at the clusters found, and what it did not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.status import count_lag, sum_lags
from k2ktui.errors import K2kError, TimedOut
from k2ktui.kafka.admin import topics
from k2ktui.kafka.clients import TopicDescription
from k2ktui.replication.copying.slot_task import CopyPath, Route
from k2ktui.replication.topics import dead_letters, targets
from k2ktui.replication.topics.dead_letters import ensure_dead_letters
from k2ktui.replication.topics.discovery import TopicSnapshot
from k2ktui.replication.topics.selected_topics import SelectedNow, SelectedTopics
from k2ktui.replication.topics.targets import TargetTopic, plan_targets

ONE, OTHER = SourcePartition("t", 0), SourcePartition("t", 1)


def test_until_caught_up_needs_every_end() -> None:
    """A partition whose end offset is unavailable is not caught up."""
    routes = {source: Route(CopyPath.VERBATIM, "t", source.partition, 2) for source in (ONE, OTHER)}
    assert TopicSnapshot(routes, ends={ONE: 5, OTHER: 0}).every_end() == {ONE: 5, OTHER: 0}
    with pytest.raises(
        TimedOut, match="the end offset of t-1 on the source cluster is unavailable"
    ):
        TopicSnapshot(routes, ends={ONE: 5}).every_end()


def test_lag_is_of_what_is_known() -> None:
    assert count_lag(3, None) is None and count_lag(None, 7) is None
    assert (count_lag(3, 5), count_lag(9, 5)) == (2, 0)
    assert sum_lags([None, None]) is None
    assert sum_lags([2, None, 0]) == 2


UNKNOWN = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
THERE = TopicDescription("t", "", 1, 1)


class Starting:
    """A cluster whose broker has just started, and knows topics only when asked once more."""

    label = "target"

    def __init__(self, *answers: TopicDescription | KafkaError) -> None:
        self._answers = list(answers)

    def topic_names(self) -> frozenset[str]:
        return frozenset("t")

    def describe(self, names: Any) -> dict[str, TopicDescription | KafkaError]:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        return dict.fromkeys(names, answer)


def config(**replication: Any) -> PipelineConfig:
    side = {"kafka": {"common": {"bootstrap.servers": "127.0.0.1:9"}}}
    sections = {"source": {"topic": ["t"]}, "sink": {"topic": "source", "partition": "source"}}
    return PipelineConfig.model_validate(
        {"name": "p", "source": side, "target": side, "replication": sections | replication}
    )


def test_a_source_broker_that_has_just_started_takes_no_topic_away() -> None:
    cluster: Any = Starting(THERE, UNKNOWN, UNKNOWN, THERE, UNKNOWN)
    selected = SelectedTopics(config(), cluster)
    assert selected.describe() == SelectedNow([THERE])
    assert selected.describe() == SelectedNow([THERE])
    described = selected.describe()
    assert (described.topics, [fault.kind for fault in described.faults]) == ([], ["gone"])


def test_a_target_broker_that_has_just_started_takes_no_topic_away() -> None:
    target: Any = Starting(UNKNOWN, THERE)
    (plan,), refused = plan_targets(config(), target, target, [THERE], ["t"])
    assert (plan.existing, refused) == (THERE, {})


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), "t.dead-letter cannot be described"),
        (UNKNOWN, "without leaders yet: t.dead-letter"),
    ],
)
def test_a_topic_without_its_dead_letter_topic_is_not_copied(
    monkeypatch: pytest.MonkeyPatch, answer: KafkaError, reason: str
) -> None:
    monkeypatch.setattr(topics, "time", SimpleNamespace(sleep=lambda _: None))
    monkeypatch.setattr(dead_letters, "broker_count", lambda _: 1)
    monkeypatch.setattr(dead_letters, "topic_settings", lambda *_: {"t": {}})
    monkeypatch.setattr(targets, "create_topics", lambda *_, **__: {"t.dead-letter": None})
    to_dead_letters = config(transform=[{"filter": "true", "onError": "deadLetter"}])
    cluster: Any = Starting(answer)
    refused: dict[str, K2kError] = {}
    made = ensure_dead_letters(
        to_dead_letters, cluster, cluster, {"t": (TargetTopic("t", "", 1),)}, [THERE], refused
    )
    assert made == {} and reason in refused["t"].message
