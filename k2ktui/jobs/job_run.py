"""The body of a job: run the pipeline and write its events to the job log."""

from __future__ import annotations

import signal
from dataclasses import asdict
from time import time

from k2ktui.errors import ExitCode, K2kError
from k2ktui.jobs.job_process import JobProcess
from k2ktui.jobs.joblog import write_event, write_object
from k2ktui.kafka.properties import load_checked
from k2ktui.replication.event_text import report_event
from k2ktui.replication.events import Note, Report, Started
from k2ktui.replication.preflight.checks import Check
from k2ktui.runs import run_pipeline


def run_job(job: JobProcess) -> int:
    """Run a job's pipeline to its end, and return the exit code."""
    try:
        code = _run(job)
    except K2kError as error:
        parts = {"message": error.message, "unchanged": error.unchanged, "hint": error.hint}
        write_event("error", time(), **parts)
        job.record_end(error.exit_code, error.message)
        return error.exit_code
    except BaseException as error:
        job.record_end(ExitCode.FINDINGS, f"internal error in k2ktui ({type(error).__name__})")
        raise
    job.record_end(code)
    return code


def _run(job: JobProcess) -> int:
    loaded = load_checked(job.record.files)
    for note in loaded.notes:
        write_object(report_event(Note(note)))

    def write_report(report: Report) -> None:
        if isinstance(report, Started):
            job.record_begin(report.term, report.slots)
        write_object(report_event(report))

    return run_pipeline(
        loaded.config,
        write_report,
        _write_check,
        telemetry=job.record.telemetry,
        # A detached job ignores SIGHUP.
        ending=(signal.SIGTERM, signal.SIGINT),
        before_exit=job.record_end,
    )


def _write_check(check: Check) -> None:
    write_event("check", time(), **asdict(check))
