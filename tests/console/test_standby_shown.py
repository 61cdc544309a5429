"""Overview and ``watch`` name the run that works, and count the standbys."""

from __future__ import annotations

from dataclasses import replace

from k2ktui.console.screens.overview_facts import facts
from k2ktui.engine.journal import RunnerState
from k2ktui.jobs.run_rows import current_run
from k2ktui.present.formatting import UNICODE
from k2ktui.present.view_lines import view_lines
from k2ktui.sync.liveness import HeartbeatObserver
from tests.support.views import NOON, Made


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
    lines = ["".join(c.text for c in line) for line in facts(view, NOON, UNICODE, 120, run)]
    (line,) = [line for line in lines if line.startswith("Job")]
    assert works.host in line and ", 2 standbys, heartbeat" in line and "at once" not in line
    assert any(f"job running on {works.host}" in line for line in view_lines(view, NOON))
