"""A planned switchover on real clusters, its fences, its way back, and its end."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from k2ktui.config.model import PipelineConfig
from k2ktui.drill import session
from k2ktui.drill.files import reverse_path
from k2ktui.drill.operations import abort_drill, release_replicator, resume_drill
from k2ktui.drill.ownership import Actor
from k2ktui.drill.runner import RUNS
from k2ktui.drill.store import KEPT_DRILLS, DrillStore, make_event
from k2ktui.engine.drill.changes import EVERYONE
from k2ktui.engine.drill.checks import DrillCheckOutcome, DrillKind, DrillPhase
from k2ktui.engine.drill.model import (
    ChangeStatus,
    Drill,
    DrillFigures,
    DrillStatus,
    Fence,
    PhaseStatus,
    new_phases,
)
from k2ktui.errors import Refused, TimedOut
from k2ktui.kafka.admin.quotas import producer_quotas
from k2ktui.kafka.clients import source_cluster, target_cluster
from k2ktui.kafka.properties.translation import load_checked, wire
from k2ktui.replication.fencing_errors import Superseded
from k2ktui.replication.ownership.ownership import Ownership
from k2ktui.replication.ownership.pipeline import make_ownership
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.drill.guard import read_named_fence, refuse_fenced
from k2ktui.text import duration
from tests.support.clusters.kafka import (
    TIMEOUT,
    Out,
    admin,
    client,
    delete_topic,
    eventually,
    open_transaction,
    produce,
    unique_name,
)
from tests.support.clusters.secure import SecureNode
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.planted import plant
from tests.support.drill.runs import (
    MAY,
    QUICK,
    Leaves,
    Left,
    Pair,
    Yes,
    check_of,
    fence_by_quota,
    remove_quotas,
)
from tests.support.oracle.group_offsets import commit_offsets


@pytest.fixture
def pair(tmp_path: Path, source: KafkaNode, target: KafkaNode) -> Iterator[Pair]:
    yield Pair(tmp_path, source, target)
    remove_quotas(source)


@contextmanager
def clients(pair: Pair, node: KafkaNode, *groups: str) -> Iterator[None]:
    """Members of groups that read until the end."""
    ended = threading.Event()

    def read(group: str) -> None:
        consumer = pair.consumer(node, group)
        while not ended.is_set():
            consumer.poll(0.1)
        consumer.close()

    threads = [threading.Thread(target=read, args=(group,), daemon=True) for group in groups]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(TIMEOUT)


def test_a_planned_switchover_moves_every_group_exactly(pair: Pair, target: KafkaNode) -> None:
    operator = Yes()
    drill = pair.start(DrillKind.PLANNED, operator=operator)
    assert drill.status is DrillStatus.DONE, drill
    assert {phase.status for phase in drill.phases} == {PhaseStatus.DONE}
    back = load_checked((str(reverse_path([str(pair.file)])),)).config
    assert back.source.bootstrap_servers == target.bootstrap
    assert back.features.bidirectional_replication
    for number, group in enumerate(pair.groups):
        assert pair.target_offsets(group) == pair.expected_offsets(number)
    asked = [phase for phase, _ in operator.asked]
    assert asked == [DrillPhase.APPLY, DrillPhase.FENCE_REPLICATOR, DrillPhase.OPEN_TARGET]
    assert "commit 8 offsets of 2 groups" in operator.asked[0][1]
    assert "0 read again, 0 skipped" in operator.asked[0][1]
    assert drill.figures.rpo_records == 0 and drill.figures.opened_ms is not None
    for check_id in ("D41", "D42"):
        result = check_of(drill, check_id)
        assert result.outcome is DrillCheckOutcome.PASS, result


@pytest.mark.slow
def test_a_forgotten_driver_cannot_write_and_no_other_starts(pair: Pair) -> None:
    """After the release another one starts, which is named by no drill any more."""
    config = pair.flow.config
    target = target_cluster(config)
    forgotten = make_ownership(config, target, wire(config.target, "producer"), 1)
    forgotten.take_over(2)
    try:
        drill = pair.start(DrillKind.PLANNED)
        for slot in range(2):
            with pytest.raises(Superseded):
                forgotten.renew(slot)
        with pytest.raises(Refused, match=f"fenced by drill {drill.id}"):
            refuse_fenced(config, target)
        later = guarded(config)
        with pytest.raises(Refused, match="fenced by drill"):
            later.take_over(1)
        later.close()
        assert read_named_fence(config, target) == drill.id
        release_replicator(Actor(pair.flow, [], MAY, Yes()), drill.id)
        refuse_fenced(config, target)
        assert read_named_fence(config, target) == drill.id  # the drill's record decides
        later = guarded(config)
        later.take_over(1)
        later.close()
        assert read_named_fence(config, target) == ""
    finally:
        forgotten.close()


@pytest.mark.slow
def test_clients_that_start_are_seen_and_others_are_named(
    pair: Pair, source: KafkaNode, target: KafkaNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    active = pair.groups[0]
    options = replace(QUICK, watch_s=300.0)
    ahead = 0.0
    monkeypatch.setattr(session, "monotonic", lambda: time.monotonic() + ahead)
    with clients(pair, source, *pair.groups):
        eventually(lambda: _members(source, pair.groups) == 2, "both groups have members")
        drilled: list[object] = []
        thread = threading.Thread(
            target=lambda: drilled.append(pair.start(DrillKind.PLANNED, options))
        )
        thread.start()
        left = f"{active}: rdkafka on 127.0.0.1 reads {pair.topics[0]} 0-"
        eventually(
            lambda: any(
                left in drill.record(DrillPhase.STOP_CONSUMERS).live for drill in pair.drills()
            ),
            f"the drill names the consumers that it waits for: {left}",
        )
    eventually(
        lambda: pair.drills()[0].record(DrillPhase.WATCH_CLIENTS).status is PhaseStatus.RUNNING,
        "the target is open",
    )
    with clients(pair, target, active):
        produce(target, pair.topics[0], [Out(b"new", b"k", 0)])
        first = "1 of 2 groups read on the target"
        eventually(lambda: first in pair.drills()[0].record(DrillPhase.WATCH_CLIENTS).live, first)
        ahead = options.watch_s  # the second group does not come
        thread.join(2 * TIMEOUT)
    (drill,) = pair.drills()
    assert drill.status is DrillStatus.DONE
    results = {group.group: group for group in drill.groups}
    assert results[active].joined and results[active].first_ms
    assert not results[pair.groups[1]].joined
    (came,), (absent,) = (results[group].clients for group in pair.groups)
    assert came.gap_s is not None and absent.gap_s is None
    named = f"1 of 2 clients came, gap at most {duration(came.gap_s, tenths=True)}; not yet: "
    assert named + pair.groups[1] in drill.record(DrillPhase.WATCH_CLIENTS).live
    # Its checks may find more, such as lag that did not fall yet.
    findings = drill.record(DrillPhase.WATCH_CLIENTS).findings
    (finding,) = [finding for finding in findings if "has not joined" in finding]
    assert pair.groups[1] in finding
    assert drill.figures.first_record_ms is not None


@dataclass
class LeavesWhenNamed(Yes):
    """An operator who leaves as soon as fence-producers shows all of these patterns."""

    patterns: Collection[str] = ()

    def show(self, drill: Drill) -> None:
        """Leave, where the drill then stays."""
        super().show(drill)
        live = drill.record(DrillPhase.FENCE_PRODUCERS).live
        if all(re.search(pattern, live) for pattern in self.patterns):
            raise Left


@contextmanager
def writing(node: KafkaNode, topic: str, name: str) -> Iterator[None]:
    """A plain, an idempotent and a transactional producer that write until the end."""
    ended, begun = threading.Event(), threading.Event()

    def write() -> None:
        plain = Producer(client(node, enable_idempotence=False))
        idempotent = Producer(client(node, enable_idempotence=True))
        transactional = Producer(client(node, transactional_id=name))
        transactional.init_transactions(TIMEOUT)
        while not ended.wait(0.1):
            transactional.begin_transaction()
            for producer in (plain, idempotent, transactional):
                producer.produce(topic, b"more", b"k", partition=0)
                producer.flush(TIMEOUT)
            transactional.commit_transaction(TIMEOUT)
            begun.set()

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        assert begun.wait(TIMEOUT)
        yield
    finally:
        ended.set()
        thread.join(TIMEOUT)


@pytest.mark.slow
def test_who_writes_through_a_fence_is_named(
    tmp_path: Path, secure: SecureNode, target: KafkaNode
) -> None:
    """Access rules do not keep super users from writing."""
    pair = Pair(tmp_path, secure.node, target)
    name, way = unique_name("tx"), "take the fence back: k2ktui drill abort"
    kinds = ("a producer without id on", r"(by|;) producer id \d+ epoch \d+ on", f"id {name} ")
    operator = LeavesWhenNamed(patterns=(*kinds, way))
    options = replace(QUICK, fence=Fence.ACL, lag_records=1_000_000, frozen_s=60.0)
    with writing(secure.node, pair.topics[0], name), pytest.raises(Left):
        pair.start(DrillKind.PLANNED, options, operator)
    (drill,) = pair.drills()
    aborted = abort_drill(Actor(pair.flow, [str(pair.file)], MAY, Yes()), drill.id)
    assert aborted.status is DrillStatus.ABORTED
    assert {change.status for change in aborted.changes} == {ChangeStatus.UNDONE}


def _members(node: KafkaNode, groups: list[str]) -> int:
    with_admin = admin(node)
    described = with_admin.describe_consumer_groups(groups)
    return sum(bool(future.result(TIMEOUT).members) for future in described.values())


@pytest.mark.slow
def test_an_open_transaction_is_no_fence(pair: Pair, source: KafkaNode) -> None:
    producer = open_transaction(source, pair.topics[1], [Out(b"open", b"k", 0)])
    try:
        with pytest.raises(TimedOut, match=f"open transactions on {pair.topics[1]}-0"):
            pair.start(DrillKind.PLANNED, replace(QUICK, wait_s=3.0))
    finally:
        producer.abort_transaction(TIMEOUT)


@pytest.mark.slow
def test_records_that_are_not_copied_stop_the_drain(pair: Pair, source: KafkaNode) -> None:
    produce(source, pair.topics[0], [Out(b"late", b"k", 0)] * 3)
    text = f"3 records left on {pair.topics[0]}-0"
    with pytest.raises(Left):
        pair.start(DrillKind.PLANNED, operator=Leaves(phase=DrillPhase.DRAIN, text=text))


@pytest.mark.slow
def test_an_abort_restores_offsets_and_quotas(
    pair: Pair, source: KafkaNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Quotas as drills of 675e1d1f set them."""
    at = source_cluster(pair.flow.config)
    before = producer_quotas(at)
    monkeypatch.setitem(RUNS, DrillPhase.FENCE_PRODUCERS, fence_by_quota())
    refuses = Yes(frozenset({DrillPhase.OPEN_TARGET}))
    with pytest.raises(Refused, match="not confirmed"):
        pair.start(DrillKind.PLANNED, replace(QUICK, fence=Fence.QUOTA), refuses)
    (drill,) = pair.drills()
    assert any(quota.entity == EVERYONE for quota in producer_quotas(at))
    assert pair.target_offsets(pair.groups[0]) == pair.expected_offsets(0)
    with pytest.raises(Refused, match="fenced by drill"):
        refuse_fenced(pair.flow.config, target_cluster(pair.flow.config))
    aborted = abort_drill(Actor(pair.flow, [str(pair.file)], MAY, Yes()), drill.id)
    assert aborted.status is DrillStatus.ABORTED
    assert {change.status for change in aborted.changes} == {ChangeStatus.UNDONE}
    eventually(lambda: producer_quotas(at) == before, "the quotas are as before")
    for group in pair.groups:
        assert set(pair.target_offsets(group).values()) == {None}
    refuse_fenced(pair.flow.config, target_cluster(pair.flow.config))
    with pytest.raises(Refused, match="is aborted"):
        resume_drill(Actor(pair.flow, [], MAY, Yes()), drill.id)


