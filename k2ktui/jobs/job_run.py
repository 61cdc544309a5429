"""The body of a job: run the pipeline, or its sync application, and write events to the job log."""

from __future__ import annotations

import logging
import os
import signal
from dataclasses import asdict
from time import time
from types import FrameType

from k2ktui.engine.moves.journal import RunKind
from k2ktui.engine.moves.plan import Rewind
from k2ktui.errors import ExitCode, K2kError
from k2ktui.jobs.job_process import JobProcess
from k2ktui.jobs.joblog import write_event, write_object
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.mm2.flow_files import read_flow
from k2ktui.parity.watcher import watch_parity
from k2ktui.replication.preflight.checks import Check
from k2ktui.replication.reports.events import Note, Report, Started, Waiting, report_event
from k2ktui.starting import run_pipeline
from k2ktui.sync.loop.poll import SyncPoll
from k2ktui.sync.loop.poll_text import is_worth_reporting, poll_event
from k2ktui.sync.loop.running import SyncReports, SyncRun

log = logging.getLogger(__name__)


def run_job(job: JobProcess) -> int:
    """Run a job's pipeline to its end, and return the exit code."""
    try:
        code = _run(job)
    except K2kError as error:
        parts = {"message": error.message, "unchanged": error.unchanged, "hint": error.hint}
        log.debug("job ends with an error", exc_info=error)
        write_event("error", time(), **parts)
        job.record_end(error.exit_code, error.message)
        return error.exit_code
    except BaseException as error:
        job.record_end(ExitCode.INTERNAL, f"internal error in k2ktui ({type(error).__name__})")
        raise
    job.record_end(code)
    return code


def _run(job: JobProcess) -> int:
    if job.record.kind is RunKind.SYNC:
        return _run_sync(job)
    loaded = load_checked(job.record.files)
    for note in loaded.notes:
        write_object(report_event(Note(note)))

    def write_report(report: Report) -> None:
        if isinstance(report, Waiting):
            job.record_standby()
        if isinstance(report, Started):
            job.record_begin(report.term, report.slots)
        write_object(report_event(report))

    return run_pipeline(
        loaded.config,
        write_report,
        _write_check,
        telemetry=job.record.telemetry,
        take_over=job.record.take_over,
        # A detached job ignores SIGHUP.
        ending=(signal.SIGTERM, signal.SIGINT),
        before_exit=job.record_end,
    )


def _run_sync(job: JobProcess) -> int:
    """Run ``k2ktui sync``; polls that commit nothing are not in the log."""
    flow, notes = read_flow(job.record.files)

    def write_note(text: str) -> None:
        write_object(report_event(Note(text)))

    def write_poll(turn: SyncPoll, first: bool) -> None:
        if first:
            job.record_begin(0, 0)
        for text in turn.notes:
            write_note(text)
        if first or is_worth_reporting(turn):
            write_object({"at": round(time(), 3), **poll_event(turn)})

    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        if run.is_ending:
            job.record_end(ExitCode.INTERRUPTED)
            os._exit(ExitCode.INTERRUPTED)
        seen.append(number)
        run.stop()

    for note in notes:
        write_note(note)
    # A job that waits for the first run of its pipeline runs: jobs start does not wait for it.
    reports = SyncReports(write_note, write_poll, lambda: job.record_begin(0, 0))
    run = SyncRun(
        flow,
        Rewind(job.record.rewind),
        reports,
        telemetry=job.record.telemetry,
        beside=watch_parity(flow.config, write_note, is_pipeline=flow.pipeline is not None),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
    run.run()
    return ExitCode.INTERRUPTED if seen[:1] == [signal.SIGINT] else ExitCode.OK


def _write_check(check: Check) -> None:
    write_event("check", time(), **asdict(check))
