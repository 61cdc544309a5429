"""Cases of the transcript: runs, and jobs of this host."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from k2ktui.jobs.job_directory import JobDirectory, JobRecord, Phase
from k2ktui.jobs.local_jobs import Job, JobState
from tests.support.commands.transcript import Typed, typed
from tests.support.console.views import (
    NOON,
)
from tests.unit.golden.cases.common import Cases


def jobs_list(folder: Path) -> list[Typed]:
    """A job of this host; none."""
    place = JobDirectory(folder / "jobs" / "orders-5f3a91")
    record = JobRecord(
        start="s", pipeline="orders", group="k2k", files=("orders.yaml",), cwd="/",
        telemetry=False, environment="", read_only=False, pid=4711, birth="b", host="bastion1",
        user="ops", version="0.9.0", started_at=NOON - 7_203, phase=Phase.RUNNING, term=12,
        slots=2, starts=2,
    )  # fmt: skip
    read = "k2ktui.jobs.local_jobs.list_jobs"
    kept = {"k2ktui.cli.jobs._note_state": None}
    return [
        typed("jobs list", {read: [Job(place, record, JobState.RUNNING)], **kept}),
        typed("jobs list --json", {read: [Job(place, record, JobState.DIED)], **kept}),
        typed("jobs list", {read: [], **kept}),
    ]


CASES: Mapping[str, Cases] = {
    "jobs list": jobs_list,
}
