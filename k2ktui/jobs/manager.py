"""Start, stop and restart the jobs of this host."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from threading import Event
from time import monotonic, time

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.access import Access, require
from k2ktui.engine.moves.journal import RunKind
from k2ktui.engine.moves.plan import Rewind
from k2ktui.errors import K2kError, Refused
from k2ktui.jobs import joblog
from k2ktui.jobs.job_directory import JobDirectory, JobRecord, Phase, job_directory
from k2ktui.jobs.local_jobs import (
    FORK_S,
    Job,
    JobState,
    absolute_paths,
    read_job,
    this_host,
)
from k2ktui.sync.moves.plans import whoami
from k2ktui.text import safe_text
from k2ktui.version import __version__

log = logging.getLogger(__name__)

STOP_S = 10.0
START_S = 60.0
_TICK_S = 0.1
_SIGNAL_INTERVAL_S = 0.25
_LOCK_S = 1.0
_TAIL = 200


class StopMode(StrEnum):
    """How to stop a job: after the current lap, without waiting for it, or by SIGKILL."""

    GRACEFULLY = "gracefully"
    NOW = "now"
    KILL = "kill"


def start_job(
    config: PipelineConfig,
    files: Sequence[str],
    allowed: Access,
    *,
    telemetry: bool = False,
    cwd: str = "",
    rewind: Rewind | None = None,
    take_over: bool = False,
) -> Job:
    """Start a pipeline's job; returns as soon as its process exists.

    Args:
        config: the pipeline; having it proves that its files are valid and can be filled in here,
            which holds for the job too because it inherits this process's environment.
        files: its files.
        allowed: the session's access rights.
        telemetry: export metrics.
        cwd: working directory; by default this process's.
        rewind: start ``k2ktui sync`` with this ``--rewind``; None starts the copying.
        take_over: fence a run that works, although ``coordination.mode`` is not ``exclusive``.

    Raises:
        Refused: not allowed, the job runs here already, or it cannot be started.
    """
    require(allowed, "starting a job")
    place = job_directory(config, RunKind.COPY if rewind is None else RunKind.SYNC)
    place.make()
    lock = _lock_job(place)
    try:
        record = new_record(place, config, absolute_paths(files), cwd, telemetry)
        record = replace(record, take_over=take_over)
        if rewind is not None:
            record = replace(record, kind=RunKind.SYNC, rewind=str(rewind))
        place.write(record)
        return _spawn(place, record, lock)
    finally:
        os.close(lock)


def new_record(
    place: JobDirectory, config: PipelineConfig, files: tuple[str, ...], cwd: str, telemetry: bool
) -> JobRecord:
    """Return the record of a job that is about to start; it continues the directory's last one."""
    before = place.read()
    return JobRecord(
        start=uuid.uuid4().hex,
        pipeline=config.name,
        group=config.coordination.commit.group,
        files=files,
        cwd=cwd if cwd and Path(cwd).is_dir() else os.getcwd(),
        telemetry=telemetry,
        environment=config.environment,
        read_only=config.read_only,
        pid=0,
        birth="",
        host=this_host(),
        user=whoami().rpartition("@")[0],
        version=__version__,
        started_at=time(),
        starts=before.starts + 1 if before else 1,
    )


def _lock_job(place: JobDirectory) -> int:
    lock = _lock_soon(place)
    if lock is not None:
        return lock
    job = read_job(place)
    where = f" as pid {job.record.pid}" if job is not None and job.alive else ""
    raise Refused(
        f"{safe_text(place.id)} is already running on this host{where}, or is being started",
        unchanged="The running job was not changed, and no other was started.",
        hint="Restart it with k2ktui jobs restart; read its log with k2ktui jobs log.",
    )


def _lock_soon(place: JobDirectory) -> int | None:
    """Return the lock; None if the job runs, or if the lock is not free within a second.

    A process that has ended may hold it a moment longer, until its last thread is gone.
    """
    until = monotonic() + _LOCK_S
    while (lock := place.lock()) is None:
        job = read_job(place)
        if (job is not None and job.alive) or monotonic() > until:
            return None
        Event().wait(_TICK_S)
    return lock


