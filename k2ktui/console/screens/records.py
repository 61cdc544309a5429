"""Opened from a group: the records around its position on a partition, on both clusters."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from k2ktui.console import cli_equivalent
from k2ktui.console.event_log import EventKind
from k2ktui.console.export import Table
from k2ktui.console.screens.base import ConsoleScreen
from k2ktui.console.screens.partition import PartitionScreen
from k2ktui.console.screens.row import RowDetail
from k2ktui.console.visuals.panel import Panel
from k2ktui.console.widgets.dialog import Dialog
from k2ktui.console.widgets.styled_text import glyphs_of, plain, wrap_lines
from k2ktui.console.widgets.text_lines import TextLines
from k2ktui.engine.access import require_shown
from k2ktui.engine.moves.groups import GroupRow
from k2ktui.engine.severity import Severity
from k2ktui.errors import K2kError
from k2ktui.log.record import KafkaRecord
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.present.records import listing_object, side_by_side
from k2ktui.sync.records.contents import ShownRecord, show_record
from k2ktui.sync.records.pairs import GroupRecords, list_group_records
from k2ktui.sync.records.schema_decoder import open_decoders
from k2ktui.text import safe_message, safe_text
from k2ktui.watch.model import View

_RECORDS = 3
_LONGEST = 400
_COVERED = "contents are masked; v shows them"
_UNCOVERED = "contents are shown; v masks them"

#: What is in the records of a listing, by cluster and record.
Contents = dict[tuple[str, KafkaRecord], ShownRecord]


class RecordsScreen(ConsoleScreen):
    """The last records that a group has read of a partition, and the next ones.

    Args:
        row: the group's position; it has a commit on the source.
        records: what was read already; None reads it.
    """

    ENTRY: ClassVar[str] = "groups"
    HELP: ClassVar[str | None] = """
        Records. The last three records that the group has read of the partition, and the next
        three: on the source, and beside each its copy on the target, which the mapping names. Where
        the group's commit on the target is at another record, the right side has the records around
        that commit instead.

        Offsets without a record are said as what they are: deleted by retention, compacted away,
        of an aborted transaction, a marker, held back by an open transaction, not written yet.

        Keys, headers and values are masked until you press v, and again as soon as you leave the
        screen. v is refused in a read-only session, with console.showRecords: disabled, and in
        production until it is unlocked. While contents are shown, no screenshot is taken; e and y
        have them masked. n reads the records again, o opens the partition.
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("v", "contents", "Show/mask", id="records.contents"),
        Binding("n", "again", "Read again", id="records.again"),
        Binding("o", "partition", "Partition", id="records.partition"),
    ]

    def __init__(self, row: GroupRow, records: GroupRecords | None = None) -> None:
        super().__init__()
        self._row = row
        self._records = records
        self._contents: Contents | None = None
        self._error: K2kError | None = None

    @property
    def crumb(self) -> str:
        """The partition."""
        return f"{self._row.topic[:40]}-{self._row.partition} records"

    @property
    def shows_contents(self) -> bool:
        """Whether contents of records are readable on the screen."""
        return self._contents is not None

    def body(self) -> Iterable[Widget]:
        """Yield what the records are of, and the records."""
        yield TextLines(id="facts")
        yield Panel("Records", RowDetail(), id="whole")

    def on_mount(self) -> None:
        """Read the records, and focus them, as they can be scrolled."""
        self.query_one(RowDetail).focus()
        if self._records is None:
            self.action_again()
        self._show()

    def on_screen_suspend(self) -> None:
        """Mask the contents again, unless only a dialog was opened over them."""
        if not isinstance(self.app.screen, Dialog):
            self._mask()

    def show_view(self, view: View) -> None:
        """Mask the contents if the session may not show them any longer."""
        if self._contents is not None and self.refusal("contents"):
            self._mask()
        self._show()

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        if action != "contents":
            return super().refusal(action)
        flow = self.session.flow
        if flow is None:
            return "this is a recording"
        if not flow.config.console.show_records:
            return "console.showRecords is disabled in the pipeline file"
        return self.session.access.reason

    def action_again(self) -> None:
        """Read the records again; contents are masked."""
        flow, row = self.session.flow, self._row
        if flow is None:
            return
        self._contents, self._error = None, None

        def done(records: GroupRecords) -> None:
            self._records = records
            self._report(EventKind.DONE)
            self._show()

        def failed(error: K2kError) -> None:
            self._error = error
            self._report(EventKind.FAILED, f": {error.message.partition(chr(10))[0]}")
            self._show()

        self.background("records", lambda: list_group_records(flow, row, _RECORDS), done, failed)
        self._show()

    def action_contents(self) -> None:
        """Show what is in the records, or mask it."""
        if self._contents is not None:
            self._mask()
            return
        flow, records, allowed = self.session.flow, self._records, self.session.access
        if flow is None or records is None:
            return
        config = flow.config

        def job() -> Contents:
            require_shown(allowed, enabled=config.console.show_records)
            with open_decoders(config) as decoders:
                return {
                    (side, record): show_record(record, schemas=decoders.get(side))
                    for side, record in _sides(records)
                }

        def done(contents: Contents) -> None:
            if self.is_current and records is self._records:  # it may have been left meanwhile
                self._contents = contents
                self._report(EventKind.DONE, ": contents are shown")
                self._show()

        self.background("contents", job, done)

    def action_partition(self) -> None:
        """Open the partition."""
        self.app.push_screen(PartitionScreen((self._row.topic, self._row.partition)))

    def _mask(self) -> None:
        self._contents = None
        self._show()

    def _report(self, kind: EventKind, more: str = "") -> None:
        row = self._row
        place = f"{row.topic}:{row.partition}@{row.source_offset}"
        command = cli_equivalent.records(self.session.files, place, _RECORDS)
        text = f"records of {safe_text(row.group, 100)} around {safe_text(place)}{more}"
        self.console.events.add(kind, text, command)

    def _show(self) -> None:
        if not (self.is_mounted and self.query(RowDetail) and self.query("#facts")):
            return
        self.query_one("#facts", TextLines).show(self._facts())
        panel = self.query_one("#whole", Panel)
        shown = self.shows_contents
        panel.label("Records", _UNCOVERED if shown else _COVERED)
        panel.mark(Severity.WARN if shown else Severity.BAD if self._error else None)
        self.query_one(RowDetail).show(self._lines)
        self.refresh_bindings()

    def _facts(self) -> list[Line]:
        """Return where the group stands on both clusters, and what is not compared."""
        row = self._row
        commit = "none" if row.target_offset is None else f"{row.target_offset:,}"
        where = safe_text(f"{row.topic}-{row.partition}", _LONGEST)
        text = f"{where}: commit on the source {row.source_offset:,}, on the target {commit}"
        lines: list[Line] = [(Cell(f"{safe_text(row.group, 60)} on {text}"),)]
        if self._records is None:
            return lines
        if self._records.target is not None:
            said = "the commit on the target is at another record; on the right are those around it"
            lines.append((Cell(said, Tone.WARN),))
        notes = self._records.listing.notes
        lines += [(Cell(safe_message(note, _LONGEST), Tone.MUTED),) for note in notes[:2]]
        return lines

    def _lines(self, width: int, *, masked: bool = False) -> list[Line]:
        if self._error is not None:
            return wrap_lines(str(self._error), width, Tone.BAD)
        if self._records is None:
            return [(Cell("The records are read from both clusters.", Tone.INFO),)]
        contents = None if masked else self._contents

        def show(record: KafkaRecord, side: str) -> ShownRecord:
            assert contents is not None
            return contents[side, record]

        records = self._records
        shown = None if contents is None else show
        return side_by_side(records.listing, records.target, width, glyphs_of(self), shown)

    def table(self) -> Table | None:
        """Return the masked lines."""
        return ["records"], [[line] for line in self.text_to_copy().splitlines()]

    def document(self) -> str | None:
        """Return the masked records, as ``k2ktui records --json`` prints them."""
        if self._records is None:
            return None
        return json.dumps(listing_object(self.session.pair.pipeline, self._records.listing))

    def text_to_copy(self) -> str:
        """Return the masked lines."""
        lines = self._lines(max(40, self.size.width - 4), masked=True)
        return "\n".join(plain(line).rstrip() for line in lines)


def _sides(records: GroupRecords) -> Iterable[tuple[str, KafkaRecord]]:
    """Yield the cluster and the record of each listed one."""
    listings = [records.listing, *([records.target] if records.target else [])]
    for pair in (pair for listing in listings for pair in listing.pairs):
        for side, entry in (("source", pair.source), ("target", pair.target)):
            if entry is not None and entry.record is not None:
                yield side, entry.record