@pytest.mark.slow
def test_a_fence_holds_after_fifty_rehearsals_and_without_the_state_topic(
    pair: Pair, target: KafkaNode
) -> None:
    drill = pair.start(DrillKind.PLANNED)
    config, cluster = pair.flow.config, target_cluster(pair.flow.config)
    topic = config.coordination.state.topic
    rehearsals = [
        replace(
            drill,
            id=f"20990101-{number:06}-aa",
            kind=DrillKind.REHEARSE,
            changes=(),
            figures=DrillFigures(),
            phases=new_phases(DrillKind.REHEARSE),
            events=(),
        )
        for number in range(KEPT_DRILLS + 5)
    ]
    for rehearsal in rehearsals[:-2]:
        plant(config, target, rehearsal)
    store = DrillStore(config, cluster)
    for rehearsal in rehearsals[-2:]:
        store.own(rehearsal.id)
        store.write(rehearsal, [make_event(1, "ann@a", "end", "begun")])
        store.close()
    kept = {drill.id for drill in pair.drills()}
    assert drill.id in kept and "20990101-000000-aa" not in kept
    with pytest.raises(Refused, match=f"fenced by drill {drill.id}"):
        refuse_fenced(config, cluster, read_named_fence(config, cluster))
    check = k2ktui_json("check", "-f", pair.file, code=None)["checks"][0]
    assert (check["name"], check["outcome"], check["fatal"]) == ("drill fence", "fail", True)
    assert drill.id in check["detail"] and "k2ktui drill failback" in check["hint"]

    delete_topic(target, topic)
    eventually(lambda: cluster.find(topic) is None, "it is gone")
    with pytest.raises(Refused, match=f"fenced by drill {drill.id}, as its run record says"):
        later = guarded(config)
        try:
            later.take_over(1)
        finally:
            later.close()
    shown = k2ktui_json("status", "-f", pair.file)["pair_state"]
    assert (shown["phase"], shown["fenced_by"]) == ("unknown", drill.id)
    shown = k2ktui_json("groups", "-f", pair.file)["pair_state"]
    assert (shown["phase"], shown["fenced_by"]) == ("unknown", drill.id)
    k2ktui("drill", "release", drill.id, "-f", pair.file, "--yes")
    assert read_named_fence(config, cluster) == ""
    later = guarded(config)
    later.take_over(1)
    later.close()


