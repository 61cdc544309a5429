"""How long a partition that has no leader is asked for again."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka.admin import OffsetSpec

from k2ktui.config.clusters import ClusterConfig, KafkaClients
from k2ktui.kafka import clients
from k2ktui.kafka.clients import Cluster, Partition

AT = ("orders", 0)


class Late(Cluster):
    """A cluster that stands still before its first answer: that there is no leader yet."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        super().__init__(
            ClusterConfig(kafka=KafkaClients(common={"bootstrap.servers": "127.0.0.1:1"})), "target"
        )
        self.now, self.questions = 100.0, 0
        patch.setattr(clients, "monotonic", lambda: self.now)
        patch.setattr(clients, "sleep", lambda _: None)

    def _offsets_once(self, partitions: Any, *asked: Any) -> set[Partition]:
        self.questions += 1
        if self.questions == 1:
            self.now += 2.0
            return set(partitions)
        asked[2].update(dict.fromkeys(partitions, 7))
        return set()

    def _metadata(self, what: str) -> None:
        assert what == "finding leaders"


def test_the_time_counts_from_the_first_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Late(monkeypatch).offsets([AT], OffsetSpec.latest()) == {AT: 7}
