"""The first part of a tour of ``k2ktui demo --drill``: a rehearsal and a planned switchover."""

from __future__ import annotations

import queue
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from k2ktui.demo import wiring
from k2ktui.demo.applications import ON_SOURCE, Applications
from k2ktui.demo.screen import Screen
from k2ktui.demo.topics import by_name
from k2ktui.drill.operations import start_drill
from k2ktui.engine.access import access
from k2ktui.engine.drill import Drill, DrillOptions, DrillStatus, PhaseStatus
from k2ktui.engine.drill_checks import DrillKind, DrillPhase
from k2ktui.engine.drill_report import has_findings, report_markdown, summarize
from k2ktui.engine.drill_steps import describe_phase, next_phase
from k2ktui.errors import ExitCode, K2kError, TimedOut
from k2ktui.kafka.properties import load_checked
from k2ktui.progress import ProgressStep
from k2ktui.sync.flow import PipelineFlow
from k2ktui.text import counted, safe_message, safe_text
from k2ktui.watch.model import View

READING_SECONDS = 4.0
_CATCH_UP_SECONDS = 300.0
_CATCH_UP_RECORDS = 2_000
_POLL_SECONDS = 1.0
REPORT_LINES = 10
FROZEN_SECONDS = 10.0
WATCH_SECONDS = 60.0
OPTIONS = DrillOptions(frozen_s=FROZEN_SECONDS, wait_s=120.0, watch_s=WATCH_SECONDS)
_AGAIN = "Start over with the same command: k2ktui demo --drill"
_GOES_ON = (
    "The planned switchover looks for these findings again, and stops at those that make it unsafe."
)
_EXACT = "Every group was moved to exactly its position: 0 records read again, 0 skipped."
_NOT_EXACT = "Not every group was moved to exactly its position; the report says which, and why."

# Commands that do, or show, the same as a phase. The others exist only as part of a drill.
_COMMANDS: Mapping[DrillPhase, str] = {
    DrillPhase.PREFLIGHT: "k2ktui check -f {file}",
    DrillPhase.LAG: "k2ktui status -f {file}",
    DrillPhase.DRAIN: "k2ktui status -f {file}",
    DrillPhase.STOP_CONSUMERS: "k2ktui groups -f {file}",
    DrillPhase.PLAN: "k2ktui plan -f {file}",
    DrillPhase.CONTENT: "k2ktui verify -f {file}",
    DrillPhase.APPLY: "k2ktui plan -f {file} -o PLAN; k2ktui apply PLAN",
    DrillPhase.VERIFY: "k2ktui verify -f {file}",
    DrillPhase.WATCH_CLIENTS: "k2ktui drill show {id} -f {file}",
    DrillPhase.REVERSE: "k2ktui config reverse -f {file}",
    DrillPhase.SOURCE_BACK: "k2ktui check -f {file}",
    DrillPhase.REPORT: "k2ktui drill report {id} -f {file}",
}


@dataclass(frozen=True, slots=True)
class TourAction:
    """What the tour does to the demo's applications before a phase, where an operator would."""

    text: str
    run: Callable[[], None]


