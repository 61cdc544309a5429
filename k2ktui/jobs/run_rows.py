"""Combine the jobs of this host with the heartbeats of all hosts: one row per run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from k2ktui.engine.moves.journal import RunKind, Runner, RunnerState
from k2ktui.jobs.local_jobs import Job, JobState
from k2ktui.sync.liveness import has_ended, may_be_local

SHOWN_PAST = 5
_CLOCK_S = 60.0
# States that a job's own record does not have.
_SAID_BY_HEARTBEAT = (RunnerState.STANDBY, RunnerState.STOPPING)


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run of a pipeline; None and empty strings mean unknown.

    Attributes:
        pipeline: its name.
        here: whether it is a job of this host, which can be stopped and whose log can be read.
        alive: whether it must be assumed to be running.
        state: ``standby``, ``starting``, ``running``, ``stopping``, ``stopped``, ``failed``,
            ``died``, or ``silent`` for a run on another host without recent heartbeats.
        started_at: epoch seconds.
        heartbeat_at: last sign of life, epoch seconds.
        restarts: number of earlier starts on this host.
        lag_records: source offsets not copied yet; None if the run is not alive.
        error: the last error.
        job: the job; None for runs that are not jobs of this host.
        runner: unique id of the process, empty if it sent no heartbeat.
        kind: what it does; a run of ``k2ktui sync`` has no term, laps, slots and lag.
        generation: where runs share the pipeline, the last generation of owners that it has seen;
            0 for a run that copies alone.
        owned: the slots that it owned in that generation; empty for a standby.
    """

    pipeline: str
    here: bool
    alive: bool
    state: str
    host: str
    user: str
    pid: int
    version: str
    started_at: float
    heartbeat_at: float | None = None
    term: int = 0
    lap: int | None = None
    slots: int = 0
    lag_records: int | None = None
    commit_ms: float | None = None
    restarts: int | None = None
    error: str = ""
    job: Job | None = None
    runner: str = ""
    kind: RunKind = RunKind.COPY
    generation: int = 0
    owned: tuple[int, ...] = ()

    @property
    def key(self) -> str:
        """Unique key: the job's id, which all its runs have in turn, or else the runner's."""
        return self.job.place.id if self.job else self.runner


def make_run_rows(
    jobs: Iterable[Job],
    runners: Sequence[Runner],
    pipeline: str,
    now: float,
    lag_records: int | None = None,
) -> list[RunRow]:
    """Return one row per run: live runs first, those that copy before standbys, the newest first.

    Args:
        jobs: jobs of this host, of any pipeline.
        runners: heartbeats of one pipeline.
        pipeline: the name of that pipeline.
        now: epoch seconds.
        lag_records: the pipeline's lag if it was just read; replaces the heartbeats' values.

    A standby without another run is shown as starting: it waits only for its own first slots.
    """
    left = {runner.runner: runner for runner in runners}
    rows = []
    for job in jobs:
        runner = next((candidate for candidate in left.values() if _is_of(job, candidate)), None)
        if runner is not None:
            del left[runner.runner]
        rows.append(_of_job(job, runner))
    rows += [_of_runner(runner, pipeline, now) for runner in left.values()]
    if lag_records is not None:
        rows = [
            replace(row, lag_records=lag_records)
            if row.alive and row.pipeline == pipeline and row.kind is RunKind.COPY
            else row
            for row in rows
        ]
    rows = [
        replace(row, state=str(RunnerState.STARTING))
        if row.alive and row.pipeline == pipeline and _waits_for_none(row, rows)
        else row
        for row in rows
    ]
    return sorted(rows, key=lambda row: (not row.alive, _is_standby(row), -row.started_at))


def _is_standby(row: RunRow) -> bool:
    return row.state == RunnerState.STANDBY


