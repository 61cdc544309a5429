"""The table of runs on screen 5."""

from __future__ import annotations

from collections.abc import Callable

from k2ktui.console.widgets.grid import Grid
from k2ktui.jobs.run_rows import RunRow
from k2ktui.present.formatting import Glyphs
from k2ktui.present.runs import judge_run, run_columns
from k2ktui.watch.severity import Severity

# Ids of the columns filled from heartbeats.
HEARTBEAT_COLUMNS = frozenset({"state", "beat", "lap", "lag", "commit"})


def jobs_grid(glyphs: Glyphs, now: Callable[[], float]) -> Grid[RunRow]:
    """Return a table of runs; ``now`` returns the time that ages are relative to."""
    return Grid(
        run_columns(glyphs, now),
        key=lambda row: row.key,
        search=lambda row: f"{row.pipeline} {row.state} {row.host} {row.user} {row.error}",
        problem=lambda row: judge_run(row).severity >= Severity.WARN,
        id="jobs",
    )
