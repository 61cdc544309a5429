"""``k2ktui jobs``: pipelines that run detached on this host, and their runs on other hosts."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import click

from k2ktui.cli.check import check_text
from k2ktui.cli.jobs_text import check_object, columns, job_object, job_text, row_object
from k2ktui.cli.options import access_to, file_option, json_option, load_pipeline, unlock_option
from k2ktui.cli.tables import print_table
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.access import Access, access, require
from k2ktui.engine.journal import Runner
from k2ktui.errors import ExitCode, K2kError, Refused, TimedOut
from k2ktui.jobs import joblog, manager
from k2ktui.jobs.checks import NAME, alive_elsewhere, describe_runner, read_runners, start_checks
from k2ktui.jobs.manager import Job, StopMode
from k2ktui.jobs.run_rows import make_run_rows, recent_runs
from k2ktui.replication.preflight.checks import Check, CheckOutcome

_FOLLOW_S = 0.3

_force = click.option("--force", is_flag=True, help="Start although a check fails.")
_take_over = click.option(
    "--take-over", is_flag=True, help="Start although it runs elsewhere; that one is fenced."
)
_wait = click.option(
    "--wait",
    default=manager.START_S,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait until it copies; it goes on in any case.",
)
_timeout = click.option(
    "--timeout",
    default=manager.STOP_S,
    show_default=True,
    metavar="SECONDS",
    help="How long to wait for its end.",
)


@click.group(invoke_without_command=True, help="Start, find, stop and follow detached pipelines.")
@click.pass_context
def command(ctx: click.Context) -> int:
    """List this host's jobs if no subcommand is given."""
    return int(ctx.invoke(listed)) if ctx.invoked_subcommand is None else ExitCode.OK


@command.command("list", help="This host's jobs; with -f also the pipeline's runs on other hosts.")
@click.option("-f", "--file", "files", multiple=True, metavar="FILE", help="Pipeline file.")
@json_option
def listed(files: tuple[str, ...] = (), as_json: bool = False) -> int:
    """Print the jobs; without -f no cluster is contacted."""
    found, name = manager.list_jobs(), ""
    heartbeats: tuple[Runner, ...] = ()
    if files:
        config = load_pipeline(files)
        own = manager.find_job(files, lambda: config)
        found = [job for job in found if own and job.place.id == own.place.id]
        heartbeats, name = read_runners(config), config.name
    now = time.time()
    table = make_run_rows(found, heartbeats, name, now)
    if as_json:
        click.echo(json.dumps([row_object(row, now) for row in table]))
    else:
        print_table("Jobs", columns(now), recent_runs(table))
    return ExitCode.OK


@command.command("start", help="Check, then start the pipeline detached from this terminal.")
@file_option
@_force
@_take_over
@unlock_option
@_wait
@click.option("-t", "--telemetry", is_flag=True, help="Export metrics, as for k2ktui start.")
@json_option
def started(
    files: tuple[str, ...],
    force: bool,
    take_over: bool,
    unlock: bool,
    wait: float,
    telemetry: bool,
    as_json: bool,
) -> int:
    """Start the job; return its exit code if it ends during the wait."""
    config = load_pipeline(files)
    allowed = access_to(config, unlock=unlock)
    require(allowed, "starting a job")  # before the slow checks
    checks = _checked(config, force=force, take_over=take_over)
    job = manager.start_job(config, files, allowed, telemetry=telemetry)
    return _told_begin(job, wait, checks, as_json)


@command.command("stop", help="Stop the pipeline's job on this host.")
@file_option
@_timeout
@click.option("--now", is_flag=True, help="Do not wait for the lap.")
@click.option("--kill", is_flag=True, help="Kill it; nothing is lost or doubled by that.")
@unlock_option
@json_option
def stopped(
    files: tuple[str, ...], timeout: float, now: bool, kill: bool, unlock: bool, as_json: bool
) -> int:
    """Stop the job; the exit code is 4 if it has not ended in time."""
    job = _job(files)
    how = StopMode.KILL if kill else StopMode.NOW if now else StopMode.GRACEFULLY
    ended = manager.stop_job(job, _access_of(job, unlock), how, timeout)
    if ended.alive:
        raise TimedOut(
            f"pid {ended.record.pid} still runs after {timeout:g} s",
            unchanged="It was told to stop.",
            hint="--now insists, --kill kills it; neither loses or doubles a record.",
        )
    _show(ended, as_json)
    return ExitCode.OK


