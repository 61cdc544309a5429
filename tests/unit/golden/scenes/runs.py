"""Scenes of the transcript of screens: runs of a pipeline, and the pipelines of a directory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from k2ktui.console.screens.job_runs import Reading
from k2ktui.console.session import Session
from k2ktui.engine.moves.journal import RunnerState
from k2ktui.errors import ConfigError, TimedOut
from k2ktui.jobs.job_directory import JobDirectory, Phase
from k2ktui.jobs.local_jobs import Job, JobState
from k2ktui.replication.preflight.checks import Check, CheckOutcome
from tests.console import test_jobs_pictures as jobs
from tests.support.console.fleets import TYPO, fleet_session
from tests.support.console.transcript import Scene, Walk, pipeline_session
from tests.support.console.views import NOON, Made, runner, usual
from tests.support.drill.made_drills import switched_over

AT_MS = int(NOON * 1000)
WARNED = Check("quota", CheckOutcome.WARN, "5 MB/s for orders", "raise producer_byte_rate")
PASSED = Check.passes("Java", "17.0.2, /usr/lib/jvm")
CHECKS = "k2ktui.console.widgets.start_dialog.start_checks"
READ = "k2ktui.console.screens.job_runs.KnownRuns.read"


def made(*beats: Any) -> Made:
    shown = usual()
    shown.runners = beats
    return shown


def of_host(*jobs_of_host: Job) -> dict[str, Any]:
    """Return what is read of this host."""
    return {READ: lambda _: Reading(jobs_of_host, NOON, None)}


def job(**values: Any) -> Job:
    """Return a job of this host, whose log is in the folder of the walk."""
    kept = JobDirectory(Path("jobs/orders-5f3a91"))
    own = jobs.job() if not kept.directory.exists() else Job(kept, jobs.RECORD, JobState.RUNNING)
    return replace(own, record=replace(own.record, **values))


def read_jobs(_: object) -> Any:
    """Return a job that runs, and what it uses."""
    return Reading([job()], NOON, {job().record.identity: jobs.USED})


def read_ended(_: object) -> Any:
    """Return a job that has failed."""
    own = job(phase=Phase.ENDED, ended_at=NOON - 60, code=4, error="dst:9092 does not answer")
    return Reading([replace(own, state=JobState.FAILED)], NOON, {})


async def runs(walk: Walk) -> None:
    await walk.shows("a job of this host", "5")
    await walk.shows("its log", "enter")
    await walk.shows("an event of the log", "home", "enter")
    await walk.shows("the log follows", "f")
    await walk.shows("a run elsewhere, which is stopped there", "q", "down", "X", "R")
    await walk.shows("its log is there", "enter")
    await walk.shows("stop: asked", "q", "home", "X")
    await walk.answers("stopped", "orders")
    await walk.shows("stop again: asked", "X")
    await walk.shows("declined", "escape")
    await walk.shows("restart: asked", "R")
    await walk.answers("restarted", "orders")
    await walk.shows("sync: asked", "Y")
    await walk.answers("started", "orders")


async def run_fails(walk: Walk) -> None:
    await walk.shows("a job that has failed", "5")
    await walk.shows("its log", "enter")
    await walk.shows("start: asked", "q", "J")
    await walk.answers("it does not start", "orders")
    await walk.shows("stop is refused", "X")


async def unreadable(walk: Walk) -> None:
    await walk.shows("a job that has failed", "5")
    await walk.shows("its files cannot be read", "J")
    await walk.shows("nor for a restart", "R")


async def cannot_start(walk: Walk) -> None:
    await walk.shows("no run", "5")
    await walk.shows("start: a check has failed", "J")
    await walk.shows("the name changes nothing", *"orders", "tab")
    await walk.shows("declined", "escape")


async def only_runs(walk: Walk) -> None:
    await walk.shows("runs", "5")
    await walk.shows("start", "J")


def shared() -> Made:
    beats = [
        runner(host, at_ms=AT_MS - 2_000, started_ms=AT_MS - 60_000, slots=1, generation=7,
               owned=(n,), term=3)
        for n, host in enumerate(("b1", "b2"))
    ]  # fmt: skip
    waits = runner("b3", at_ms=AT_MS, started_ms=AT_MS - 9_000, state=RunnerState.STANDBY)
    return made(*beats, waits)


def twice() -> Made:
    beats = [runner(host, at_ms=AT_MS, started_ms=AT_MS - 60_000) for host in ("b1", "b2")]
    ended = runner(
        "b0",
        at_ms=AT_MS - 90_000,
        started_ms=AT_MS - 900_000,
        last_error="payments-1: target broker 3 does not answer",
    )
    return made(*beats, ended)


def fenced() -> Made:
    shown = made()
    shown.drills = (switched_over(),)
    return shown


STARTS: dict[str, Any] = {
    CHECKS: lambda *_, **__: iter([PASSED, WARNED]),
    "k2ktui.jobs.local_jobs.absolute_paths": lambda files: tuple(files),
    "k2ktui.jobs.manager.stop_job": lambda own, *_: replace(own, state=JobState.STOPPED),
    "k2ktui.jobs.manager.restart_job": lambda own, *_: own,
    "k2ktui.jobs.manager.start_job": lambda *_, **__: job(),
    "k2ktui.jobs.manager.await_running": lambda own: own,
    READ: read_jobs,
}
FATAL = Check.fails(
    "source cluster", "src:9092 does not answer", "Check that it is up.", fatal=True
)


# Pipelines of a directory


async def fleet(walk: Walk) -> None:
    await walk.shows("all pipelines")
    await walk.shows("a file that is not valid", "down")
    await walk.shows("its errors", "enter")
    await walk.shows("which pipeline", "escape", "colon", *"pipeline", "enter")
    await walk.press("escape")
    await walk.shows("only problems", "z")


async def of_fleet(walk: Walk) -> None:
    await walk.shows("a pipeline of a directory")


def one_of_fleet() -> Session:
    session = pipeline_session(usual())
    session.fleet = {"orders": Path("/p/orders.yaml"), "clicks": Path("/p/clicks.yaml")}
    return session


def jobs_session(made_view: Made, **options: Any) -> Any:
    return lambda: pipeline_session(made_view, **options)


SCENES: dict[str, list[Scene]] = {
    "jobs": [
        Scene("runs", runs, jobs_session(made(*jobs.BEATS)), STARTS),
        Scene(
            "a start that fails",
            run_fails,
            jobs_session(made()),
            {
                **STARTS,
                READ: read_ended,
                "k2ktui.jobs.manager.await_running": TimedOut(
                    "orders does not run after 60 s", hint="Look at its log."
                ),
                "k2ktui.console.screens.jobs.read_config": lambda _: jobs.FLOW.config,
            },
        ),
        Scene(
            "nothing runs",
            cannot_start,
            jobs_session(made()),
            {**of_host(), CHECKS: lambda *_, **__: iter([PASSED, WARNED, FATAL])},
        ),
    ],
    "jobs-states": [
        Scene("shared by two runs", only_runs, jobs_session(shared()), {**STARTS, **of_host()}),
        Scene("two runs at once", only_runs, jobs_session(twice()), {**STARTS, **of_host()}),
        Scene("fenced by a drill", only_runs, jobs_session(fenced()), {**STARTS, **of_host()}),
        Scene(
            "its files cannot be read",
            unreadable,
            jobs_session(made()),
            {
                **STARTS,
                READ: read_ended,
                "k2ktui.jobs.local_jobs.absolute_paths": lambda _: ("/p/other.yaml",),
                "k2ktui.console.screens.jobs.read_config": ConfigError("orders.yaml: no such file"),
            },
        ),
    ],
    "fleet": [
        Scene("a directory", fleet, lambda: fleet_session()),
        Scene("a file that is not valid", of_fleet, lambda: fleet_session(TYPO)),
        Scene("one of its pipelines", of_fleet, one_of_fleet),
    ],
}