def guarded(config: PipelineConfig) -> Ownership:
    """Return the ownership of a run that starts."""
    cluster = target_cluster(config)
    return make_ownership(
        config,
        cluster,
        wire(config.target, "producer"),
        1,
        guard=lambda named: refuse_fenced(config, cluster, named),
    )


@pytest.mark.slow
def test_rows_that_operators_chose_are_asked_about(pair: Pair, target: KafkaNode) -> None:
    """One holds, the source commit of the other has moved: nobody is asked in advance."""
    group, (first, second) = pair.groups[0], pair.topics[:2]
    path = pair.file.parent / "chosen.json"
    words = [f"{group} {first}:0=earliest", f"{group} {second}:0=leave-out"]
    options = [part for word in words for part in ("--set", word)]
    k2ktui("plan", "-f", pair.file, "--group", group, "-o", path, *options)
    k2ktui("apply", path, "--yes")
    commit_offsets(pair.source, group, {(second, 0): 5})

    with pytest.raises(Refused, match="a person must decide about chosen rows") as refused:
        pair.start(DrillKind.PLANNED, operator=Yes())
    assert f"{group} {first}-0: chosen by" in refused.value.message
    assert "leave-out, before its source commit moved" in refused.value.message
    before = pair.target_offsets(group)
    assert (before[first, 0], before[second, 0]) == (0, None)

    operator = Yes(is_person=True)
    (drill,) = pair.drills()
    drill = resume_drill(Actor(pair.flow, [str(pair.file)], MAY, operator), drill.id)
    assert drill.status is DrillStatus.DONE, drill
    (lines,) = operator.shown_lines
    assert "read again" in lines[-1]
    offsets = pair.target_offsets(group)
    expected = pair.expected_offsets(0) | {(first, 0): 0, (second, 0): 5 + pair.copied.prior}
    assert offsets == expected
