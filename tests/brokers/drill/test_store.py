"""Drills on the state topic of a real target: written by one process at a time, and journalled."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.drill.report import verify_report
from k2ktui.drill.session import Session
from k2ktui.drill.store import DrillStore, TakenOver, make_event
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import Drill, new_phases
from k2ktui.errors import ConfigError
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from k2ktui.sync.operations import read_entry, read_journal
from tests.support.clusters.kafka import eventually
from tests.support.clusters.proxy import proxied_node
from tests.support.drill.runs import MAY, Yes
from tests.support.pipelines.copied import Copied


@pytest.fixture
def copied(tmp_path: Path, source: KafkaNode, target: KafkaNode) -> Copied:
    return Copied(tmp_path, source, target)


@pytest.fixture
def stores(copied: Copied) -> Iterator[tuple[DrillStore, DrillStore]]:
    """The stores of two processes."""
    both = DrillStore(copied.config, copied.cluster), DrillStore(copied.config, copied.cluster)
    yield both
    for store in both:
        store.close()


def make(copied: Copied, drill_id: str = "20260101-000000-ab") -> Drill:
    return Drill(
        id=drill_id,
        kind=DrillKind.PLANNED,
        pipeline=copied.name,
        source_cluster="s",
        target_cluster="t",
        version="1",
        started_ms=1_000,
        started_by="ann@bastion",
        phases=new_phases(DrillKind.PLANNED),
    )


def test_a_drill_is_read_on_another_host_with_its_journal(
    copied: Copied, stores: tuple[DrillStore, DrillStore]
) -> None:
    one, other = stores
    drill = make(copied)
    one.own(drill.id)
    drill = one.write(drill, [make_event(1, "ann@a", DrillPhase.LAG, "begun")])
    drill = one.write(replace(drill, beat_ms=7))
    assert other.read_settled(drill.id) == drill
    assert verify_report(drill, other.read_digests(drill)) == []
    (header,) = read_journal(copied.config)
    assert (header.operation, header.plan, header.who) == ("drill planned", drill.id, "ann@a")
    with pytest.raises(Exception, match=f"drill {drill.id}"):
        read_entry(copied.config, header.id).reversal()


def test_only_the_last_owner_can_write(
    copied: Copied, stores: tuple[DrillStore, DrillStore]
) -> None:
    one, other = stores
    drill = make(copied)
    one.own(drill.id)
    one.write(drill)
    other.own(drill.id)
    taken = other.write(drill, [make_event(2, "bob@b", DrillPhase.LAG, "taken over")])
    with pytest.raises(TakenOver):
        one.write(replace(drill, blockers=("by the first",)))
    assert one.read_settled(drill.id) == taken


def test_an_unknown_drill_is_named(copied: Copied, stores: tuple[DrillStore, DrillStore]) -> None:
    with pytest.raises(ConfigError, match="no drill nothing"):
        stores[0].read("nothing")


@pytest.mark.slow
def test_heartbeats_that_failed_are_repeated_until_another_takes_over(
    tmp_path: Path, source: KafkaNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "k2ktui.drill.session")

    def failures() -> int:
        return caplog.text.count("heartbeats fail")

    with proxied_node("shaky", tmp_path / "node") as target:
        copied = Copied(tmp_path, source, target)
        watching = DrillStore(copied.config, copied.cluster)
        far = {"kafka": {"common": {"bootstrap.servers": target.proxy.address}}}
        copied.settings = {"target": far}
        drill, flow = make(copied), Flow(copied.config)
        session = Session(flow, drill, DrillStore(flow.config, copied.cluster), Yes(), MAY)
        try:
            session.open("1:1:aa", "begun")
            target.proxy.cut()
            eventually(lambda: failures() > 0, "a heartbeat has failed")
            target.proxy.restore()
            before = watching.read(drill.id).beat_ms
            eventually(lambda: watching.read(drill.id).beat_ms > before, "they go on")
            session.write("a person has answered", phase="lag")
            settled = watching.read_settled(drill.id)
            assert settled.events[-1].text == "a person has answered"
            before = failures()
            target.proxy.cut()
            eventually(lambda: failures() > before, "another one has failed")
            watching.own(drill.id)
            taken = watching.write(replace(watching.read(drill.id), session="2:2:bb"))
            target.proxy.restore()
            with pytest.raises(TakenOver):
                session.write("too late", phase="lag")
            watching.write(replace(taken, beat_ms=9))
            assert watching.read_settled(drill.id).beat_ms == 9
        finally:
            session.close()
            watching.close()
