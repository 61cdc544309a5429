"""What the screen Jobs says about a job, and its files."""

from __future__ import annotations

from typing import Any

from k2ktui.config.model import PipelineConfig
from k2ktui.console.session import Session
from k2ktui.engine.moves.journal import RunKind
from k2ktui.errors import K2kError
from k2ktui.jobs import local_jobs
from k2ktui.jobs.local_jobs import Job, JobState
from k2ktui.jobs.run_rows import RunRow
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.mm2.flow_files import read_flow
from k2ktui.present import formatting
from k2ktui.sync.flow import why_nothing_to_start

JOBS_HELP = """
Jobs. Each row is a run of a pipeline: a job on this host, or a run on another host as
reported by its heartbeats on the target. Below is the end of the log of the run under the
cursor, and from 120 columns on, the run itself. Enter shows the run and its whole log.

Slots are the parts in which a pipeline is copied: ■ is owned by this run, □ by another one,
· by none. Memory and cores are what a job's processes use on this host, Java included, and
the bars are their shares of what they may use; they are not known of a run on another host.

J starts the pipeline after checks, which are shown as they complete. Y starts k2ktui sync,
which translates the pipeline's groups continuously. X stops a job; a second X stops it
immediately. R checks, stops and starts it again. All of them ask for the pipeline's name
first.

A job keeps running without the console, the SSH connection and the terminal, and is found
again later. Stop a run on another host, or in a terminal, where it was started.

kind: copy, or sync for k2ktui sync. died: it ended without reporting it. silent: no
heartbeat for 15 s. term: the number of the run. commit: mean duration of a transaction's
commit. restarts: starts on this host before this one.
"""


NO_RUN = "No run yet. J starts a job that copies the pipeline."
NOTHING_LOGGED = "Nothing was written yet."
MIRROR_COPIES = "MirrorMaker 2 copies this flow; it is started and stopped outside k2ktui"
_TAKE_OVER = "k2ktui mm2 takeover lets a k2ktui pipeline continue where it stopped."


def nothing_to_start(session: Session) -> str:
    """Return why the session's file starts no job; "" if it does."""
    flow = session.flow
    if session.pair.mirror:
        return f"{MIRROR_COPIES}. {_TAKE_OVER}"
    return "" if flow is None else why_nothing_to_start(flow)


def read_config(job: Job) -> PipelineConfig:
    """Read the files of a job.

    Raises:
        ConfigError: they cannot be read.
    """
    if job.record.kind is RunKind.SYNC:
        return read_flow(job.record.files)[0].config
    return load_checked(job.record.files).config


def name_of(pipeline: str, kind: RunKind) -> str:
    """Return the name of a job."""
    return f"k2ktui sync for {pipeline}" if kind is RunKind.SYNC else pipeline


def place(row: RunRow) -> str:
    """Return the state of a run, and where it is."""
    where = "on this host" if row.here else f"on {formatting.name(row.host, 40)}"
    return f"{row.state} {where}, pid {row.pid}"


def where_to_stop(row: RunRow, verb: str) -> str:
    """Return where a run that is not a job of this host can be stopped or restarted."""
    if row.host == local_jobs.this_host():
        return f"pid {row.pid} runs in a terminal or as a service: stop it there"
    return f"it runs on {formatting.name(row.host, 60)}; there: k2ktui jobs {verb} -f FILE"


def where_is_log(row: RunRow) -> str:
    """Return where the log of a run is that is not a job of this host."""
    if row.host == local_jobs.this_host():
        return f"pid {row.pid} runs in a terminal or as a service of this host: its log is there."
    host = formatting.name(row.host, 60)
    return f"The log is on {host}, where it was started; there: k2ktui jobs log -f FILE"


def reason_of(error: BaseException | None) -> K2kError:
    """Return the error of a worker that reads files."""
    inner = error if isinstance(error, K2kError) or error is None else error.__cause__ or error
    return inner if isinstance(inner, K2kError) else K2kError(f"its files: {type(inner).__name__}")


def outcome_of(job: Job) -> tuple[str, Any]:
    """Return what became of a job after an operation, and the severity of the message."""
    name, pid = name_of(job.record.pipeline, job.record.kind), job.record.pid
    match job.state:
        case JobState.RUNNING:
            return f"{name} runs as pid {pid}.", "information"
        case JobState.STANDBY:
            return f"{name} is a standby, as pid {pid}: another run copies.", "information"
        case JobState.STARTING:
            return f"{name} is still starting, as pid {pid}; its log shows the progress.", "warning"
        case JobState.STOPPING:
            return f"{name} is stopping, as pid {pid}; its log says why.", "warning"
        case JobState.STOPPED:
            return f"{name} has stopped.", "information"
    code = "" if job.code is None else f" (exit code {job.code})"
    return f"{name} has ended{code}: {job.why}", "error"
