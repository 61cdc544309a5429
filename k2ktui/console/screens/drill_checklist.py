"""One drill: its phases in time, RTO and RPO, what happens now, and what the operator has to do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from textual import on
from textual.containers import Container, Vertical
from textual.widget import Widget

from k2ktui.console import cli_equivalent
from k2ktui.console.drill_operator import Question, ScreenOperator
from k2ktui.console.screens.drill_base import DrillBaseScreen
from k2ktui.console.screens.drill_checks import DrillChecksScreen
from k2ktui.console.screens.drill_facts import (
    TimedPhase,
    check_tile,
    rehearsal_before,
    rpo_tile,
    rto_tile,
    scale_text,
    time_phases,
    took_cell,
    way_tile,
)
from k2ktui.console.visuals.panel import Panel, Tile, is_framed, is_wide, side_width
from k2ktui.console.visuals.shapes import bar, flow, picture_cell
from k2ktui.console.widgets.foot_line import FootLine
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import fit, glyphs_of, wrap
from k2ktui.console.widgets.text_dialog import TextDialog
from k2ktui.drill.checks.catalog import checks_that_stop
from k2ktui.drill.files import reverse_path, way_back_command
from k2ktui.drill.progress import PhaseRow, describe_state, list_phases
from k2ktui.drill.report import report_json, report_markdown, summarize
from k2ktui.drill.topics import name_targets
from k2ktui.engine.drill.checks import DrillKind
from k2ktui.engine.drill.model import (
    ChangeKind,
    Drill,
    DrillEvent,
    DrillStatus,
    Fence,
    PhaseRecord,
    PhaseStatus,
)
from k2ktui.engine.drill.steps import (
    can_go_back,
    describe_phase,
    describe_phase_of,
    failed_phase,
    find_change,
    has_fenced,
    is_acting,
    next_phase,
    next_verb,
    waits_for_tail_choice,
)
from k2ktui.engine.severity import Severity
from k2ktui.present import formatting
from k2ktui.present.columns import Column
from k2ktui.present.drills import (
    describe_abort,
    describe_findings,
    describe_task,
    hook_lines,
    judge_phase,
    phase_columns,
    read_share,
)
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone
from k2ktui.text import counted, list_names, safe_message, safe_text
from k2ktui.watch.model import PartName, View
from k2ktui.watch.severity import state_time

# Cells of the table of phases beside the timeline: frame, scrollbar, the other columns and gaps.
_BESIDE_BARS = 5 + 20 + 10 + 8 + 3 * 2
_LEAST_LIVE = 30
_NAMED = 3
# The least lines of what happens now on a narrow terminal, and all others but the phases there;
# all others but the evidence on a wide one.
_NARROW_LINES, _BESIDE_NOW = 5, 11
_BESIDE_EVIDENCE = 26
# The lines of the journal, with its frame, that are worth it.
_LEAST_JOURNAL = 5


def acts_now(drill: Drill, view: View, now: float) -> bool:
    """Return whether a process was acting on a drill when the view's drills were read."""
    return is_acting(drill, int(state_time(view, now) * 1000))


