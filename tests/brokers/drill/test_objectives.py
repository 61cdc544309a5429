"""Objectives of the file: a rehearsal that misses one has a finding, and says which and by what."""

from __future__ import annotations

from pathlib import Path

import pytest

from k2ktui.engine.drill.checks import DrillCheckOutcome
from k2ktui.runtime.node import KafkaNode
from tests.support.clusters.kafka import Out, produce
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.runs import Pair, check_of

MET = {"rpoRecords": 5, "rpoTime": "1 hour", "rtoTime": "1 hour"}


def rehearsed(pair: Pair, **objectives: object) -> tuple[str, str, str]:
    """Return outcome and evidence of D46, and the line of the report about the objectives."""
    pair.copied.settings = {**pair.copied.settings, "drill": {"objectives": objectives}}
    reply = k2ktui_json("drill", "rehearse", "-f", pair.copied.file, code=1)
    (check,) = [check for check in reply["checks"] if check["id"] == "D46"]
    (line,) = [line for line in reply["summary"] if line.startswith("Objectives:")]
    is_finding = any("D46" in blocker for blocker in reply["blockers"])
    assert is_finding == (check["outcome"] == "fail")
    return check["outcome"], check["evidence"], line


@pytest.mark.slow
def test_a_rehearsal_that_misses_an_objective_has_findings(
    tmp_path: Path, source: KafkaNode, target: KafkaNode
) -> None:
    pair = Pair(tmp_path, source, target)
    produce(source, pair.topics[1], [Out(b"late", b"k", 1)] * 5)

    outcome, evidence, line = rehearsed(pair, **MET)
    assert outcome == "pass" and "RPO 5 records" in evidence
    assert line == "Objectives: met: RPO at most 5 records, 1 h 0 m; RTO at most 1 h 0 m"

    for key, value, why in (
        ("rpoRecords", 4, "RPO above 4 records"),
        ("rpoTime", "1 ms", "RPO above 0.001 s"),
        ("rtoTime", "1 ms", "RTO above 0.001 s"),
    ):
        outcome, evidence, line = rehearsed(pair, **{**MET, key: value})
        assert outcome == "fail" and evidence.endswith(f"; {why}"), evidence
        assert line.startswith("Objectives: missed: ")

    newest = pair.drills()[0]
    assert check_of(newest, "D46").outcome is DrillCheckOutcome.FAIL
    k2ktui("drill", "report", newest.id, "-f", pair.copied.file, "--verify")
    shown = k2ktui_json("status", "-f", pair.copied.file)
    assert shown["objectives"]["rto_s"] == 0.001
    assert shown["objectives"]["missed"] == ["RTO above 0.001 s"]
