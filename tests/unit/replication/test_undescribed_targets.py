"""A target topic that cannot be described: some answers pass by themselves, others are refusals."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import Refused, TimedOut
from k2ktui.kafka.clients import TopicDescription
from k2ktui.replication.copying.slot_task import FaultKind
from k2ktui.replication.topics.discovery import topic_fault
from k2ktui.replication.topics.targets import is_passing, undescribed_error

TOPIC = TopicDescription("orders", "", 1, 1)


@pytest.mark.parametrize(
    ("code", "passes"),
    [
        (KafkaError.LEADER_NOT_AVAILABLE, True),
        (KafkaError.REQUEST_TIMED_OUT, True),
        (KafkaError.NOT_CONTROLLER, True),
        (KafkaError.NETWORK_EXCEPTION, True),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, False),
        (KafkaError.TOPIC_EXCEPTION, False),
        (KafkaError.UNSUPPORTED_VERSION, False),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, False),  # it is missing, and may be created
    ],
)
def test_what_passes_is_no_refusal(code: int, passes: bool) -> None:
    error = KafkaError(code)
    assert is_passing(error) is passes
    assert not error.retriable(), "librdkafka does not say it"
    described = undescribed_error(TOPIC, "copy", error)
    assert isinstance(described, TimedOut if passes else Refused)
    assert "topic orders is not copied: its target copy" in described.message
    assert ("Grant" in described.hint) is not passes
    fault = topic_fault(SourcePartition("orders", 0), described)
    assert fault.kind is (FaultKind.UNAVAILABLE if passes else FaultKind.REFUSED)


def test_a_description_is_no_error() -> None:
    assert not is_passing(TOPIC)
