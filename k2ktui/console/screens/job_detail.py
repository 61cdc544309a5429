"""One run: its owner, its role, what it owns and uses, drawn; beside the table, and above a log."""

from __future__ import annotations

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.containers import Container

from k2ktui.console.screens.base import ConsoleScreen
from k2ktui.console.screens.job_runs import Samples, ShownRun
from k2ktui.console.screens.job_words import where_is_log
from k2ktui.console.screens.jobs_table import (
    cores_bar,
    cores_text,
    memory_bar,
    memory_text,
    slot_cells,
    slots_text,
)
from k2ktui.console.screens.row import RowDetail
from k2ktui.console.visuals.chart import Chart
from k2ktui.console.visuals.facts import fact, fact_lines
from k2ktui.console.visuals.panel import Panel
from k2ktui.console.widgets.styled_text import fit, glyphs_of
from k2ktui.engine.moves.journal import RunKind, RunnerState
from k2ktui.present import formatting
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone
from k2ktui.present.runs import clock, judge_run
from k2ktui.text import counted
from k2ktui.watch.model import PartName

_LABEL = 11
# A column of facts has at least so many cells; more of them stand side by side.
_COLUMN, _BETWEEN = 40, 2
_LEAST_CHART, _HIGHEST_CHART = 6, 20
_ERROR_LINES = 4
_SLOTS_NAMED = 8


class RunDetail(RowDetail, can_focus=False):
    """The facts of a run, and charts of what it uses where there is room."""

    _charted: tuple[Samples, int] = ((), 0)

    def __init__(self, *, charts: bool = True, id: str | None = None) -> None:
        super().__init__(id=id)
        self._has_charts = charts

    def charts(self) -> ComposeResult:
        """Yield the charts."""
        if self._has_charts:
            with Container(id="run-charts"):
                yield Chart("Memory, MB", id="run-memory")
                yield Chart("Processors, % of one", Tone.OK, id="run-cpu")

    @property
    def room(self) -> int:
        """The cells of a line."""
        return self.size.width or self.app.size.width - 4

    def show_row(
        self, row: ShownRun, now: float, charted: tuple[Samples, int], *, old: bool
    ) -> None:
        """Show a run.

        Args:
            row: the run.
            now: the reference time for ages.
            charted: what it used, and the window of the charts in minutes.
            old: whether the heartbeats are stale.
        """
        self._charted = charted
        self.show(lambda width: run_lines(row, now, width, glyphs_of(self), old=old))

    def draw_charts(self, lines: int) -> None:
        """Draw the charts below each other, where there is room for both."""
        if not self._has_charts:
            return
        (samples, minutes), charts = self._charted, self.query_one("#run-charts")
        left = (self.size.height - lines) // 2
        charts.display = bool(samples) and left >= _LEAST_CHART
        if not charts.display:
            return
        values = (
            ("memory", [(at, usage.memory / 10**6) for at, usage in samples]),
            ("cpu", [(at, None if u.cores is None else 100 * u.cores) for at, u in samples]),
        )
        for name, points in values:
            chart = self.query_one(f"#run-{name}", Chart)
            chart.styles.height = min(_HIGHEST_CHART, left)
            chart.show(points, minutes)


def show_run(screen: ConsoleScreen, row: ShownRun, samples: Samples = ()) -> None:
    """Show a run in the panel ``run`` of a screen, with charts of ``samples``."""
    panel, view = screen.query_one("#run", Panel), screen.console.view
    panel.label(owner_of(row))
    panel.mark(judge_run(row).severity)
    stale = view is not None and view.stale(PartName.STATE)
    charted = samples, screen.console.chart_minutes
    panel.query_one(RunDetail).show_row(row, screen.session.feed.now(), charted, old=stale)


