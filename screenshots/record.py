"""Record a session with the real demo, and keep what the pictures need of it.

In one terminal ``k2ktui demo --fresh --headless``, in another one
``python screenshots/record.py DIRECTORY``, the directory of the demo's ``pipeline.yaml``. It takes
ten minutes: it stops and starts the job, moves the group that diverges, rehearses a failover and
carries out a planned switchover. Then ``python screenshots/make.py``.
"""

from __future__ import annotations

import argparse
import getpass
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import kept
from scenes import drills_to_keep

from k2ktui.config.load import load
from k2ktui.console.screens.job_runs import KnownRuns
from k2ktui.engine.access import access
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import Drill, PhaseStatus
from k2ktui.engine.moves.plan import Plan, Rewind
from k2ktui.jobs import joblog
from k2ktui.jobs.usage import Usage
from k2ktui.sync import operations
from k2ktui.sync.flow import Flow
from k2ktui.sync.moves.plans import plan_options
from k2ktui.watch.model import View
from k2ktui.watch.poller import open_poller
from k2ktui.watch.recording import Recorder, Recording

_NAMES = "source: {name: dc-east}\ntarget: {name: dc-west}\n"
_GROUP = "legacy-report"
_LOG_LINES = 80
_POLL_S, _LOOK_S = 2.0, 0.5
# Views before the plan, for the charts of a partition, every other one.
_CHARTED = 120
# What an operator does on the clients, by the phase of a planned switchover that waits for it.
_ACTS = {
    DrillPhase.FENCE_PRODUCERS: ("stop-producers",),
    DrillPhase.STOP_CONSUMERS: ("stop-consumers",),
    DrillPhase.WATCH_CLIENTS: ("start-on-target",),
}


@dataclass
class Watched:
    """What was polled: the newest view, and each reading of a drill."""

    recorder: Recorder
    view: View | None = None
    drills: list[Drill] = field(default_factory=list)

    def see(self, view: View) -> None:
        """Record a view."""
        self.recorder.add(view)
        self.view = view
        self.drills += [drill for drill in view.drills if drill not in self.drills]


def record(directory: Path) -> None:
    """Record the session, and keep it."""
    names = directory / "names.yaml"
    names.write_text(_NAMES)
    files = [directory / "pipeline.yaml", names]
    given = [argument for file in files for argument in ("-f", str(file))]
    flow = Flow(load(files).config)
    recording = Path(tempfile.mkdtemp()) / "views.k2k"
    watched = Watched(Recorder(recording))
    poller = open_poller(flow, _POLL_S)
    poller.start(watched.see)
    marks: dict[str, float] = {}
    used, log = _watch_the_lag(given, marks)
    planned = {whole: _plan(flow, files, whole=whole) for whole in (True, False)}
    marks["planned"] = time.time()
    time.sleep(3 * _POLL_S)
    applied = operations.apply_plan(flow.config, planned[False], list(map(str, files)), access())
    report = operations.verify_content(flow, group=lambda _: True, plan=planned[False])
    time.sleep(5 * _POLL_S)
    entry = operations.read_entry(flow.config, applied.id)
    marks["applied"] = time.time()
    job = KnownRuns().read().jobs[0].record
    _run("drill", "rehearse", *given)
    time.sleep(3 * _POLL_S)
    marks["rehearsed"] = time.time()
    _switch_over(given, watched)
    time.sleep(3 * _POLL_S)
    poller.close()
    watched.recorder.close()
    found = kept.Moments(applied, report.verification, entry, job, tuple(used), tuple(log), marks)
    keep(recording, found, planned, watched.drills)


def _watch_the_lag(
    given: Sequence[str], marks: dict[str, float]
) -> tuple[list[tuple[float, Usage]], list[str]]:
    """Stop the job and start it again; return what it used, and the end of its log."""
    time.sleep(100)
    marks["steady"] = time.time()
    _run("jobs", "stop", *given)
    for mark in ("stopped", "rising", "high"):
        time.sleep(10)
        marks[mark] = time.time()
    _run("jobs", "start", *given)
    time.sleep(12)
    marks["caught"] = time.time()
    runs, used = KnownRuns(), []
    for _ in range(20):
        time.sleep(4)
        reading = runs.read()
        used += [(reading.at, each) for each in (reading.usage or {}).values()]
    marks["jobs"] = time.time()
    tail = joblog.read_tail(reading.jobs[0].place, _LOG_LINES)
    return used, [entry.raw for entry in tail]


def _plan(flow: Flow, files: Sequence[Path], *, whole: bool) -> Plan:
    options = plan_options(
        flow.config, rewind=Rewind.NEVER, group=lambda name: whole or name == _GROUP
    )
    return operations.create_plan(flow, options, list(map(str, files)))


def _switch_over(given: Sequence[str], watched: Watched) -> None:
    """Carry out a planned switchover, and do on the clients what it waits for."""
    command = ["drill", "planned", *given, "--frozen", "10", "--yes-to", "all", "--watch", "60"]
    _run("demo", "--do", "stop-target-consumers")
    time.sleep(3 * _POLL_S)
    process = subprocess.Popen([*_PROGRAM, *command])
    done: set[DrillPhase] = set()
    while process.poll() is None:
        for drill in watched.drills[-1:]:
            if drill.kind is not DrillKind.PLANNED:
                continue
            for phase, acts in _ACTS.items():
                if phase not in done and drill.record(phase).status is PhaseStatus.RUNNING:
                    done.add(phase)
                    time.sleep(2 * _POLL_S)
                    for act in acts:
                        _run("demo", "--do", act)
        time.sleep(_LOOK_S)


_PROGRAM = [sys.executable, "-m", "k2ktui"]


def _run(*arguments: str) -> None:
    print(" ".join(arguments), file=sys.stderr)
    subprocess.run([*_PROGRAM, *arguments], check=False)


def keep(
    recording: Path,
    found: kept.Moments,
    planned: dict[bool, Plan],
    drills: Sequence[Drill],
) -> None:
    """Keep what the pictures need."""
    user, host = getpass.getuser(), socket.gethostname()
    kept.keep_moments(found, user, host)
    for whole, plan in planned.items():
        kept.keep_plan(plan, whole=whole)
    shown = drills_to_keep(list(drills))
    kept.keep_drills(shown, user, host)
    read = Recording(recording)
    last = read.number_at(found.marks["planned"])
    numbers = set(range(last, max(0, last - _CHARTED), -2))
    for at in (*found.marks.values(), *(drill.beat_ms / 1000 for drill in shown)):
        numbers.add(read.number_at(at))
    read.close()
    kept.keep_views(recording, sorted(numbers), kept.DEMO)


def main() -> int:
    """Record the demo."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    record(parser.parse_args().directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
