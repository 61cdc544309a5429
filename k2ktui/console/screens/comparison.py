"""Opened from Replication: every retained record of both clusters, compared."""

from __future__ import annotations

import json
import time
from threading import Event
from typing import ClassVar

from k2ktui.compare.plan import ComparisonChoice
from k2ktui.compare.run import ComparisonOptions, compare_pipeline, keep_result
from k2ktui.console import cli_equivalent
from k2ktui.console.screens.operation import OperationScreen
from k2ktui.console.visuals.panel import Panel
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import wrap
from k2ktui.engine.compare.outcomes import UNPROVEN, PartResult
from k2ktui.engine.compare.report import ComparisonReport
from k2ktui.engine.severity import Severity
from k2ktui.errors import K2kError
from k2ktui.present import formatting
from k2ktui.present.comparisons import finding_text, partition_columns, unread_text
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.text import counted, safe_text
from k2ktui.watch.model import View

_NOTES = 3
_UNWRITTEN = "the result was not written to the state topic"
_NOT_KEPT = f"this session is read-only: {_UNWRITTEN}"
_HELP = """
    Comparison. Each row is a partition of the source. Every retained record up to the replicated
    position is compared with its copy: key, value, headers and timestamp. Differences are records
    that must not be as they are; below the table, or in the panel beside it from 120 columns on,
    is what they are, with offsets and hashes, never contents. Unproven are records of which
    nothing can be told: compacted or lost, or without a mapping any more.

    Leaving the screen stops the comparison; c in Replication continues it. Nothing is changed but
    one record in the state topic, with the result: Overview has it. k2ktui compare does the same,
    and has a bound for what is read per second; e exports the report.
"""


class ComparisonScreen(OperationScreen):
    """The partitions that were compared, those with differences first; compares once opened."""

    ENTRY: ClassVar[str] = "replication"
    PANEL: ClassVar[str] = "Comparison"
    crumb = "comparison"
    HELP: ClassVar[str | None] = _HELP

    def __init__(self) -> None:
        super().__init__()
        self.report: ComparisonReport | None = None
        self._stopped = Event()

    def make_grid(self) -> Grid[PartResult]:
        """Create the table of partitions."""
        return Grid(
            partition_columns(self._differences),
            key=lambda result: result.source,
            search=lambda result: str(result.source),
            problem=lambda result: self._differences(result) > 0,
            order=lambda result: (not self._differences(result), result.source),
            empty=formatting.NOT_YET,
            opens="Row",
            id="comparison",
        )

    def _differences(self, result: PartResult) -> int:
        return 0 if self.report is None else self.report.differences(result)

    def show_view(self, view: View) -> None:
        """Keep what is shown: it is of one moment."""

    def on_mount(self) -> None:
        """Compare."""
        flow, may = self.flow, self.session.access
        # What was compared before the screen was left is not compared again.
        options = ComparisonOptions(
            ComparisonChoice(lambda _: True), resumes=True, is_stopped=self._stopped.is_set
        )

        def job() -> tuple[ComparisonReport, str]:
            with compare_pipeline(flow, options) as (report, done):
                note = "" if may.writable else _NOT_KEPT
                if may.writable:
                    try:
                        keep_result(flow.config, report)
                    except K2kError as error:
                        return report, f"{_UNWRITTEN}: {error.message}"
                done.forget()
                return report, note

        self.act(
            "comparing every record",
            job,
            self._show_report,
            failed=self._compare_failed,
            command=cli_equivalent.compare(self.session.files),
            result=lambda both: f"{both[0].different:,} different",
        )

    def on_unmount(self) -> None:
        """Stop: hours of reading for nobody would slow down both clusters."""
        self._stopped.set()

    def _compare_failed(self, _: K2kError) -> None:
        self.query_one(Grid).empty = "Not compared: see above."
        self.query_one(Grid).redraw()

    def _show_report(self, made: tuple[ComparisonReport, str]) -> None:
        self.report, note = made
        if note:
            self.inform(note, "warning")
        grid: Grid[PartResult] = self.query_one(Grid)
        grid.empty = "No partition was compared."
        grid.show(tuple(self.report.results.values()))
        self.query_one("#table", Panel).mark(Severity.BAD if self.report.different else Severity.OK)
        self.session.feed.refresh()
        self.show_state()

    def summary(self) -> Line:
        """Return what was found, and when."""
        if self.report is None:
            return (Cell(formatting.NOT_YET if self.busy else "not compared"),)
        report = self.report
        made = time.strftime("%H:%M:%S UTC", time.gmtime(report.ended_at))
        tone = Tone.BAD if report.different else Tone.OK
        return (
            Cell(f"{report.different:,} different", tone),
            Cell(f", {report.unproven:,} unproven of {counted(len(report.results), 'partition')}"),
            Cell(f"  compared {made}", Tone.MUTED),
        )

    def facts(self) -> list[Line]:
        """Return what was not compared, and notes."""
        if self.report is None:
            return []
        left_out = [f"{safe_text(at)}: {why}" for at, why in sorted(self.report.left_out.items())]
        texts = [*self.report.notes, *(f"not compared: {text}" for text in left_out)]
        return self.warnings(texts)[:_NOTES]

    def row_reason(self, row: PartResult) -> list[Line]:
        """Return the first finding."""
        return [(Cell(part),) for line in _findings(row)[:1] for part in self.wrap(line)]

    def row_title(self, row: PartResult) -> str:
        """Return the partition."""
        return str(row.source)

    def row_severity(self, row: PartResult) -> Severity | None:
        """Return how bad what was found there is."""
        return Severity.BAD if self._differences(row) else None

    def row_lines(self, row: PartResult, width: int) -> list[Line]:
        """Return the outcomes of a partition, and its first findings."""
        outcomes: list[Line] = [
            (Cell(f"{count:,} {outcome}", Tone.WARN if outcome in UNPROVEN else Tone.PLAIN),)
            for outcome, count in row.counts.items()
        ]
        findings: list[Line] = [
            (Cell(part),) for line in _findings(row) for part in wrap(line, width)
        ]
        return [*outcomes, (), *findings]

    def document(self) -> str | None:
        """Return the report as JSON."""
        return None if self.report is None else json.dumps(self.report.as_json(), indent=1)

    def text_to_copy(self) -> str:
        """Return the equivalent CLI command."""
        return cli_equivalent.compare(self.session.files)


def _findings(row: PartResult) -> list[str]:
    lines = [finding_text(row.source, finding) for finding in row.findings]
    unread = [unread_text(row)] if row.unread else []
    unproven = [
        f"unproven: {finding_text(row.source, finding)}" for finding in row.unproven_findings
    ]
    return [*lines, *unread, *unproven]
