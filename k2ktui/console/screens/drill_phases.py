"""One drill: a checklist of its phases with live values; runs, resumes, aborts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from textual.binding import BindingType

from k2ktui.console import cli_equivalent
from k2ktui.console.screens.drill_checklist import DrillChecklist
from k2ktui.console.screens.drill_facts import is_taken_back
from k2ktui.console.screens.drill_runs import (
    DRILL_CHANGES,
    DrillJob,
    DrillRun,
    DrillRunsScreen,
    drill_keys,
)
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.drill import operations
from k2ktui.drill.checks.catalog import checks_that_stop
from k2ktui.drill.operator import Question, QuestionKind
from k2ktui.drill.ownership import Actor
from k2ktui.drill.report import Report, has_findings, list_harm, make_report, summarize
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.hook_steps import describe_step_back, steps_back
from k2ktui.engine.drill.hooks import find_phase
from k2ktui.engine.drill.model import Drill, DrillOptions, DrillStatus, ResumeOptions
from k2ktui.engine.drill.steps import (
    can_go_back,
    describe_next,
    failed_phase,
    is_acting,
    waits_for_tail_choice,
)
from k2ktui.engine.drill.topics import TOPICS_STEP
from k2ktui.present import formatting
from k2ktui.present.drills import describe_abort, describe_task
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.text import safe_message, safe_text
from k2ktui.watch.model import PartName, View
from k2ktui.watch.severity import state_time

_TICK_S = 1.0
Start = tuple[DrillKind, DrillOptions]


def acts_now(drill: Drill, view: View, now: float) -> bool:
    """Return whether a process was acting on a drill when the view's drills were read."""
    return is_acting(drill, int(state_time(view, now) * 1000))


