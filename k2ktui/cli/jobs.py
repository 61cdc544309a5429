"""``k2ktui jobs``: pipelines that run detached on this host, and their runs on other hosts."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from k2ktui.cli.accept import accept_clusters, accept_options
from k2ktui.cli.terminal.jobs_text import columns, job_object, job_text, row_object
from k2ktui.cli.terminal.notes import print_note
from k2ktui.cli.terminal.options import (
    LONGEST_WAIT_S,
    access_to,
    json_option,
    kept_file_option,
    load_flow,
    load_pipeline,
    optional_file_option,
    range_check,
    unlock_option,
)
from k2ktui.cli.terminal.tables import note_pair, print_table, read_beside
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.access import Access, access, require
from k2ktui.engine.moves.journal import RunKind, Runner
from k2ktui.engine.moves.plan import Rewind
from k2ktui.errors import ConfigError, ExitCode, K2kError, Refused, TimedOut
from k2ktui.jobs import joblog, local_jobs, manager
from k2ktui.jobs.job_directory import job_directory
from k2ktui.jobs.local_jobs import Job
from k2ktui.jobs.manager import StopMode
from k2ktui.jobs.run_rows import make_run_rows, recent_runs
from k2ktui.runtime.paths import no_state_note
from k2ktui.runtime.spark_extra import require_pyspark

if TYPE_CHECKING:
    from k2ktui.replication.preflight.checks import Check

_FOLLOW_S = 0.3
_NO_SYNC_JOB = "this host has no job of k2ktui sync for this pipeline"

_force = click.option("--force", is_flag=True, help="Start even if a check fails.")
_take_over = click.option(
    "--take-over",
    is_flag=True,
    help="Start even if the pipeline runs elsewhere; the other run is fenced.",
)
_sync = click.option(
    "--sync", "is_sync", is_flag=True, help="The job of k2ktui sync, not the one that copies."
)
_wait = click.option(
    "--wait",
    default=manager.START_S,
    show_default=True,
    metavar="SECONDS",
    help="Maximum wait in seconds for the copy to begin; the job keeps running afterwards.",
)
_timeout = click.option(
    "--timeout",
    default=manager.STOP_S,
    show_default=True,
    metavar="SECONDS",
    callback=range_check(0, LONGEST_WAIT_S),
    help="Maximum wait in seconds until the job has stopped.",
)


@click.group(invoke_without_command=True, help="Run pipelines as detached jobs on this host.")
@click.pass_context
def command(ctx: click.Context) -> int:
    """List this host's jobs if no subcommand is given."""
    return int(ctx.invoke(list_)) if ctx.invoked_subcommand is None else ExitCode.OK


@command.command("list", help="List this host's jobs; with -f also runs on other hosts.")
@optional_file_option
@json_option
def list_(files: tuple[str, ...] = (), as_json: bool = False) -> int:
    """Print the jobs; without -f no cluster is contacted."""
    jobs, name = local_jobs.list_jobs(), ""
    heartbeats: tuple[Runner, ...] = ()
    if files:
        from k2ktui.jobs.runners import read_runners

        config = load_flow(files).config
        pair = read_beside(config)
        own = {job_directory(config, kind).id for kind in RunKind}
        own |= {
            job.place.id for job in jobs if job.record.files == local_jobs.absolute_paths(files)
        }
        jobs = [job for job in jobs if job.place.id in own]
        heartbeats, name = read_runners(config), config.name
        note_pair(config, pair())
    now = time.time()
    table = make_run_rows(jobs, heartbeats, name, now)
    _note_state()
    if as_json:
        click.echo(json.dumps({"jobs": [row_object(row, now) for row in table]}))
    else:
        print_table("Jobs", columns(now), recent_runs(table))
    return ExitCode.OK


