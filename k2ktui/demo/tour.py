"""The tours of ``k2ktui demo --drill``: there and back, planned or after a disaster.

At the end, what the groups have read is compared with what there was to read, by a plain consumer.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from k2ktui.config.reverse import reverse_file
from k2ktui.demo.applications import (
    ON_SOURCE,
    Applications,
    LiveGroup,
    ReadTotals,
    Side,
    committed,
)
from k2ktui.demo.clients import Where
from k2ktui.demo.pipeline import DemoPipeline, views
from k2ktui.demo.screen import Screen
from k2ktui.demo.topics import by_name
from k2ktui.drill.files import reverse_path
from k2ktui.drill.operations import start_drill
from k2ktui.drill.operator import Question, QuestionKind
from k2ktui.drill.ownership import Actor
from k2ktui.drill.report import has_findings, report_markdown, summarize
from k2ktui.engine.access import access
from k2ktui.engine.drill.checks import DrillKind, DrillPhase
from k2ktui.engine.drill.model import Drill, DrillOptions, DrillStatus, PhaseStatus
from k2ktui.engine.drill.steps import describe_phase, next_phase
from k2ktui.engine.drill.tail import TailChoice
from k2ktui.errors import ExitCode, K2kError, TimedOut
from k2ktui.kafka.properties.translation import load_checked
from k2ktui.private_files import write_private
from k2ktui.progress import ProgressStep
from k2ktui.runtime.node import KafkaNode
from k2ktui.sync.flow import Flow
from k2ktui.text import counted, safe_message, safe_text
from k2ktui.watch.feed import MIN_INTERVAL_S
from k2ktui.watch.model import View

READING_SECONDS = 4.0
_CATCH_UP_SECONDS = 300.0
_CATCH_UP_RECORDS = 2_000
_REPORT_LINES = 10
_FROZEN_SECONDS = 10.0
_WATCH_SECONDS = 60.0
_OPTIONS = DrillOptions(frozen_s=_FROZEN_SECONDS, wait_s=120.0, watch_s=_WATCH_SECONDS)
_TIMES = f"--frozen {_FROZEN_SECONDS:g} --watch {_WATCH_SECONDS:g}"
_READ_SECONDS = 120.0
_LOOK_SECONDS = 2.0
_UNCOPIED_SECONDS = 3.0
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

Starts = Mapping[str, Mapping[Where, int]]
# What the tour says and does to the applications before a phase, where an operator would.
Actions = Mapping[DrillPhase, tuple[str, Callable[[], None]]]


class DrillTour:
    """What a tour acts on, and the tours.

    Args:
        config: the pipeline's file.
        nodes: source and target.
        applications: producers and consumers; they run on the source.
        screen: where the tour is printed.
        job: the pipeline's job.
        reading_s: pause between two phases, in seconds.
    """

    def __init__(
        self,
        config: Path,
        nodes: tuple[KafkaNode, KafkaNode],
        applications: Applications,
        screen: Screen,
        job: DemoPipeline,
        reading_s: float,
    ) -> None:
        self._config, self._applications, self._job = config, applications, job
        self._source, self._target = nodes
        self._screen, self._say, self._reading_s = screen, screen.say, reading_s

    def run_planned(self) -> ExitCode:
        """Rehearse, switch over to the target, and return.

        Raises:
            K2kError: a pipeline ended, or a drill could not be completed.
        """
        starts = {group.name: dict.fromkeys(_partitions(group), 0) for group in ON_SOURCE}
        there = self.switch_over()
        self._pause()
        return max(there, self.fail_back(starts, self._source))

    def switch_over(self) -> ExitCode:
        """Wait until the pipeline has caught up, rehearse, and switch over to the target.

        Returns:
            OK if every group was moved to exactly its position, and those that were active read
            there.
        """
        self._await_copied(self._config, self._job)
        file = shlex.quote(str(self._config))
        rehearse = f"k2ktui drill rehearse -f {file}"
        self._say(f"The rehearsal tries everything without an effect on an application: {rehearse}")
        rehearsal = self._run_drill(DrillKind.REHEARSE, rehearse, {})
        for line in summarize(rehearsal):
            self._say(f"  {safe_message(line)}")
        if has_findings(rehearsal):
            self._say(f"  {_GOES_ON}")
        self._pause()
        planned = f"k2ktui drill planned -f {file} {_TIMES}"
        self._say(f"The planned switchover moves every group to the target: {planned}")
        drill = self._run_drill(DrillKind.PLANNED, planned, self._moves("target", " on the source"))
        self._show_report(drill)
        exact = is_exact(drill)
        self._say(_EXACT if exact else _NOT_EXACT)
        report = f"k2ktui drill report {safe_text(drill.id)} -f {file}"
        self._say(f"The whole report is on the target: {report}")
        return ExitCode.OK if exact else ExitCode.FINDINGS

    def run_disaster(self) -> ExitCode:
        """Kill the source, fail over without it, start it again, and return to it.

        Raises:
            K2kError: a pipeline ended, or a drill could not be completed.
        """
        self._await_copied(self._config, self._job)
        self._say("The tour stops the pipeline, and then kills the source cluster.")
        self._job.pause()
        time.sleep(_UNCOPIED_SECONDS)
        self._source.kill()
        self._applications.stop()
        file = shlex.quote(str(self._config))
        command = f"k2ktui drill disaster -f {file} --watch {_WATCH_SECONDS:g}"
        self._say(f"The source is lost. The failover uses what is known on the target: {command}")
        starts: dict[str, dict[Where, int]] = {}

        def start_there() -> None:
            for group in ON_SOURCE:
                where = _partitions(group)
                starts[group.name] = committed(self._target.bootstrap, group.name, where)
            self._applications.records.clear()
            self._applications.start_on("target")

        text = "The tour starts the demo's consumers and producers on the target."
        actions = {DrillPhase.WATCH_CLIENTS: (text, start_there)}
        self._run_drill(DrillKind.DISASTER, command, actions)
        self._say("The applications work on the target. Now the old source comes back.")
        self._pause()
        self._source.start()
        return self.fail_back(starts, self._target)

    def fail_back(self, starts: Starts, complete: KafkaNode) -> ExitCode:
        """Return to the old source; ``complete`` then has all records from ``starts`` on."""
        back = reverse_path([str(self._config)])
        file, forward = shlex.quote(str(back)), shlex.quote(str(self._config))
        if not back.exists():
            self._say(f"The reverse pipeline's file: k2ktui config reverse -f {forward} > {file}")
            write_private(back, reverse_file([str(self._config)]).text.encode())
        self._say(f"The reverse pipeline copies to the old source: k2ktui jobs start -f {file}")
        self._await_copied(back, DemoPipeline(back))
        command = f"k2ktui drill failback -f {file} --tail replay {_TIMES}"
        self._say(f"The failback moves every group to the old source again: {command}")
        options = replace(_OPTIONS, tail=TailChoice.REPLAY)
        moves = self._moves("source")
        drill = self._run_drill(DrillKind.FAILBACK, command, moves, options, back)
        self._show_report(drill)
        self._say(f"The whole report: k2ktui drill report {safe_text(drill.id)} -f {file}")
        totals = self._compare(starts, complete)
        for name, total in sorted(totals.items()):
            self._say(
                f"  {name}: {counted(total.read, 'record')} read, {total.again:,} read again, "
                f"{total.skipped:,} skipped"
            )
        # legacy-report reads nothing meanwhile: retention may delete what it has not read.
        for group in drill.groups:
            if group.group not in totals and group.skipped:
                skipped = counted(group.skipped, "record")
                self._say(f"  {group.group}: not running; up to {skipped} skipped")
        moved = replace(drill, groups=tuple(e for e in drill.groups if e.group in totals))
        exact = is_exact(moved) and all(total.is_exact for total in totals.values())
        self._say(
            "There and back, every running group has read each record exactly once."
            if exact
            else "Not every running group has read each record exactly once; the report says more."
        )
        return ExitCode.OK if exact else ExitCode.FINDINGS

    def _pause(self) -> None:
        time.sleep(self._reading_s)

    def _compare(self, starts: Starts, complete: KafkaNode) -> dict[str, ReadTotals]:
        """Stop the producers, and compare once everything was copied and read."""
        self._say("A plain consumer compares what the groups have read with what there is.")
        self._applications.stop_producers()
        self._await_copied(self._config, self._job)
        until = time.monotonic() + _READ_SECONDS
        while True:
            totals = self._applications.records.compare(complete.bootstrap, starts)
            # Until the last records are copied and read, some are on one side only.
            if all(total.is_exact for total in totals.values()) or time.monotonic() > until:
                return totals
            time.sleep(_LOOK_SECONDS)

    def _moves(self, side: Side, where: str = "") -> Actions:
        """Return how the applications move during a drill: where they start, and are stopped."""
        applications, there = self._applications, "old source" if side == "source" else side
        return {
            DrillPhase.FENCE_PRODUCERS: (
                f"The tour stops the demo's producers{where}.",
                applications.stop_producers,
            ),
            DrillPhase.STOP_CONSUMERS: (
                f"The tour stops the demo's consumers{where}.",
                applications.stop_consumers,
            ),
            DrillPhase.WATCH_CLIENTS: (
                f"The tour starts the demo's consumers and producers on the {there}.",
                lambda: applications.start_on(side),
            ),
        }

    def _show_report(self, drill: Drill) -> None:
        self._say("The report begins with:")
        for line in report_markdown(drill).splitlines()[:_REPORT_LINES]:
            self._say(f"  {line}")

    def _run_drill(
        self,
        kind: DrillKind,
        command: str,
        actions: Actions,
        options: DrillOptions = _OPTIONS,
        file: Path | None = None,
    ) -> Drill:
        """Carry out a drill, and print its phases.

        Args:
            kind: what it does.
            command: the command that does the same.
            actions: what the tour does before a phase.
            options: the drill's options.
            file: the pipeline's file; None for that of the tour.

        Raises:
            K2kError: the drill could not be completed.
        """
        config = file or self._config
        flow = Flow(load_checked((str(config),)).config)
        operator = TourOperator(self._say, self._pause, config, command, actions)
        try:
            drill = start_drill(Actor(flow, [str(config)], access(), operator), kind, options)
            if not drill.is_over:
                phase = next_phase(drill)
                record = drill.record(phase) if phase else None
                why = "; ".join((record.live, *record.findings)) if record else ""
                raise K2kError(f"the drill stopped in the phase {phase}: {safe_message(why)}")
        except K2kError as error:
            error.unchanged = "The clusters were stopped; their data and logs are kept."
            error.hint = _AGAIN
            raise
        return drill

    def _await_copied(self, config: Path, job: DemoPipeline) -> None:
        """Wait until the pipeline has caught up, and every live group has offsets everywhere.

        A group without an offset in a partition is a finding of every drill, and here only means
        that it has just started.
        """
        until = time.monotonic() + _CATCH_UP_SECONDS
        with (
            self._screen.busy("Waiting until the pipeline has caught up") as step,
            closing(views(config, None, job.fault, MIN_INTERVAL_S, _AGAIN)) as made,
        ):
            for view in made:
                if view is not None and _is_caught_up(view):
                    return
                lag = view.totals.lag_records if view is not None else None
                if lag is not None:
                    step(ProgressStep(f"The pipeline is {counted(lag, 'record')} behind"))
                if time.monotonic() > until:
                    raise TimedOut(
                        f"The pipeline has not caught up within {_CATCH_UP_SECONDS:g} s.",
                        unchanged="No drill was begun.",
                        hint="Try again with less traffic: k2ktui demo --drill --rate 0.2",
                    )


def _partitions(group: LiveGroup) -> list[Where]:
    return [place for name in group.topics for place in by_name(name).places]


class TourOperator:
    """Shows each phase before and after it runs, acts on the applications, and confirms.

    Args:
        say: prints a line.
        pause: gives the reader time; called between phases, so that no phase counts it.
        file: the pipeline's file.
        command: the command that begins the drill.
        actions: what to say and to do before a phase.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        pause: Callable[[], None],
        file: Path,
        command: str,
        actions: Actions,
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
        if phase in self._actions:
            text, act = self._actions[phase]
            self._say(f"  {text}")
            act()

    def ask(self, question: Question) -> bool:
        """Say what an operator would confirm, and agree; a tour is no person, and declines else."""
        if question.kind is not QuestionKind.PHASE:
            return False
        self._say(f"  The tour confirms, where you would type {question.step}: {question.text}")
        for line in question.lines:
            self._say(f"    {line}")
        self._pause()
        return True


def is_exact(drill: Drill) -> bool:
    """Return whether a drill moved every group to exactly its position, and active ones read on."""
    return (
        drill.status is DrillStatus.DONE
        and bool(drill.groups)
        and not drill.figures.rpo_records
        and not drill.figures.content_different
        and not any(group.unmapped or group.reread or group.skipped for group in drill.groups)
        and not any(group.was_active and group.note for group in drill.groups)
    )


def _is_caught_up(view: View) -> bool:
    """Return whether the copy is close to the source's ends, and live groups have all offsets."""
    lags = [row.status.lag_records for row in view.partitions]
    known = [lag for lag in lags if lag is not None]
    committed = {group.group: group.partitions for group in view.summaries}
    return (
        bool(lags)
        and len(known) == len(lags)
        and sum(known) <= _CATCH_UP_RECORDS
        and all(committed.get(group.name, 0) >= len(_partitions(group)) for group in ON_SOURCE)
    )