class DrillScreen(DrillChecklist, DrillRunsScreen[Drill]):
    """A drill, a detail of screen 8.

    Args:
        drill: the drill; None to start one.
        start: what to start.
    """

    ENTRY: ClassVar[str] = "drill"
    HELP: ClassVar[str | None] = """
        One drill: its phases in order, with what each has found or waits for. Above them are the
        time since the start, the RPO (records that are only on the source) and the RTO (time until
        a group reads its first record on the target), what the next step does, who acts, and
        whether you can still go back. Below are the findings of the phase under the cursor, with
        the evidence of each failed check; Enter shows them whole.

        A phase that must be confirmed asks for its name. R resumes the drill from what is found on
        the clusters. X aborts it: everything that it changed is restored; this is possible until
        the target is opened. H holds it: it stops here, without a change, and can be resumed on
        any host. The same happens when the console ends.

        One operator acts, others watch. O takes the drill over from the operator who acts; this is
        in the journal. D continues a planned drill or a failback without its source. A accepts the
        findings of the checks that stopped the drill, and continues. F begins again with fencing
        the producers. T chooses what happens to the records that a failback has listed. c shows all
        checks, what failed first: what each has looked at, its fix and what it stops. v shows the
        report; e exports it as JSON and Markdown.

        After fence-replicator, the pipeline does not start until k2ktui drill release allows it, or
        the drill is aborted.
    """
    BINDINGS: ClassVar[list[BindingType]] = drill_keys()
    CHANGES: ClassVar[frozenset[str]] = DRILL_CHANGES
    TEXTS: ClassVar[Mapping[str, str]] = {
        "resume": "It continues from what is found on the clusters.",
        "take_over": "{other} acts on this drill, and changes nothing from then on. It continues "
        "here.",
        "disaster": "The drill continues as a disaster drill: it uses the last known commits, and "
        "records that were not copied are lost. It refuses while the source answers.",
        "accept": "The drill continues in spite of these findings; the journal has who accepted "
        "them.",
        "fence_again": "The drill begins again with fencing the producers; later phases are "
        "repeated.",
        "tail": "The drill shows once more what it does with the records before it does it.",
    }
    DOING: ClassVar[Mapping[str, str]] = {"resume": "drill", "abort": "aborting the drill"}
    NOUN: ClassVar[str] = "drill"
    ABORTS: ClassVar[str] = "aborts the drill"
    ELSEWHERE: ClassVar[str] = "1 to 7 open other screens"
    CHECKED: ClassVar[str] = "the drill"
    OPENED: ClassVar[str] = "the target"

    def __init__(self, drill: Drill | None, start: Start | None = None) -> None:
        super().__init__(drill)
        self._start = start

    def on_mount(self) -> None:
        """Show the drill, or start it."""
        self.set_interval(_TICK_S, self._tick)
        if self.drill is not None:
            self.show_drill(self.drill)
        elif self._start is not None:
            kind, options = self._start
            flow, files, may = self.flow, self.session.files, self.session.access
            self.run_drill(
                DrillRun(
                    kind.noun,
                    lambda operator: operations.start_drill(
                        Actor(flow, files, may, operator), kind, options
                    ),
                    cli_equivalent.drill(files, kind, options),
                )
            )

    def _tick(self) -> None:
        if self.drill is not None and not self.drill.is_over and self.is_current:
            self.show_phases()
            self.show_texts()

    def show_view(self, view: View) -> None:
        """Show the drill as another process wrote it; one that runs here is newer than the view."""
        if self.drill is None or self.operator is not None:
            return
        newest = next((listed for listed in view.drills if listed.id == self.drill.id), None)
        is_later = newest is not None and newest.beat_ms >= self.drill.beat_ms
        if newest is not None and (is_later or self._is_replay):
            self.show_drill(newest)

    @property
    def _acts(self) -> bool:
        """Whether a process acts on the drill, here or elsewhere."""
        return self.operator is not None or self.other_acts

    @property
    def other_acts(self) -> bool:
        """Whether another process acts on the drill."""
        view, drill = self.console.view, self.drill
        if drill is None or drill.is_over or self.operator is not None or view is None:
            return False
        return acts_now(drill, view, self.session.feed.now())

    @property
    def _is_replay(self) -> bool:
        """Whether this is a recording, in which nobody can act."""
        return self.session.feed.replay

    # Texts

    def _to_do(self, drill: Drill) -> str:
        """Return what the operator has to do, in one sentence; "" if it is said otherwise."""
        if self._source_is_lost(drill):
            return "The source does not answer" + (
                "." if self.other_acts or self._is_replay else ": D continues without it."
            )
        if drill.status is not DrillStatus.OPEN:
            return ""
        if failed_phase(drill) is not None and not self._acts:
            if self._is_replay:
                return ""
            return _next_key(drill) if self.error is None else ""
        if self.operator is None or self.operator.stopping:
            return ""
        if self.asked is not None and self.asked.is_open:
            return "It waits for you to confirm."
        return describe_task(drill)

    def _who(self, drill: Drill) -> Cell:
        if self.operator is not None:
            if drill.status is DrillStatus.ABORTING:
                return Cell("It is being aborted here.", Tone.INFO)
            if self.operator.stopping:
                return Cell("It stops here as soon as its last request is answered.", Tone.WARN)
            demo = " C stops and starts the demo's clients." if self.session.demo_steps else ""
            return Cell(f"It runs here: H holds it.{demo}", Tone.INFO)
        if self.other_acts:
            seen = max(0.0, self.session.feed.now() - drill.beat_ms / 1000)
            who = f"{safe_text(drill.owner, 40)} acts on it (seen {formatting.age(seen)} ago)"
            way = "" if self._is_replay else " You watch; O takes it over."
            return Cell(f"{who}.{way}", Tone.WARN)
        if self._is_replay or (failed_phase(drill) is not None and self.error is None):
            return Cell("No operator acts on it.", Tone.WARN)  # what to press is said already
        return Cell("No operator acts on it: R resumes it.", Tone.WARN)

    def _way_back(self, drill: Drill) -> Cell:
        if drill.status is DrillStatus.ABORTING:
            return Cell("X completes the abort", Tone.WARN)
        if can_go_back(drill):
            return Cell(describe_abort(drill), Tone.OK)
        return Cell("You cannot go back: the target is open.", Tone.BAD)

    def _source_is_lost(self, drill: Drill) -> bool:
        view = self.console.view
        down = view is not None and bool(view.part(PartName.SOURCE).error or view.source_down)
        return down and drill.kind.is_switchover and drill.status is DrillStatus.OPEN

    # What it is

    @property
    def drills(self) -> Sequence[Drill]:
        """The drill, once it has begun."""
        return () if self.drill is None else (self.drill,)

    @property
    def other(self) -> str:
        """Who acts on it elsewhere."""
        owner = safe_text(self.drill.owner, 60) if self.drill is not None else ""
        return owner or "another operator"  # a record may name nobody

    @property
    def name_and_environments(self) -> tuple[str, ...]:
        """The pipeline's name, and its environment."""
        pair = self.session.pair
        return pair.pipeline, pair.environment

    def barred(self) -> str:
        """Return why nothing can be changed at all."""
        return "this is a recording" if self.session.flow is None else super().barred()

    # What runs here

    def left_alone(self, drill: Drill) -> Drill:
        """Return a drill on which this process acts no more."""
        return replace(drill, session="")

    def outcome(self, drill: Drill) -> tuple[str, bool]:
        """Return what came of a drill that is over, and whether it is as it should be."""
        rehearses = drill.kind is DrillKind.REHEARSE
        bad = has_findings(drill) if rehearses else bool(list_harm(drill))
        return summarize(drill)[0], drill.status is DrillStatus.DONE and not bad

    def resume_job(self, drill: Drill, how: ResumeOptions) -> DrillJob[Drill]:
        """Return what continues a drill."""
        flow, files, may = self.flow, self.session.files, self.session.access
        return lambda operator: operations.resume_drill(
            Actor(flow, files, may, operator),
            drill.id,
            how,
        )

    def abort_job(self, drill: Drill, *, take_over: bool) -> DrillJob[Drill]:
        """Return what aborts a drill."""
        flow, files, may = self.flow, self.session.files, self.session.access
        return lambda operator: operations.abort_drill(
            Actor(flow, files, may, operator), drill.id, take_over=take_over
        )

    # What is asked

    def title_of(self, label: str) -> str:
        """Return the title of the dialog before the drill is continued."""
        return f"{label}: drill {self.drill.id if self.drill is not None else ''}"

    def next_text(self, drill: Drill) -> str:
        """Return what happens next."""
        return describe_next(drill)

    @property
    def abort_title(self) -> str:
        """The title of the dialog before an abort."""
        return f"Abort drill {self.drill.id if self.drill is not None else ''}"

    def list_restored(self, drill: Drill) -> list[str | Line]:
        """Return what an abort restores."""
        lines: list[str | Line] = [f"- {describe_step_back(step)}" for step in steps_back(drill)]
        lines.insert(0, "Restores, the last change first:" if lines else "It has changed nothing.")
        if self.other_acts:
            lines.append(f"{drill.owner} acts on it: this takes the drill over.")
        return lines

    def waits_for(self, question: Question) -> str:
        """Return what has to be confirmed, where the dialog cannot be shown."""
        takes_over = question.kind is QuestionKind.TAKE_OVER
        return question.step or ("taking it over" if takes_over else "what it shows")

    def question_dialog(self, question: Question) -> Confirm:
        """Return the dialog that asks a question."""
        drill, step, typed = question.drill, question.step, question.answer
        assert isinstance(drill, Drill)
        lines: list[str | Line] = [question.text, *question.lines]
        canceled = ""
        if question.kind is QuestionKind.UNPROVEN:
            title, label = f"Drill {drill.id}", "Continue"
            canceled = "Not agreed; nothing was changed."
        elif question.kind is QuestionKind.TAKE_OVER:
            lines = [
                f"{drill.owner} acts on this drill.",
                "It changes nothing from then on. The journal has who took over.",
            ]
            title, typed, label = f"Take over drill {drill.id}", drill.pipeline, "Take over"
        elif step == TOPICS_STEP:
            lines.append("Esc begins no drill.")
            title, label = f"The topics of this {drill.kind.noun}", "Begin"
            canceled = "No drill was begun."
        else:
            phase = find_phase(step)
            number = next(
                (n for n, record in enumerate(drill.phases, 1) if record.phase is phase), 0
            )
            title, label = f"{number} {step}", "Confirm"
            lines = [question.text, *self.way_back_lines(question), self.stop_line(drill)]
            if question.lines:
                # Last: they may be many, and the rest must be seen without scrolling.
                lines.append(f"What was found so far ({len(question.lines):,}):")
                lines += [f"- {line}" for line in question.lines]
        return Confirm(
            safe_message(title, 80),
            lines,
            typed,
            label,
            canceled=canceled or f"{label}: nothing was changed. The drill stops here.",
            undoable=is_taken_back(step) and can_go_back(drill),
        )

    def make_report(self, drill: Drill) -> Report:
        """Return the report."""
        return make_report(drill)


def _next_key(drill: Drill) -> str:
    """Return what the operator presses after a phase has failed."""
    if waits_for_tail_choice(drill):
        return "T chooses what happens to these records."
    ids = ", ".join(check.id for check in checks_that_stop(drill))
    return "Correct it and press R" + (f", or accept {ids} with A." if ids else ".")
