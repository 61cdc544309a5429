"""``Pipeline`` where no cluster is needed: what it opens, and which plans it loads."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui import ExitCode, K2kError, Pipeline, Plan
from k2ktui.engine.moves.plan import dump_plan
from tests.support.jobs.jobs import write_pipeline
from tests.unit.engine.test_plan import PLAN
from tests.unit.mm2.test_importing import FILE

LASTING = replace(PLAN, pipeline="orders", expires_at=4_000_000_000.0)


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return Pipeline.open(write_pipeline(tmp_path / "orders.yaml", 1, name="orders"))


def test_a_plan_file_is_loaded(pipeline: Pipeline, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(dump_plan(LASTING))
    assert pipeline.load_plan(file) == pipeline.load_plan(str(file)) == LASTING


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        (replace(LASTING, expires_at=PLAN.expires_at), "it expired"),
        (replace(LASTING, pipeline="payments"), "the plan is for pipeline payments"),
        (replace(LASTING, side="source"), "sets offsets on the source cluster"),
    ],
)
def test_a_plan_that_apply_would_refuse(
    plan: Plan, words: str, pipeline: Pipeline, tmp_path: Path
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(dump_plan(plan))
    with pytest.raises(K2kError, match=words) as error:
        pipeline.load_plan(file)
    assert error.value.exit_code is ExitCode.REFUSED


def test_a_plan_that_was_modified(pipeline: Pipeline, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(json.loads(dump_plan(LASTING)) | {"made_by": "somebody else"}))
    with pytest.raises(K2kError, match="it was modified") as error:
        pipeline.load_plan(file)
    assert error.value.exit_code is ExitCode.REFUSED


def test_a_plan_that_cannot_be_read(pipeline: Pipeline, tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for file in (tmp_path / "nowhere.json", tmp_path / "binary", "-", tmp_path):
        with pytest.raises(K2kError) as error:
            pipeline.load_plan(file)
        assert error.value.exit_code is ExitCode.USAGE


@pytest.fixture(autouse=True)
def _servers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("B_SERVERS", "localhost:2")


def test_a_file_of_mirrormaker_is_opened_as_commands_open_it(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    with Pipeline.open(file) as opened, Pipeline.open(f"{file}#A->B") as chosen:
        assert opened.name == chosen.name == "A->B"
    with pytest.raises(K2kError) as error:
        Pipeline.open(f"{file}#B->C")
    assert error.value.exit_code is ExitCode.USAGE
    file.write_text(FILE + "B->A.enabled = true\n")
    with pytest.raises(K2kError, match="enables A->B, B->A"):
        Pipeline.open(file)
    with Pipeline.open(f"{file}#B->A") as chosen:
        assert chosen.name == "B->A"


def test_a_file_of_mirrormaker_stands_alone(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    with pytest.raises(K2kError) as error:
        Pipeline.open(file, write_pipeline(tmp_path / "orders.yaml", 1))
    assert error.value.exit_code is ExitCode.USAGE
