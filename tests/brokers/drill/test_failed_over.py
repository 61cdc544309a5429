"""After a good failover, seen from outside: no command says that records are lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.engine.drill.checks import DrillKind
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, produce
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.runs import Pair
from tests.support.oracle.group_offsets import commit_offsets


@pytest.fixture
def pair(tmp_path: Path, source: KafkaNode, target: KafkaNode) -> Pair:
    return Pair(tmp_path, source, target)


def work_on(pair: Pair, node: KafkaNode, records: int) -> None:
    """Write to each partition of a cluster."""
    for topic in pair.topics:
        for partition in range(2):
            produce(node, topic, [Out(b"n%d" % n, b"k", partition) for n in range(records)])


@pytest.mark.slow
def test_no_command_says_that_records_are_lost(
    pair: Pair, source: KafkaNode, target: KafkaNode
) -> None:
    drill = pair.start(DrillKind.PLANNED)
    # The workload goes on: groups read on the target, the reverse pipeline writes to the source.
    work_on(pair, target, 30)
    work_on(pair, source, 30)
    for group in pair.groups:
        moved = dict.fromkeys(pair.source_offsets(0), 40)
        commit_offsets(target, group, moved)

    shown = k2ktui_json("status", "-f", pair.file, "--groups")
    assert shown["pair_state"]["phase"] == "failed over"
    assert shown["pair_state"]["drill"] == shown["pair_state"]["fenced_by"] == drill.id
    assert shown["failover"]["groups"]["moved"] == shown["failover"]["groups"]["losing"] + 2
    assert (shown["failover"]["rpo_records"], shown["failover"]["failed_over"]) == (0, True)
    assert {row["state"] for row in shown["partitions"]} == {"fenced"}
    assert {row["lag_records"] for row in shown["partitions"]} == {None}

    rows = k2ktui_json("groups", "-f", pair.file)
    assert rows["pair_state"]["phase"] == "failed over"
    assert not any(row["skipped_now"] or row["divergence"] for row in rows["groups"])

    view = k2ktui_json("watch", "-f", pair.file, "--once")
    assert view["pair_state"]["drill"] == drill.id
    assert (view["totals"]["skips"], view["totals"]["diverging"]) == (0, 0)
    for command in (("status", "--groups"), ("groups",), ("watch", "--once")):
        lines = k2ktui(command[0], "-f", pair.file, *command[1:]).stdout.splitlines()
        assert f"by drill {drill.id} at " in lines[0], lines[0]
        assert "this pipeline is fenced" in lines[0]
        assert not any("would lose" in line or "would skip" in line for line in lines)
