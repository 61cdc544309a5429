"""What Jobs and the log of a job look like, against pictures; their processes are made up."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from k2ktui.config.model import PipelineConfig
from k2ktui.console.screens.job_runs import KnownRuns, Reading
from k2ktui.console.screens.jobs import JobsScreen
from k2ktui.engine.moves.journal import Runner, RunnerState
from k2ktui.jobs.job_directory import JobDirectory, JobRecord, Phase
from k2ktui.jobs.local_jobs import Job, JobState
from k2ktui.jobs.usage import Usage
from k2ktui.replication.reports.events import Progress, report_event
from k2ktui.sync.flow import Flow
from tests.support.console.driver import ConsoleDriver, drive
from tests.support.console.pictures import ONE, SIZES, THEMES, compare_screen, each_screen
from tests.support.console.views import NOON, usual

FLOW = Flow(PipelineConfig.model_construct(name="orders"))
SCREENS = ("jobs", "jobs-log", "jobs-elsewhere", "jobs-none")
HOUR_MS = 3_600_000
USED = Usage(1_340_000_000, 16_800_000_000, 1.6, 8)


def beat(name: str, host: str, **values: object) -> Runner:
    at = int(NOON * 1000) - 3_000
    given = {"state": RunnerState.RUNNING, "version": "0.9.0", "term": 12, **values}
    return Runner(name, host, "ops", 4711, at - 2 * HOUR_MS, at, **given)  # type: ignore[arg-type]


BEATS = (
    beat("a", "bastion1", lap=4_210, slots=2, lag_records=1_200, commit_ms=12.4, generation=7,
         owned=(0, 2)),
    beat("b", "bastion2", lap=4_180, slots=2, lag_records=1_200, commit_ms=15.1, generation=7,
         owned=(1, 3)),
    beat("c", "bastion3", state=RunnerState.STANDBY),
)  # fmt: skip


def lap(number: int) -> dict[str, object]:
    work = (number, 2.0, 3_120 + number % 7, 780_000, 0, 4, 0.05, 1.1, 0.0, 7, 0)
    return report_event(Progress(*work, lag_records=1_200 + number % 13))


LOG: list[dict[str, object]] = [
    {"event": "job", "version": "0.9.0", "pid": 4711, "start": "s"},
    {"event": "note", "text": "generation 7 of owners: this run owns 2 of 4 slots"},
    *(lap(4_150 + n) for n in range(40)),
    {"event": "check", "outcome": "warn", "name": "quota", "detail": "5 MB/s for orders",
     "hint": "raise producer_byte_rate, or the copy falls behind at peaks"},
    {"event": "error", "message": "payments-1: target broker 3 does not answer; retried",
     "unchanged": "nothing was written twice", "hint": ""},
    *(lap(4_190 + n) for n in range(20)),
]  # fmt: skip


@pytest.fixture(autouse=True)
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This host is bastion1, and has what is in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(socket, "gethostname", lambda: "bastion1")


RECORD = JobRecord(
    start="s",
    pipeline="orders",
    group="k2k",
    files=("orders.yaml",),
    cwd="/",
    telemetry=False,
    environment="",
    read_only=False,
    pid=4711,
    birth="b",
    host="bastion1",
    user="ops",
    version="0.9.0",
    started_at=NOON - 7_203,
    phase=Phase.RUNNING,
    term=12,
    slots=2,
    starts=2,
)


def job() -> Job:
    """A job of this host that runs."""
    place = JobDirectory(Path("jobs/orders-5f3a91"))
    place.directory.mkdir(parents=True)
    lines = (json.dumps({**entry, "at": NOON - 600 + 8 * n}) for n, entry in enumerate(LOG))
    place.log.write_text("".join(f"{line}\n" for line in lines))
    return Job(place, RECORD, JobState.RUNNING)


@each_screen(SCREENS)
def test_screens_look_as_they_did(screen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = usual()
    made.runners = () if screen == "jobs-none" else BEATS
    jobs = [] if screen == "jobs-none" else [job()]
    # What is read every other second changes nothing: a picture may take longer.
    monkeypatch.setattr(KnownRuns, "read", lambda _: Reading(jobs, NOON, None))

    async def opens(console: ConsoleDriver) -> None:
        await console.press("5")
        if screen == "jobs-elsewhere":
            await console.press("j")
        if screen == "jobs-log":
            await console.press("enter")
        await lived(console, jobs)

    compare_screen(
        opens,
        made,
        screen,
        sizes=SIZES if screen in ("jobs", "jobs-log") else ONE,
        themes=THEMES if screen == "jobs" else (),
        files=("orders.yaml",),
        flow=FLOW,
    )


def test_after_a_change_of_size_the_log_has_its_lines_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not only with what is read next: the table gets its lines first, and then the log."""
    made = usual()
    made.runners, jobs = BEATS, [job()]
    monkeypatch.setattr(KnownRuns, "read", lambda _: Reading(jobs, NOON, None))

    async def flow(console: ConsoleDriver) -> None:
        await console.press("5")
        await lived(console, jobs)
        for size in SIZES[1:]:
            await console.pilot.resize_terminal(*size)
            await console.pilot.pause()
            at_once = console.text
            await console.show()
            assert console.text == at_once, size

    drive(flow, made, size=SIZES[0], files=("orders.yaml",), flow=FLOW)


async def lived(console: ConsoleDriver, jobs: Sequence[Job]) -> None:
    """Let five minutes pass in which the job used a little more and a little less."""
    runs = next(screen for screen in console.app.opened if isinstance(screen, JobsScreen)).runs
    runs.keep(Reading(jobs, NOON, {}))
    for number in range(61):
        used = replace(USED, memory=1_200_000_000 + 9_000_000 * (number % 17))
        used = replace(used, cores=1.2 + number % 5 / 10)
        at = NOON - 300 + 5 * number
        runs.keep(Reading(jobs, at, {job.record.identity: used for job in jobs}))
    await console.show()
    await console.pilot.pause(0.3)
    await console.settle()
