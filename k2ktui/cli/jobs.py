"""``k2ktui jobs``: pipelines that run detached on this host, and their runs on other hosts."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from k2ktui.cli.check import check_text
from k2ktui.cli.terminal import options
from k2ktui.cli.terminal.files import allowed_to, load_flow, load_pipeline
from k2ktui.cli.terminal.notes import print_note
from k2ktui.cli.terminal.tables import note_pair, print_json, print_table, read_beside
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.access import Access, access
from k2ktui.engine.moves.journal import RunKind, Runner
from k2ktui.engine.moves.plan import Rewind
from k2ktui.errors import ConfigError, ExitCode, K2kError, Refused, TimedOut
from k2ktui.jobs import joblog, local_jobs, manager
from k2ktui.jobs.job_directory import job_directory
from k2ktui.jobs.local_jobs import Job
from k2ktui.jobs.manager import StopMode
from k2ktui.jobs.run_rows import RunRow, make_run_rows, recent_runs
from k2ktui.present.columns import Column, pick
from k2ktui.present.formatting import WORDS, moment
from k2ktui.present.runs import run_columns
from k2ktui.runtime.paths import no_state_note
from k2ktui.runtime.spark_extra import require_pyspark
from k2ktui.text import safe_text

if TYPE_CHECKING:
    from k2ktui.replication.preflight.checks import Check

F = TypeVar("F", bound=Callable[..., Any])
_FOLLOW_S = 0.3

_force = options.flag("--force", "Start even if a check fails.")
_take_over = options.flag(
    "--take-over", "Start even if the pipeline runs elsewhere; the other run is fenced."
)
_wait = options.seconds(
    "--wait",
    manager.START_S,
    "Maximum wait in seconds for the copy to begin; the job keeps running afterwards.",
)
_timeout = options.seconds(
    "--timeout", manager.STOP_S, "Maximum wait in seconds until the job has stopped."
)


def _kind_option(text: str) -> Callable[[F], F]:
    return options.flag(
        "--sync kind",
        text,
        callback=lambda _context, _parameter, given: RunKind.SYNC if given else RunKind.COPY,
    )


_sync = _kind_option("The job of k2ktui sync, not the one that copies.")


@click.group(invoke_without_command=True, help="Run pipelines as detached jobs on this host.")
@click.pass_context
def jobs(ctx: click.Context) -> int:
    """List this host's jobs if no subcommand is given."""
    return int(ctx.invoke(list_)) if ctx.invoked_subcommand is None else ExitCode.OK


@jobs.command("list", help="List this host's jobs; with -f also runs on other hosts.")
@options.optional_file
@options.json
def list_(files: tuple[str, ...] = (), as_json: bool = False) -> int:
    """Print the jobs; without -f no cluster is contacted."""
    local, name = local_jobs.list_jobs(), ""
    heartbeats: tuple[Runner, ...] = ()
    if files:
        from k2ktui.jobs.runners import read_runners

        config = load_flow(files).config
        pair = read_beside(config)
        own = {job_directory(config, kind).id for kind in RunKind}
        own |= {
            job.place.id for job in local if job.record.files == local_jobs.absolute_paths(files)
        }
        local = [job for job in local if job.place.id in own]
        heartbeats, name = read_runners(config), config.name
        note_pair(config, pair())
    now = time.time()
    table = make_run_rows(local, heartbeats, name, now)
    _note_state()
    if as_json:
        print_json({"jobs": [row_object(row, now) for row in table]})
    else:
        print_table("Jobs", columns(now), recent_runs(table))
    return ExitCode.OK