@command.command("start", help="Check and start the pipeline as a detached job.")
@kept_file_option
@click.option("--sync", "is_sync", is_flag=True, help="Run k2ktui sync instead of copying records.")
@click.option(
    "--rewind",
    type=click.Choice([str(policy) for policy in Rewind]),
    help="With --sync, action where a group moved back on the source: never (keep the target's "
    "offset) or follow (commit the lower offset).  [default: never]",
)
@_force
@_take_over
@accept_options
@unlock_option
@_wait
@click.option(
    "-t", "--telemetry", is_flag=True, help="Export metrics as the OTEL_* variables specify."
)
@json_option
def start(
    files: tuple[str, ...],
    is_sync: bool,
    rewind: str | None,
    force: bool,
    take_over: bool,
    accepted: tuple[str, ...],
    yes: bool,
    unlock: bool,
    wait: float,
    telemetry: bool,
    as_json: bool,
) -> int:
    """Start the job; return its exit code if it ends during the wait."""
    from k2ktui.cli.jobs_checks import run_checks

    if rewind and not is_sync:
        raise ConfigError(
            "--rewind needs --sync: copying does not commit for groups",
            unchanged="Nothing was started.",
        )
    if accepted and is_sync:
        raise ConfigError(
            "--accept-cluster is of the pipeline that copies, not of --sync",
            unchanged="Nothing was started.",
        )
    config = load_flow(files).config if is_sync else load_pipeline(files)
    allowed = access_to(config, unlock=unlock)
    require(allowed, "starting a job")  # before the slow checks
    if not is_sync:
        require_pyspark("starting a job")
    accept_clusters(config, accepted, allowed, yes=yes)
    how = Rewind(rewind or Rewind.NEVER) if is_sync else None
    checks = run_checks(config, _kind(is_sync), force=force, take_over=take_over)
    job = manager.start_job(
        config,
        files,
        allowed,
        telemetry=telemetry,
        rewind=how,
        take_over=take_over and not is_sync,
    )
    return _report_start(job, wait, checks, as_json)


@command.command("stop", help="Stop the pipeline's job on this host.")
@kept_file_option
@_sync
@_timeout
@click.option("--now", is_flag=True, help="Stop without waiting for the current lap.")
@click.option("--kill", is_flag=True, help="Kill the job; no record is lost or duplicated.")
@unlock_option
@json_option
def stop(
    files: tuple[str, ...],
    is_sync: bool,
    timeout: float,
    now: bool,
    kill: bool,
    unlock: bool,
    as_json: bool,
) -> int:
    """Stop the job; the exit code is 4 if it has not ended in time."""
    job = _find_job(files, _kind(is_sync))
    how = StopMode.KILL if kill else StopMode.NOW if now else StopMode.GRACEFULLY
    ended = manager.stop_job(job, _access_of(job, unlock), how, timeout)
    if ended.alive:
        raise TimedOut(
            f"the job (pid {ended.record.pid}) is still running after {timeout:g} s",
            unchanged="It has received the stop signal and ends after the current lap.",
            hint="Wait, or repeat with --now or --kill; neither loses or duplicates a record.",
        )
    _show(ended, as_json)
    return ExitCode.OK


@command.command("restart", help="Check, stop and start the pipeline's job on this host.")
@kept_file_option
@_sync
@_force
@_take_over
@unlock_option
@_timeout
@_wait
@json_option
def restart(
    files: tuple[str, ...],
    is_sync: bool,
    force: bool,
    take_over: bool,
    unlock: bool,
    timeout: float,
    wait: float,
    as_json: bool,
) -> int:
    """Restart the job; it is not stopped if the checks fail."""
    from k2ktui.cli.jobs_checks import run_checks

    kind = _kind(is_sync)
    config = load_flow(files).config if is_sync else load_pipeline(files)
    job = local_jobs.find_job(files, lambda: config, kind)
    if job is None:
        raise _no_job_error(kind)
    allowed = access_to(config, unlock=unlock)
    require(allowed, "restarting a job")
    if not is_sync:
        require_pyspark("restarting a job")
    checks = run_checks(config, kind, force=force, take_over=take_over, restart=True)
    begun = manager.restart_job(job, config, files, allowed, timeout, take_over=take_over)
    return _report_start(begun, wait, checks, as_json)


