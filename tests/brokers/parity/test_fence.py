"""A drill's quota never reaches the target, while the drill runs and after it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from k2ktui.drill.files import reverse_path
from k2ktui.drill.operator import Question
from k2ktui.drill.runner import RUNS
from k2ktui.engine.drill.changes import EVERYONE, LOWERED_RATE, Entity
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import DrillStatus, Fence
from k2ktui.kafka.admin.quotas import alter_client_quotas, producer_quotas
from k2ktui.kafka.clients import Cluster, source_cluster, target_cluster
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import eventually, unique_name
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.runs import QUICK, Pair, Yes, fence_by_quota, remove_quotas
from tests.support.pipelines.sync import running_sync

pytestmark = pytest.mark.slow

RATE = "producer_byte_rate"


@pytest.fixture
def pair(tmp_path: Path, source: KafkaNode, target: KafkaNode) -> Iterator[Pair]:
    parity = {"quotas": {"mode": "apply"}, "acls": {"mode": "off"}}
    yield Pair(tmp_path, source, target, {"parity": parity})
    for node in (source, target):
        remove_quotas(node)


@dataclass
class Watches(Yes):
    """An operator who looks at the quotas of the target before each answer."""

    target: Cluster = field(kw_only=True)
    seen: list[float] = field(default_factory=list)

    def ask(self, question: Question) -> bool:
        """Agree, and note the rates."""
        self.seen += rates(self.target)
        return super().ask(question)


def rates(cluster: Cluster) -> list[float]:
    return [quota.rate or 0.0 for quota in producer_quotas(cluster)]


def test_a_drills_quota_is_never_copied(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As drills of 675e1d1f set it."""
    monkeypatch.setitem(RUNS, DrillPhase.FENCE_PRODUCERS, fence_by_quota())
    config, log = pair.flow.config, tmp_path / "log"
    source, target = source_cluster(config), target_cluster(config)
    user: Entity = (("user", unique_name("user")),)
    alter_client_quotas(source, {user: {RATE: 5e6}})
    try:
        # Every poll of the running sync sees the fence.
        with running_sync(pair.copied, log):
            eventually(lambda: 5e6 in rates(target), "the quota is kept in step")
            operator = Watches(target=target)
            options = replace(QUICK, fence=Fence.QUOTA)
            drill = pair.start(DrillKind.PLANNED, options, operator)
            eventually(lambda: "parity is paused" in log.read_text(), "it is paused")
        assert drill.status is DrillStatus.DONE, drill
        assert LOWERED_RATE in rates(source)
        assert LOWERED_RATE not in [*operator.seen, *rates(target)]
        paused = k2ktui("parity", "plan", "-f", pair.file, code=5).stderr
        assert "has opened the target: it is the primary now" in paused

        # The opposite pipeline goes on, and leaves alone what the drill has set on its target.
        back = reverse_path([str(pair.file)])
        plan = k2ktui_json("parity", "plan", "-f", back, "--kind", "quotas", code=1)
        fenced = {row["item"]["name"]: row for row in plan["rows"] if row["target"] == "1"}
        assert {"client-id=<default>,user=<default>", f"user={user[0][1]}"} <= fenced.keys()
        for row in fenced.values():
            assert row["action"] == "report" and drill.id in row["why"], json.dumps(row)
        k2ktui("sync", "-f", back, "--once", code=None)
        assert {LOWERED_RATE} == {
            quota.rate for quota in producer_quotas(source) if quota.entity in (EVERYONE, user)
        }
    finally:
        for cluster in (source, target):
            alter_client_quotas(cluster, {user: {RATE: None}})
