"""What ``bench.console`` measures: the console on a made pipeline with something on every screen.

Nothing of it reads a cluster. The pipeline has a job on this host (this process, so that what it
uses is really read), a drill that runs, a journal, and a plan of all groups.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path

import yaml

from k2ktui.config.load import load
from k2ktui.config.model import PipelineConfig
from k2ktui.engine.drill.checks import DrillPhase
from k2ktui.engine.mapping.translate import Basis
from k2ktui.engine.moves.groups import CommittedOffset, GroupRow
from k2ktui.engine.moves.journal import JournalHeader, Runner, RunnerState
from k2ktui.engine.moves.plan import Action, Plan, PlanRow, Rewind
from k2ktui.engine.records.mapping_version import MappingVersion
from k2ktui.engine.records.state import SourcePartition
from k2ktui.jobs.job_directory import JobDirectory, JobRecord, Phase, job_directory
from k2ktui.jobs.process import this_process
from k2ktui.replication.reports.events import Progress, report_event
from k2ktui.sync import operations
from k2ktui.sync.flow import Flow
from k2ktui.sync.operations import JournalEntry
from tests.support.console.views import Made, StubFeed, large
from tests.support.drill.made_drills import NOON_MS, acted, fencing

GROUPS = 1_000
ENTRIES = 60
# Partitions whose mapping has gaps, and how many: a strip of such a log is the slowest drawing.
_BROKEN, _GAPS = 30, 2_000


class Ticking(StubFeed):
    """Shows the made pipeline repeatedly; with ``copied``, every figure changes each time."""

    def __init__(self, made: Made, interval: float, copied: int, job: JobDirectory) -> None:
        super().__init__(made)
        self.interval, self._copied, self._job = interval, copied, job
        self._number = 0
        self._over = threading.Event()

    def start(self, listener) -> None:  # type: ignore[no-untyped-def]
        super().start(listener)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while not self._over.wait(self.interval):
            self.made.now += self.interval
            if self._copied:
                self._change()
            beat(self.made, self._number)
            self.tell()

    def _change(self) -> None:
        """Copy records, leave another lag on each partition, let all that reads and runs go on."""
        made, self._number = self.made, self._number + 1
        made.copy(self._copied)
        for number, (at, position) in enumerate(made.positions.items()):
            lag = (number + self._number) % 7
            made.positions[at] = replace(position, offset=made.ends[at] - lag)
        read_on(made, self._number)
        drill = made.drills[0]
        phase = drill.record(DrillPhase.FENCE_PRODUCERS)
        live = f"frozen {self._number} s of 300 s"
        made.drills = (drill.with_phase(replace(phase, live=live)),)
        log_lap(self._job, made.now, self._number)

    def close(self) -> None:
        self._over.set()


def with_members(made: Made) -> None:
    """Give four of five groups members."""
    idle = {name for n, name in enumerate(made.source_groups) if n % 5 == 4}
    for name, group in made.source_groups.items():
        if name not in idle:
            made.source_groups[name] = replace(group, state="Stable", members=3)
    made.rows = [r if r.group in idle else replace(r, state_source="Stable") for r in made.rows]


def read_on(made: Made, number: int) -> None:
    """Let groups with members commit on the source, and most of them be in step on the target."""
    rows: list[GroupRow] = []
    offsets: dict[str, dict[tuple[str, int], CommittedOffset]] = {}
    for n, row in enumerate(made.rows):
        if row.state_source == "Stable":
            offset = made.ends[SourcePartition(row.topic, row.partition)] - (n + number) % 11
            behind = 1 + (n + number) % 9 if row.divergence else 0
            row = replace(
                row,
                source_offset=offset,
                target_offset=offset + 7 - behind,
                translated_offset=offset + 7,
                divergence=-behind,
                reread_now=behind,
                skipped_now=0,
            )
        rows.append(row)
        committed = CommittedOffset(row.source_offset or 0)
        offsets.setdefault(row.group, {})[row.topic, row.partition] = committed
    made.rows = rows
    for name, group_offsets in offsets.items():
        made.source_groups[name] = replace(made.source_groups[name], offsets=group_offsets)


def beat(made: Made, number: int) -> None:
    """Let the runs and the operator of the drill be alive now."""
    at = int(made.now * 1000)
    own = this_process()
    made.runners = tuple(
        Runner(
            name, host, "ops", own.pid, NOON_MS - 7_200_000, at, RunnerState.RUNNING,
            lag_records=1_200 + number % 13, commit_ms=12.4, generation=7, owned=owned,
            version="1.0", term=12, slots=2, lap=4_000 + number,
        )
        for name, host, owned in (("a", "bastion1", (0, 2)), ("b", "bastion2", (1, 3)))
    )  # fmt: skip
    drill = made.drills[0]
    made.drills = (replace(drill, beat_ms=at),)


def log_lap(job: JobDirectory, at: float, number: int) -> None:
    """Append a line to the log of the job."""
    work = (number, 2.0, 3_120 + number % 7, 780_000, 0, 4, 0.05, 1.1, 0.0, 7, 0)
    line = report_event(Progress(*work, lag_records=1_200 + number % 13))
    with job.log.open("a") as file:
        file.write(json.dumps({**line, "at": at}) + "\n")


def make_job(config: PipelineConfig, file: Path) -> JobDirectory:
    """Write the job whose process is this one."""
    place, own = job_directory(config), this_process()
    place.make()
    place.write(
        JobRecord(
            start="s",
            pipeline=config.name,
            group="k2k",
            files=(str(file),),
            cwd="/",
            telemetry=False,
            environment="",
            read_only=False,
            pid=own.pid,
            birth=own.birth,
            host="bastion1",
            user="ops",
            version="1.0",
            started_at=time.time() - 60,
            phase=Phase.RUNNING,
            term=12,
            slots=2,
        )
    )
    for number in range(80):
        log_lap(place, time.time() - 160 + number, number)
    return place


def entries(now_ms: int) -> list[JournalHeader]:
    """Return the headers of a journal, the newest first."""
    return [
        JournalHeader(
            f"20261121-11{number:02}00-aaaa", now_ms - 60_000 * (ENTRIES - number), "ann@bastion1",
            "apply", "3f2a", "large", {"applied": 5 + number}, "",
        )
        for number in reversed(range(ENTRIES))
    ]  # fmt: skip


def plan_of(made: Made) -> Plan:
    """Return a plan of all groups."""
    rows = tuple(
        PlanRow(
            row.group, row.topic, row.partition, f"{row.topic}-{row.partition}@{row.source_offset}",
            "Empty", "Empty", (row.translated_offset or 0) - number % 900, row.translated_offset,
            Basis.EXACT, 0, 0, Action.ADVANCE, "", MappingVersion(1, 82),
        )
        for number, row in enumerate(made.rows)
    )  # fmt: skip
    until = made.now + 86_400
    return Plan("large", "source", "target", made.now, until, "ops@bastion1", Rewind.NEVER, rows)


def make(partitions: int, directory: Path) -> tuple[Made, Flow, JobDirectory, Path]:
    """Make the pipeline, its file and its job."""
    made = large(partitions, GROUPS)
    for at in list(made.mapped)[:_BROKEN]:
        end, step = made.positions[at].offset, made.positions[at].offset // _GAPS
        holes = tuple((first, first + step // 3) for first in range(step, end - step, step))
        made.mapped[at] = replace(made.mapped[at], holes=holes)
    with_members(made)
    made.drills = (acted(fencing()),)
    made.journal = entries(NOON_MS)
    tree = {
        "name": "large",
        "source": {"kafka": {"common": {"bootstrap.servers": "127.0.0.1:1"}}},
        "target": {"kafka": {"common": {"bootstrap.servers": "127.0.0.1:2"}}},
        "replication": [
            {"source": {"topic": "topic-.*"}},
            {"sink": {"topic": "source", "partition": "source"}},
        ],
    }
    file = directory / "large.yaml"
    file.write_text(yaml.safe_dump(tree))
    config = load([file]).config
    job = make_job(config, file)
    beat(made, 0)
    return made, Flow(config), job, file


def main() -> None:
    """Show the console until it is left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("interval", type=float)
    parser.add_argument("copied", type=int)
    parser.add_argument("partitions", type=int)
    options = parser.parse_args()

    from k2ktui.console import terminal

    theme = terminal.prepare(None)
    from k2ktui.console.app import open_console
    from k2ktui.console.session import Options, Session

    with tempfile.TemporaryDirectory() as directory:
        os.environ["XDG_STATE_HOME"] = directory
        made, flow, job, file = make(options.partitions, Path(directory))
        plan = plan_of(made)
        # What would read clusters.
        operations.create_plan = lambda *_, **__: plan
        operations.read_entry = lambda config, entry: JournalEntry(
            next(header for header in made.journal if header.id == entry), ()
        )
        feed = Ticking(made, options.interval, options.copied, job)
        shown = Options(theme=theme)
        open_console(Session(feed, made.pair, flow, (str(file),), options=shown))


if __name__ == "__main__":
    main()
