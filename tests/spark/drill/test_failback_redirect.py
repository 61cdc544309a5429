"""Clients follow their name to the other cluster and back, with real pipelines behind HAProxy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
import yaml

from k2ktui.drill.checks.catalog import CATALOG
from k2ktui.drill.operations import resume_drill, start_drill, verify_drill
from k2ktui.drill.operator import Question
from k2ktui.drill.ownership import Actor
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import Drill, DrillStatus, Fence, ResumeOptions
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from tests.brokers.drill.test_redirect import Clients
from tests.support.clusters.haproxy import Front, FrontedNode, fronted
from tests.support.clusters.kafka import TIMEOUT, eventually, read_all
from tests.support.drill.failback import Workload
from tests.support.drill.runs import MAY, QUICK, Yes, check_of
from tests.support.oracle.group_offsets import commit_offsets
from tests.support.records.numbered import PARTITIONS

pytestmark = pytest.mark.slow
ACCEPTED = tuple(check for check in CATALOG if check != "D53")
PATIENT = replace(QUICK, fence=Fence.CUT_OFF, watch_s=TIMEOUT, wait_s=900.0, accepted=ACCEPTED)
_EACH = 20


@dataclass
class Moves(Yes):
    """An operator whose clients write on, also while they are cut off."""

    clients: Clients = field(kw_only=True)
    written: int = 0
    restarts: bool = False

    def write(self) -> None:
        """Write the next records."""
        self.clients.write(range(self.written, self.written + _EACH))
        self.written += _EACH

    def ask(self, question: Question) -> bool:
        """Write before the target is opened."""
        if question.step == DrillPhase.OPEN_TARGET:
            if self.restarts:
                self.clients.restart_producer()
            self.write()
        return super().ask(question)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[tuple[FrontedNode, FrontedNode, Front]]:
    with fronted(tmp_path / "fronted") as running:
        yield running


@pytest.mark.parametrize(("by", "idempotent"), [("haproxy", False), ("command", True)])
def test_clients_follow_their_name_away_and_back(
    tmp_path: Path, lab: tuple[FrontedNode, FrontedNode, Front], by: str, idempotent: bool
) -> None:
    """An idempotent producer that returns is known there by other sequence numbers (D53).

    librdkafka would end it with a fatal error: the failback stops until somebody restarts it.
    """
    east, west, front = lab
    sections = (front.section, front.section_back) if by == "haproxy" else front.commands
    work = Workload(tmp_path, east, west, settings={"drill.redirect": sections[0]})
    name = front.name.address
    clients = Clients(name, work.topic, work.groups[0], idempotent=idempotent)
    operator = Moves(clients=clients)

    def await_read() -> None:
        clients.flush()
        eventually(lambda: len(clients.read) == operator.written, "the group has read all")

    def move(flow: Flow, file: Path, kind: DrillKind) -> Drill:
        actor = Actor(flow, [str(file)], MAY, operator)
        drill = start_drill(actor, kind, PATIENT)
        if kind is DrillKind.FAILBACK and idempotent:
            stopped = drill.record(DrillPhase.PREFLIGHT)
            assert stopped.live.startswith("stopped by D53; "), stopped
            assert f"of {work.topic}" in check_of(drill, "D53").evidence
            operator.restarts = True
            drill = resume_drill(actor, drill.id, ResumeOptions(accept=["D53"]))
        assert drill.status is DrillStatus.DONE, drill
        assert verify_drill(flow, drill.id)[1] == []
        return drill

    try:
        operator.write()
        clients.flush()
        commit_offsets(east, work.groups[0], {(work.topic, n): 0 for n in range(PARTITIONS)})
        clients.consume()
        await_read()
        work.forward.catch_up()
        move(work.flow, work.file, DrillKind.PLANNED)
        await_read()
        assert front.states["name/east"] == "maint" and front.states["name/west"] == "ready"

        reverse = yaml.safe_load(work.back.read_text())
        assert "redirect" not in reverse.get("drill", {}), "only the operator can name the way back"
        reverse["drill"] = {**reverse.get("drill", {}), "redirect": sections[1]}
        work.back.write_text(yaml.safe_dump(reverse, sort_keys=False))
        operator.write()
        await_read()
        work.copy_back()
        drill = move(work.reverse_flow, work.back, DrillKind.FAILBACK)
        assert drill.record(DrillPhase.REDIRECT).live.endswith(east.cluster_id)
        await_read()
        assert front.states["name/east"] == "ready" and front.states["name/west"] == "maint"
    finally:
        clients.close()
        work.close()
    count = operator.written
    assert (clients.acknowledged, clients.failed, clients.fatal) == (count, [], [])
    assert clients.read == Counter({b"%d" % n: 1 for n in range(count)}), "each was read once"
    assert values(east, work.topic) == clients.read
    assert set(values(west, work.topic)) == {b"%d" % n for n in range(count - _EACH)}


def values(node: KafkaNode, topic: str) -> Counter[bytes | None]:
    """Return how often each value is in a topic."""
    return Counter(got.value for got in read_all(node, topic))
