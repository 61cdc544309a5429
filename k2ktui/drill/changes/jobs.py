"""Jobs that a drill stops or starts on this host.

What is run comes from this host's own record of a job, never from the drill's record: anyone with
Write on the state topic could have written that.
"""

from __future__ import annotations

from collections.abc import Iterable

from k2ktui.drill.changes.handler import ChangeHandler, read_change
from k2ktui.drill.session import Session
from k2ktui.engine.drill.changes import read_host
from k2ktui.engine.drill.model import Change, ChangeKind
from k2ktui.jobs.local_jobs import Job, find_job, this_host
from k2ktui.jobs.manager import StopMode, start_job, stop_job
from k2ktui.text import safe_text

_RESTART = "Start the pipeline again; a start takes over from any other run"


def find_own_job(session: Session) -> Job | None:
    """Return this host's job of the pipeline."""
    return find_job(session.files, lambda: session.config)


def find_forward_job(session: Session) -> Job | None:
    """Return this host's job of the forward pipeline."""
    forward = session.forward
    return find_job(forward.files, lambda: forward.config)


def is_on_this_host(session: Session, change: Change) -> bool:
    """Return whether the job of a change ran on this host."""
    return read_change(session.drill, change, read_host) == this_host()


class StoppedJob(ChangeHandler):
    """The pipeline's job, which was stopped."""

    kind = ChangeKind.JOB

    def preview_restore(self, session: Session, change: Change) -> Iterable[str]:
        """Return that it is started, if it ran here."""
        if is_on_this_host(session, change):
            by = "from this host's record of it"
            yield f"this host's job of the pipeline, {by}: stopped → started"

    def restore(self, session: Session, change: Change) -> list[str]:
        """Start the job again; return why not."""
        host = read_change(session.drill, change, read_host)
        if host != this_host():
            return [f"the job ran on {safe_text(host)}. {_RESTART} there."]
        job = find_own_job(session)
        if job is None:
            return [f"this host has no record of the pipeline's job. {_RESTART}."]
        if not job.alive:
            start_job(
                session.config,
                job.record.files,
                session.may,
                telemetry=job.record.telemetry,
                cwd=job.record.cwd,
            )
        return []


class StartedJob(ChangeHandler):
    """The forward pipeline's job, which a failback started."""

    kind = ChangeKind.STARTED_JOB

    def preview_restore(self, session: Session, change: Change) -> Iterable[str]:
        """Return that it is stopped, if it was started here."""
        if is_on_this_host(session, change):
            yield f"this host's job of {session.forward.name}: running → stopped"

    def restore(self, session: Session, change: Change) -> list[str]:
        """Stop the job; return why not."""
        if not is_on_this_host(session, change):
            return [f"{change.what}: stop it there with k2ktui jobs stop"]
        job = find_forward_job(session)
        if job is not None and job.alive and stop_job(job, session.may).alive:
            stop_job(job, session.may, StopMode.KILL)
        return []
