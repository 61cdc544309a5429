"""Runs of a pipeline on any host, from their heartbeats on the target."""

from __future__ import annotations

from collections.abc import Sequence

from k2ktui.config.model import PipelineConfig
from k2ktui.engine.moves.journal import RunKind, Runner
from k2ktui.jobs.local_jobs import Job
from k2ktui.kafka.clients import target_cluster
from k2ktui.sync.liveness import has_ended, may_be_local
from k2ktui.sync.store import StateStore
from k2ktui.text import duration, safe_text

_READ_S = 10.0


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
    runners: Sequence[Runner], job: Job | None, now: float, kind: RunKind = RunKind.COPY
) -> list[Runner]:
    """Return the runners of a kind, except this host's job, that must be assumed to be running."""
    own = job.record.pid if job is not None else 0
    return [
        runner
        for runner in runners
        if runner.kind is kind
        and runner.alive(int(now * 1000))
        and not (runner.pid == own and may_be_local(runner))
        and not has_ended(runner)
    ]


def describe_runner(runner: Runner, now: float) -> str:
    """Return a description of a runner (host, user, pid, version, heartbeat age), safe to print."""
    age = max(0.0, now - runner.last_ms / 1000)
    return (
        f"on {safe_text(runner.host)} as {safe_text(runner.user)}, pid {runner.pid}, "
        f"k2ktui {safe_text(runner.version)}, heartbeat {duration(age)} ago"
    )
