"""Opened from Replication: what a topic's transform does to its newest records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from time import monotonic
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.widget import Widget

from k2ktui.console import cli_equivalent
from k2ktui.console.event_log import EventKind
from k2ktui.console.preview_process import PreviewProcess
from k2ktui.console.screens.base import ListScreen
from k2ktui.console.visuals.panel import Panel
from k2ktui.console.widgets.dialog import Dialog
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.engine.severity import Severity
from k2ktui.errors import K2kError
from k2ktui.present import formatting
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.present.previews import compare_records, is_problem, preview_columns
from k2ktui.replication.preview_records import (
    Preview,
    PreviewRow,
    mask_preview,
    mask_row,
    preview_json,
)
from k2ktui.text import counted, safe_message, safe_text

_RECORDS = 20
_TICK_S = 1.0
_LONGEST = 400
_COVERED = "letters and digits are masked; m shows them"
_UNCOVERED = "contents are shown; m masks them"


class PreviewScreen(ListScreen):
    """The newest records of a topic before and after its transform.

    Args:
        topic: a source topic.
        preview: one that was made already; None makes one.
    """

    ENTRY: ClassVar[str] = "replication"
    PANEL: ClassVar[str] = "Records"
    HELP: ClassVar[str | None] = """
        Preview of a transform. The table lists the newest records of a topic and what happens to
        them; below it is the record under the cursor before and after. Spark runs on this host for
        a few seconds; nothing is written, and no Kafka topic and no file receives a record.

        Letters and digits of keys, values and headers are masked until you press m, and again as
        soon as you leave the screen. While they are shown, no screenshot is taken; e exports them
        masked. Esc cancels. n reads the newest records again.

        The equivalent command is k2ktui transform preview -f FILE --topic TOPIC --mask.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "mask", "Mask/unmask", id="preview.mask"),
        Binding("n", "again", "Read again", id="preview.again"),
        Binding("J,shift+down", "scroll(1)", "Scroll", show=False, id="preview.down"),
        Binding("K,shift+up", "scroll(-1)", "Scroll up", show=False, id="preview.up"),
    ]

    def __init__(self, topic: str, preview: Preview | None = None) -> None:
        super().__init__()
        self._topic = topic
        self._masked = True
        self._preview = preview
        self._error: K2kError | None = None
        self._process: PreviewProcess | None = None
        self._began = 0.0

    @property
    def crumb(self) -> str:
        """The preview."""
        return f"{self._topic[:40]} preview"

    @property
    def shows_contents(self) -> bool:
        """Whether contents of records are readable on the screen."""
        return self._preview is not None and not self._masked

    def body(self) -> Iterable[Widget]:
        """Yield what the transform does, the table, and the record under the cursor."""
        yield TextLines(id="facts")
        yield from super().body()

    def side(self) -> Iterable[Widget]:
        """Yield the record under the cursor; it is below the table, for it has two columns."""
        yield Panel("Record", _Record(id="record"), id="side")

    def make_grid(self) -> Grid[PreviewRow]:
        """Create the table of records."""
        return Grid(
            preview_columns(glyphs_of(self)),
            key=lambda row: (row.source, row.before.offset),
            search=lambda row: f"{row.source.partition} {row.before.offset} {row.outcome}",
            problem=is_problem,
            opens="",
            id="records",
        )

    def on_mount(self) -> None:
        """Run the preview."""
        self.set_interval(_TICK_S, self.show_summary)
        if self._preview is None:
            self.action_again()
        self._show()

    def on_unmount(self) -> None:
        """Cancel the preview if it still runs."""
        if self._process is not None:
            self._process.cancel()

    def on_screen_suspend(self) -> None:
        """Mask the contents again, unless only a dialog was opened over them."""
        if not isinstance(self.app.screen, Dialog):
            self._masked = True
            self._show()

    def on_resize(self) -> None:
        """Draw the record for the new width."""
        self._show()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Gray out what needs records, or must wait until they have been read."""
        if (action == "mask" and self._preview is None) or (action == "again" and self._process):
            return None
        return super().check_action(action, parameters)

    def action_again(self) -> None:
        """Read the newest records and transform them."""
        if self._process is not None:
            return
        self._process = PreviewProcess(self.session.files, self._topic, _RECORDS)
        self._began, self._error, self._preview = monotonic(), None, None
        self.background("preview", self._process.run, self._show_preview, self._show_failure)
        self._report(EventKind.STARTED)
        self._show()

    def _show_preview(self, preview: Preview) -> None:
        self._process, self._preview = None, preview
        self._report(EventKind.DONE)
        self._show()

    def _show_failure(self, error: K2kError) -> None:
        self._process, self._error = None, error
        self._report(EventKind.FAILED, f": {error.message.partition(chr(10))[0]}")
        self._show()

    def _report(self, kind: EventKind, more: str = "") -> None:
        command = cli_equivalent.transform_preview(self.session.files, self._topic)
        text = f"preview of the transform of {safe_text(self._topic)}{more}"
        self.console.events.add(kind, text, command)

    def action_mask(self) -> None:
        """Mask the contents of records, or show them."""
        self._masked = not self._masked
        self._show()

    def action_scroll(self, by: int) -> None:
        """Scroll the record."""
        self.query_one(_Record).scroll_relative(y=by, animate=False)

    def _show(self) -> None:
        if not self.is_mounted:
            return
        grid: Grid[PreviewRow] = self.query_one(Grid)
        preview = self._preview
        self.query_one("#table").display = self._error is None
        self.query_one("#side").display = bool(self._error or (preview and preview.rows))
        grid.empty = "The topic has no records." if preview is not None else ""
        grid.show(preview.rows if preview is not None else ())
        self.show_summary()
        self._show_record()
        self.refresh_bindings()

    @on(Grid.Changed)
    def _show_record(self) -> None:
        row: PreviewRow | None = self.query_one(Grid).current
        lines: list[Line] = []
        if row is not None:
            shown = mask_row(row) if self._masked else row
            lines = compare_records(row, shown, max(30, self.size.width - 6))
        elif self._error is not None:
            texts = str(self._error).splitlines()
            lines = [(Cell(safe_message(text, _LONGEST)),) for text in texts]
        self.query_one(_Record).show(lines)

    def summary(self) -> Line:
        """Return what the transform did."""
        if self._preview is None:
            return ()
        counts = Counter(str(row.outcome) for row in self._preview.rows)
        parts = ", ".join(f"{count:,} {outcome}" for outcome, count in counts.items())
        text = f"{counted(len(self._preview.rows), 'record')}{': ' if parts else ''}{parts}"
        return (Cell(f"{text}. Nothing is written."),)

    def show_summary(self) -> None:
        """Show the state, what the transform does, and whether contents are masked."""
        if not (self.query(Grid) and self.query("#record-lines")):
            return  # they are mounted after the panels
        super().show_summary()
        preview, panel = self._preview, self.query_one("#side", Panel)
        line: Line = ()
        if self._process is not None:
            since = formatting.duration(monotonic() - self._began)
            text = f"Records are read and Spark starts on this host: {since}. Esc cancels."
            line = (Cell(text, Tone.INFO),)
        elif self._error is not None:
            line = (Cell("The preview failed; n tries again.", Tone.BAD),)
        elif preview is not None:
            title = f"{preview.topic} to {preview.target}: {preview.does}"
            line = (Cell(safe_message(title, _LONGEST), Tone.MUTED),)
        self.query_one("#facts", TextLines).show([line] if line else [])
        if self._error is not None:
            panel.label("Why")
            panel.mark(Severity.BAD)
        else:
            panel.label(self._record_title(), _COVERED if self._masked else _UNCOVERED)
            panel.mark(None if self._masked else Severity.WARN)

    def _record_title(self) -> str:
        row: PreviewRow | None = self.query_one(Grid).current
        if row is None:
            return "Record"
        return f"{row.source.topic}-{row.source.partition} at {row.before.offset:,}"

    def document(self) -> str | None:
        """Return the masked records, as ``k2ktui transform preview --mask --json`` prints them."""
        return (
            None if self._preview is None else json.dumps(preview_json(mask_preview(self._preview)))
        )


class _Record(VerticalScroll, can_focus=False):
    """The record under the cursor; scrolls if it is long."""

    def compose(self) -> Iterable[Widget]:
        yield TextLines(id="record-lines")

    def show(self, lines: list[Line]) -> None:
        """Replace the lines."""
        self.query_one("#record-lines", TextLines).show(lines)
