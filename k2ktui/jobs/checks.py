"""The checks before a job is started, reported one by one."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from time import time

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.journal import RunKind, Runner
from k2ktui.errors import K2kError
from k2ktui.jobs.job_directory import job_directory
from k2ktui.jobs.local_jobs import Job, read_job
from k2ktui.jobs.runners import alive_elsewhere, describe_runner, read_runners
from k2ktui.replication.preflight.checks import Check, before_start
from k2ktui.replication.preflight.suite import each_check, each_cluster_check
from k2ktui.sync.drill.guard import check_fence
from k2ktui.sync.other_files import check_file
from k2ktui.version import __version__, may_run_beside

log = logging.getLogger(__name__)

NAME = "other runners"
RELEASES = "releases"
_WHAT = {RunKind.COPY: "this pipeline", RunKind.SYNC: "k2ktui sync for this pipeline"}


def start_checks(
    config: PipelineConfig, *, restart: bool = False, kind: RunKind = RunKind.COPY
) -> Iterator[Check]:
    """Yield the checks of ``k2ktui check``, and whether the pipeline runs elsewhere.

    What cannot be known because the target does not answer is said by the checks of the clusters.

    A shortage of retention headroom is a warning here: the start is its remedy.

    Args:
        config: the pipeline.
        restart: the job on this host is about to be stopped, so it does not fail the check.
        kind: what is started; ``sync`` needs both clusters, and nothing to copy with.
    """
    reached = True
    if kind is RunKind.COPY:
        yield check_fence(config)  # first: nothing else needs to be waited for
    for check in each_check(config) if kind is RunKind.COPY else each_cluster_check(config):
        reached = reached and not check.unreachable
        yield before_start(check)
    if kind is RunKind.COPY and reached:
        yield check_file(config)
    yield (
        _others(config, read_job(job_directory(config, kind)), restart, kind)
        if reached
        else Check.unknown(NAME, "a cluster did not respond")
    )


def check_releases(config: PipelineConfig) -> Check:
    """Check that a run of this release may join those that work on the pipeline."""
    try:
        runners = read_runners(config)
    except K2kError as error:
        return Check.unknown(RELEASES, error.message, error.hint)
    return compare_releases(runners, time())


def compare_releases(runners: Sequence[Runner], now: float) -> Check:
    """Check the releases of heartbeats; ``now`` is in epoch seconds."""
    alive = [one for one in alive_elsewhere(runners, None, now) if one.version != __version__]
    if not alive:
        return Check.passes(RELEASES, f"no run of another release than {__version__} works")
    where = "; ".join(describe_runner(runner, now) for runner in alive)
    if all(may_run_beside(runner.version) for runner in alive):
        return Check.passes(RELEASES, f"a run of {__version__} may join the one {where}")
    return Check.warns(
        RELEASES,
        f"it is running {where}; whether a run of {__version__} may join is unknown",
        "Stop all runs, then start those of one release (docs/upgrading.md).",
    )


def _others(config: PipelineConfig, job: Job | None, restart: bool, kind: RunKind) -> Check:
    if job is not None and job.alive and not restart:
        return Check.fails(
            NAME,
            f"it is already running on this host as pid {job.record.pid}",
            "Restart it with k2ktui jobs restart, or stop it first.",
            fatal=True,
        )
    try:
        runners = read_runners(config)
    except K2kError as error:
        return Check.unknown(NAME, error.message, error.hint)
    now = time()
    alive = alive_elsewhere(runners, job, now, kind)
    if not alive:
        return Check.passes(NAME, f"no other host sends heartbeats of {_WHAT[kind]}")
    where = "; ".join(describe_runner(runner, now) for runner in alive)
    log.info("%s is running %s", _WHAT[kind], where)
    if kind is RunKind.SYNC:
        return Check.fails(
            NAME,
            f"k2ktui sync is running {where}",
            "Stop it there, or repeat with --take-over: both then commit, and neither moves an "
            "offset back.",
        )
    if config.coordination.mode == "standby":
        return Check.passes(
            NAME, f"it is running {where}; another run waits as a standby, unless it takes over"
        )
    if config.coordination.mode == "shared":
        return Check.passes(NAME, f"it is running {where}; runs with mode: shared share its slots")
    return Check.fails(
        NAME,
        f"it is running {where}",
        "Stop it there, or repeat with --take-over: the other run is then fenced and ends.",
    )