def _spawn(place: JobDirectory, record: JobRecord, lock: int) -> Job:
    # -P keeps the working directory, which others may write to, out of the module search path.
    command = [sys.executable, "-P", "-m", "k2ktui", "jobs", "run"]
    command += ["--place", str(place.directory), "--lock", str(lock)]
    output = place.open_log()
    try:
        parent = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(lock,),
            start_new_session=True,
            cwd=record.cwd,
        )
        # It forks at once, so that init adopts the job and the job leads no session.
        code = parent.wait(FORK_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _not_started(place, type(error).__name__) from error
    finally:
        os.close(output)
    job = read_job(place)
    if code != 0 or job is None:
        why = "its process could not be started"
        place.write(replace(record, phase=Phase.ENDED, ended_at=time(), error=why))
        raise _not_started(place, f"exit code {code}")
    log.info("job %s started as pid %d", place.id, job.record.pid)
    return job


def _not_started(place: JobDirectory, why: str) -> Refused:
    log.warning("job %s not started: %s", place.id, why)
    error = joblog.last_error(joblog.read_tail(place, _TAIL))
    return Refused(
        f"the job could not be started ({why}){': ' + error if error else ''}",
        unchanged="Nothing was copied.",
        hint=f"See its log: {safe_text(place.log)}",
    )


def await_running(job: Job, timeout: float = START_S) -> Job:
    """Wait until a job has begun to copy or has ended, at most ``timeout`` seconds.

    Args:
        job: a job that was started.
        timeout: seconds.
    """
    waits = (JobState.STARTING, JobState.STOPPING)
    return _await(job, lambda now: now.state not in waits, timeout)


def stop_job(
    job: Job,
    allowed: Access,
    how: StopMode = StopMode.GRACEFULLY,
    timeout: float = STOP_S,
) -> Job:
    """Stop a job; return it as soon as it has ended, or after the timeout.

    Args:
        job: the job; nothing is done if it does not run.
        allowed: the session's access rights.
        how: ``NOW`` repeats the signal, so that the job does not wait for its lap; ``KILL`` kills
            it. Neither loses or duplicates a record: the next start aborts what was not committed.
        timeout: seconds to wait for its end.

    Raises:
        Refused: not allowed, or the job belongs to another user.
    """
    require(allowed, "stopping a job")
    number = signal.SIGKILL if how is StopMode.KILL else signal.SIGTERM
    signaled_at: float | None = None

    def signal_it(now: Job) -> None:
        nonlocal signaled_at
        # A job that has just begun has no pid before it has recorded itself.
        if now.record.start != job.record.start or not now.record.birth:
            return
        # Pending signals of one kind merge into one: repeat until the job is gone.
        repeats = how is StopMode.NOW
        if signaled_at is None or (repeats and monotonic() - signaled_at >= _SIGNAL_INTERVAL_S):
            signaled_at = monotonic()
            _send(now, number)

    now = _await(job, lambda job: not job.alive, timeout, signal_it)
    if job.alive and now.state is JobState.DIED and now.record.start == job.record.start:
        now = _record_end(now, how)
    log.info("job %s: %s%s", now.place.id, now.state, f": {now.why}" if now.why else "")
    return now


def _send(job: Job, number: signal.Signals) -> None:
    log.info("pid %d of job %s: sending %s", job.record.pid, job.place.id, number.name)
    try:
        job.record.identity.signal(number)
    except PermissionError as error:
        raise Refused(
            f"pid {job.record.pid} belongs to another user ({safe_text(job.record.user)})",
            unchanged="It was not stopped.",
        ) from error


def _record_end(job: Job, how: StopMode) -> Job:
    """Record the end of a job that could not do so: it was killed, or had only just begun."""
    error = "" if how is not StopMode.KILL else "killed by an operator"
    record = replace(job.record, phase=Phase.ENDED, ended_at=time(), error=error)
    job.place.write(record)
    return read_job(job.place) or job


def _await(
    job: Job,
    is_over: Callable[[Job], bool],
    timeout: float,
    between: Callable[[Job], None] = lambda job: None,
) -> Job:
    until, wait = monotonic() + timeout, Event()
    while True:
        now = read_job(job.place) or job
        if is_over(now):
            return now
        between(now)
        if monotonic() >= until:
            return now
        wait.wait(_TICK_S)


def restart_job(
    job: Job,
    config: PipelineConfig,
    files: Sequence[str],
    allowed: Access,
    timeout: float = STOP_S,
    *,
    take_over: bool = False,
) -> Job:
    """Stop a job and start it again; ``take_over`` is as for ``start_job``.

    Raises:
        K2kError: it did not end within ``timeout`` seconds, or could not be started.
    """
    ended = stop_job(job, allowed, timeout=timeout)
    if ended.alive:
        raise K2kError(
            f"pid {ended.record.pid} still runs after {timeout:g} s",
            unchanged="It has received the stop signal; no new job was started.",
            hint="Stop it with --now or --kill, then start it again.",
        )
    record = job.record
    rewind = Rewind(record.rewind) if record.kind is RunKind.SYNC else None
    return start_job(
        config,
        files,
        allowed,
        telemetry=record.telemetry,
        cwd=record.cwd,
        rewind=rewind,
        take_over=take_over,
    )


def forget_job(job: Job) -> None:
    """Remove the directory of a job that does not run."""
    lock = _lock_soon(job.place)
    if lock is None:
        return
    with contextlib.suppress(OSError):
        for file in job.place.directory.iterdir():
            file.unlink()
        job.place.directory.rmdir()
    os.close(lock)