class DrillChecklist(DrillBaseScreen):
    """Shows a drill, and says which actions are possible.

    From 120 columns on, what happens now and the phase under the cursor stand beside the phases,
    which have a timeline. Below, what happens now is above them, and Enter opens a phase.

    Args:
        drill: the drill; None before it has begun.

    Attributes:
        operator: passes on what the drill that runs here asks; None if it does not run here.
        question: what it asked last.
    """

    PANEL: ClassVar[str] = "Phases"

    def __init__(self, drill: Drill | None) -> None:
        super().__init__()
        self.drill = drill
        self.operator: ScreenOperator | None = None
        self.question: Question | None = None
        # The phase whose texts are shown whole, and their dialog.
        self._whole: tuple[int, TextDialog] | None = None
        # What the columns were made for: cells of the timeline, and its heading.
        self._form: tuple[int, str] | None = None

    @property
    def files(self) -> Sequence[str]:
        """The files of the drill's pipeline."""
        return self.session.files

    @property
    def crumb(self) -> str:
        """The drill's id."""
        return self.drill.id if self.drill is not None else "new drill"

    def body(self) -> Iterable[Widget]:
        """Yield the tiles, what happens now, the phases, and the phase under the cursor."""
        with Container(id="tiles"):
            yield Tile("RTO", id="rto")
            yield Tile("RPO", id="rpo")
            yield Tile("Drill", id="way")
            yield Tile("Checks", id="checks")
        with Container(id="drill-list"):
            with Vertical(id="drill-side"):
                yield Tile("Now", id="now")
                yield Tile("Phase", id="phase")
            with Vertical(id="drill-phases"):
                yield Panel("Phases", self.make_grid(), id="table")
                yield Tile("Journal", id="journal")
        yield FootLine()

    def make_grid(self) -> Grid[TimedPhase]:
        """Create the table of phases."""
        return Grid(
            self._columns(),
            key=lambda timed: timed.row.number,
            search=lambda timed: (
                f"{timed.row.record.phase} {timed.row.record.status} {timed.row.record.live}"
            ),
            problem=lambda timed: judge_phase(timed.row).severity >= Severity.WARN,
            empty=formatting.NOT_YET,
            opens="",
            id="phases",
        )

    def _columns(self) -> tuple[Column[TimedPhase], ...]:
        """Return the columns: from 120 cells on with the timeline, before the results."""
        phase, status, live = (column.of(_row_of) for column in phase_columns(glyphs_of(self)))
        took: Column[TimedPhase] = Column(
            "took", "took", took_cell, lambda timed: timed.lasted_ms, right=True, width=8, rank=1
        )
        if not self._bars:
            return phase, status, took, live
        heading = "time" if self._form is None else self._form[1]
        bars: Column[TimedPhase] = Column(
            "bar",
            heading,
            lambda timed: picture_cell(timed.bar),
            width=self._bars,
            widest=self._bars,
            picture=True,
        )
        return phase, status, bars, took, replace(live, rank=9)

    @property
    def _bars(self) -> int:
        """The cells of the timeline; 0 on a terminal without room for it."""
        if not self._side:
            return 0
        room = self.size.width - self._side - _BESIDE_BARS
        return room if room < 2 * _LEAST_LIVE else room * 9 // 20

    @property
    def _side(self) -> int:
        """The cells of the panels beside the phases; 0 where they are above them."""
        return side_width(self) if is_wide(self) else 0

    def show_view(self, view: View) -> None:
        """Show the drill as another process wrote it; one that runs here is newer than the view."""
        if self.drill is None or self.operator is not None:
            return
        newest = next((listed for listed in view.drills if listed.id == self.drill.id), None)
        if newest is not None and newest.beat_ms >= self.drill.beat_ms:
            self.show_drill(newest)

    def show_drill(self, drill: Drill) -> None:
        """Show a drill; the cursor follows the phase that is next, unless it was moved away."""
        before = self._next_row
        self.drill = drill
        if not self.is_composed:
            return
        grid: Grid[Any] = self.query_one(Grid)
        current: TimedPhase | None = grid.current
        was_next = before.number if before is not None else None
        follows = current is None or current.row.number == was_next
        self.show_phases()
        if follows and self._next_row is not None:
            grid.select(self._next_row.number)
        self.show_state()
        self._show_whole(drill)

    def show_phases(self) -> None:
        """Show the phases with the time that has passed."""
        if self.drill is None or not self.is_composed:
            return
        grid: Grid[Any] = self.query_one(Grid)
        rows = list_phases(self.drill, acting=self._acts)
        form = (self._bars, scale_text(rows, self.drill.beat_ms))
        if form != self._form:
            self._form = form
            grid.show_columns(self._columns())
        grid.show(
            time_phases(rows, self.drill.beat_ms, self._now_ms, max(1, self._bars), glyphs_of(self))
        )

    def on_resize(self) -> None:
        """Draw the timeline for the new size; Textual calls the base's handler, too."""
        self.show_phases()

    @property
    def _now_ms(self) -> int:
        return int(self.session.feed.now() * 1000)

    @property
    def _next_row(self) -> PhaseRow | None:
        """The phase that runs or is next; None if there is none."""
        rows = list_phases(self.drill, acting=self._acts) if self.drill is not None else []
        return next((row for row in rows if row.is_next), None)

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

    # Texts

    def show_texts(self) -> None:
        """Show the tiles, what happens now, and the phase under the cursor."""
        if not self.is_composed:
            return
        self.show_summary()
        self._show_tiles()
        wide, drill = bool(self._side), self.drill
        now = self.query_one("#now", Tile)
        title, state, lines, severity = self._now()
        now.label(title, "" if wide else state)
        now.show(lines if wide else lines[: self._narrow_lines], severity)
        current: TimedPhase | None = self.query_one(Grid).current
        panel = self.query_one("#phase", Tile)
        panel.display = wide and current is not None and not current.row.is_next
        now.styles.height = "1fr" if wide and not panel.display else "auto"
        if panel.display and current is not None and drill is not None:
            panel.label(f"{current.row.number} {current.row.record.phase}")
            panel.show(self._about(drill, current))
        self._show_journal()

    def _show_journal(self) -> None:
        """Show the drill's entries in the journal below its phases, if there is room."""
        table, panel = self.query_one("#table"), self.query_one("#journal", Tile)
        events = self.drill.events if self.drill is not None else ()
        phases = len(self.drill.phases) if self.drill is not None else 0
        edge = 2 if self._boxed else 1
        high = phases + 1 + edge
        room = self.room_lines - self._tile_lines - edge - high
        panel.display = bool(self._side and events) and room >= _LEAST_JOURNAL
        table.styles.height = high if panel.display else "1fr"
        if not panel.display:
            return
        width = self.size.width - self._side - 5
        shown = events[-(room - edge) :]
        panel.label("Journal", f"{len(shown):,} of {len(events):,}")
        panel.show([_event_line(event, width, glyphs_of(self)) for event in reversed(shown)])

    @property
    def _boxed(self) -> bool:
        """Whether panels have whole frames."""
        return is_framed(self)

    @property
    def _tile_lines(self) -> int:
        """The lines of a tile's content."""
        return 4 if self._boxed else 2

    @property
    def _narrow_lines(self) -> int:
        """The lines of what happens now on a narrow terminal: what the phases do not need."""
        phases = len(self.drill.phases) if self.drill is not None else 0
        return max(_NARROW_LINES, self.size.height - phases - _BESIDE_NOW)

    def _show_tiles(self) -> None:
        drill, glyphs = self.drill, glyphs_of(self)
        boxed, lines = self._boxed, self._tile_lines
        columns = 4 if self._side else 3
        tiles = self.query_one("#tiles")
        tiles.styles.grid_size_columns = columns
        tiles.styles.height = lines + (2 if boxed else 1)
        self.query_one("#checks").display = columns == 4
        rto, rpo, way, checks = (
            self.query_one(f"#{name}", Tile) for name in ("rto", "rpo", "way", "checks")
        )
        if drill is None:
            for tile in (rto, rpo, way, checks):
                tile.show([(Cell(formatting.NOT_YET),)])
            return
        room = (self.size.width // columns - (4 if boxed else 2), lines)
        view = self.console.view
        before = rehearsal_before(drill, view.drills if view is not None else ())
        rto.label("RTO" if drill.is_over else "RTO so far")
        rto.show(rto_tile(drill, before, self._now_ms, glyphs, room))
        rpo.label("RPO" if drill.is_over else "RPO so far")
        rpo.show(*rpo_tile(drill, before, glyphs, room))
        way.show(*way_tile(drill, glyphs, room))
        checks.show(*check_tile(drill, glyphs, room))

    def summary(self) -> Line:
        """Return when the drill was begun, and by whom."""
        if self.drill is None:
            return ()
        begun = formatting.moment(self.drill.started_ms / 1000)
        text = f"begun {begun} by {safe_text(self.drill.started_by, 60)}"
        topics = self.drill.topics
        if not topics:
            return (Cell(text),)
        named = f"{counted(len(topics), 'topic')}: {list_names(topics, _NAMED)}  "
        return (Cell(named, Tone.HEADING), Cell(text))

    def wrap(self, text: str) -> list[str]:
        """Return a text wrapped to the panel beside the phases, or to the screen's width."""
        width = self._side - 5 if self._side else self.size.width - 3
        return wrap(text, max(20, width))

    def _now(self) -> tuple[str, str, list[Line], Severity | None]:
        """Return the title, the state, the lines and the severity of what happens now."""
        drill = self.drill
        if drill is None:
            return "Now", "", self.progress_lines(), None
        if drill.is_over:
            return "Result", "", self._result(drill), None
        wide, severity = bool(self._side), None
        stopped = failed_phase(drill)
        lines = [] if self.busy else self.progress_lines()
        task, tone = self._to_do(drill), Tone.WARN
        if not lines and stopped is not None and not self._acts:
            severity = Severity.WARN if waits_for_tail_choice(drill) else Severity.BAD
            lines = self._evidence(drill, stopped)
        says = [Cell(task, tone)] if task else []
        says.append(self._who(drill))
        if wide:
            bad = severity is Severity.BAD
            head = _texts(self.wrap(self._state(drill)), Tone.BAD if bad else Tone.HEADING)
            head += [*self._since(drill), *self._progress_bar()]
            parts = [head, lines]
            parts += [_texts(self.wrap(cell.text), cell.tone) for cell in says]
            parts.append(self._step(drill))
            return "Now", "", _apart(parts), severity
        says.append(self._way_back(drill))
        room = self.size.width - 2
        says = [Cell(part, cell.tone) for cell in says for part in self.wrap(cell.text)]
        said = flow(says, room, _NARROW_LINES)
        lines = [*lines[: self._narrow_lines - len(said)], *said]
        return "Now", self._state(drill), lines, severity

    def _state(self, drill: Drill) -> str:
        """Return what the next phase has found, or waits for."""
        if self._acts:
            return describe_state(drill)
        row = self._next_row
        running = row is not None and row.record.status is PhaseStatus.RUNNING
        return f"stopped in {describe_state(drill)}" if running else describe_state(drill)

    def _since(self, drill: Drill) -> list[Line]:
        """Return for how long the next phase has run."""
        row = self._next_row
        if row is None or row.record.began_ms is None:
            return []
        (phase,) = time_phases([row], drill.beat_ms, self._now_ms, 1, glyphs_of(self))
        began = formatting.utc_time(row.record.began_ms / 1000)
        return [(Cell(f"since {began} UTC  ", Tone.MUTED), Cell(took_cell(phase).text))]

    def _progress_bar(self) -> list[Line]:
        """Return a bar of how far the running phase is, if it says so."""
        row = self._next_row
        if row is None or row.record.status is not PhaseStatus.RUNNING or not self._acts:
            return []
        share = read_share(row.record.live)
        width = self._side - 5
        return [] if share is None else [bar(share, width, glyphs_of(self), Tone.INFO)]

    def _to_do(self, drill: Drill) -> str:
        """Return what the operator has to do, in one sentence; "" if it is said otherwise."""
        if self._source_is_lost(drill):
            return "The source does not answer" + (
                "." if self.other_acts else ": D continues without it."
            )
        if drill.status is not DrillStatus.OPEN:
            return ""
        if failed_phase(drill) is not None and not self._acts:
            return _next_key(drill) if self.error is None else ""
        if self.operator is None or self.operator.stopping:
            return ""
        if self.question is not None and self.question.is_open:
            return "It waits for you to confirm."
        return describe_task(drill)

    def _step(self, drill: Drill) -> list[Line]:
        """Return what the next phase does."""
        if drill.status is not DrillStatus.OPEN or self._source_is_lost(drill):
            return []
        if failed_phase(drill) is not None and not self._acts:
            return []
        phase = next_phase(drill)
        if phase is None:
            return []
        return _texts(self.wrap(describe_phase_of(drill, phase)), Tone.MUTED)

    def _evidence(self, drill: Drill, record: PhaseRecord) -> list[Line]:
        """Return the findings that have stopped the drill, with their fixes where there is room."""
        tone = Tone.WARN if waits_for_tail_choice(drill) else Tone.BAD
        if self._side:
            lines: list[Line] = []
            for text in describe_findings(drill, record):
                finding, *fix = text.splitlines()
                lines += _texts(self.wrap(finding), tone)
                lines += _texts((part for line in fix for part in self.wrap(line)), Tone.PLAIN)
            return lines[: max(3, self.size.height - _BESIDE_EVIDENCE)]
        first, *rest = record.findings or ("",)
        if not first:
            return []
        more = f"  (+{len(rest):,}: enter)" if rest else ""
        room = self.size.width - 2 - len(more)
        text = fit(safe_message(first), room, ellipsis=glyphs_of(self).text("…")).rstrip()
        return [(Cell(text, tone), Cell(more, Tone.MUTED))]

    def _result(self, drill: Drill) -> list[Line]:
        texts = summarize(drill)
        back = self._way_back_command(drill) if drill.topics else ""
        if not self._side and (back or find_change(drill, ChangeKind.EPOCHS)):
            texts = texts[:1]  # the way back is below
        if back:  # before the figures: a panel shows as much as it has room for
            texts.insert(1, f"The way back: {back}")
        first, *rest = [part for text in texts for part in self.wrap(text)]
        lines: list[Line] = [(Cell(first, Tone.HEADING),), *((Cell(part),) for part in rest)]
        if drill.status is DrillStatus.DONE and find_change(drill, ChangeKind.EPOCHS):
            text = f"The pipeline is fenced. {self._after(drill)}"
            lines += [*([()] if self._side else []), *_texts(self.wrap(text), Tone.WARN)]
        return lines

    def _after(self, drill: Drill) -> str:
        """Return how the workload comes back, or how its pipeline is used another time."""
        files = self.files
        if drill.kind is DrillKind.FAILBACK or self.flow.pipeline is None or not files:
            command = cli_equivalent.drill_on(files, "release", drill.id)
            return f"It does not start until you run: {command}"
        return f"The way back: {self._way_back_command(drill)}"

    def _way_back_command(self, drill: Drill) -> str:
        """Return the command that leads back after a failover; "" if there is none."""
        files, moved = self.files, drill.figures.opened_ms is not None
        if drill.kind is DrillKind.FAILBACK or self.flow.pipeline is None or not files or not moved:
            return ""
        if drill.topics and find_change(drill, ChangeKind.MOVED_TOPICS) is None:
            return ""  # they were led back, or are copied again
        written = drill.kind.is_switchover or reverse_path(files).exists()
        targets = name_targets(self.flow.pipeline, drill.topics)
        return way_back_command(files, written=written, targets=targets)

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
            return Cell(f"{who}. You watch; O takes it over.", Tone.WARN)
        if failed_phase(drill) is not None and self.error is None:
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

    def _about(self, drill: Drill, phase: TimedPhase) -> list[Line]:
        """Return what is known of the phase under the cursor."""
        row, record = phase.row, phase.row.record
        lines: list[Line] = [(glyphs_of(self).mark(judge_phase(row)),)]
        if record.status is PhaseStatus.WAITING:
            lines[0] = (Cell("you confirm it" if row.confirmed else "not reached", Tone.MUTED),)
        if record.began_ms is not None:
            began = formatting.utc_time(record.began_ms / 1000)
            ended = "" if record.ended_ms is None else formatting.utc_time(record.ended_ms / 1000)
            span = f"{began} to {ended} UTC" if ended else f"since {began} UTC"
            took, waited = took_cell(phase).text, record.waited_ms
            lines.append((Cell(f"{span}  "), Cell(took, Tone.HEADING)))
            if waited >= 1000:
                text = f"{formatting.duration(waited / 1000)} of it for people and applications"
                lines.append((Cell(text, Tone.MUTED),))
        texts = [] if row.is_next else [record.live]
        lines += _texts([part for text in texts if text for part in self.wrap(text)], Tone.PLAIN)
        current = failed_phase(drill)
        if record.findings and (current is None or current.phase is not record.phase):
            findings = [
                part for text in describe_findings(drill, record) for part in self.wrap(text)
            ]
            lines += [(), *_texts(findings, Tone.WARN)]
        if not row.is_next:
            does = self.wrap(describe_phase_of(drill, record.phase))
            lines += [(), *_texts(does, Tone.MUTED)]
        for change in drill.changes:
            if change.phase is record.phase:
                lines += [(), *_texts(self.wrap(f"{change.what}: {change.status}"), Tone.PLAIN)]
        for hook in drill.hooks:
            if hook.phase is record.phase:
                texts = [
                    part for text in hook_lines(hook) for part in self.wrap(safe_message(text))
                ]
                lines += [(), *_texts(texts, Tone.PLAIN)]
        return lines

    def action_checks(self) -> None:
        """Show the checks, the failed ones first."""
        self.app.push_screen(DrillChecksScreen(lambda: self.drill))

    @on(Grid.Opened)
    def _opened(self, event: Grid.Opened) -> None:
        row: PhaseRow = event.row.row
        self._whole = row.number, TextDialog(*self._phase_texts(row))
        self.app.push_screen(self._whole[1])

    def _phase_texts(self, row: PhaseRow) -> tuple[str, list[str]]:
        """Return the title and the texts of a phase, whole."""
        fence = self.drill.options.fence if self.drill is not None else Fence.HAND
        topics = self.drill.topics if self.drill is not None else ()
        texts = [describe_phase(row.record.phase, fence, topics), row.record.live]
        if self.drill is not None:
            texts += describe_findings(self.drill, row.record)
            hooks = (hook for hook in self.drill.hooks if hook.phase is row.record.phase)
            texts += ["\n".join(map(safe_message, hook_lines(hook))) for hook in hooks]
        title = f"{row.number} {row.record.phase}: {judge_phase(row).word}"
        return title, [text for text in texts if text]

    def _show_whole(self, drill: Drill) -> None:
        """Show in the dialog of a phase what has become of it while the dialog is open."""
        if self._whole is None:
            return
        number, dialog = self._whole
        if not dialog.is_attached:
            self._whole = None
            return
        rows = list_phases(drill, acting=self._acts)
        dialog.show(*self._phase_texts(rows[number - 1]))

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
        verb = "report" if self.drill.is_over else next_verb(self.drill)
        return cli_equivalent.drill_on(self.files, verb, self.drill.id)

    # What is possible now

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        if action == "hold":
            return self._no_hold()
        if action in ("report", "checks"):
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
        if not has_fenced(drill):
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
        verb = next_verb(self.drill)
        command = cli_equivalent.drill_on(self.files, verb, self.drill.id)
        how = f"{verb.capitalize()} it: {command}"
        return [f"The drill {self.drill.id} stops where it is. {how}"]


def _next_key(drill: Drill) -> str:
    """Return what the operator presses after a phase has failed."""
    if waits_for_tail_choice(drill):
        return "T chooses what happens to these records."
    ids = ", ".join(check.id for check in checks_that_stop(drill))
    return "Correct it and press R" + (f", or accept {ids} with A." if ids else ".")


def _row_of(phase: TimedPhase) -> PhaseRow:
    return phase.row


def _event_line(event: DrillEvent, width: int, glyphs: Glyphs) -> Line:
    at = formatting.utc_time(event.at_ms / 1000)
    who = fit(safe_text(event.who, 60), 20, ellipsis=glyphs.text("…"))
    text = fit(safe_message(event.text), width - 32, ellipsis=glyphs.text("…")).rstrip()
    return (Cell(f"{at}  ", Tone.MUTED), Cell(f"{who}  ", Tone.MUTED), Cell(text))


def _apart(parts: Iterable[list[Line]]) -> list[Line]:
    """Return parts with an empty line between them."""
    lines: list[Line] = []
    for part in parts:
        lines += [*([()] if lines and part else []), *part]
    return lines


def _texts(texts: Iterable[str], tone: Tone) -> list[Line]:
    return [(Cell(text, tone),) for text in texts]
