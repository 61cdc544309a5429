"""Cases of the transcript: runs, jobs of this host, the demo, and what it says of itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from k2ktui.engine.drill.pair_state import PairPhase, PairState
from k2ktui.engine.moves.journal import RunnerState
from k2ktui.engine.records.state import SourcePartition
from k2ktui.errors import NotInstalled, TimedOut
from k2ktui.jobs.job_directory import JobDirectory, JobRecord, Phase
from k2ktui.jobs.local_jobs import Job, JobState
from k2ktui.replication.copying.slot_task import Fault, FaultKind
from k2ktui.replication.preflight.checks import Check, CheckOutcome
from k2ktui.replication.reports.events import (
    Finished,
    FirstRecord,
    Note,
    Progress,
    Resumed,
    Started,
    Stopped,
    Waiting,
)
from k2ktui.sync.loop.poll import SyncPoll, SyncStopped
from k2ktui.sync.mapping.source import NothingCopied
from tests.support.commands.transcript import Typed, typed
from tests.support.console.views import NOON, runner
from tests.unit.golden.cases.common import NO_SOURCE, NO_TARGET, PAIR, Cases, protected

AT = SourcePartition("payments", 0)
NOON_MS = int(NOON * 1000)
BEAT = runner("bastion2", version="1.0", started_ms=NOON_MS - 60_000, at_ms=NOON_MS - 1_000)
NO_PYSPARK = NotInstalled(
    "starting the pipeline needs packages that are not installed: pyspark",
    unchanged="Nothing was started or stopped.",
    hint="Install them.",
)
FAULT = Fault(AT, FaultKind.TOO_LARGE, "a batch of 2 MB is larger than the target takes",
              "Raise max.message.bytes of payments.", 41)  # fmt: skip
REPORTS = (
    Waiting("bastion2, pid 4711"),
    Started("orders", 3, 2, 7, 12.3),
    Started("orders", 3, 1, 1, 0.4, is_more=True),
    FirstRecord(14.2),
    Progress(1, 5.0, 12_000, 9_500_000, 3, 12, 0.02, 1.5, 0.1, 7, 1, 1_200),
    Progress(2, 0.0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 7, 0, None),
    Stopped(FAULT),
    Resumed("payments", 0),
    Note("the mapping topic was created"),
    Finished(True, 12_000, 20.5, ()),
    Finished(False, 12_000, 20.5, (FAULT,)),
)


def runs(code: int, *checks: Check) -> Callable[..., int]:
    """Return a run that reports everything there is, and ends."""

    def run(_: object, report: Any, check: Any, **__: object) -> int:
        for one in checks:
            check(one)
        for event in REPORTS:
            report(event)
        return code

    return run


def start(folder: Path) -> list[Typed]:
    """Every line of a run's log; not started; clusters that are not accepted."""
    run, begin = "k2ktui.starting.run_pipeline", "start -f orders.yaml"
    warned = Check.warns("topics", "clicks has no records", "Nothing to do.")
    refused = Check.fails("rights", "no Read on topic clicks", "Grant Read on clicks.")
    modes = ("exclusive", "standby", "shared")
    for mode in modes:
        (folder / f"{mode}.yaml").write_text(f"coordination: {{mode: {mode}}}\n")
    return [
        typed(begin, {run: runs(0, warned)}),
        typed(f"{begin} --log-format json", {run: runs(1, refused)}),
        typed(begin, {run: NO_PYSPARK}),
        typed(begin, {run: NO_TARGET}),
        *(typed(f"{begin} -f {mode}.yaml --take-over", {run: 0}) for mode in modes),
        *protected(folder, "start", {run: 0}),
        typed(f"{begin} --yes"),
        typed(f"{begin} --log-format xml"),
        typed(f"{begin} --http nowhere"),
        typed(f"{begin} -l missing/log", {run: NO_SOURCE}),
        typed("start -f missing.yaml"),
        typed("start"),
    ]


def poll(**values: Any) -> SyncPoll:
    """A poll that has committed, failed, left alone and noted something."""
    made = SyncPoll(
        NOON, NOON - 1, 3, {"advance": 2, "keep": 1, "blocked": 1}, 1,
        ("billing payments-0: a member joined",),
        {"archive": "it has members on the target"},
        ("group reports could not be read on the source: not authorized",),
        {"exact": 3, "bounded": 1}, {"billing": 12}, 0.2, ("reports",), NOON + 3600,
    )  # fmt: skip
    return replace(made, **values)


