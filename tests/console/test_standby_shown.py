"""Overview, ``watch`` and Jobs name the runs that work, and count the standbys."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from k2ktui.console.screens.overview_facts import OverviewFigures
from k2ktui.engine.moves.journal import Runner, RunnerState
from k2ktui.jobs.run_rows import current_run, make_run_rows
from k2ktui.present.formatting import NOT_AVAILABLE, UNICODE, WORDS
from k2ktui.present.runs import run_columns
from k2ktui.present.view_lines import view_lines
from k2ktui.sync.liveness import HeartbeatObserver
from tests.support.console.views import NOON, Made


def test_overview_counts_standbys_beside_the_run_that_works() -> None:
    view = Made().view()
    (works,) = view.runners
    beats = [
        replace(works, runner=name, host="bastion2", state=RunnerState.STANDBY, term=0, slots=0)
        for name in ("a", "z")
    ]
    observer = HeartbeatObserver(lambda: 0.0, lambda: NOON)
    view = replace(view, runners=observer.observe([*beats, works]))
    assert view.runners[0].runner == works.runner
    run = current_run([], view.runners, "orders", NOON)
    lines = [
        "".join(c.text for c in line)
        for line in OverviewFigures(view, NOON, UNICODE).pair_lines(run)
    ]
    (line,) = [line for line in lines if line.startswith("Job")]
    assert works.host in line and ", 2 standbys, heartbeat" in line and "at once" not in line
    assert any(f"job running on {works.host}" in line for line in view_lines(view, NOON))


def sharing(name: str, *owned: int, **values: Any) -> Runner:
    (works,) = Made().view().runners
    works = replace(works, runner=name, host=f"host-{name}", term=3, slots=len(owned))
    return replace(works, generation=7, owned=owned, **values)


def test_overview_and_watch_count_the_runs_that_share_the_pipeline() -> None:
    waits = sharing("c", state=RunnerState.STANDBY)
    view = replace(Made().view(), runners=(sharing("a", 0, 2), sharing("b", 1, 3), waits))
    run = current_run([], view.runners, "orders", NOON)
    lines = [
        "".join(c.text for c in line)
        for line in OverviewFigures(view, NOON, UNICODE).pair_lines(run)
    ]
    (line,) = [line for line in lines if line.startswith("Job")]
    shown = ", 2 slots, shared by 2 runs, generation 7, 1 standby, heartbeat"
    assert shown in line
    assert any(shown in line for line in view_lines(view, NOON))


def test_the_table_of_runs_names_the_slots_that_each_owns() -> None:
    runners = (sharing("a", *range(6)), sharing("b", 7), sharing("c"))
    rows = make_run_rows([], runners, "orders", NOON)
    (column,) = [column for column in run_columns(WORDS, lambda: NOON) if column.id == "slots"]
    shown = {row.host: column.cell(row).text for row in rows}
    assert shown == {"host-a": "6: 0, 1, 2, 3, 4, …", "host-b": "1: 7", "host-c": NOT_AVAILABLE}
