"""Opened from a drill: its checks as a table, findings first, each with what it has looked at."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import ClassVar

from k2ktui.console.screens.drill_facts import count_checks, judge_check
from k2ktui.console.screens.row import RowsScreen
from k2ktui.console.visuals.facts import fact, fact_lines
from k2ktui.console.visuals.panel import Panel
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.drill.checks.catalog import CATALOG
from k2ktui.engine.drill.checks import CheckResult
from k2ktui.engine.drill.model import Drill
from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.present.columns import Column, name_column, sentence_column
from k2ktui.present.formatting import Cell, Line, Tone, duration, tone_of
from k2ktui.text import safe_message
from k2ktui.watch.model import View

_LABEL = 8
_NONE_YET = "No check has run yet: the first phases run them. They change nothing."


class DrillChecksScreen(RowsScreen):
    """The checks of one drill, the failed ones first.

    Args:
        drill: returns the drill as it is known now.
    """

    ENTRY: ClassVar[str] = "drill"
    PANEL: ClassVar[str] = "Checks"
    HELP: ClassVar[str | None] = """
        The checks of a drill, what needs a look first. Found is what a check has looked at, with
        the figures that decided it. The panel beside the table, which Enter opens on a narrow
        terminal, has when the check passes, how to fix a failure, and which drills it stops.

        fail: the drill does not continue before it is fixed, or accepted with A on the drill;
        where it stops nothing, it is only reported. not checked: the figures could not be read,
        which is neither a failure nor a pass. z hides those that have passed.

        e exports the results as JSON and CSV.
    """

    def __init__(self, drill: Callable[[], Drill | None]) -> None:
        super().__init__()
        self._read = drill

    @property
    def crumb(self) -> str:
        """The checks."""
        return "checks"

    def make_grid(self) -> Grid[CheckResult]:
        """Create the table of checks."""
        glyphs = glyphs_of(self)
        columns: tuple[Column[CheckResult], ...] = (
            Column("result", "result", lambda c: glyphs.mark(self._judge(c)), width=11),
            name_column("id", lambda c: c.id, heading="check", longest=10, width=5),
            Column(
                "title",
                "of",
                lambda c: Cell(safe_message(c.title, 80)),
                lambda c: c.title,
                width=16,
                widest=32,
            ),
            sentence_column(
                "evidence", lambda c: c.evidence, heading="found", longest=500, tone=self._tone
            ),
        )
        return Grid(
            columns,
            key=lambda check: check.id,
            search=lambda check: f"{self._judge(check).word} {check.id} {check.title}",
            problem=lambda check: self._judge(check).severity >= Severity.WARN,
            order=lambda check: (-self._judge(check).severity, check.id),
            empty=_NONE_YET,
            opens="Check",
            id="checks",
        )

    def _judge(self, check: CheckResult) -> SeverityLabel:
        drill = self._read()
        unknown = SeverityLabel(Severity.UNKNOWN, "unknown")
        return unknown if drill is None else judge_check(check, drill)

    def _tone(self, check: CheckResult) -> Tone:
        severity = self._judge(check).severity
        return tone_of(severity) if severity >= Severity.WARN else Tone.PLAIN

    @property
    def _checks(self) -> Sequence[CheckResult]:
        drill = self._read()
        return drill.checks if drill is not None else ()

    def on_mount(self) -> None:
        """Show the checks, even if there is no view yet."""
        self._show()

    def show_view(self, view: View) -> None:
        """Show the checks as they are known now."""
        self._show()

    def _show(self) -> None:
        grid: Grid[CheckResult] = self.query_one(Grid)
        grid.show(list(self._checks))
        worst = max((self._judge(check).severity for check in self._checks), default=None)
        self.query_one("#table", Panel).mark(worst)
        self.show_side()

    def summary(self) -> Line:
        """Return how many have failed, need a look, and have passed."""
        drill = self._read()
        if drill is None or not drill.checks:
            return ()
        stop, look, passed = count_checks(drill)
        counts = ((stop, "failed, blocking"), (look, "to look at"), (passed, "passed"))
        return (Cell(", ".join(f"{count:,} {word}" for count, word in counts if count)),)

    def row_title(self, check: CheckResult) -> str:
        """Return the id and the title of a check."""
        return safe_message(f"{check.id} {check.title}", 80)

    def row_severity(self, check: CheckResult) -> Severity | None:
        """Return how bad a check is."""
        return self._judge(check).severity

    def row_lines(self, check: CheckResult, width: int) -> list[Line]:
        """Return what a check looks at, found, and stops."""
        verdict = self._judge(check)
        facts = [
            ("Passes", _condition(check.id), Tone.PLAIN),
            ("Found", safe_message(check.evidence), self._tone(check)),
            ("Fix", safe_message(check.hint), Tone.HEADING),
            ("Stops", _stops(check.id), Tone.MUTED),
            ("Took", duration(check.seconds, tenths=True), Tone.MUTED),
        ]
        lines: list[Line] = [(glyphs_of(self).mark(verdict),)]
        for label, text, tone in facts:
            if text:
                lines += [(), *fact_lines([fact(label, text, tone, _LABEL)], width)]
        return lines

    def document(self) -> str | None:
        """Return the results as JSON, as in the report of the drill."""
        return json.dumps([check.as_json() for check in self._checks])


def _condition(check: str) -> str:
    """Return when a check passes, as its own documentation says; "" if this release has none."""
    known = CATALOG.get(check)
    text = " ".join(((known.ask.__doc__ if known else "") or "").split())
    return text.removeprefix("Pass ")


def _stops(check: str) -> str:
    """Return which kinds of drills a failure stops."""
    known = CATALOG.get(check)
    if known is None:
        return ""
    kinds = ", ".join(sorted(str(kind) for kind in known.blocks))
    return kinds if kinds else "nothing: a failure is only reported"