@command.command("restart", help="Check, stop the pipeline's job on this host, start it again.")
@file_option
@_force
@_take_over
@unlock_option
@_timeout
@_wait
@json_option
def restarted(
    files: tuple[str, ...],
    force: bool,
    take_over: bool,
    unlock: bool,
    timeout: float,
    wait: float,
    as_json: bool,
) -> int:
    """Restart the job; it is not stopped if the checks fail."""
    config = load_pipeline(files)
    job = manager.find_job(files, lambda: config)
    if job is None:
        raise _never_started()
    allowed = access_to(config, unlock=unlock)
    require(allowed, "restarting a job")
    checks = _checked(config, force=force, take_over=take_over, restart=True)
    begun = manager.restart_job(job, config, files, allowed, timeout)
    return _told_begin(begun, wait, checks, as_json)


@command.command("log", help="Show the log of the pipeline's job on this host.")
@file_option
@click.option("-n", "--lines", default=50, show_default=True, metavar="N", help="How many.")
@click.option("-F", "--follow", is_flag=True, help="Go on until interrupted.")
@json_option
def logged(files: tuple[str, ...], lines: int, follow: bool, as_json: bool) -> int:
    """Print the last lines of the log; with --json as stored."""
    follower = joblog.Follower(_job(files).place, lines)
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
    from k2ktui.cli.jobs_run import run_job

    return run_job(job)


def _checked(
    config: PipelineConfig, *, force: bool, take_over: bool, restart: bool = False
) -> list[Check]:
    """Run the checks and print each one as it completes.

    Raises:
        Refused: a check failed that no given option overrides.
    """
    checks = []
    for check in start_checks(config, restart=restart):
        click.echo(check_text(check), err=True)
        checks.append(check)
    failed = [check for check in checks if check.outcome is CheckOutcome.FAIL]
    left = [
        check for check in failed if check.fatal or not (take_over if check.name == NAME else force)
    ]
    if left:
        hard = any(check.fatal for check in left)
        raise Refused(
            f"not started: {', '.join(check.name for check in left)} failed",
            unchanged="Nothing was started or stopped.",
            hint="" if hard else "Fix it, or give --force (--take-over for other runners).",
        )
    return checks


def _told_begin(job: Job, wait: float, checks: list[Check], as_json: bool) -> int:
    click.echo(f"started as pid {job.record.pid}; it runs on without this terminal", err=True)
    now = manager.await_running(job, wait)
    if as_json:
        shown = {"checks": [check_object(check) for check in checks], "job": job_object(now)}
        click.echo(json.dumps(shown))
    else:
        click.echo(job_text(now))
    if now.alive or not now.code:
        return ExitCode.OK if now.alive or now.code == 0 else ExitCode.FINDINGS
    return now.code


def _job(files: tuple[str, ...]) -> Job:
    """Return the job of this host.

    Raises:
        Refused: this pipeline has no job on this host.
    """
    loaded: list[PipelineConfig] = []

    def config() -> PipelineConfig:
        loaded.append(load_pipeline(files))
        return loaded[0]

    job = manager.find_job(files, config)
    if job is not None:
        return job
    raise _never_started(_elsewhere(loaded[0]))


def _elsewhere(config: PipelineConfig) -> str:
    try:
        alive = alive_elsewhere(read_runners(config), None, time.time())
    except K2kError:
        return ""
    return "; ".join(describe_runner(runner, time.time()) for runner in alive)


def _never_started(elsewhere: str = "") -> Refused:
    return Refused(
        "no job of this pipeline was started on this host"
        + (f"; it runs {elsewhere}" if elsewhere else ""),
        unchanged="Nothing was stopped.",
        hint="k2ktui jobs start starts it here; k2ktui jobs list shows what there is.",
    )


def _access_of(job: Job, unlock: bool) -> Access:
    record = job.record
    return access(configured=record.read_only, environment=record.environment, unlocked=unlock)


def _show(job: Job, as_json: bool) -> None:
    click.echo(json.dumps(job_object(job)) if as_json else job_text(job))
