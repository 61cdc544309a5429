"""The checklist of one drill: its phases with live values, what comes next, and the way back."""

from __future__ import annotations

import json
from typing import Any

from textual import on

from k2ktui.console import cli_equivalent
from k2ktui.console.drill_operator import Question, ScreenOperator
from k2ktui.console.screens.drill_base import DrillBaseScreen
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.console.widgets.text_dialog import TextDialog
from k2ktui.drill.files import reverse_path, way_back_command
from k2ktui.engine.drill import (
    ChangeKind,
    Drill,
    DrillStatus,
    Fence,
    PhaseStatus,
)
from k2ktui.engine.drill_checks import DrillKind, DrillPhase
from k2ktui.engine.drill_progress import PhaseRow, describe_state, list_phases
from k2ktui.engine.drill_report import report_json, report_markdown, summarize
from k2ktui.engine.drill_steps import (
    can_go_back,
    checks_that_stop,
    describe_next,
    describe_phase,
    failed_phase,
    find_change,
    is_acting,
    waits_for_tail_choice,
)
from k2ktui.present import formatting
from k2ktui.present.drills import (
    describe_abort,
    describe_findings,
    describe_phase_row,
    headline,
    judge_phase,
    phase_columns,
)
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.text import safe_text
from k2ktui.watch.model import PartName, View
from k2ktui.watch.severity import Severity, state_time

_NEXT_LINES = 2
_HIGH = 26


def acts_now(drill: Drill, view: View, now: float) -> bool:
    """Return whether a process was acting on a drill when the view's drills were read."""
    return is_acting(drill, int(state_time(view, now) * 1000))


