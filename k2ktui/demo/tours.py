"""The tours of ``k2ktui demo --drill``: there and back, planned or after a disaster.

At the end, what the groups have read is compared with what there was to read, by a plain consumer.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from k2ktui.config.reverse import reverse_file
from k2ktui.demo.applications import ON_SOURCE, Applications
from k2ktui.demo.pipeline import DemoPipeline
from k2ktui.demo.read_records import ReadTotals, Where, committed
from k2ktui.demo.screen import Screen
from k2ktui.demo.topics import by_name
from k2ktui.demo.tour import (
    FROZEN_SECONDS,
    OPTIONS,
    REPORT_LINES,
    WATCH_SECONDS,
    TourAction,
    await_copied,
    is_exact,
    run_drill,
    run_tour,
)
from k2ktui.drill.files import reverse_path
from k2ktui.engine.drill_checks import DrillKind, DrillPhase
from k2ktui.engine.drill_report import report_markdown
from k2ktui.engine.drill_tail import TailChoice
from k2ktui.errors import ExitCode
from k2ktui.private_files import write_private
from k2ktui.runtime.node import KafkaNode
from k2ktui.text import counted, safe_text

_READ_SECONDS = 120.0
_LOOK_SECONDS = 2.0
_UNCOPIED_SECONDS = 3.0
_TIMES = f"--frozen {FROZEN_SECONDS:g} --watch {WATCH_SECONDS:g}"

Starts = Mapping[str, Mapping[Where, int]]


@dataclass(frozen=True, slots=True)
class Stage:
    """What a tour acts on.

    Attributes:
        config: the pipeline's file.
        nodes: source and target.
        applications: producers and consumers; they run on the source.
        screen: where the tour is printed.
        job: the pipeline's job.
        start_pipeline: starts the pipeline of another file.
        reading_s: pause between two phases, in seconds.
    """

    config: Path
    nodes: tuple[KafkaNode, KafkaNode]
    applications: Applications
    screen: Screen
    job: DemoPipeline
    start_pipeline: Callable[[Path], DemoPipeline]
    reading_s: float


def run_planned(stage: Stage) -> ExitCode:
    """Rehearse, switch over to the target, and return.

    Raises:
        K2kError: a pipeline ended, or a drill could not be completed.
    """
    starts = {group.name: dict.fromkeys(_partitions(group.topics), 0) for group in ON_SOURCE}
    there = run_tour(
        stage.config, stage.applications, stage.screen, stage.job.fault, stage.reading_s
    )
    time.sleep(stage.reading_s)
    back = _fail_back(stage, starts, stage.nodes[0])
    return max(there, back)


def run_disaster(stage: Stage) -> ExitCode:
    """Kill the source, fail over without it, start it again, and return to it.

    Raises:
        K2kError: a pipeline ended, or a drill could not be completed.
    """
    source, target = stage.nodes
    screen, applications = stage.screen, stage.applications
    await_copied(stage.config, screen, stage.job.fault)
    screen.say("The tour stops the pipeline, and then kills the source cluster.")
    stage.job.pause()
    time.sleep(_UNCOPIED_SECONDS)
    source.kill()
    applications.stop()
    file = shlex.quote(str(stage.config))
    command = f"k2ktui drill disaster -f {file} --watch {WATCH_SECONDS:g}"
    screen.say(f"The source is lost. The failover uses what is known on the target: {command}")
    starts: dict[str, dict[Where, int]] = {}

    def start_there() -> None:
        for group in ON_SOURCE:
            where = _partitions(group.topics)
            starts[group.name] = committed(target.bootstrap, group.name, where)
        applications.records.clear()
        applications.start_on("target")

    actions = {
        DrillPhase.WATCH_CLIENTS: TourAction(
            "The tour starts the demo's consumers and producers on the target.", start_there
        )
    }
    run_drill(DrillKind.DISASTER, command, stage.config, actions, screen, stage.reading_s)
    screen.say("The applications work on the target. Now the old source comes back.")
    time.sleep(stage.reading_s)
    source.start()
    return _fail_back(stage, starts, target)


def _fail_back(stage: Stage, starts: Starts, complete: KafkaNode) -> ExitCode:
    """Return to the old source; ``complete`` then has all records from ``starts`` on."""
    screen, applications = stage.screen, stage.applications
    back = reverse_path([str(stage.config)])
    file, forward = shlex.quote(str(back)), shlex.quote(str(stage.config))
    if not back.exists():
        screen.say(f"The reverse pipeline's file: k2ktui config reverse -f {forward} > {file}")
        write_private(back, reverse_file([str(stage.config)]).text.encode())
    screen.say(f"The reverse pipeline copies to the old source: k2ktui jobs start -f {file}")
    job = stage.start_pipeline(back)
    await_copied(back, screen, job.fault)
    command = f"k2ktui drill failback -f {file} --tail replay {_TIMES}"
    screen.say(f"The failback moves every group to the old source again: {command}")
    actions = {
        DrillPhase.FENCE_PRODUCERS: TourAction(
            "The tour stops the demo's producers.", applications.stop_producers
        ),
        DrillPhase.STOP_CONSUMERS: TourAction(
            "The tour stops the demo's consumers.", applications.stop_consumers
        ),
        DrillPhase.WATCH_CLIENTS: TourAction(
            "The tour starts the demo's consumers and producers on the old source.",
            lambda: applications.start_on("source"),
        ),
    }
    options = replace(OPTIONS, tail=TailChoice.REPLAY)
    drill = run_drill(DrillKind.FAILBACK, command, back, actions, screen, stage.reading_s, options)
    screen.say("The report begins with:")
    for line in report_markdown(drill).splitlines()[:REPORT_LINES]:
        screen.say(f"  {line}")
    screen.say(f"The whole report: k2ktui drill report {safe_text(drill.id)} -f {file}")
    totals = _compare(stage, starts, complete)
    for name, found in sorted(totals.items()):
        screen.say(
            f"  {name}: {counted(found.read, 'record')} read, {found.again:,} read again, "
            f"{found.skipped:,} skipped"
        )
    # legacy-report reads nothing meanwhile: retention may delete what it has not read.
    for each in drill.groups:
        if each.group not in totals and each.skipped:
            screen.say(
                f"  {each.group}: not running; up to {counted(each.skipped, 'record')} skipped"
            )
    running = replace(drill, groups=tuple(e for e in drill.groups if e.group in totals))
    exact = is_exact(running) and all(each.is_exact for each in totals.values())
    screen.say(
        "There and back, every running group has read each record exactly once."
        if exact
        else "Not every running group has read each record exactly once; the report says more."
    )
    return ExitCode.OK if exact else ExitCode.FINDINGS


def _compare(stage: Stage, starts: Starts, complete: KafkaNode) -> dict[str, ReadTotals]:
    """Stop the producers, and compare once everything was copied and read."""
    stage.screen.say("A plain consumer compares what the groups have read with what there is.")
    stage.applications.stop_producers()
    await_copied(stage.config, stage.screen, stage.job.fault)
    until = time.monotonic() + _READ_SECONDS
    while True:
        totals = stage.applications.records.compare(complete.bootstrap, starts)
        # Until the last records are copied and read, some are on one side only.
        if all(each.is_exact for each in totals.values()) or time.monotonic() > until:
            return totals
        time.sleep(_LOOK_SECONDS)


def _partitions(topics: tuple[str, ...]) -> list[Where]:
    return [(name, number) for name in topics for number in range(by_name(name).partitions)]
