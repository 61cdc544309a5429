"""One drill: its phases in time, RTO and RPO, what happens now, and what the operator has to do."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from textual import on
from textual.widget import Widget

from k2ktui.console import cli_equivalent
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
from k2ktui.console.screens.drill_frame import DrillFrame
from k2ktui.console.visuals.panel import Tile, is_framed
from k2ktui.console.visuals.shapes import bar, flow, picture_cell
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import fit, glyphs_of
from k2ktui.console.widgets.text_dialog import TextDialog
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
    describe_phase,
    describe_phase_of,
    failed_phase,
    find_change,
    next_phase,
    waits_for_tail_choice,
)
from k2ktui.engine.severity import Severity
from k2ktui.present import formatting
from k2ktui.present.columns import Column
from k2ktui.present.drills import (
    describe_findings,
    hook_lines,
    judge_phase,
    phase_columns,
    read_share,
)
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone
from k2ktui.text import counted, list_names, safe_message, safe_text

# Cells of the table of phases beside the timeline: frame, scrollbar, the other columns and gaps.
_BESIDE_BARS = 5 + 20 + 10 + 8 + 3 * 2
_LEAST_LIVE = 30
_NAMED = 3
# All lines but the evidence on a wide terminal.
_BESIDE_EVIDENCE = 26
# The lines of the journal, with its frame, that are worth it.
_LEAST_JOURNAL = 5


class DrillChecklist(DrillBaseScreen, DrillFrame[Drill]):
    """Shows a drill.

    From 120 columns on, what happens now and the phase under the cursor stand beside the phases,
    which have a timeline. Below, what happens now is above them, and Enter opens a phase.

    Args:
        drill: the drill; None before it has begun.
    """

    PANEL: ClassVar[str] = "Phases"
    TITLES: ClassVar[tuple[str, str, str]] = ("Drill", "Checks", "Phase")
    NARROW_LINES: ClassVar[int] = 5

    def __init__(self, drill: Drill | None) -> None:
        super().__init__(drill)
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

    def below_table(self) -> Iterable[Widget]:
        """Yield the drill's entries in the journal."""
        yield Tile("Journal", id="journal")

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
    def row_count(self) -> int:
        """The number of phases."""
        return len(self.drill.phases) if self.drill is not None else 0

    @property
    def _next_row(self) -> PhaseRow | None:
        """The phase that runs or is next; None if there is none."""
        rows = list_phases(self.drill, acting=self._acts) if self.drill is not None else []
        return next((row for row in rows if row.is_next), None)

    # For subclasses

    @property
    @abstractmethod
    def _acts(self) -> bool:
        """Whether a process acts on the drill, here or elsewhere."""

    @abstractmethod
    def _to_do(self, drill: Drill) -> str:
        """Return what the operator has to do, in one sentence; "" if it is said otherwise."""

    @abstractmethod
    def _who(self, drill: Drill) -> Cell:
        """Return who acts on the drill."""

    @abstractmethod
    def _way_back(self, drill: Drill) -> Cell:
        """Return whether the operator can still go back."""

    def _source_is_lost(self, drill: Drill) -> bool:
        """Return whether a drill that needs its source waits for it."""
        return False

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
        edge = 2 if is_framed(self) else 1
        high = self.row_count + 1 + edge
        room = self.room_lines - self._tile_lines - edge - high
        panel.display = bool(self._side and events) and room >= _LEAST_JOURNAL
        table.styles.height = high if panel.display else "1fr"
        if not panel.display:
            return
        width = self.size.width - self._side - 5
        shown = events[-(room - edge) :]
        panel.label("Journal", f"{len(shown):,} of {len(events):,}")
        panel.show([_event_line(event, width, glyphs_of(self)) for event in reversed(shown)])

    def _show_tiles(self) -> None:
        drill, glyphs = self.drill, glyphs_of(self)
        (rto, rpo, way, checks), room = self.lay_out_tiles()
        if drill is None:
            return
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
        said = flow(says, room, self.NARROW_LINES)
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
        drill = self.drill
        if drill is not None and drill.is_over and (back := self._way_back_command(drill)):
            return back
        return super().text_to_copy()

    def command(self, verb: str, *more: str) -> str:
        """Return the command that does something with the drill."""
        return cli_equivalent.drill_on(self.files, verb, self.drill.id if self.drill else "", *more)


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