def sync(folder: Path) -> list[Typed]:
    """A poll with everything, with nothing; stopped; nothing copied yet."""
    once = "sync -f orders.yaml --once"

    def turns(answer: Any) -> dict[str, Any]:
        running = "k2ktui.sync.loop.running"
        return {
            f"{running}.SyncLoop": lambda *_, **__: Loop(answer),
            f"{running}.await_open": None,
            f"{running}.monotonic": 0.0,
            "k2ktui.parity.watcher.watch_parity": None,
        }

    quiet = poll(actions={}, applied=0, failed=(), stopped={}, notes=(), bases={}, rereads={},
                 unread=())  # fmt: skip
    return [
        typed(once, turns(poll())),
        typed(f"{once} --json", turns(poll())),
        typed(once, turns(quiet)),
        typed(once, turns(poll(rereads={f"group-{n:02}": n for n in range(12)}))),
        typed(once, turns(SyncStopped("billing has members on the target", hint="Stop them."))),
        typed(once, turns(NothingCopied("nothing was copied yet", hint="Start the pipeline."))),
        typed(once, turns(NO_TARGET)),
        *protected(folder, "sync --once", turns(poll())),
        typed(f"{once} --rewind always"),
        typed("sync"),
    ]


class Loop:
    """The sync application of which one poll is made."""

    def __init__(self, answer: SyncPoll | Exception) -> None:
        self._answer = answer
        self.stopped = answer.stopped if isinstance(answer, SyncPoll) else {}
        self.unmapped = ""

    def turn(self) -> SyncPoll:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer

    def close(self) -> None:
        return


def a_job(folder: Path, state: JobState = JobState.RUNNING, why: str = "", **values: Any) -> Job:
    """A job of this host."""
    place = JobDirectory(folder / "jobs" / "orders-5f3a91")
    record = JobRecord(
        start="s", pipeline="orders", group="k2k", files=("orders.yaml",), cwd="/",
        telemetry=False, environment="", read_only=False, pid=4711, birth="b", host="bastion1",
        user="ops", version="0.9.0", started_at=NOON - 7_203, phase=Phase.RUNNING, term=12,
        slots=2, starts=2,
    )  # fmt: skip
    return Job(place, replace(record, **values), state, why)


def jobs_list(folder: Path) -> list[Typed]:
    """A job of this host; runs elsewhere; none."""
    read, beats = "k2ktui.jobs.local_jobs.list_jobs", "k2ktui.jobs.runners.read_runners"
    kept = {"k2ktui.cli.jobs._note_state": None}
    died = a_job(folder, JobState.DIED, "it was killed")
    standby = replace(BEAT, runner="bastion3-1", host="bastion3", state=RunnerState.STANDBY)
    silent = replace(BEAT, runner="bastion4-1", host="bastion4", at_ms=NOON_MS - 60_000,
                     last_error="the target did not answer")  # fmt: skip
    elsewhere: dict[str, Any] = {read: [], beats: (BEAT, standby, silent), **kept, **PAIR}
    moved = {
        "k2ktui.sync.drill.pair.read_pair_state": PairState(
            PairPhase.FAILED_OVER, "d1", at_ms=NOON_MS
        )
    }
    return [
        typed("jobs list", {read: [a_job(folder)], **kept}),
        typed("jobs list --json", {read: [died], **kept}),
        typed("jobs list", {read: [], **kept}),
        typed("jobs list --json", {read: [], **kept}),
        typed("jobs list -f orders.yaml", elsewhere),
        typed("jobs list -f orders.yaml --json", elsewhere),
        typed("jobs list -f orders.yaml", {**elsewhere, **moved}),
        typed("jobs list -f orders.yaml", {**elsewhere, beats: NO_TARGET}),
        typed("jobs list -f missing.yaml"),
    ]


def jobs(folder: Path) -> list[Typed]:
    """The jobs of this host, without a word more."""
    read = {"k2ktui.jobs.local_jobs.list_jobs": [a_job(folder)]}
    return [
        typed("jobs", {**read, "k2ktui.cli.jobs._note_state": None}),
        typed("jobs lst"),
    ]