@jobs.command("start", help="Check and start the pipeline as a detached job.")
@options.kept_file
@_kind_option("Run k2ktui sync instead of copying records.")
@options.choice(
    "--rewind",
    Rewind,
    "With --sync, action where a group moved back on the source: never (keep the target's "
    "offset) or follow (commit the lower offset).  [default: never]",
)
@_force
@_take_over
@options.accept
@options.unlock
@_wait
@options.telemetry
@options.json
def start(
    files: tuple[str, ...],
    kind: RunKind,
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
    if rewind and kind is RunKind.COPY:
        raise ConfigError(
            "--rewind needs --sync: copying does not commit for groups",
            unchanged="Nothing was started.",
        )
    if accepted and kind is RunKind.SYNC:
        raise ConfigError(
            "--accept-cluster is of the pipeline that copies, not of --sync",
            unchanged="Nothing was started.",
        )
    config = _load(files, kind)
    allowed = _allow(config, kind, "starting a job", unlock=unlock)  # before the slow checks
    if accepted or yes:
        from k2ktui.cli.offsets import accept_clusters

        accept_clusters(config, accepted, allowed, yes=yes)
    checks = run_checks(config, kind, force=force, take_over=take_over)
    job = manager.start_job(
        config,
        files,
        allowed,
        telemetry=telemetry,
        rewind=Rewind(rewind or Rewind.NEVER) if kind is RunKind.SYNC else None,
        take_over=take_over and kind is RunKind.COPY,
    )
    return _report_start(job, wait, checks, as_json)


@jobs.command("stop", help="Stop the pipeline's job on this host.")
@options.kept_file
@_sync
@_timeout
@options.flag("--now", "Stop without waiting for the current lap.")
@options.flag("--kill", "Kill the job; no record is lost or duplicated.")
@options.unlock
@options.json
def stop(
    files: tuple[str, ...],
    kind: RunKind,
    timeout: float,
    now: bool,
    kill: bool,
    unlock: bool,
    as_json: bool,
) -> int:
    """Stop the job; the exit code is 4 if it has not ended in time."""
    job = _find_job(files, kind)
    record = job.record
    allowed = access(configured=record.read_only, environment=record.environment, unlocked=unlock)
    how = StopMode.KILL if kill else StopMode.NOW if now else StopMode.GRACEFULLY
    ended = manager.stop_job(job, allowed, how, timeout)
    if ended.alive:
        raise TimedOut(
            f"the job (pid {ended.record.pid}) is still running after {timeout:g} s",
            unchanged="It has received the stop signal and ends after the current lap.",
            hint="Wait, or repeat with --now or --kill; neither loses or duplicates a record.",
        )
    if as_json:
        print_json({"pipeline": record.pipeline, "job": job_object(ended)})
    else:
        click.echo(job_text(ended))
    return ExitCode.OK


@jobs.command("restart", help="Check, stop and start the pipeline's job on this host.")
@options.kept_file
@_sync
@_force
@_take_over
@options.unlock
@_timeout
@_wait
@options.json
def restart(
    files: tuple[str, ...],
    kind: RunKind,
    force: bool,
    take_over: bool,
    unlock: bool,
    timeout: float,
    wait: float,
    as_json: bool,
) -> int:
    """Restart the job; it is not stopped if the checks fail."""
    config = _load(files, kind)
    job = local_jobs.find_job(files, lambda: config, kind)
    if job is None:
        raise _no_job_error(kind)
    allowed = _allow(config, kind, "restarting a job", unlock=unlock)
    checks = run_checks(config, kind, force=force, take_over=take_over, restart=True)
    begun = manager.restart_job(job, config, files, allowed, timeout, take_over=take_over)
    return _report_start(begun, wait, checks, as_json)


@jobs.command("log", help="Show the log of the pipeline's job on this host.")
@options.kept_file
@_sync
@options.value("-n --lines", "N", "Number of lines to show.", default=50, show_default=True)
@options.flag("-F --follow", "Follow the log until interrupted.")
@options.json
def print_log(
    files: tuple[str, ...], kind: RunKind, lines: int, follow: bool, as_json: bool
) -> int:
    """Print the last lines of the log; with --json as stored."""
    follower = joblog.Follower(_find_job(files, kind).place, lines)
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


@jobs.command("run", hidden=True)
@click.option("--place", required=True)
@click.option("--lock", required=True, type=int)
def run_(place: str, lock: int) -> int:
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


def _load(files: tuple[str, ...], kind: RunKind) -> PipelineConfig:
    return load_pipeline(files) if kind is RunKind.COPY else load_flow(files).config


def _allow(config: PipelineConfig, kind: RunKind, action: str, *, unlock: bool) -> Access:
    allowed = allowed_to(config, action, unlock=unlock)
    if kind is RunKind.COPY:
        require_pyspark(action)
    return allowed


def _report_start(job: Job, wait: float, checks: Sequence[Check], as_json: bool) -> int:
    click.echo(
        f"started as pid {job.record.pid}; it keeps running when this terminal closes", err=True
    )
    now = manager.await_running(job, wait)
    if as_json:
        rows = [asdict(check) for check in checks]
        shown = {"pipeline": now.record.pipeline, "checks": rows, "job": job_object(now)}
        print_json(shown)
    else:
        click.echo(job_text(now))
    if now.alive or now.code == 0:
        return ExitCode.OK
    return now.code or ExitCode.FINDINGS


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
    from k2ktui.jobs.runners import alive_elsewhere, describe_runner, read_runners

    _note_state()
    elsewhere = ""
    with suppress(K2kError):
        alive = alive_elsewhere(read_runners(loaded[0]), None, time.time(), kind)
        elsewhere = "; ".join(describe_runner(runner, time.time()) for runner in alive)
    raise _no_job_error(kind, elsewhere)


def _no_job_error(kind: RunKind, elsewhere: str = "") -> Refused:
    if kind is RunKind.SYNC:
        message, more = "this host has no job of k2ktui sync for this pipeline", " --sync."
    else:
        message = "this host has no job of this pipeline"
        more = ". The job of k2ktui sync is found with --sync."
    return Refused(
        message + (f"; it is running {elsewhere}" if elsewhere else ""),
        unchanged="Nothing was changed.",
        hint=f"List jobs with k2ktui jobs list; start one here with k2ktui jobs start{more}",
    )


def run_checks(
    config: PipelineConfig,
    kind: RunKind,
    *,
    force: bool,
    take_over: bool,
    restart: bool = False,
) -> list[Check]:
    """Run the checks and print each one as it completes.

    Raises:
        ConnectionFailed, TimedOut: a cluster is unreachable.
        Refused: another check failed that no given option overrides.
    """
    from k2ktui.jobs.checks import NAME, start_checks
    from k2ktui.replication.preflight.checks import CheckOutcome, error_of

    checks = []
    for check in start_checks(config, restart=restart, kind=kind):
        click.echo(check_text(check), err=True)
        checks.append(check)
    failed = [check for check in checks if check.outcome is CheckOutcome.FAIL]
    left = [
        check for check in failed if check.fatal or not (take_over if check.name == NAME else force)
    ]
    if left:
        hard = any(check.fatal for check in left)
        raise error_of(left)(
            f"not started: {', '.join(check.name for check in left)} failed",
            unchanged="Nothing was started or stopped.",
            hint=""
            if hard
            else "Correct what failed, or repeat with --force (--take-over if it runs elsewhere).",
        )
    return checks


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
