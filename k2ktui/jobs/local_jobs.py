"""The jobs of this host: what their directories say of their state, and why they ended."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from time import time

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.journal import RunKind
from k2ktui.jobs import joblog
from k2ktui.jobs.job_directory import (
    JobDirectory,
    JobRecord,
    Phase,
    job_directory,
    list_job_directories,
)
from k2ktui.jobs.process import same_boot

_TAIL = 200
# Longest time in seconds until a new process has recorded its pid.
FORK_S = 30.0
# By job directory: what the last error was read from, and the error.
_last_errors: dict[Path, tuple[tuple[str, int, int, int], str]] = {}


class JobState(StrEnum):
    """State of a job of this host."""

    STARTING = "starting"
    STANDBY = "standby"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"
    DIED = "died"


@dataclass(frozen=True, slots=True)
class Job:
    """A job of this host.

    Attributes:
        place: its directory.
        record: the record it wrote.
        state: its current state.
        why: why it ended, or its last error; safe to print, may be empty.
    """

    place: JobDirectory
    record: JobRecord
    state: JobState
    why: str = ""

    @property
    def alive(self) -> bool:
        """Whether its process is running."""
        return self.state in (
            JobState.STARTING,
            JobState.STANDBY,
            JobState.RUNNING,
            JobState.STOPPING,
        )

    @property
    def code(self) -> int | None:
        """The exit code after the end, None if it was not recorded."""
        return self.record.code


def list_jobs() -> list[Job]:
    """Return this host's jobs of the user, the last started first; contacts no cluster."""
    jobs = [job for place in list_job_directories() if (job := read_job(place)) is not None]
    return sorted(jobs, key=lambda job: -job.record.started_at)


def read_job(place: JobDirectory) -> Job | None:
    """Return the job in a directory, None if there is none."""
    record = place.read()
    if record is None:
        return None
    if record.identity.alive:
        is_over = record.phase is Phase.ENDED  # its process is about to be gone
        state = JobState.STOPPING if is_over else JobState(record.phase)
        return Job(place, record, state, _last_error(place, record))
    is_new = time() - record.started_at < FORK_S
    if record.ended_at is None and not record.birth and is_new:
        return Job(place, record, JobState.STARTING)  # its process has not recorded its pid yet
    if record.ended_at is None:
        return Job(place, record, JobState.DIED, _explain_death(place, record))
    state = JobState.FAILED if record.error or record.code else JobState.STOPPED
    return Job(place, record, state, record.error)


def find_job(
    files: Sequence[str], config: Callable[[], PipelineConfig], kind: RunKind = RunKind.COPY
) -> Job | None:
    """Return the job of a pipeline, None if it was never started here.

    Args:
        files: its files; a job started from them is found without reading them, so that it can be
            stopped where their placeholders cannot be filled in.
        config: reads them.
        kind: what the job does.

    Raises:
        ConfigError: no job was started from these files, and they cannot be read.
    """
    wanted = absolute_paths(files)
    jobs = [job for job in list_jobs() if job.record.kind is kind]
    of_files = [job for job in jobs if job.record.files == wanted]
    return of_files[0] if of_files else read_job(job_directory(config(), kind))


def this_host() -> str:
    """Return the name of this host in heartbeats."""
    return socket.gethostname()


def absolute_paths(files: Sequence[str]) -> tuple[str, ...]:
    """Return absolute paths of the files; one item may hold several, separated by commas."""
    names = [part.strip() for file in files for part in file.split(",")]
    return tuple(os.path.abspath(name) for name in names if name)


def _last_error(place: JobDirectory, record: JobRecord) -> str:
    """Return the last error since the job started; a log that did not grow is not read again."""
    try:
        log = place.log.stat()
    except OSError:
        return ""
    of = (record.start, log.st_ino, log.st_size, log.st_mtime_ns)
    known = _last_errors.get(place.directory)
    if known is None or known[0] != of:
        entries = joblog.entries_since_start(joblog.read_tail(place, _TAIL), record.start)
        known = _last_errors[place.directory] = (of, joblog.last_error(entries))
    return known[1]


def _explain_death(place: JobDirectory, record: JobRecord) -> str:
    """Describe why a job ended without recording its end."""
    if not record.birth:
        why = "its process could not be started"
    elif not same_boot(record.birth):
        why = "the host was restarted"
    else:
        why = "ended without an exit code: killed, or out of memory"
    error = _last_error(place, record)
    return f"{why}; last error: {error}" if error else why
