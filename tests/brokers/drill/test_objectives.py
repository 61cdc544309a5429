"""Objectives of the file: a rehearsal that misses one has a finding, and says which and by what."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from k2ktui.engine.drill.checks import DrillCheckOutcome, DrillKind
from k2ktui.engine.drill.rehearsals import KEPT_REHEARSALS, Rehearsal
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.store import StateStore
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
    kept = k2ktui_json("drill", "list", "-f", pair.copied.file)["rehearsals"]
    assert [one["missed"] for one in kept] == [0, 1, 1, 1]
    assert kept[-1]["id"] == newest.id and kept[-1]["rpo_records"] == 5
    shown = k2ktui_json("status", "-f", pair.copied.file)
    assert shown["objectives"]["rto_s"] == 0.001
    assert shown["objectives"]["missed"] == ["RTO above 0.001 s"]


def past(number: int) -> Rehearsal:
    return Rehearsal(f"past-{number:03}", 1_700_000_000_000 + number, 0, 0, number, None, 1_000)


@pytest.mark.slow
def test_of_each_rehearsal_a_small_record_is_kept_and_of_the_oldest_none(
    tmp_path: Path, source: KafkaNode, target: KafkaNode
) -> None:
    pair = Pair(tmp_path, source, target)
    store = StateStore(pair.copied.config, pair.copied.cluster)
    store.put([past(number) for number in range(KEPT_REHEARSALS)])
    drill = pair.start(DrillKind.REHEARSE)
    kept = store.read().rehearsals
    store.close()
    assert len(kept) == KEPT_REHEARSALS
    assert kept[0].id == "past-001" and kept[-1].id == drill.id
    assert (kept[-1].rpo_records, kept[-1].rto_ms) == (0, drill.tool_ms)

    page = tmp_path / "report.html"
    page.touch(0o644)
    told = k2ktui("drill", "report", drill.id, "-f", pair.file, "--html", page)
    assert told.stdout == "" and str(page) in told.stderr
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    text = page.read_text()
    assert drill.id in text and "400 rehearsals" in text
    printed = k2ktui_json("drill", "report", drill.id, "-f", pair.file)
    assert len(printed["rehearsals"]) == KEPT_REHEARSALS
    assert "The last 30 of 400" in k2ktui("drill", "report", drill.id, "-f", pair.file).stdout
