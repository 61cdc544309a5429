"""Screen 7: the journal of applied and undone changes: who, when, from where, before and after."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType

from k2ktui.console.screens.operation import OperationScreen
from k2ktui.console.screens.positions_plan import MovesScreen
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of
from k2ktui.engine.applying import results_text, undo_text
from k2ktui.engine.journal import JournalHeader
from k2ktui.engine.state import SourcePartition
from k2ktui.errors import K2kError
from k2ktui.present import formatting
from k2ktui.present.formatting import Cell, Line, Tone
from k2ktui.present.journal import (
    BEGUN,
    EntryRow,
    entry_columns,
    entry_row_columns,
    entry_time,
    is_bad,
    judge_entry,
    operation_text,
)
from k2ktui.sync import operations
from k2ktui.sync.apply import Applied
from k2ktui.sync.positions import CLEAR, PASS, SET
from k2ktui.text import safe_message, safe_text
from k2ktui.watch.model import PartName, View
from k2ktui.watch.severity import Severity, SeverityLabel

_HELP = """
    Journal. Changes that were applied and undone on the target: who made them, when and from where.
    It is kept on the target, so every host shows the same entries. Enter opens an entry, with every
    committed offset before and after, and its outcome.

    U undoes an entry after you have typed the pipeline's name. If a group has moved since, or has
    got a member, nothing is changed, and the console offers to undo the others. An entry that moved
    the pipeline's own positions is undone by a plan for positions.

    not ended: the writer of the entry died, lost its connection, or is still writing. Open the
    entry to see which rows are in effect now. It can be undone like any other entry.

    e exports what is shown as JSON, as k2ktui journal prints it, and as CSV.
"""


class JournalScreen(OperationScreen):
    """The journal entries, newest first."""

    ENTRY: ClassVar[str] = "journal"
    HELP: ClassVar[str | None] = _HELP
    BINDINGS: ClassVar[list[BindingType]] = [Binding("U", "undo", "Undo", id="journal.undo")]
    CHANGES: ClassVar[frozenset[str]] = frozenset({"undo"})

    def __init__(self) -> None:
        super().__init__()
        self._undone: dict[str, JournalHeader] = {}

    def make_grid(self) -> Grid[JournalHeader]:
        """Create the table of entries."""
        glyphs = glyphs_of(self)
        return Grid(
            entry_columns(glyphs, self._undone),
            key=lambda entry: entry.id,
            search=lambda entry: (
                f"{entry.id} {entry.who} {entry.operation} {self.verdict(entry).word}"
            ),
            problem=lambda entry: self.verdict(entry).severity >= Severity.WARN,
            id="journal",
        )

    def show_view(self, view: View) -> None:
        """Show the view's journal."""
        # The columns read the same dictionary.
        self._undone.clear()
        self._undone.update((entry.undoes, entry) for entry in view.journal if entry.undoes)
        grid = self.query_one(Grid)
        read = view.part(PartName.STATE).taken_at is not None
        grid.empty = "Nothing has been applied yet." if read else formatting.NOT_YET
        grid.show(view.journal)

    def verdict(self, entry: JournalHeader) -> SeverityLabel:
        """Judge an entry by its outcome."""
        return judge_entry(entry, is_undone=entry.id in self._undone)

    def summary(self) -> Line:
        """Return the number of entries."""
        return (Cell(f"entries: {self.query_one(Grid).total:,}, kept on the target"),)

    def detail(self) -> list[Line]:
        """Return the entry under the cursor."""
        entry = self.query_one(Grid).current
        return [] if entry is None else describe_entry(entry, self._undone.get(entry.id))

    def document(self) -> str | None:
        """Return the journal in the JSON that ``k2ktui journal`` prints."""
        rows: list[JournalHeader] = list(self.query_one(Grid).rows)
        return json.dumps(operations.journal_json(rows))

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        found = super().refusal(action)
        if found or action != "undo":
            return found
        entry: JournalHeader | None = self.query_one(Grid).current if self.is_mounted else None
        return "there is no entry" if entry is None else _done(entry, self._undone.get(entry.id))

    def action_undo(self) -> None:
        """Undo the entry under the cursor."""
        entry = self.query_one(Grid).current
        if entry is not None:
            self.undo(entry.id)

    def other_undo(self, entry: operations.JournalEntry) -> bool:
        """Plan to restore the pipeline's own positions."""
        return plan_reversal(self, entry)

    def undone(self, applied: Applied) -> None:
        """Report the outcome of an undo."""
        report_undo(self, applied)

    @on(Grid.Opened)
    def _opened(self, event: Grid.Opened) -> None:
        self.app.push_screen(EntryScreen(event.row, self._undone.get(event.row.id)))


