"""Screen 0: the pipelines of a directory, the worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import ClassVar

from textual import on
from textual.widget import Widget

from k2ktui.console.screens.base import ListScreen
from k2ktui.console.visuals.facts import fact, fact_lines
from k2ktui.console.visuals.panel import Panel
from k2ktui.console.visuals.shapes import picture_cell, sparkline
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.console.widgets.text_dialog import TextDialog
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.engine.severity import Severity
from k2ktui.fleet.feed import FleetFeed
from k2ktui.fleet.model import FleetRow
from k2ktui.present import formatting
from k2ktui.present.columns import Column
from k2ktui.present.fleet import WINDOW_S, fleet_columns
from k2ktui.present.formatting import Cell, Line, Tone, tone_of
from k2ktui.present.pair_state import pair_word
from k2ktui.text import counted, safe_text
from k2ktui.watch.model import View

_CHART = 16
_PROBLEMS = 20


class FleetScreen(ListScreen):
    """All pipelines, each in a row."""

    ENTRY: ClassVar[str] = "fleet"
    PANEL: ClassVar[str] = "Pipelines"
    HELP: ClassVar[str | None] = """
        Fleet. Each row is a pipeline file of the directory, the worst first until a sort column is
        chosen. Enter opens the pipeline with all its screens, 0 comes back; :pipeline NAME opens
        one by name.

        Run, lag, behind and RPO are read from heartbeats, positions and log ends. The chart is the
        lag of the last five minutes. Coverage and groups are as a run wrote them last, about once a
        minute; ≈ marks those that are older than three minutes, — those that no run has written
        yet. Rehearsed is the age of the last rehearsal of a failover.

        A file that is not valid, or whose cluster does not answer, is a row with its error: it
        hides and delays no other. On 120 columns and 32 lines, the panel below the table shows all
        problems of the pipeline under the cursor. z shows problems only.
    """

    def make_grid(self) -> Grid[FleetRow]:
        """Create the table of pipelines."""
        return Grid(
            self._columns(),
            key=lambda row: row.file,
            search=lambda row: (
                f"{row.pair.pipeline} {row.pair.source} {row.pair.target} {row.run.word}"
            ),
            problem=lambda row: row.severity >= Severity.WARN,
            order=lambda row: row.order,
            empty=formatting.NOT_YET,
            id="fleet",
        )

    def _columns(self) -> tuple[Column[FleetRow], ...]:
        """Return the columns, with the chart of the lag."""
        glyphs = glyphs_of(self)

        def chart(row: FleetRow) -> Cell:
            since = (row.taken_at or 0.0) - WINDOW_S
            lags = [point.lag_records for point in row.points if point.at >= since]
            tone = tone_of(row.severity) if row.severity >= Severity.WARN else Tone.OK
            return picture_cell(sparkline(lags, _CHART, glyphs, tone))

        columns: list[Column[FleetRow]] = []
        for column in fleet_columns(glyphs, self.session.feed.now):
            columns.append(column)
            if column.id == "behind":
                columns.append(Column("chart", "5 min", chart, width=_CHART, rank=5, picture=True))
        return tuple(columns)

    def side(self) -> Iterable[Widget]:
        """Yield the panel about the pipeline under the cursor."""
        yield Panel("Pipeline", TextLines(id="fleet-row"), id="side")

    def show_view(self, view: View) -> None:
        """Show the rows as they are now."""
        rows = self._rows()
        self.query_one(Grid).show(rows)
        self.query_one("#table", Panel).mark(max((row.severity for row in rows), default=None))
        self.show_side()

    def _rows(self) -> list[FleetRow]:
        feed = self.session.feed
        return list(feed.rows) if isinstance(feed, FleetFeed) else []

    def show_side(self) -> None:
        """Show the pipeline under the cursor, with all its problems."""
        row: FleetRow | None = self.query_one(Grid).current
        panel = self.query_one("#side", Panel)
        if row is None:
            return
        panel.label(safe_text(row.pair.pipeline, 80))
        panel.mark(row.severity)
        lines = self.query_one("#fleet-row", TextLines)
        lines.show(fact_lines(self._facts(row), max(20, lines.size.width)))

    def _facts(self, row: FleetRow) -> Iterable[Line]:
        now = self.session.feed.now()
        yield fact("file", safe_text(row.file, 400))
        yield fact("read", formatting.age(None if row.taken_at is None else now - row.taken_at))
        if word := pair_word(row.pair_state):
            yield fact("workload", word)
        if row.summary is not None:
            yield fact("summary", f"{formatting.age(row.summary_age(now))} old")
            for group in row.summary.groups:
                text = f"{counted(group.count, 'group')} {group.word}"
                yield fact("groups", text, tone_of(group.severity))
        yield ()
        if not row.problems and row.taken_at is not None:
            yield (Cell("No problem.", Tone.MUTED),)
        # Those of groups are above.
        problems = [problem for problem in row.problems if problem.kind != "groups"]
        for problem in problems[:_PROBLEMS]:
            mark = glyphs_of(self).status[problem.severity]
            subject = f"{mark} {safe_text(problem.subject, 80)}: "
            for line in problem.message.splitlines():
                tone = tone_of(problem.severity)
                yield (Cell(subject, tone), Cell(formatting.message(line.strip(), 4_000), tone))
                subject = "  "
        if (more := len(problems) - _PROBLEMS) > 0:
            yield (Cell(f"and {more:,} more", Tone.MUTED),)

    def summary(self) -> Line:
        """Return how many pipelines there are, by the worst of their problems."""
        rows = self._rows()
        unread = sum(row.taken_at is None for row in rows)
        words = Counter(row.severity for row in rows if row.taken_at is not None)
        names = {
            Severity.BAD: "bad",
            Severity.UNKNOWN: "unknown",
            Severity.WARN: "with warnings",
            Severity.INFO: "good",
            Severity.OK: "good",
        }
        by_name: Counter[str] = Counter()
        for severity, count in sorted(words.items(), reverse=True):
            by_name[names[severity]] += count
        parts = [f"{count:,} {name}" for name, count in by_name.items()]
        parts += [f"{unread:,} not read yet"] if unread else []
        return (Cell(f"{counted(len(rows), 'pipeline')}: {', '.join(parts)}"),)

    @on(Grid.Opened)
    def _opened(self, event: Grid.Opened) -> None:
        row: FleetRow = event.row
        if row.is_valid:
            self.console.open_pipeline(row.file)
            return
        lines = [
            formatting.message(line, 4_000)
            for problem in row.problems
            for line in problem.message.splitlines()
        ]
        self.app.push_screen(TextDialog(safe_text(row.file.name, 80), lines))