FOUND = "k2ktui.jobs.local_jobs.find_job"
FINE = (Check.passes("source cluster", "src:9092 is up"),)


def started(job: Job, *checks: Check) -> dict[str, Any]:
    """Return the answers of a start: the checks, and what became of the job."""
    return {
        "k2ktui.cli.jobs.require_pyspark": None,
        "k2ktui.jobs.checks.start_checks": checks or FINE,
        "k2ktui.jobs.manager.start_job": job,
        "k2ktui.jobs.manager.restart_job": job,
        "k2ktui.jobs.manager.await_running": job,
        FOUND: job,
    }


def jobs_start(folder: Path) -> list[Typed]:
    """Started, ended at once; a check that fails; contradictions."""
    begin = "jobs start -f orders.yaml"
    good = started(a_job(folder))
    ended = started(a_job(folder, JobState.FAILED, "the source does not answer", code=3))
    rights = Check.fails("rights", "no Read on topic clicks", "Grant Read on clicks.")
    runs_there = Check.fails("other runners", "it is running on bastion2, pid 4711", "Stop it.")
    fenced = Check.fails("drill fence", "fenced by drill d1", "Release it.", fatal=True)
    down = Check(
        "source cluster", CheckOutcome.FAIL, "it does not answer", "Start it.", unreachable=True
    )
    unknown = Check.unknown("Java", "JAVA_HOME cannot be read", "Set it.")
    return [
        typed(begin, good),
        typed(f"{begin} --json", good),
        typed(f"{begin} --sync --rewind follow", good),
        typed(begin, ended),
        typed(f"{begin} --json", ended),
        typed(begin, started(a_job(folder), rights, unknown)),
        typed(f"{begin} --force", started(a_job(folder), rights)),
        typed(begin, started(a_job(folder), runs_there)),
        typed(f"{begin} --take-over", started(a_job(folder), runs_there)),
        typed(f"{begin} --force --take-over", started(a_job(folder), fenced)),
        typed(begin, started(a_job(folder), down)),
        typed(begin, {**good, "k2ktui.cli.jobs.require_pyspark": NO_PYSPARK}),
        *protected(folder, "jobs start", good),
        typed(f"{begin} --rewind follow"),
        typed(f"{begin} --sync --accept-cluster x"),
        typed(f"{begin} --yes"),
        typed(f"{begin} --wait -1"),
        typed(f"{begin} --wait nan"),
        typed("jobs start -f -"),
        typed("jobs start"),
    ]


def jobs_stop(folder: Path) -> list[Typed]:
    """Stopped; still running; another host's; none; in production."""
    stop = "jobs stop -f orders.yaml"
    ended = a_job(folder, JobState.STOPPED, code=0, phase=Phase.ENDED)
    put = "k2ktui.jobs.manager.stop_job"
    guarded = a_job(folder, environment="production")
    none = {"k2ktui.jobs.runners.read_runners": ()}
    elsewhere = {"k2ktui.jobs.runners.read_runners": (BEAT,)}
    return [
        typed(stop, {FOUND: a_job(folder), put: ended}),
        typed(f"{stop} --json --kill", {FOUND: a_job(folder), put: ended}),
        typed(f"{stop} --timeout 5", {FOUND: a_job(folder), put: a_job(folder)}),
        typed(stop, none),
        typed(f"{stop} --sync", none),
        typed(stop, elsewhere),
        typed(stop, {FOUND: guarded}),
        typed(stop, {FOUND: replace(guarded, record=replace(guarded.record, read_only=True))}),
        typed(f"{stop} --timeout -1"),
        typed("jobs stop"),
    ]


def jobs_restart(folder: Path) -> list[Typed]:
    """Restarted; a check fails; no job."""
    restart = "jobs restart -f orders.yaml"
    rights = Check.fails("rights", "no Read on topic clicks", "Grant Read on clicks.")
    return [
        typed(restart, started(a_job(folder))),
        typed(f"{restart} --json", started(a_job(folder))),
        typed(restart, started(a_job(folder), rights)),
        typed(restart),
        typed(f"{restart} --sync"),
        typed(f"{restart} --wait -1"),
        *protected(folder, "jobs restart", started(a_job(folder))),
        typed("jobs restart"),
    ]