@command.command("log", help="Show the log of the pipeline's job on this host.")
@kept_file_option
@_sync
@click.option(
    "-n", "--lines", default=50, show_default=True, metavar="N", help="Number of lines to show."
)
@click.option("-F", "--follow", is_flag=True, help="Follow the log until interrupted.")
@json_option
def print_log(
    files: tuple[str, ...], is_sync: bool, lines: int, follow: bool, as_json: bool
) -> int:
    """Print the last lines of the log; with --json as stored."""
    follower = joblog.Follower(_find_job(files, _kind(is_sync)).place, lines)
    entries = follower.before
    while True:
        for entry in entries:
            for line in [json.dumps(entry.object)] if as_json else entry.lines:
                click.echo(line)
        sys.stdout.flush()
        if not follow:
            return ExitCode.OK
        time.sleep(_FOLLOW_S)
        entries = follower.read()


@command.command("run", hidden=True)
@click.option("--place", required=True)
@click.option("--lock", required=True, type=int)
def run(place: str, lock: int) -> int:
    """Run a job (internal)."""
    from k2ktui.jobs.job_process import JobProcess

    job = JobProcess(Path(place), lock)
    job.detach()
    # Imported after detaching, so that the starting command does not wait for it.
    from k2ktui.jobs.job_run import run_job

    return run_job(job)


def _note_state() -> None:
    if note := no_state_note():
        print_note(note)


def _kind(is_sync: bool) -> RunKind:
    return RunKind.SYNC if is_sync else RunKind.COPY


def _report_start(job: Job, wait: float, checks: Sequence[Check], as_json: bool) -> int:
    click.echo(
        f"started as pid {job.record.pid}; it keeps running when this terminal closes", err=True
    )
    now = manager.await_running(job, wait)
    if as_json:
        rows = [asdict(check) for check in checks]
        shown = {"pipeline": now.record.pipeline, "checks": rows, "job": job_object(now)}
        click.echo(json.dumps(shown))
    else:
        click.echo(job_text(now))
    if now.alive or not now.code:
        return ExitCode.OK if now.alive or now.code == 0 else ExitCode.FINDINGS
    return now.code


def _find_job(files: tuple[str, ...], kind: RunKind) -> Job:
    """Return the job of this host.

    Raises:
        Refused: this pipeline has no job of this kind on this host.
    """
    loaded: list[PipelineConfig] = []

    def config() -> PipelineConfig:
        loaded.append(load_flow(files).config)
        return loaded[0]

    job = local_jobs.find_job(files, config, kind)
    if job is not None:
        return job
    _note_state()
    raise _no_job_error(kind, _elsewhere(loaded[0], kind))


def _elsewhere(config: PipelineConfig, kind: RunKind) -> str:
    from k2ktui.jobs.runners import alive_elsewhere, describe_runner, read_runners

    try:
        alive = alive_elsewhere(read_runners(config), None, time.time(), kind)
    except K2kError:
        return ""
    return "; ".join(describe_runner(runner, time.time()) for runner in alive)


def _no_job_error(kind: RunKind, elsewhere: str = "") -> Refused:
    sync = kind is RunKind.SYNC
    return Refused(
        (_NO_SYNC_JOB if sync else "this host has no job of this pipeline")
        + (f"; it is running {elsewhere}" if elsewhere else ""),
        unchanged="Nothing was changed.",
        hint="List jobs with k2ktui jobs list; start one here with k2ktui jobs start"
        + (" --sync." if sync else ". The job of k2ktui sync is found with --sync."),
    )


def _access_of(job: Job, unlock: bool) -> Access:
    record = job.record
    return access(configured=record.read_only, environment=record.environment, unlocked=unlock)


def _show(job: Job, as_json: bool) -> None:
    if as_json:
        shown = {"pipeline": job.record.pipeline, "job": job_object(job)}
        click.echo(json.dumps(shown))
    else:
        click.echo(job_text(job))
