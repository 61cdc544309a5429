"""Screen 1: state and problems of the pipeline pair, each problem one key away from its cause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.containers import Container

from k2ktui.console.export import Table
from k2ktui.console.plots import over_time
from k2ktui.console.screens.base import ConsoleScreen
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.engine.translate import Basis
from k2ktui.engine.trend import Direction
from k2ktui.jobs import manager
from k2ktui.jobs.manager import Job
from k2ktui.jobs.run_rows import RunRow, current_run
from k2ktui.present import formatting
from k2ktui.present.columns import Column
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone
from k2ktui.present.runs import judge_run
from k2ktui.present.view_lines import reread_text
from k2ktui.text import counted
from k2ktui.watch.model import ClusterView, PartName, View
from k2ktui.watch.severity import (
    Problem,
    Severity,
    SeverityLabel,
    find_problems,
    judge_mirror_flow,
    state_time,
)

_LOOK_S = 2.0
_LABEL = 12
_SPARK = 24
# Lines needed by figures, frame and a few problems; lowest and highest useful plot.
_WITHOUT_PLOTS, _LOWEST_PLOT, _HIGHEST_PLOT = 24, 8, 16
_GOOD = (Basis.EXACT, Basis.END)


class OverviewScreen(ConsoleScreen):
    """The pipeline pair at a glance."""

    ENTRY: ClassVar[str] = "overview"
    HELP: ClassVar[str | None] = """
        Overview. Lag is counted in source offsets that are not copied yet; in seconds it is the age
        of the oldest record not copied. Coverage is the share of the source's retained offsets, and
        of group positions, that translate exactly.

        A group diverges where its committed offset on the target is not the one that its source
        offset translates to: it would skip records there, or read some again.

        Problems are below, the worst first. Enter goes to the cause.
    """

    def __init__(self) -> None:
        super().__init__()
        self._jobs: tuple[Job, ...] = ()

    def body(self) -> ComposeResult:
        """Yield the figures, their plots, and the problems."""
        yield TextLines(id="facts")
        with Container(id="plots"):
            yield TextLines(id="plot-lag")
            yield TextLines(id="plot-rate")
        glyphs = glyphs_of(self)
        columns: tuple[Column[Problem], ...] = (
            Column("problem", "problem", lambda p: _mark(glyphs, p), width=9),
            Column(
                "subject", "of", lambda p: Cell(formatting.name(p.subject)), width=12, widest=48
            ),
            Column(
                "what", "what", lambda p: Cell(formatting.name(p.message)), width=20, widest=500
            ),
        )
        yield Grid(
            columns,
            key=lambda p: (p.kind, p.key),
            search=lambda p: f"{p.kind} {p.subject} {p.message}",
            empty="No problem is known.",
            id="problems",
        )

    def on_mount(self) -> None:
        """Focus the problems, and start polling this host's jobs."""
        self.query_one(Grid).focus()
        self._look()
        self.set_interval(_LOOK_S, self._look)

    def on_screen_resume(self) -> None:
        """Show the last view and poll the jobs immediately."""
        super().on_screen_resume()
        self._look()

    def _look(self) -> None:
        """Read the jobs' records on a thread: the home directory may be on a network mount."""
        if self.is_current and not self.session.feed.replay and not self.session.pair.mirror:
            self.background("look", manager.list_jobs, self._looked)

    def _looked(self, jobs: Sequence[Job]) -> None:
        if tuple(jobs) != self._jobs:
            self._jobs = tuple(jobs)
            self.refresh_view()

    def show_view(self, view: View) -> None:
        """Show the totals and the problems."""
        now = self.session.feed.now()
        run = _run(view, now, self._jobs)
        lines = facts(view, now, glyphs_of(self), self.size.width - 2, run)
        self.query_one("#facts", TextLines).show(lines)
        self._plot(view)
        grid = self.query_one(Grid)
        grid.empty = "No problem is known." if view.is_current else formatting.NOT_YET
        found = find_problems(view, now)
        if run is not None and run.alive and run.job is not None:
            # Its first heartbeat may not have been read yet.
            found = [p for p in found if p.kind != "job" or (p.key and p.key == run.runner)]
        grid.show(found)

    def _plot(self, view: View) -> None:
        """Plot lag and throughput over time if there is room."""
        room = self.size.height - _WITHOUT_PLOTS
        height = min(_HIGHEST_PLOT, room) if self.size.width >= 100 else 0
        self.query_one("#plots").display = height >= _LOWEST_PLOT
        if height < _LOWEST_PLOT:
            return
        lag = [(p.at, None if p.lag_records is None else float(p.lag_records)) for p in view.points]
        rate = [(p.at, p.rate) for p in view.points]
        for name, title, points in (("lag", "lag, records", lag), ("rate", "records/s", rate)):
            lines = over_time(title, points, self.size.width // 2 - 2, height, glyphs_of(self))
            lines += [()] * (height - len(lines))
            self.query_one(f"#plot-{name}", TextLines).show(lines)

    def on_resize(self) -> None:
        """Redraw for the new size."""
        self.refresh_view()

    def table(self) -> Table | None:
        """Return the problems."""
        return self.query_one(Grid).table()

    def copied(self) -> str:
        """Return the problem under the cursor."""
        grid = self.query_one(Grid)
        return "" if grid.current is None else grid.row_text(grid.current)

    @on(Grid.Opened)
    def _opened(self, event: Grid.Opened) -> None:
        problem: Problem = event.row
        if problem.kind == "partition":
            self._go("replication", problem.key)
        elif problem.kind in ("group", "groups"):
            self._go("groups", problem.key)
        elif problem.kind == "job":
            self._go("jobs", problem.key)
        else:
            self.tell(problem.message, "warning")

    def _go(self, entry: str, key: object) -> None:
        """Switch to another screen with the cursor on the subject of the problem."""
        if not any(each.id == entry for each in self.console.entries):
            return

        def select() -> None:
            for grid in self.app.screen.query(Grid):
                grid.select(key)

        self.console.action_screen(entry)
        self.app.call_after_refresh(select)


def _mark(glyphs: Glyphs, problem: Problem) -> Cell:
    return glyphs.mark(SeverityLabel(problem.severity, problem.kind))


def _run(view: View, now: float, jobs: Sequence[Job]) -> RunRow | None:
    """Return the run that the screen Jobs shows first."""
    return current_run(jobs, view.runners, view.pair.pipeline, state_time(view, now))


def facts(view: View, now: float, glyphs: Glyphs, width: int, run: RunRow | None) -> list[Line]:
    """Return the totals of a view as lines."""
    spark = max(0, min(_SPARK, width - 70)) if width < 110 else 2 * _SPARK
    return [
        _line("Lag", *_lag(view, glyphs, spark)),
        _line("Throughput", *_throughput(view, glyphs, spark)),
        _line("Coverage", *_coverage(view, glyphs)),
        _line("Partitions", *_partitions(view, glyphs)),
        _line("Groups", *_groups(view, glyphs)),
        *([_line("Re-reads", *_again(view, now))] if view.compares else []),
        _line(
            "Job",
            *(_mirror(view, now, glyphs) if view.pair.mirror else _job(view, now, glyphs, run)),
        ),
        _line("Source", *_cluster(view, view.source, PartName.SOURCE, now, glyphs)),
        _line("Target", *_cluster(view, view.target, PartName.TARGET, now, glyphs)),
        *_notes(view),
    ]


def _notes(view: View) -> list[Line]:
    # In a MirrorMaker 2 flow, the first notes describe its state and are not warnings.
    tone = Tone.PLAIN if view.pair.mirror else Tone.WARN
    return [_line("Note", Cell(formatting.name(note), tone)) for note in view.notes[:2]]


def _line(label: str, *cells: Cell) -> Line:
    return (Cell(f"{label:<{_LABEL}}", Tone.MUTED), *cells)


def _aged(cell: Cell, glyphs: Glyphs, stale: bool) -> Cell:
    return glyphs.aged(cell) if stale else cell


def _read(view: View, *names: PartName) -> bool:
    return all(view.part(name).taken_at is not None for name in names)


def _lag(view: View, glyphs: Glyphs, spark: int) -> list[Cell]:
    totals, known = view.totals, _read(view, PartName.SOURCE, PartName.TARGET)
    stale = view.copy_stale
    cells = [
        _aged(
            Cell(formatting.number(totals.lag_records, known=known), Tone.HEADING), glyphs, stale
        ),
        Cell(" records, oldest "),
        _aged(
            Cell(formatting.seconds(totals.lag_seconds, known=known), Tone.HEADING), glyphs, stale
        ),
    ]
    if totals.direction is not Direction.UNKNOWN:
        cells.append(Cell(f"  {glyphs.direction(totals.direction)} {totals.direction}"))
    if totals.lag_records and totals.eta_s and totals.eta_s >= 1:
        cells.append(Cell(f", {formatting.duration(totals.eta_s)} left", Tone.MUTED))
    if totals.unknown and totals.partitions:
        cells.append(Cell(f"  {totals.unknown:,} unknown", Tone.UNKNOWN))
    values = [p.lag_records for p in view.points]
    return [*cells, Cell(f"  {glyphs.spark(values, spark)}", Tone.INFO)]


def _throughput(view: View, glyphs: Glyphs, spark: int) -> list[Cell]:
    text = formatting.number(view.totals.rate, known=len(view.points) > 1 or view.copy_stale)
    values = [p.rate for p in view.points]
    return [
        Cell(text, Tone.HEADING),
        Cell(" records/s"),
        Cell(f"  {glyphs.spark(values, spark)}", Tone.INFO),
    ]


def _coverage(view: View, glyphs: Glyphs) -> list[Cell]:
    known = _read(view, PartName.TARGET, PartName.GROUPS)
    offsets = Cell(formatting.share(view.totals.coverage, known=known), Tone.HEADING)
    commits = Cell(formatting.share(view.totals.commit_coverage, known=known), Tone.HEADING)
    return [
        _aged(offsets, glyphs, view.copy_stale or view.stale(PartName.GROUPS)),
        Cell(" of retained offsets, "),
        _aged(commits, glyphs, view.groups_stale),
        Cell(" of group positions"),
    ]


def _partitions(view: View, glyphs: Glyphs) -> list[Cell]:
    if not _read(view, PartName.SOURCE) and not _read(view, PartName.TARGET):
        return [Cell(formatting.NOT_YET)]
    from k2ktui.watch.severity import judge_partition

    cells = [Cell(f"{view.totals.partitions:,}", Tone.HEADING), Cell(":")]
    verdicts: dict[str, tuple[SeverityLabel, int]] = {}
    for row in view.partitions:
        verdict = judge_partition(row)
        _, count = verdicts.get(verdict.word, (verdict, 0))
        verdicts[verdict.word] = (verdict, count + 1)
    for verdict, count in sorted(verdicts.values(), key=lambda each: -each[0].severity):
        mark = _aged(glyphs.mark(verdict), glyphs, view.copy_stale)
        cells.append(Cell(f"  {count:,} {mark.text}", mark.tone))
    return cells


def _groups(view: View, glyphs: Glyphs) -> list[Cell]:
    totals = view.totals
    if totals.groups is None:
        return [Cell(formatting.NOT_YET)]
    stale = view.groups_stale
    cells = [_aged(Cell(f"{totals.groups:,}", Tone.HEADING), glyphs, stale), Cell(":")]
    for basis, count in totals.bases.items():
        tone = Tone.PLAIN if basis in _GOOD else Tone.WARN
        cells.append(Cell(f"  {count:,} {basis}", Tone.BAD if basis == Basis.UNMAPPED else tone))
    if totals.diverging:
        severity = Severity.BAD if totals.skips else Severity.WARN
        verb = "diverges" if totals.diverging == 1 else "diverge"
        old = glyphs.stale if stale else ""
        text = f"  {glyphs.status[severity]} {old}{totals.diverging:,} {verb}"
        what = [f"{n:,} {w}" for n, w in ((totals.skips, "skipped"), (totals.rereads, "re-read"))]
        amounts = [text for text in what if not text.startswith("0 ")]
        text += f" ({', '.join(amounts)})" if amounts else ""
        cells.append(Cell(text, formatting.tone_of(severity)))
    elif totals.bases:
        cells.append(Cell(f"  {glyphs.stale if stale else ''}none diverges", Tone.MUTED))
    return cells


def _again(view: View, now: float) -> list[Cell]:
    """Return the records that groups would re-read on the target now: k2ktui and MirrorMaker 2."""
    audit = view.audit
    if audit is None:
        failed = view.part(PartName.COMPARISON).error
        return [Cell(formatting.NOT_AVAILABLE if failed else formatting.NOT_YET)]
    ours, theirs = view.again
    stale = formatting.STALE if view.audit_stale else ""
    return [
        Cell("k2ktui "),
        Cell(reread_text(ours), Tone.HEADING),
        Cell("  MirrorMaker 2 "),
        Cell(stale + reread_text(theirs), Tone.BAD if theirs.skipped else Tone.HEADING),
        Cell(
            f"  {formatting.name(audit.flow, 40)}, read {formatting.age(now - audit.taken_at)} ago",
            Tone.MUTED,
        ),
    ]


def _mirror(view: View, now: float, glyphs: Glyphs) -> list[Cell]:
    if not _read(view, PartName.TARGET):
        return [Cell(formatting.NOT_YET)]
    mark = _aged(glyphs.mark(judge_mirror_flow(view, now)), glyphs, view.stale(PartName.TARGET))
    return [mark, Cell("  MirrorMaker 2 copies; k2ktui runs no job of this flow", Tone.MUTED)]


def _job(view: View, now: float, glyphs: Glyphs, run: RunRow | None) -> list[Cell]:
    if run is None:
        text = "none has run yet" if _read(view, PartName.STATE) else formatting.NOT_YET
        return [Cell(text, Tone.MUTED)]
    # This host's own record of a job is not as old as the last heartbeat that was read.
    stale = view.stale(PartName.STATE) and run.job is None
    mark = _aged(glyphs.mark(judge_run(run)), glyphs, stale)
    at = state_time(view, now)
    alive = sum(each.alive(int(at * 1000)) for each in view.runners)
    more = f", {alive} at once" if alive > 1 else ""
    where = f"{formatting.name(run.user, 20)}@{formatting.name(run.host, 40)}"
    if run.heartbeat_at is None:
        return [mark, Cell(f"  {where}  no heartbeat yet")]
    lap, lived = formatting.number(run.lap), formatting.age(max(0.0, now - run.heartbeat_at))
    slots = counted(run.slots, "slot")
    return [mark, Cell(f"  {where}  lap {lap}, {slots}{more}, heartbeat {lived} ago")]


def _cluster(
    view: View, cluster: ClusterView, part: PartName, now: float, glyphs: Glyphs
) -> list[Cell]:
    state, age = view.part(part), view.age(part, now)
    if state.error:
        severity = Severity.BAD
        word = "down"
    elif state.stale:
        severity, word = Severity.UNKNOWN, "silent"
    elif state.taken_at is None:
        severity, word = Severity.INFO, "connecting"
    else:
        severity, word = Severity.OK, "up"
    version = f"Kafka {formatting.name(cluster.version)}" if cluster.version else ""
    old = f"read {formatting.age(age)} ago" if age is not None else ""
    about = [formatting.name(cluster.cluster_id) or formatting.NOT_YET, version, old]
    return [
        glyphs.mark(SeverityLabel(severity, word)),
        Cell("  " + "  ".join(text for text in about if text)),
        Cell(f"  {formatting.name(cluster.address)}", Tone.MUTED),
    ]
