"""Jobs as a table, as a line, and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from k2ktui.jobs.local_jobs import Job
from k2ktui.jobs.run_rows import RunRow
from k2ktui.present.columns import Column, pick
from k2ktui.present.formatting import WORDS, moment
from k2ktui.present.runs import run_columns
from k2ktui.text import safe_text


def job_text(job: Job) -> str:
    """Return the state of a job as a few lines of text."""
    record = job.record
    first = f"{safe_text(record.pipeline)}: {job.state}"
    if job.alive:
        first += f", pid {record.pid}, since {moment(record.started_at)}"
    elif job.code is not None:
        first += f", exit code {job.code}"
    log = f"  log: {safe_text(job.place.log)}"
    return "\n".join([first, *([f"  {job.why}"] if job.why else []), log])


def job_object(job: Job) -> dict[str, Any]:
    """Return a job as ``--json`` prints it."""
    return {
        **asdict(job.record),
        "id": job.place.id,
        "state": str(job.state),
        "reason": job.why,
        "log": str(job.place.log),
    }


def row_object(row: RunRow, now: float) -> dict[str, Any]:
    """Return a run as ``--json`` prints it; the heartbeat age is in seconds."""
    value = {name: getattr(row, name) for name in RunRow.__dataclass_fields__ if name != "job"}
    value["heartbeat_age_s"] = None if row.heartbeat_at is None else now - row.heartbeat_at
    value["job"] = job_object(row.job) if row.job else None
    return value


def columns(now: float) -> tuple[Column[RunRow], ...]:
    """Return the columns of the run table; ``now`` is epoch seconds."""
    return pick(
        run_columns(WORDS, lambda: now),
        *("pipeline", "kind", "state", "host", "user", "pid", "since", "beat", "term", "lap"),
        *("lag", "slots", "version", "error"),
    )
