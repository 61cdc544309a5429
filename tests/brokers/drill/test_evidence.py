"""Reports that drills on real clusters sign, and what is not signed."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from k2ktui.drill.evidence.directory import signature_path
from k2ktui.drill.operations import resume_drill
from k2ktui.drill.ownership import Actor
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import Drill, DrillFigures, DrillStatus
from k2ktui.runtime.node import KafkaNode
from tests.support.commands.cli import k2ktui, k2ktui_json
from tests.support.drill.planted import plant
from tests.support.drill.runs import MAY, Pair, Yes, kill_at, settled
from tests.support.drill.signed import write_key


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return write_key(tmp_path / "sign.pem")


@pytest.fixture
def pair(tmp_path: Path, source: KafkaNode, target: KafkaNode, key: Path) -> Pair:
    return Pair(tmp_path, source, target, {"drill": {"sign": {"key": str(key)}}})


def documents(pair: Pair) -> list[Path]:
    return sorted((pair.directory / "evidence").glob("*.json"))


def forged(drill: Drill) -> Drill:
    return replace(drill, figures=DrillFigures(rpo_records=1234))


def test_a_rehearsal_signs_its_report(pair: Pair, key: Path, tmp_path: Path) -> None:
    drill = pair.start(DrillKind.REHEARSE)
    assert drill.status is DrillStatus.DONE
    (path,) = documents(pair)
    public, signature = key.with_suffix(".pub"), signature_path(path)
    assert {part.stat().st_mode & 0o777 for part in (path, signature)} == {0o600}
    said = k2ktui("evidence", "verify", path, "--key", public).stdout
    assert drill.id in said and "by the process that ran all of it" in said
    # As docs/evidence.md shows it.
    openssl = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(public), "-rawin"]
    given = ["-in", str(path), "-sigfile", str(signature)]
    subprocess.run([*openssl, *given], check=True, timeout=60)
    body = json.loads(path.read_bytes())
    assert {read["group"] for read in body["reads"]} == set(pair.groups)
    assert body["figures"]["rpo_records"] == 0
    assert body["report"]["source_cluster"] and body["report"]["target_cluster"]
    # The topic's report is the signed one, until somebody changes the topic.
    shown = tmp_path / "report.json"
    report = ("drill", "report", drill.id, "-f", pair.file)
    compared = ("evidence", "verify", path, "--key", public, "--report", shown)
    shown.write_text(json.dumps(k2ktui_json(*report)))
    k2ktui(*compared)
    plant(pair.flow.config, pair.target, forged(drill))
    shown.write_text(json.dumps(k2ktui_json(*report)))
    said = k2ktui(*compared, code=1).stderr
    assert "differs from the signed report number 1 in" in said and "figures" in said


@pytest.mark.slow
def test_later_only_the_record_that_the_drill_wrote_is_signed(pair: Pair, key: Path) -> None:
    kept = key.rename(key.with_suffix(".away"))
    said = k2ktui("drill", "rehearse", "-f", pair.file, code=2).stderr
    assert "could not be signed" in said and "No drill was begun" in said
    assert pair.drills() == []
    # Of the same pipeline, without a key.
    settings = yaml.safe_load(pair.file.read_text())
    del settings["drill"]
    unsigned = pair.file.with_name("unsigned.yaml")
    unsigned.write_text(yaml.safe_dump(settings))
    first, second = (
        k2ktui_json("drill", "rehearse", "-f", unsigned, code=None)["id"] for _ in range(2)
    )
    kept.rename(key)
    plant(pair.flow.config, pair.target, forged(find(pair, first)))
    said = k2ktui("evidence", "sign", first, "-f", pair.file, code=5).stderr
    assert "not proven" in said and "Nothing was signed" in said
    assert documents(pair) == []
    k2ktui("evidence", "sign", second, "-f", pair.file)
    k2ktui("evidence", "sign", second, "-f", pair.file, code=5)
    (path,) = documents(pair)
    (one,) = k2ktui_json("evidence", "verify", path, "--key", key.with_suffix(".pub"))["files"]
    assert (one["drill"], one["signed"], one["sequence"]) == (second, "later", 1)


def find(pair: Pair, drill_id: str) -> Drill:
    (drill,) = [drill for drill in pair.drills() if drill.id == drill_id]
    return drill


@pytest.mark.slow
def test_a_resumed_drill_is_signed_as_such_and_a_forged_one_not_at_all(
    pair: Pair, key: Path, tmp_path: Path
) -> None:
    step = f"drill-{DrillPhase.SHADOW}-ended"
    for forges in (False, True):
        kill_at(step, tmp_path / f"crash-{forges}", "drill", "rehearse", "-f", pair.file)
        (killed,) = [drill for drill in pair.drills() if not drill.is_over]
        if forges:
            plant(pair.flow.config, pair.target, forged(killed))
            settled(pair.flow)
        actor = Actor(pair.flow, [str(pair.file)], MAY, Yes(is_person=True))
        drill = resume_drill(actor, killed.id)
        assert drill.status is DrillStatus.DONE
        findings = drill.record(DrillPhase.REPORT).findings
        (path,) = documents(pair)
        if forges:
            (finding,) = findings
            assert finding.startswith(
                "the report was not signed at the drill's end: it is not proven"
            ), findings
            # The process that ended it wrote the record, with what it had read.
            said = k2ktui("evidence", "sign", drill.id, "-f", pair.file, code=5).stderr
            assert "not proven" in said
        else:
            assert findings == ()
            assert json.loads(path.read_bytes())["signed"] == "resumed"
            assert drill.id in path.name