def _waits_for_none(row: RunRow, rows: Sequence[RunRow]) -> bool:
    """Return whether a standby is alone, by heartbeats: none alive, and none silent that may be."""
    return (
        _is_standby(row)
        and bool(row.runner)
        and not any(
            other is not row
            and (other.pipeline, other.kind) == (row.pipeline, row.kind)
            and (other.alive or other.state == RunnerState.SILENT)
            for other in rows
        )
    )


def _is_of(job: Job, runner: Runner) -> bool:
    record = job.record
    # The start times must match, because process ids are reused; tolerate clock adjustments.
    own = (runner.host, runner.pid) == (record.host, record.pid) and may_be_local(runner)
    return (own and runner.kind is record.kind) and (
        runner.started_ms >= 1000 * (record.started_at - _CLOCK_S)
        and (record.ended_at is None or runner.started_ms <= 1000 * record.ended_at)
    )


def _of_job(job: Job, runner: Runner | None) -> RunRow:
    record = job.record
    state = str(job.state)
    if job.alive and runner is not None and runner.state in _SAID_BY_HEARTBEAT:
        state = str(runner.state)
    waits = state == RunnerState.STANDBY
    # A run that shares its pipeline takes slots over and releases them.
    slots = runner.slots if runner and job.alive and runner.slots else record.slots
    return RunRow(
        pipeline=record.pipeline,
        here=True,
        alive=job.alive,
        state=state,
        host=record.host,
        user=record.user,
        pid=record.pid,
        version=record.version,
        started_at=record.started_at,
        heartbeat_at=runner.last_ms / 1000 if runner else None,
        term=record.term,
        lap=_lap(runner) if runner else None,
        slots=0 if waits else slots,
        lag_records=runner.lag_records if runner and job.alive else None,
        commit_ms=runner.commit_ms if runner else None,
        restarts=record.starts - 1,
        error=job.why or (runner.last_error if runner and job.alive else ""),
        job=job,
        runner=runner.runner if runner else "",
        kind=record.kind,
        generation=runner.generation if runner else 0,
        owned=runner.owned if runner and job.alive and not waits else (),
    )


def _lap(runner: Runner) -> int | None:
    return runner.lap if runner.kind is RunKind.COPY else None


def _of_runner(runner: Runner, pipeline: str, now: float) -> RunRow:
    now_ms = int(now * 1000)
    state = runner.standing(now_ms)
    died = state is RunnerState.SILENT and has_ended(runner)
    # Earlier releases wrote which slots it had owned before it waited.
    waits = runner.state is RunnerState.STANDBY
    return RunRow(
        pipeline=pipeline,
        here=False,
        alive=runner.alive(now_ms),
        state=str(JobState.DIED if died else state),
        host=runner.host,
        user=runner.user,
        pid=runner.pid,
        version=runner.version,
        started_at=runner.started_ms / 1000,
        heartbeat_at=runner.last_ms / 1000,
        term=runner.term,
        lap=_lap(runner),
        slots=0 if waits else runner.slots,
        lag_records=runner.lag_records if runner.alive(now_ms) else None,
        commit_ms=runner.commit_ms,
        error=runner.last_error,
        runner=runner.runner,
        kind=runner.kind,
        generation=runner.generation,
        owned=runner.owned if runner.alive(now_ms) and not waits else (),
    )


def current_run(
    jobs: Iterable[Job],
    runners: Sequence[Runner],
    pipeline: str,
    now: float,
    kind: RunKind = RunKind.COPY,
) -> RunRow | None:
    """Return the first row of a pipeline and a kind: the run that is alive, else the last one."""
    rows = make_run_rows(jobs, runners, pipeline, now)
    return next((row for row in rows if row.pipeline == pipeline and row.kind is kind), None)


def recent_runs(rows: Sequence[RunRow]) -> list[RunRow]:
    """Return live runs, the jobs of this host, and the last few runs elsewhere."""
    past = [row for row in rows if not row.alive and not row.here][:SHOWN_PAST]
    return [row for row in rows if row.alive or row.here or row in past]