def run_lines(
    row: ShownRun, now: float, width: int, glyphs: Glyphs, *, old: bool = False
) -> list[Line]:
    """Return the facts of a run, side by side where there is room, and its last error."""
    count = max(1, (width + _BETWEEN) // (_COLUMN + _BETWEEN))
    room = (width - _BETWEEN * (count - 1)) // count
    facts = _facts(row, now, room, glyphs, old=old)
    high = -(-len(facts) // count)
    lines: list[Line] = []
    for number in range(high):
        cells: list[Cell] = []
        for line in facts[number::high]:
            if cells:
                cells.append(Cell(" " * _BETWEEN))
            cells += _padded(line, room, glyphs) if count > 1 else line
        lines.append(tuple(cells))
    if row.job is None:
        lines += fact_lines([fact("Log", where_is_log(row), indent=_LABEL)], width)
    if row.error:
        text = formatting.message(row.error, 2_000)
        tone = Tone.BAD if row.alive or row.state != "stopped" else Tone.PLAIN
        error = fact_lines([fact("Last error", text, tone, _LABEL)], width)
        lines += error[:_ERROR_LINES]
        if len(error) > _ERROR_LINES:
            label, last = lines[-1]
            lines[-1] = (label, Cell(f"{last.text}…", tone))
    return lines


def _padded(line: Line, width: int, glyphs: Glyphs) -> list[Cell]:
    """Return a line of exactly so many cells."""
    cells, left = [], width
    for cell in line:
        text = glyphs.text(cell.text)
        text = fit(text, left, ellipsis=glyphs.text("…")) if cell_len(text) > left else text
        cells.append(Cell(text, cell.tone))
        left -= cell_len(text)
    return [*cells, Cell(" " * left)]


def _facts(row: ShownRun, now: float, width: int, glyphs: Glyphs, *, old: bool) -> list[Line]:
    def aged(cell: Cell) -> Cell:
        return glyphs.aged(cell) if old and not row.here else cell

    def drawn(label: str, text: str, shape: Line) -> Line:
        """Return a figure, and its shape on the rest of the line."""
        cells = [_label(label), Cell(text, Tone.HEADING)]
        return (*cells, Cell("  "), *shape) if shape else tuple(cells)

    def room(text: str) -> int:
        return max(4, min(24, width - _LABEL - len(text) - 3))

    mark = aged(glyphs.mark(judge_run(row)))
    since = f"  since {clock(row.started_at)} UTC" if row.alive else ""
    owner = f"{formatting.name(row.user, 20)} on {formatting.name(row.host, 40)}"
    beat = formatting.NOT_AVAILABLE
    if row.heartbeat_at is not None:
        beat = f"{formatting.age(max(0.0, now - row.heartbeat_at))} ago"
    memory, cores = memory_text(row.usage, limit=True), cores_text(row.usage, limit=True)
    facts: list[Line] = [
        (_label("State"), mark, Cell(since)),
        (_label("Owner"), Cell(f"{owner}, pid {row.pid}")),
        (_label("Role"), Cell(role_of(row))),
    ]
    if row.kind is RunKind.COPY:
        slots = slots_text(row)
        facts.append(drawn("Slots", slots, slot_cells(row, room(slots), glyphs)))
    facts += [
        (_label("Heartbeat"), aged(Cell(beat))),
        drawn("Memory", memory, memory_bar(row.usage, room(memory), glyphs)),
        drawn("Processors", cores, cores_bar(row.usage, room(cores), glyphs)),
    ]
    if row.kind is RunKind.COPY:
        lag = formatting.number(row.lag_records)
        commit = formatting.NOT_AVAILABLE if row.commit_ms is None else f"{row.commit_ms:.0f} ms"
        facts += [
            (_label("Lag"), aged(Cell(f"{lag} records" if row.lag_records is not None else lag))),
            (_label("Commit"), aged(Cell(commit)), Cell(f", lap {formatting.number(row.lap)}")),
        ]
    term = f"term {row.term}" if row.term else ""
    restarts = counted(row.restarts, "restart") if row.restarts is not None else ""
    version = f"k2ktui {formatting.name(row.version, 20)}" if row.version else ""
    rest = ", ".join(part for part in (term, restarts, version) if part)
    if rest:
        facts.append((_label("Run"), Cell(rest)))
    return facts


def _label(text: str) -> Cell:
    return Cell(f"{text:<{_LABEL}}", Tone.MUTED)


def role_of(row: ShownRun) -> str:
    """Return what a run does, in a few words."""
    if row.kind is RunKind.SYNC:
        return "translates groups (sync)"
    if row.state == RunnerState.STANDBY:
        return "standby: waits for its turn"
    if not row.alive:
        return "copied"
    if row.others or (row.generation and row.owned):
        named = ", ".join(str(slot) for slot in row.owned[:_SLOTS_NAMED])
        more = ", …" if len(row.owned) > _SLOTS_NAMED else ""
        return f"copies slots {named}{more}" if named else "shares the pipeline, owns no slot"
    return "copies"


def owner_of(row: ShownRun) -> str:
    """Return a run's title: its pipeline and its process."""
    where = "this host" if row.here else formatting.name(row.host, 40)
    return f"{formatting.name(row.pipeline, 40)} on {where}, pid {row.pid}"
