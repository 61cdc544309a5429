"""What the demo asks of a cluster that has just started is asked again; a refusal is not."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from k2ktui.demo import clients
from k2ktui.errors import ConnectionFailed
from k2ktui.kafka.client_errors import NO_COORDINATOR_KNOWN


@pytest.mark.parametrize(
    "code",
    [
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        NO_COORDINATOR_KNOWN,
    ],
)
def test_what_passes_by_itself(code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "RETRY_SECONDS", 0.0)
    left = [code, code]

    def ask() -> str:
        if left:
            raise KafkaException(KafkaError(left.pop()))
        return "answer"

    assert clients.retry_while_starting(ask, "ask") == "answer"
    monkeypatch.setattr(clients, "TIMEOUT_SECONDS", -1.0)
    left += [code]
    with pytest.raises(ConnectionFailed, match="The demo could not ask: "):
        clients.retry_while_starting(ask, "ask")


def test_a_refusal() -> None:
    asked = []

    def ask() -> None:
        asked.append(1)
        raise KafkaException(KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))

    with pytest.raises(ConnectionFailed, match="The demo could not commit: "):
        clients.retry_while_starting(ask, "commit")
    assert len(asked) == 1
