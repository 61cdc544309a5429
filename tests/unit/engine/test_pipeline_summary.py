"""A pipeline's summary counts what its screens show."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k2ktui.engine.mapping.replica import Replica
from k2ktui.engine.moves.groups import GroupView, Snapshot, make_group_rows
from k2ktui.engine.moves.pipeline_summary import (
    GroupCount,
    PipelineSummary,
    summarize_pipeline,
)
from k2ktui.engine.records.state import Gap, Position
from k2ktui.engine.severity import Severity
from tests.unit.engine.test_groups import S, T, a_range, at, snapshot

POSITION = Position(100, 0, 0, "id", 3, 0, *T)


def summary(shot: Snapshot) -> PipelineSummary:
    return summarize_pipeline(shot, make_group_rows(shot))


def replica(**changes: object) -> Replica:
    made = Replica(POSITION, {T: a_range(0, 500, 100)}, source_start=0)
    return replace(made, **changes)  # type: ignore[arg-type]


def offsets(**changes: object) -> tuple[int, int]:
    counted = summary(snapshot(replicas={S: replica(**changes)}))
    return counted.retained, counted.covered


def test_offsets_of_the_retained_log_are_counted() -> None:
    assert offsets() == (100, 100)
    assert offsets(source_start=40) == (60, 60)
    assert offsets(source_start=100) == (0, 0)
    assert offsets(source_start=None) == (0, 0), "the source did not say"
    assert offsets(position=None) == (0, 0)


def test_what_does_not_translate_is_not_covered() -> None:
    assert offsets(complete_from=30) == (100, 70)
    assert offsets(holes=((10, 20), (95, 120))) == (100, 85)
    assert offsets(complete_from=15, holes=((10, 20),)) == (100, 80)
    lost = replace(POSITION, gaps=(Gap(50, 60, "lost"),))
    assert offsets(position=lost) == (100, 90)


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.integers(0, 10**12))
def test_coverage_is_a_share(covered: int, more: int, lag: int) -> None:
    assert 0.0 <= PipelineSummary(0, covered + more, covered).coverage(lag) <= 1.0


def test_lag_is_not_covered() -> None:
    assert PipelineSummary(0, 90, 90).coverage(10) == pytest.approx(0.9)
    assert PipelineSummary(0, 0, 0).coverage() == 1.0, "an empty log"


def test_groups_are_counted_by_rating_the_worst_first() -> None:
    views = {
        "lost": GroupView("Empty", 0, {("s", 0): at(40)[T]}),
        "good": GroupView("Empty", 0, {("s", 0): at(40)[T]}),
        "fine": GroupView("Empty", 0, {("s", 0): at(40)[T]}),
    }
    there = {name: GroupView("Empty", 0, at(540)) for name in ("good", "fine")}
    there["lost"] = GroupView("Empty", 0, at(543))
    shot = replace(snapshot(replicas={S: replica()}), source=views, target=there)
    counted = summary(shot)
    assert counted.groups == (
        GroupCount(Severity.BAD, "skips", 1),
        GroupCount(Severity.OK, "in step", 2),
    )
    assert (counted.total, counted.at_ms) == (3, 1_000_000)
