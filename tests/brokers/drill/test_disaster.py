"""Failover without the source, and fencing by access rules: clusters of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation

from k2ktui.drill.operations import abort_drill, resume_drill
from k2ktui.drill.ownership import Actor
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import DrillStatus, Fence, PhaseStatus
from k2ktui.errors import Refused
from k2ktui.kafka.admin.acls import list_acls
from k2ktui.kafka.clients import source_cluster
from k2ktui.runtime.node import KafkaNode
from tests.brokers.drill.test_some_topics import expected, moved
from tests.support.clusters.kafka import eventually, produce
from tests.support.clusters.secure import SecureNode
from tests.support.drill.hooks import hook, sh
from tests.support.drill.runs import MAY, NOBODY_COMES, QUICK, Pair, Yes, keep_commits


@pytest.mark.slow
def test_groups_move_without_the_source_and_hooks_run(
    tmp_path: Path, lost: KafkaNode, target: KafkaNode
) -> None:
    """A hook that fails holds the phase; then clients are pointed at the target before it opens.

    After it, some topics of another pipeline move without the source, too.
    """
    shown = "$K2KTUI_DRILL_KIND $K2KTUI_DRILL_ACTION $K2KTUI_DRILL_WHEN $K2KTUI_DRILL_PHASE"
    note = f'echo "{shown}" >> log'
    switch = f'{note}; test -e open && echo "$K2KTUI_DRILL_TARGET" > clients'
    hooks = [
        hook("after", "source-lost", sh(note)),
        hook("before", "open-target", sh(switch), abort=sh(note)),
    ]
    pair = Pair(tmp_path, lost, target, {"drill": {"hooks": hooks}})
    other = Pair(tmp_path, lost, target, letters="abcd", read=("abcd", "ab"))
    for each in (pair, other):
        keep_commits(each.flow.config)
    lost.kill()
    operator = Yes()
    drill = pair.start(DrillKind.DISASTER, NOBODY_COMES, operator)
    assert drill.record(DrillPhase.OPEN_TARGET).status is not PhaseStatus.DONE, "it is held"
    assert not (tmp_path / "clients").exists()
    (tmp_path / "open").touch()
    drill = resume_drill(Actor(pair.flow, [str(pair.file)], MAY, operator), drill.id)
    assert drill.status is DrillStatus.DONE, drill
    assert (tmp_path / "clients").read_text() == f"{target.bootstrap}\n"
    assert (tmp_path / "log").read_text().splitlines() == [
        "disaster run after source-lost",
        "disaster run before open-target",
        "disaster run before open-target",
    ]
    asked = [step for step, _ in operator.asked]
    assert asked == [
        DrillPhase.SOURCE_LOST,
        "after-source-lost",
        DrillPhase.FENCE_REPLICATOR,
        DrillPhase.APPLY,
        "before-open-target",
        "before-open-target",
        DrillPhase.OPEN_TARGET,
    ]
    for number, group in enumerate(pair.groups):
        assert pair.target_offsets(group) == pair.expected_offsets(number)
    assert drill.figures.rpo_at_least == 0 and drill.figures.rpo_records is None
    assert drill.figures.silent_s is not None
    assert "old" in drill.record(DrillPhase.SOURCE_LOST).live
    assert "could not be compared" in drill.record(DrillPhase.VERIFY).live

    drill = other.start(DrillKind.DISASTER, replace(NOBODY_COMES, topics=other.some("ab")))
    assert drill.status is DrillStatus.DONE, drill
    for number, group in enumerate(other.groups):
        assert other.target_offsets(group) == expected(other, number, "ab")
    assert moved(other) == {"a": drill.id, "b": drill.id}
    assert drill.figures.topics_left == 2


@pytest.mark.slow
def test_producers_are_fenced_by_access_rules_and_set_free_by_an_abort(
    tmp_path: Path, secure: SecureNode, target: KafkaNode
) -> None:
    pair = Pair(tmp_path, secure.node, target)
    for topic in pair.topics:
        secure.allow("writer", [AclOperation.WRITE, AclOperation.DESCRIBE], topic)
    ours = {"bootstrap.servers", "log_level"}
    user = {k: v for k, v in secure.client("writer").items() if k not in ours}
    at = source_cluster(pair.flow.config)

    def can_write() -> bool:
        try:
            produce(secure.node, pair.topics[0], [b"x"], bootstrap_servers=secure.bootstrap, **user)
        except AssertionError:
            return False
        return True

    before = list_acls(at)
    refuses = Yes(frozenset({DrillPhase.APPLY}))
    with pytest.raises(Refused, match="not confirmed"):
        pair.start(DrillKind.PLANNED, replace(QUICK, fence=Fence.ACL), refuses)
    (drill,) = pair.drills()
    assert [phase for phase, _ in refuses.asked] == [DrillPhase.FENCE_PRODUCERS, DrillPhase.APPLY]
    assert not can_write()
    abort_drill(Actor(pair.flow, [str(pair.file)], MAY, Yes()), drill.id)
    eventually(lambda: list_acls(at) == before, "the rules are as before")
    eventually(can_write, "the producer writes again")