LOG = (
    {"event": "started", "at": NOON, "pipeline": "orders", "term": 3, "slots": 2, "partitions": 7,
     "seconds": 12.3},
    {"event": "progress", "at": NOON + 5, "lap": 1, "seconds": 5.0, "records": 12_000,
     "written_bytes": 9_500_000, "rebuilt": 3, "transactions": 12, "commit_s": 0.02, "cpu_s": 1.5,
     "pause_s": 0.1, "partitions": 7, "stopped": 0, "lag_records": 1_200},
    {"event": "note", "at": NOON + 6, "text": "hello"},
    {"event": "error", "at": NOON + 7, "message": "it ends \x1b[31m"},
)  # fmt: skip


def jobs_log(folder: Path) -> list[Typed]:
    """Lines of a log, as text and as they are; no job."""
    job = a_job(folder)
    job.place.log.parent.mkdir(parents=True, exist_ok=True)
    lines = [*map(json.dumps, LOG), "not JSON"]
    job.place.log.write_text("".join(f"{line}\n" for line in lines))
    log = "jobs log -f orders.yaml"
    return [
        typed(log, {FOUND: job}),
        typed(f"{log} -n 2", {FOUND: job}),
        typed(f"{log} --json", {FOUND: job}),
        typed(f"{log} --sync", {"k2ktui.jobs.runners.read_runners": ()}),
        typed(f"{log} -n x"),
        typed("jobs log"),
    ]


def demo(_: Path) -> list[Typed]:
    """Without a running demo; contradictions; packages that are missing."""
    need = "k2ktui.demo.app.require_demo_packages"
    return [
        typed("demo --stop", {"k2ktui.demo.screen.time.monotonic": 0.0}),
        typed("demo --do show"),
        typed("demo --do show", {"k2ktui.cli.demo.request": "source: up\nproducers: 3"}),
        typed("demo --jars", {"k2ktui.cli.demo.fetch_jars": "/var/cache/k2ktui/jars"}),
        typed("demo", {need: NO_PYSPARK}),
        typed("demo --drill --keep"),
        typed("demo --pause 3"),
        typed("demo --rate 1000"),
        typed("demo --drill both"),
        typed("demo --do nothing"),
    ]


def bug_report(folder: Path) -> list[Typed]:
    """With a pipeline, without one; a file that is there, and one that cannot be written."""
    (folder / "there.tar.gz").write_text("")
    parts = "k2ktui.cli.bug_report"
    same = {f"{parts}._log": "a line", f"{parts}._crashes": "one", f"{parts}._java": "21 (PATH)"}
    broken = {**same, f"{parts}._versions": TimedOut("no version")}
    return [
        typed("bug-report -f orders.yaml --no-check -o one.tar.gz", same),
        typed("bug-report -o two.tar.gz", same),
        typed("bug-report -f missing.yaml --no-check -o three.tar.gz", broken),
        typed("bug-report -o there.tar.gz"),
        typed("bug-report -o missing/four.tar.gz", same),
    ]


def completion(_: Path) -> list[Typed]:
    """A script for each shell, which is Click's; another shell."""
    script = {"click.shell_completion.ShellComplete.source": "a script"}
    return [
        typed("completion zsh", script),
        typed("completion tcsh"),
        typed("completion"),
    ]


def program(_: Path) -> list[Typed]:
    """Commands that do not exist, and options at the wrong place."""
    return [
        typed("pln -f orders.yaml"),
        typed("nothing"),
        typed("-f orders.yaml plan"),
        typed("drill plannd"),
        typed("--nothing"),
        typed("plan --nothing"),
        typed("-f orders.yaml -d ."),
        typed("--replay missing.k2k"),
    ]


CASES: Mapping[str, Cases] = {
    "": program,
    "bug-report": bug_report,
    "completion": completion,
    "demo": demo,
    "jobs": jobs,
    "jobs list": jobs_list,
    "jobs log": jobs_log,
    "jobs restart": jobs_restart,
    "jobs start": jobs_start,
    "jobs stop": jobs_stop,
    "start": start,
    "sync": sync,
}