class DrillChecklist(DrillBaseScreen):
    """Shows a drill, and says which actions are possible.

    Args:
        drill: the drill; None before it has begun.

    Attributes:
        operator: passes on what the drill that runs here asks; None if it does not run here.
        question: what it asked last.
    """

    def __init__(self, drill: Drill | None) -> None:
        super().__init__()
        self.drill = drill
        self.operator: ScreenOperator | None = None
        self.question: Question | None = None

    @property
    def crumb(self) -> str:
        """The drill's id."""
        return self.drill.id if self.drill is not None else "new drill"

    def make_grid(self) -> Grid[PhaseRow]:
        """Create the checklist."""
        return Grid(
            phase_columns(glyphs_of(self)),
            key=lambda row: row.number,
            search=lambda row: f"{row.record.phase} {row.record.status} {row.record.live}",
            problem=lambda row: judge_phase(row).severity >= Severity.WARN,
            empty=formatting.NOT_YET,
            opens="",
            id="phases",
        )

    def show_view(self, view: View) -> None:
        """Show the drill as another process wrote it; one that runs here is newer than the view."""
        if self.drill is None or self.operator is not None:
            return
        found = next((each for each in view.drills if each.id == self.drill.id), None)
        if found is not None and found.beat_ms >= self.drill.beat_ms:
            self.show_drill(found)

    def show_drill(self, drill: Drill) -> None:
        before = self._next_row()
        self.drill = drill
        grid: Grid[Any] = self.query_one(Grid)
        follows = _number(grid.current) in (None, before)
        grid.show(list_phases(drill, acting=self._acts))
        if follows and (number := self._next_row()) is not None:
            grid.select(number)
        self.show_state()

    def _next_row(self) -> int | None:
        rows = list_phases(self.drill) if self.drill is not None else []
        return next((row.number for row in rows if row.is_next), None)

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

    def summary(self) -> Line:
        """Return the status, the time since the start, RPO and RTO."""
        if self.drill is None:
            return (Cell(formatting.NOT_YET),)
        return headline(self.drill, int(self.session.feed.now() * 1000), glyphs_of(self))

    def facts(self) -> list[Line]:
        """Return what the next step does, who acts, and the way back."""
        drill = self.drill
        if drill is None:
            return []
        if drill.is_over:
            return self._result(drill)
        return [*self._step(drill), self._who(drill), self._way_back(drill)]

    def progress_lines(self) -> list[Line]:
        """Return the error of the last run; that the drill runs is said above."""
        return [] if self.busy and self.drill is not None else super().progress_lines()

    def _step(self, drill: Drill) -> list[Line]:
        """Return why the drill does not continue, or its next step; at most two lines."""
        acts = self._acts
        stopped, tone = failed_phase(drill), Tone.BAD
        if self._source_is_lost(drill):
            text = "The source does not answer" + (
                "." if self.other_acts else ": D continues without it."
            )
        elif self.error is not None and not acts:
            return []  # below, with what to do
        elif stopped is not None and not acts:
            return self._step_after_failure(f"{describe_state(drill)}.", _next_key(drill))
        else:
            text, tone = describe_next(drill, acting=acts), Tone.PLAIN
        texts = self.wrap(text)
        if len(texts) > _NEXT_LINES:
            texts = [*texts[: _NEXT_LINES - 1], f"{texts[_NEXT_LINES - 1]} …"]
        return [(Cell(each, tone),) for each in texts]

    def _step_after_failure(self, state: str, key: str) -> list[Line]:
        """Return why the drill has stopped, cut if necessary, and the key that continues it."""
        texts = self.wrap(f"{state} {key}")
        if len(texts) > _NEXT_LINES:
            texts = [f"{self.wrap(state)[0]} …", *self.wrap(key)][:_NEXT_LINES]
        return [(Cell(each, Tone.BAD),) for each in texts]

    def _result(self, drill: Drill) -> list[Line]:
        first, *rest = [part for text in summarize(drill)[:1] for part in self.wrap(text)]
        lines: list[Line] = [(Cell(first, Tone.HEADING),), *((Cell(part),) for part in rest)]
        if drill.status is DrillStatus.DONE and find_change(drill, ChangeKind.EPOCHS):
            text = f"The pipeline is fenced. {self._after(drill)}"
            lines += [(Cell(part, Tone.WARN),) for part in self.wrap(text)]
        return lines

    def _after(self, drill: Drill) -> str:
        """Return how the workload comes back, or how its pipeline is used another time."""
        files = self.session.files
        if drill.kind is DrillKind.FAILBACK or self.flow.pipeline is None or not files:
            command = cli_equivalent.drill_on(files, "release", drill.id)
            return f"It does not start until you run: {command}"
        return f"The way back: {self._way_back_command(drill)}"

    def _way_back_command(self, drill: Drill) -> str:
        """Return the command that leads back after a failover; "" if there is none."""
        files, moved = self.session.files, drill.figures.opened_ms is not None
        if drill.kind is DrillKind.FAILBACK or self.flow.pipeline is None or not files or not moved:
            return ""
        written = drill.kind.is_switchover or reverse_path(files).exists()
        return way_back_command(files, written=written)

    def _who(self, drill: Drill) -> Line:
        if self.operator is not None:
            if drill.status is DrillStatus.ABORTING:
                return (Cell("It is being aborted here.", Tone.INFO),)
            if self.operator.stopping:
                text = "It stops here as soon as its last request is answered."
                return (Cell(text, Tone.WARN),)
            if self.question is not None and self.question.is_open:
                return (Cell("It runs here, and waits for you to confirm.", Tone.WARN),)
            demo = " C stops and starts the demo's clients." if self.session.demo_steps else ""
            return (Cell(f"It runs here: H holds it.{demo}", Tone.INFO),)
        if self.other_acts:
            seen = max(0.0, self.session.feed.now() - drill.beat_ms / 1000)
            who = f"{safe_text(drill.owner, 40)} acts on it (seen {formatting.age(seen)} ago)"
            return (Cell(f"{who}. You watch; O takes it over.", Tone.WARN),)
        return (Cell("No operator acts on it: R resumes it.", Tone.WARN),)

    def _way_back(self, drill: Drill) -> Line:
        if drill.status is DrillStatus.ABORTING:
            return (Cell("X completes the abort", Tone.WARN),)
        if can_go_back(drill):
            return (Cell(describe_abort(drill), Tone.OK),)
        return (Cell("You cannot go back: the target is open.", Tone.BAD),)

    def _source_is_lost(self, drill: Drill) -> bool:
        view = self.console.view
        down = view is not None and bool(view.part(PartName.SOURCE).error or view.source_down)
        return down and drill.kind.is_switchover and drill.status is DrillStatus.OPEN

    def detail(self) -> list[Line]:
        """Return the findings of the phase under the cursor."""
        row: PhaseRow | None = self.query_one(Grid).current
        if row is None:
            return []
        fence = self.drill.options.fence if self.drill is not None else Fence.HAND
        tone = Tone.PLAIN
        if row.record.findings:
            tone = Tone.BAD if row.record.status is PhaseStatus.FAILED else Tone.WARN
        texts = [part for text in describe_phase_row(row, fence) for part in self.wrap(text)]
        room = 2 if self.size.height < _HIGH else 5
        if len(texts) > room:
            left = len(texts) - room + 1
            texts = [*texts[: room - 1], f"… {left} more lines: enter shows them"]
        return [(Cell(text, tone),) for text in texts]

    @on(Grid.Opened)
    def _opened(self, event: Grid.Opened) -> None:
        row: PhaseRow = event.row
        fence = self.drill.options.fence if self.drill is not None else Fence.HAND
        texts = [describe_phase(row.record.phase, fence), row.record.live]
        if self.drill is not None:
            texts += describe_findings(self.drill, row.record)
        title = f"{row.number} {row.record.phase}: {judge_phase(row).word}"
        self.app.push_screen(TextDialog(title, [text for text in texts if text]))

    def document(self) -> str | None:
        """Return the report as JSON."""
        return None if self.drill is None else json.dumps(report_json(self.drill))

    def markdown(self) -> str | None:
        """Return the report as Markdown."""
        return None if self.drill is None else report_markdown(self.drill)

    def text_to_copy(self) -> str:
        """Return the command that continues the drill, leads back, or prints its report."""
        if self.drill is None:
            return ""
        if self.drill.is_over and (back := self._way_back_command(self.drill)):
            return back
        verb = "report" if self.drill.is_over else "resume"
        return cli_equivalent.drill_on(self.session.files, verb, self.drill.id)

    # What is possible now

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        if action == "hold":
            return self._no_hold()
        if action == "report":
            return "the drill has not begun" if self.drill is None else ""
        if action not in self.CHANGES:
            return super().refusal(action)
        if self.session.flow is None:
            return "this is a recording"
        return self.session.access.reason or self._no_change(action)

    def _no_hold(self) -> str:
        if self.operator is None:
            return "it does not run here"
        if self.drill is not None and self.drill.status is DrillStatus.ABORTING:
            return "an abort is not left half-way"
        return "it stops already" if self.operator.stopping else ""

    def _no_change(self, action: str) -> str:
        drill = self.drill
        if drill is None:
            return "the drill has not begun"
        if drill.is_over:
            return f"the drill is {drill.status}"
        if action == "abort":
            return self._no_abort(drill)
        if action == "disaster" and self.operator is not None:
            return self._no_disaster(drill)
        if self.operator is not None:
            return "it runs here; H holds it"
        if action == "take_over":
            return "" if self.other_acts else "no other operator acts on it"
        if self.other_acts:
            return f"{safe_text(drill.owner, 60)} acts on it; O takes it over"
        if drill.status is DrillStatus.ABORTING:
            return "it is being aborted; X completes that"
        if action == "disaster":
            return self._no_disaster(drill)
        if action == "accept":
            return "" if checks_that_stop(drill) else "no failed check has stopped the drill"
        if action == "tail":
            return "" if waits_for_tail_choice(drill) else "no records wait for a choice"
        return self._no_fence(drill) if action == "fence_again" else ""

    def _no_disaster(self, drill: Drill) -> str:
        if not drill.kind.is_switchover:
            return "only a planned drill or a failback continues as a disaster drill"
        if self.operator is not None and self.operator.stopping:
            return "it stops already"
        return ""

    def _no_abort(self, drill: Drill) -> str:
        if self.operator is not None and drill.status is DrillStatus.ABORTING:
            return "it is being aborted"
        return "" if can_go_back(drill) else "the target is open; the report says what is left"

    def _no_fence(self, drill: Drill) -> str:
        fenced = drill.record(DrillPhase.FENCE_PRODUCERS).status is PhaseStatus.DONE
        if not fenced:
            return "the producers have not been fenced"
        return "" if can_go_back(drill) else "the target is open"

    def reason_to_stay(self) -> str:
        """Keep the screen open while the drill runs here."""
        if self.operator is None:
            return ""
        return "the drill runs here: H holds it; 1 to 7 open other screens"

    def session_work(self) -> list[str]:
        """Return what leaving does to the drill that runs here."""
        if self.operator is None or self.drill is None:
            return []
        command = cli_equivalent.drill_on(self.session.files, "resume", self.drill.id)
        return [f"The drill {self.drill.id} stops where it is. Resume it: {command}"]


def _next_key(drill: Drill) -> str:
    """Return what the operator presses after a phase has failed."""
    if waits_for_tail_choice(drill):
        return "T chooses what happens to these records."
    ids = ", ".join(each.id for each in checks_that_stop(drill))
    return "Correct it and press R" + (f", or accept {ids} with A." if ids else ".")


def _number(row: PhaseRow | None) -> int | None:
    return None if row is None else row.number