class TourOperator:
    """Shows each phase before and after it runs, acts on the applications, and confirms.

    Args:
        say: prints a line.
        pause: gives the reader time; called between phases, so that no phase counts it.
        file: the pipeline's file.
        command: the command that begins the drill.
        actions: what to do before a phase.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        pause: Callable[[], None],
        file: Path,
        command: str,
        actions: Mapping[DrillPhase, TourAction],
    ) -> None:
        self._say, self._pause = say, pause
        self._file, self._command, self._actions = file, command, actions
        self._ended: set[DrillPhase] = set()
        self._announced: set[DrillPhase] = set()

    def show(self, drill: Drill) -> None:
        """Print the phases that have ended, and announce the next one."""
        for record in drill.phases:
            if record.phase in self._ended:
                continue
            if record.status in (PhaseStatus.WAITING, PhaseStatus.RUNNING):
                continue
            self._ended.add(record.phase)
            self._say(f"  {record.status}: {safe_message(record.live)}")
            for finding in record.findings:
                self._say(f"    {safe_message(finding)}")
        phase = next_phase(drill)
        if phase is None or phase in self._announced:
            return
        self._announced.add(phase)
        self._announce(drill, phase)

    def _announce(self, drill: Drill, phase: DrillPhase) -> None:
        number = [record.phase for record in drill.phases].index(phase) + 1
        place = f"{number} of {len(drill.phases)}"
        self._say(f"{place}, {phase}: {describe_phase(phase, drill.options.fence)}")
        command = _COMMANDS.get(phase)
        if command is None:
            self._say(f"  By hand: a phase of {self._command}")
        else:
            file = shlex.quote(str(self._file))
            self._say(f"  By hand: {command.format(file=file, id=safe_text(drill.id))}")
        self._pause()
        action = self._actions.get(phase)
        if action:
            self._say(f"  {action.text}")
            action.run()

    def confirm(self, drill: Drill, phase: DrillPhase, effect: str) -> bool:
        """Say what an operator would confirm, and agree."""
        first, *more = map(safe_message, effect.splitlines())
        self._say(f"  The tour confirms, where you would type {phase}: {first}")
        for line in more:
            self._say(f"    {line}")
        self._pause()
        return True

    def agree(self, drill: Drill, lines: Sequence[str]) -> bool:
        """Decline: a tour is no person."""
        return False


def run_tour(
    config: Path,
    applications: Applications,
    screen: Screen,
    fault: Callable[[], str],
    reading_s: float,
) -> ExitCode:
    """Wait until the pipeline has caught up, rehearse, and switch over to the target.

    Args:
        config: the pipeline's file.
        applications: the demo's producers and consumers; they run on the source.
        screen: where the tour is printed.
        fault: returns why the pipeline ended on its own; empty if it did not.
        reading_s: pause between two phases, in seconds.

    Returns:
        OK if every group was moved to exactly its position, and those that were active read there.

    Raises:
        K2kError: the pipeline ended, or a drill could not be completed.
    """
    await_copied(config, screen, fault)
    file = shlex.quote(str(config))
    rehearse = f"k2ktui drill rehearse -f {file}"
    screen.say(f"The rehearsal tries everything without an effect on an application: {rehearse}")
    rehearsal = run_drill(DrillKind.REHEARSE, rehearse, config, {}, screen, reading_s)
    for line in summarize(rehearsal):
        screen.say(f"  {safe_message(line)}")
    if has_findings(rehearsal):
        screen.say(f"  {_GOES_ON}")
    time.sleep(reading_s)
    planned = (
        f"k2ktui drill planned -f {file} --frozen {FROZEN_SECONDS:g} --watch {WATCH_SECONDS:g}"
    )
    screen.say(f"The planned switchover moves every group to the target: {planned}")
    actions = {
        DrillPhase.FENCE_PRODUCERS: TourAction(
            "The tour stops the demo's producers on the source.", applications.stop_producers
        ),
        DrillPhase.STOP_CONSUMERS: TourAction(
            "The tour stops the demo's consumers on the source.", applications.stop_consumers
        ),
        DrillPhase.WATCH_CLIENTS: TourAction(
            "The tour starts the demo's consumers and producers on the target.",
            lambda: applications.start_on("target"),
        ),
    }
    drill = run_drill(DrillKind.PLANNED, planned, config, actions, screen, reading_s)
    screen.say("The report begins with:")
    for line in report_markdown(drill).splitlines()[:REPORT_LINES]:
        screen.say(f"  {line}")
    exact = is_exact(drill)
    screen.say(_EXACT if exact else _NOT_EXACT)
    name = safe_text(drill.id)
    screen.say(f"The whole report is on the target: k2ktui drill report {name} -f {file}")
    return ExitCode.OK if exact else ExitCode.FINDINGS


def is_exact(drill: Drill) -> bool:
    """Return whether a drill moved every group to exactly its position, and active ones read on."""
    return (
        drill.status is DrillStatus.DONE
        and bool(drill.groups)
        and not drill.figures.rpo_records
        and not drill.figures.content_different
        and not any(each.unmapped or each.reread or each.skipped for each in drill.groups)
        and not any(each.was_active and each.note for each in drill.groups)
    )


def run_drill(
    kind: DrillKind,
    command: str,
    config: Path,
    actions: Mapping[DrillPhase, TourAction],
    screen: Screen,
    reading_s: float,
    options: DrillOptions = OPTIONS,
) -> Drill:
    """Carry out a drill, and print its phases; arguments as for :func:`run_tour`.

    Raises:
        K2kError: the drill could not be completed.
    """
    files = [str(config)]
    flow = PipelineFlow(load_checked(tuple(files)).config)

    def pause() -> None:
        time.sleep(reading_s)

    operator = TourOperator(screen.say, pause, config, command, actions)
    try:
        drill = start_drill(flow, kind, options, files, access(), operator)
    except K2kError as error:
        error.unchanged = "The clusters were stopped; their data and logs are kept."
        error.hint = _AGAIN
        raise
    if not drill.is_over:
        phase = next_phase(drill)
        found = drill.record(phase) if phase else None
        why = "; ".join((found.live, *found.findings)) if found else ""
        raise K2kError(
            f"the drill stopped in the phase {phase}: {safe_message(why)}",
            unchanged="The clusters were stopped; their data and logs are kept.",
            hint=_AGAIN,
        )
    return drill


def await_copied(config: Path, screen: Screen, fault: Callable[[], str]) -> None:
    """Wait until the pipeline has caught up, and every live group has offsets everywhere.

    A group without an offset in a partition is a finding of every drill, and here only means that
    it has just started.
    """
    views: queue.SimpleQueue[View] = queue.SimpleQueue()
    feed = wiring.open_feed(config)
    until = time.monotonic() + _CATCH_UP_SECONDS
    try:
        with screen.busy("Waiting until the pipeline has caught up") as step:
            feed.start(views.put)
            while True:
                if why := fault():
                    raise K2kError(
                        f"The pipeline ended unexpectedly: {why}",
                        unchanged="The clusters were stopped too; their data and logs are kept.",
                        hint=_AGAIN,
                    )
                if time.monotonic() > until:
                    raise TimedOut(
                        f"The pipeline has not caught up within {_CATCH_UP_SECONDS:g} s.",
                        unchanged="No drill was begun.",
                        hint="Try again with less traffic: k2ktui demo --drill --rate 0.2",
                    )
                try:
                    view = views.get(timeout=_POLL_SECONDS)
                except queue.Empty:
                    continue
                if is_caught_up(view):
                    return
                lag = view.totals.lag_records
                if lag is not None:
                    step(ProgressStep(f"The pipeline is {counted(lag, 'record')} behind"))
    finally:
        feed.close()


def is_caught_up(view: View) -> bool:
    """Return whether the copy is close to the source's ends, and live groups have all offsets."""
    lags = [row.status.lag_records for row in view.partitions]
    known = [lag for lag in lags if lag is not None]
    committed = {group.group: group.partitions for group in view.summaries}
    return (
        bool(lags)
        and len(known) == len(lags)
        and sum(known) <= _CATCH_UP_RECORDS
        and all(
            committed.get(group.name, 0) >= sum(by_name(topic).partitions for topic in group.topics)
            for group in ON_SOURCE
        )
    )
