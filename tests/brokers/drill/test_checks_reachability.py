"""D01 to D05 on real clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.drill.checks.context import CheckContext, DrillFacts
from k2ktui.drill.checks.suite import run_checks
from k2ktui.engine.drill.checks import CheckResult, DrillKind
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from tests.support.drill.checks import FAIL, PASS, QUICK, UNKNOWN
from tests.support.pipelines.preflight import pipeline, plain

NOWHERE = plain("127.0.0.1:1")


def check(check_id: str, source: object, target: object, **facts: object) -> CheckResult:
    flow = Flow(pipeline(source, target, "t"))
    with CheckContext(flow, DrillFacts(**facts), QUICK) as context:  # type: ignore[arg-type]
        (result,) = run_checks(context, [check_id])
    return result


@pytest.fixture
def ids(source: KafkaNode, target: KafkaNode) -> tuple[str, str]:
    return source.cluster_id, target.cluster_id


@pytest.mark.slow
def test_d01_ids_as_recorded(source: KafkaNode, target: KafkaNode, ids: tuple[str, str]) -> None:
    result = check("D01", source, target, cluster_ids=ids)
    assert result.outcome is PASS
    assert ids[0] in result.evidence and "as recorded" in result.evidence


@pytest.mark.slow
def test_d01_another_cluster_answers(
    source: KafkaNode, target: KafkaNode, ids: tuple[str, str]
) -> None:
    result = check("D01", source, target, cluster_ids=(ids[0], "another\x1b[2J"))
    assert result.outcome is FAIL
    assert "the target is cluster" in result.evidence and r"another\x1b[2J" in result.evidence


@pytest.mark.slow
def test_d01_a_cluster_that_is_down(source: KafkaNode, target: KafkaNode) -> None:
    assert check("D01", source, NOWHERE).outcome is FAIL
    assert check("D01", NOWHERE, target).outcome is FAIL
    result = check("D01", NOWHERE, target, kind=DrillKind.DISASTER)
    assert result.outcome is UNKNOWN and "connection refused" in result.evidence


@pytest.mark.slow
def test_d01_another_cluster_under_the_address_of_a_lost_source(
    source: KafkaNode, target: KafkaNode, ids: tuple[str, str]
) -> None:
    recorded = "lost", ids[1]
    assert check("D01", source, target, cluster_ids=recorded).outcome is FAIL
    result = check("D01", source, target, kind=DrillKind.DISASTER, cluster_ids=recorded)
    assert result.outcome is UNKNOWN and ids[0] in result.evidence and "lost" in result.evidence


@pytest.mark.slow
def test_d05_two_clusters(source: KafkaNode, target: KafkaNode) -> None:
    assert check("D05", source, target).outcome is PASS
    result = check("D05", source, source)
    assert result.outcome is FAIL and source.cluster_id in result.evidence
    assert check("D05", NOWHERE, target).outcome is UNKNOWN


@pytest.mark.slow
def test_a_fault_of_the_program_is_could_not_check(
    source: KafkaNode, target: KafkaNode, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(*_: object) -> None:
        raise ValueError

    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr("k2ktui.replication.preflight.clusters.await_open", broken)

    result = check("D05", source, target)

    assert result.outcome is UNKNOWN and "internal error in k2ktui" in result.evidence
