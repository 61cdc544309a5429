"""The checks before a job is started, reported one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from time import time

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.journal import RunKind, Runner
from k2ktui.errors import K2kError
from k2ktui.jobs.job_directory import job_directory
from k2ktui.jobs.local_jobs import Job, read_job
from k2ktui.jobs.process import has_ended, may_be_local
from k2ktui.kafka.clients import target_cluster
from k2ktui.replication.preflight.checks import Check, failed_check, passed_check, unknown_check
from k2ktui.replication.preflight.suite import each_check, each_cluster_check
from k2ktui.sync.store import StateStore
from k2ktui.text import duration, safe_text

NAME = "other runners"
_READ_S = 10.0
_WHAT = {RunKind.COPY: "this pipeline", RunKind.SYNC: "k2ktui sync for this pipeline"}


def start_checks(
    config: PipelineConfig, *, restart: bool = False, kind: RunKind = RunKind.COPY
) -> Iterator[Check]:
    """Yield the checks of ``k2ktui check``, and whether the pipeline runs elsewhere.

    Args:
        config: the pipeline.
        restart: the job on this host is about to be stopped, so it does not fail the check.
        kind: what is started; ``sync`` needs both clusters, and nothing to copy with.
    """
    reached = True
    for check in each_check(config) if kind is RunKind.COPY else each_cluster_check(config):
        reached = reached and not check.unreachable
        yield check
    yield (
        _others(config, read_job(job_directory(config, kind)), restart, kind)
        if reached
        else unknown_check(NAME, "a cluster did not respond")
    )


def read_runners(config: PipelineConfig) -> tuple[Runner, ...]:
    """Return the last heartbeat of each run on any host, live runs first, then by term.

    Raises:
        Refused: the state topic may not be read.
        ConnectionFailed, TimedOut: the target did not answer in time.
    """
    store = StateStore(config, target_cluster(config), _READ_S)
    try:
        return store.read_settled(has_ended).runners
    finally:
        store.close()


def alive_elsewhere(
    found: Sequence[Runner], job: Job | None, now: float, kind: RunKind = RunKind.COPY
) -> list[Runner]:
    """Return the runners of a kind, except this host's job, that must be assumed to be running."""
    own = job.record.pid if job is not None else 0
    return [
        each
        for each in found
        if each.kind is kind
        and each.alive(int(now * 1000))
        and not (each.pid == own and may_be_local(each))
        and not has_ended(each)
    ]


def describe_runner(runner: Runner, now: float) -> str:
    """Return a description of a runner (host, user, pid, version, heartbeat age), safe to print."""
    age = max(0.0, now - runner.last_ms / 1000)
    return (
        f"on {safe_text(runner.host)} as {safe_text(runner.user)}, pid {runner.pid}, "
        f"k2ktui {safe_text(runner.version)}, heartbeat {duration(age)} ago"
    )


def _others(config: PipelineConfig, job: Job | None, restart: bool, kind: RunKind) -> Check:
    if job is not None and job.alive and not restart:
        return failed_check(
            NAME,
            f"it is already running on this host as pid {job.record.pid}",
            "Restart it with k2ktui jobs restart, or stop it first.",
            fatal=True,
        )
    try:
        found = read_runners(config)
    except K2kError as error:
        return unknown_check(NAME, error.message, error.hint)
    now = time()
    alive = alive_elsewhere(found, job, now, kind)
    if not alive:
        return passed_check(NAME, f"no other host sends heartbeats of {_WHAT[kind]}")
    where = "; ".join(describe_runner(each, now) for each in alive)
    if kind is RunKind.SYNC:
        return failed_check(
            NAME,
            f"k2ktui sync is running {where}",
            "Stop it there, or repeat with --take-over: both then commit, and neither moves an "
            "offset back.",
        )
    return failed_check(
        NAME,
        f"it is running {where}",
        "Stop it there, or repeat with --take-over: the other run is then fenced and ends.",
    )
