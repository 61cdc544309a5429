"""What a stopped comparison has done is kept: continued or discarded, but only by choice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from k2ktui.compare.done_parts import DoneParts
from k2ktui.compare.plan import ComparisonChoice, ComparisonPlan
from k2ktui.engine.compare.outcomes import Outcome, PartResult
from k2ktui.engine.compare.parts import PartitionFacts, divide
from k2ktui.engine.mapping.ranges import MappingRanges
from k2ktui.engine.mapping.replica import Replica, TargetLog
from k2ktui.engine.records.state import Position, SourcePartition
from k2ktui.errors import Refused
from tests.support.pipelines.telemetry import pipeline

AT = SourcePartition("orders", 0)
ALL = ComparisonChoice(lambda _: True)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def plan(source_start: int = 0, target_start: int = 0, end: int = 30) -> ComparisonPlan:
    """Plan parts of ten offsets, copied one to one."""
    ranges = MappingRanges()
    ranges.append(*np.array([[0], [0], [end]], dtype=np.int64))
    replica = Replica(Position(end, 0, -1, "id", 1, 0, "orders", 0), {("orders", 0): ranges})
    logs = {("orders", 0): TargetLog(target_start, end)}
    facts = {AT: PartitionFacts(source_start)}
    parts = divide({AT: replica}, facts, logs, {"orders": False}, size=10)
    return ComparisonPlan(tuple(parts), "src", "tgt", {}, {}, False, (), {})


def keep(number: int, *, resumes: bool | None = None) -> None:
    """Compare the first parts, and stop."""
    with DoneParts(pipeline(), plan(), ALL, resumes=resumes) as done:
        for part in plan().parts[:number]:
            done.add(part, PartResult(AT, part.first, part.end, {Outcome.EQUAL: 10}, 10, 10))


def kept(later: ComparisonPlan, *, resumes: bool | None = True) -> list[tuple[int, int]]:
    with DoneParts(pipeline(), later, ALL, resumes=resumes) as done:
        known = [(part.first, part.end) for part in later.parts if done.find(part)]
        assert done.resumed == len(known)
        return known


def test_it_is_discarded_only_by_choice() -> None:
    keep(2)
    with pytest.raises(Refused, match=r"has compared 20 of 30 offsets \(67%\)") as refused:
        kept(plan(), resumes=None)
    assert refused.value.exit_code == 5
    assert kept(plan()) == [(0, 10), (10, 20)]
    assert kept(plan(), resumes=False) == []
    assert kept(plan(), resumes=None) == []


def test_nothing_is_refused_where_nothing_is_lost(state: Path) -> None:
    """Another choice, another mapping, or a comparison that has ended leave nothing to continue."""
    keep(2)
    other = ComparisonChoice(lambda _: True, sample=0.5)
    DoneParts(pipeline(), plan(), other, resumes=None).__exit__()
    assert kept(plan(source_start=25), resumes=None) == []
    keep(2, resumes=False)
    assert kept(replace(plan(), ignored={"orders": ("value",)}), resumes=None) == []
    with DoneParts(pipeline(), plan(), ALL, resumes=True) as done:
        done.forget()
    assert kept(plan(), resumes=None) == []


def test_retention_leaves_what_is_still_there() -> None:
    """It moves the log start offsets while an operator decides to go on."""
    keep(3)
    assert kept(plan(source_start=12)) == [(20, 30)]
    keep(3, resumes=False)
    assert kept(plan(target_start=12)) == [(20, 30)]
    keep(3, resumes=False)
    assert kept(plan(end=35)) == [(0, 10), (10, 20), (20, 30)]


def test_what_was_cut_off_is_compared_again(state: Path) -> None:
    keep(3)
    (path,) = state.rglob("*.jsonl")
    path.write_bytes(path.read_bytes()[:-5])
    assert kept(plan()) == [(0, 10), (10, 20)]
