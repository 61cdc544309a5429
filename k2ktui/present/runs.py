"""Columns of a table of runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.jobs.run_rows import RunRow
from k2ktui.present import formatting
from k2ktui.present.columns import Column, name_column
from k2ktui.present.formatting import Cell, Glyphs, Tone
from k2ktui.text import counted

_SHOWN_SLOTS = 5
_SEVERITIES = {
    "running": Severity.OK,
    "standby": Severity.INFO,
    "starting": Severity.INFO,
    "stopping": Severity.INFO,
    "stopped": Severity.INFO,
    "failed": Severity.BAD,
    "died": Severity.BAD,
    "silent": Severity.BAD,
}


def run_columns(glyphs: Glyphs, now: Callable[[], float]) -> tuple[Column[RunRow], ...]:
    """Return the columns of a table of runs; ``now`` returns the time that ages are relative to."""
    return (
        Column("state", "state", lambda row: glyphs.mark(judge_run(row)), _severity, width=9),
        name_column("pipeline", lambda row: row.pipeline, width=8),
        Column("kind", "kind", lambda row: Cell(str(row.kind)), lambda row: row.kind, width=4),
        Column("host", "host", lambda row: Cell(_host(row)), _host, width=4),
        Column("pid", "pid", lambda row: Cell(str(row.pid)), lambda row: row.pid, True, 5),
        Column(
            "beat",
            "heartbeat",
            lambda row: _beat(row, now()),
            lambda row: row.heartbeat_at or 0,
            True,
            6,
            1,
        ),
        Column("lap", "lap", lambda row: Cell(formatting.number(row.lap)), None, True, 3, 2),
        Column(
            "lag", "lag", lambda row: Cell(formatting.number(row.lag_records)), None, True, 3, 1
        ),
        Column("commit", "commit", _commit, None, True, 6, 3),
        Column("slots", "slots", lambda row: Cell(_slots(row)), None, True, 4, 8),
        Column("term", "term", lambda row: Cell(_count(row.term)), None, True, 4, 3),
        Column("restarts", "restarts", _restarts, None, True, 4, 9),
        Column(
            "since",
            "since (UTC)",
            lambda row: Cell(clock(row.started_at)),
            lambda row: row.started_at,
            False,
            11,
            10,
        ),
        Column("user", "user", lambda row: Cell(formatting.name(row.user, 20)), None, False, 4, 11),
        Column("version", "version", lambda row: Cell(formatting.name(row.version, 12)), rank=12),
        Column("error", "error", _error, None, False, 6, 13, 400),
    )


def judge_run(row: RunRow) -> SeverityLabel:
    """Rate a run by its state."""
    return SeverityLabel(_SEVERITIES.get(row.state, Severity.UNKNOWN), row.state)


def _severity(row: RunRow) -> Severity:
    return judge_run(row).severity


def _host(row: RunRow) -> str:
    return "here" if row.here else formatting.name(row.host, 40)


def _beat(row: RunRow, now: float) -> Cell:
    if row.heartbeat_at is None:
        return Cell(formatting.NOT_AVAILABLE, Tone.MUTED)
    return Cell(formatting.age(max(0.0, now - row.heartbeat_at)))


def _commit(row: RunRow) -> Cell:
    return Cell(formatting.NOT_AVAILABLE if row.commit_ms is None else f"{row.commit_ms:.0f} ms")


def _restarts(row: RunRow) -> Cell:
    return Cell(formatting.NOT_AVAILABLE if row.restarts is None else f"{row.restarts:,}")


def _count(value: int) -> str:
    return str(value) if value else formatting.NOT_AVAILABLE


def _slots(row: RunRow) -> str:
    """Return the number of slots; with their numbers where runs share the pipeline."""
    if not row.owned:
        return _count(row.slots)
    more = ", …" if len(row.owned) > _SHOWN_SLOTS else ""
    return f"{len(row.owned)}: {', '.join(map(str, row.owned[:_SHOWN_SLOTS]))}{more}"


def are_sharing(generations: Collection[int]) -> bool:
    """Return whether the runs that copy share their pipeline, from their generations of owners."""
    return len(generations) > 1 and all(generations)


def describe_others(copying: Sequence[int], standbys: int) -> str:
    """Return how many runs copy a pipeline at once, and how many wait; "" for one that copies.

    Args:
        copying: the generation of owners that each run that copies has seen.
        standbys: number of standbys.
    """
    parts = []
    if are_sharing(copying):
        parts.append(f"shared by {len(copying)} runs, generation {max(copying):,}")
    elif len(copying) > 1:
        parts.append(f"{len(copying)} at once")
    if standbys and copying:
        parts.append(counted(standbys, "standby"))
    return ", ".join(parts)


def _error(row: RunRow) -> Cell:
    return Cell(formatting.message(row.error), Tone.BAD if row.error else Tone.MUTED)


def clock(at: float) -> str:
    """Return a time as month, day, hour and minute (UTC)."""
    return time.strftime("%m-%d %H:%M", time.gmtime(at))