class EntryScreen(OperationScreen):
    """One entry: each committed offset before and after.

    Args:
        header: the entry.
        undone: the entry that undid it, if there is one.
    """

    ENTRY: ClassVar[str] = "journal"
    HELP: ClassVar[str | None] = _HELP
    BINDINGS: ClassVar[list[BindingType]] = [Binding("U", "undo", "Undo", id="entry.undo")]
    CHANGES: ClassVar[frozenset[str]] = frozenset({"undo"})

    def __init__(self, header: JournalHeader, undone: JournalHeader | None = None) -> None:
        super().__init__()
        self._header, self._undone = header, undone
        self._entry: operations.JournalEntry | None = None

    @property
    def crumb(self) -> str:
        """The entry's id."""
        return self._header.id

    def make_grid(self) -> Grid[EntryRow]:
        """Create the table of the entry's rows."""
        return Grid(
            entry_row_columns(),
            key=lambda line: (line[0], line[1].topic, line[1].partition),
            search=lambda line: f"{line[0]} {line[1].topic}-{line[1].partition} {line[1].result}",
            problem=lambda line: is_bad(line[1]),
            order=lambda line: (not is_bad(line[1]), line[0], line[1].topic, line[1].partition),
            empty=formatting.NOT_YET,
            opens="",
            id="entry",
        )

    def on_mount(self) -> None:
        """Read the entry's rows."""
        self._read()

    def _read(self) -> None:
        if self.session.flow is None:
            self.error = K2kError("this is a recording, which holds no rows of the journal")
            self.show_state()
            return
        config, entry = self.config, self._header.id
        self.act("reading the journal", lambda: operations.read_entry(config, entry), self._found)

    def _found(self, entry: operations.JournalEntry) -> None:
        self._entry = entry
        grid: Grid[Any] = self.query_one(Grid)
        grid.empty = "The entry changed nothing."
        grid.show(entry.lines)

    def summary(self) -> Line:
        """Return the entry's id, kind and counts."""
        counts = safe_message(results_text(self._header.counts))
        return (
            Cell(f"entry {safe_text(self._header.id)}", Tone.HEADING),
            Cell(f"  {operation_text(self._header)}  {counts}"),
            *([Cell(f"; found now: {self._now()}", Tone.WARN)] if self._is_unfinished else []),
        )

    @property
    def _is_unfinished(self) -> bool:
        return self._entry is not None and BEGUN in self._header.counts

    def _now(self) -> str:
        lines = self._entry.lines if self._entry is not None else []
        words = Counter(row.result.partition(": ")[0] for _, row in lines)
        return ", ".join(f"{count:,} {safe_text(word)}" for word, count in sorted(words.items()))

    def facts(self) -> list[Line]:
        """Return who made the change, when and from where."""
        who, _, *undo_lines = describe_entry(self._header, self._undone)
        return [who, *undo_lines]

    def detail(self) -> list[Line]:
        """Return all details of the row under the cursor."""
        line: EntryRow | None = self.query_one(Grid).current
        if line is None:
            return []
        group, row = line
        # The metadata of a position is its whole record.
        own = self._header.operation in (SET, CLEAR, PASS)
        before = _with_metadata(row.before, "" if own else row.before_metadata)
        after = _with_metadata(row.after, "" if own else row.after_metadata)
        return [
            (Cell(safe_text(group, 200), Tone.HEADING),),
            (Cell(f"{safe_text(row.topic, 200)}-{row.partition}  {before} → {after}"),),
            *((Cell(part),) for part in self.wrap(row.result)),
        ]

    def document(self) -> str | None:
        """Return the entry in the JSON that the CLI prints."""
        return None if self._entry is None else json.dumps(self._entry.as_json())

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        found = super().refusal(action)
        if found or action != "undo":
            return found
        if self._entry is None:
            return "the entry has not been read"
        return _done(self._header, self._undone)

    def action_undo(self) -> None:
        """Undo the entry."""
        self.undo(self._header.id)

    def other_undo(self, entry: operations.JournalEntry) -> bool:
        """Plan to restore the pipeline's own positions."""
        return plan_reversal(self, entry)

    def undone(self, applied: Applied) -> None:
        """Report the outcome of an undo."""
        report_undo(self, applied)


JournalScreen.DETAILS = (EntryScreen,)


def plan_reversal(screen: OperationScreen, entry: operations.JournalEntry) -> bool:
    """Show the plan that restores positions; return False if the entry has no earlier positions."""
    before = {
        SourcePartition(row.topic, row.partition): row.before
        for _, row in entry.lines
        if row.before is not None
    }
    if not before or entry.header.operation not in (SET, CLEAR):
        return False
    screen.app.push_screen(MovesScreen(lambda known: known.plan_set(before)))
    return True


def report_undo(screen: OperationScreen, applied: Applied) -> None:
    """Report the outcome of an undo; a failure stays on the screen."""
    text = f"{undo_text(applied.counts)} Journal entry {applied.id}."
    if applied.complete:
        screen.inform(text, "information")
    else:
        screen.error = K2kError(text, hint="Open the entry: it has the reason of each row.")


def _done(entry: JournalHeader, undone: JournalHeader | None) -> str:
    """Return that an entry was undone completely; empty if it was not."""
    if undone is None or dict(undone.counts) != {"applied": entry.counts.get("applied")}:
        return ""
    return f"entry {safe_text(undone.id)} has undone it completely"


def describe_entry(entry: JournalHeader, undone: JournalHeader | None) -> list[Line]:
    """Return who made the change, when and from where, and whether it was undone."""
    who, _, host = entry.who.rpartition("@")
    found: list[Line] = [
        (
            Cell(f"{entry_time(entry.at_ms)} UTC  ", Tone.HEADING),
            Cell(f"by {safe_text(who or host, 60)} from {safe_text(host, 80)}"),
            Cell(f"  plan {safe_text(entry.plan)}" if entry.plan else "", Tone.MUTED),
        ),
        (Cell(f"{operation_text(entry)}: {safe_message(results_text(entry.counts))}"),),
    ]
    if undone is not None:
        by = f"by {safe_text(undone.who, 80)}, entry {safe_text(undone.id)}"
        found.append((Cell(f"undone {entry_time(undone.at_ms)} UTC {by}"),))
    return found


def _with_metadata(offset: int | None, metadata: str) -> str:
    text = "none" if offset is None else f"{offset:,}"
    shown = safe_text(metadata.rstrip("\0"), 120)
    return f"{text} (metadata “{shown}”)" if shown else text
