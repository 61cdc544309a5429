"""All checks of a healthy copy, and the command that asks them."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
import yaml

from k2ktui.cli.main import cli
from k2ktui.drill.checks.catalog import CATALOG, ids_asked
from k2ktui.drill.checks.context import CheckContext
from k2ktui.drill.checks.suite import run_checks
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.topics import KAFKA_INTERNAL_TOPICS
from k2ktui.errors import ConfigError
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import TIMEOUT, Out, admin, produce
from tests.support.commands.in_process import Ended, invoke
from tests.support.commands.waiting import seconds_waited
from tests.support.drill.checks import FAIL, QUICK, UNKNOWN, Drilled


@pytest.fixture
def drilled(source: KafkaNode, target: KafkaNode, tmp_path: Path) -> Drilled:
    return Drilled(tmp_path, source, target)


@pytest.mark.slow
def test_a_healthy_copy_fails_no_check_and_is_not_changed(drilled: Drilled) -> None:
    drilled.commit("a", 2, 5)
    with drilled.running():
        before = _topics(drilled)
        with CheckContext(drilled.flow, limits=QUICK) as context:
            results = list(run_checks(context, CATALOG))

    assert [result.id for result in results] == list(CATALOG)
    # The disk is this machine's; a run is alive, so it is not fenced.
    assert {r.id for r in results if r.outcome is FAIL} <= {"D33", "D42"}, results
    unknown = {result.id for result in results if result.outcome is UNKNOWN}
    assert unknown == {"D41", "D43", "D44", "D45", "D46", "D47", "D50"}, results
    assert _topics(drilled) == before


def _topics(drilled: Drilled) -> list[set[str]]:
    nodes = (drilled.source, drilled.target)
    return [
        set(admin(node).list_topics(timeout=TIMEOUT).topics) - KAFKA_INTERNAL_TOPICS
        for node in nodes
    ]


def _run(drilled: Drilled, *options: str) -> Ended:
    return invoke(cli, "drill", "check", "-f", drilled.copied.file, *options)


@pytest.mark.slow
def test_the_command(drilled: Drilled) -> None:
    shown = _run(drilled, "--only", "d26,D06")
    assert shown.code == 0, shown.output
    assert shown.output.splitlines() == [
        "✓ pass  D06 lag: 0 of 2 partitions behind; worst lag 0 records, 0 s",
        "✓ pass  D26 partition counts: 1 topic, 2 partitions on the source, 0 topics with another "
        "count",
        "2 passed, 0 failed, 0 could not be checked",
    ]

    produce(drilled.source, drilled.topic, [Out(b"x", timestamp=int(time.time() - 90) * 1000)])

    shown = _run(drilled, "--only", "D06")
    assert shown.code == 1 and "✗ FAIL  D06 lag: 1 of 2 partitions behind" in shown.output
    assert "      Fix: Wait until the pipeline has copied" in shown.output
    report = json.loads(_run(drilled, "--only", "D06,D41", "--json").output)
    assert report["exit_code"] == 1
    assert [(check["id"], check["outcome"]) for check in report["checks"]] == [
        ("D06", "fail"),
        ("D41", "could-not-check"),
    ]


@pytest.mark.slow
def test_ids_that_do_not_exist(drilled: Drilled) -> None:
    first, *_, last = CATALOG
    for only in (f"D{len(CATALOG) + 1:02}", "x\x1b", ""):
        with pytest.raises(ConfigError, match=f"{first} to {last}, found") as failed:
            _run(drilled, "--only", only)
        assert "\x1b" not in str(failed.value)


@pytest.mark.slow
def test_neither_cluster_answers(tmp_path: Path) -> None:
    nowhere = {"kafka": {"common": {"bootstrap.servers": "127.0.0.1:1"}}}
    tree = {
        "name": "p",
        "source": nowhere,
        "target": nowhere,
        "replication": [{"source": {"topic": ".*"}}],
    }
    file = tmp_path / "p.yaml"
    file.write_text(yaml.safe_dump(tree))
    ends: list[Ended] = []

    waited = seconds_waited(lambda: ends.append(invoke(cli, "drill", "check", "-f", file)), 60)

    shown = ends[-1]
    assert shown.code == 3, shown.output
    assert waited < 60
    assert "internal error" not in shown.output
    # D51 to D53 pass: the file has no name to move.
    expected = len(ids_asked(DrillKind.REHEARSE))
    assert f"3 passed, 1 failed, {expected - 4} could not be checked" in shown.output


@pytest.mark.slow
def test_a_hostile_group_name_cannot_control_a_terminal(drilled: Drilled) -> None:
    drilled.commit("a\x1b[2J", 1000)
    shown = _run(drilled, "--only", "D18,D19,D24")
    assert shown.code == 1
    assert "\x1b[2J" not in shown.output and r"a\x1b[2J" in shown.output
