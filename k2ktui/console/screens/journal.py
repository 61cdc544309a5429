"""Screen 7: the journal of applied and undone changes: who, when, from where, before and after."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from typing import Any, ClassVar

from rich.cells import cell_len
from textual import on, work
from textual.binding import Binding, BindingType

from k2ktui.console.screens.operation import OperationScreen
from k2ktui.console.screens.positions_plan import MovesScreen
from k2ktui.console.screens.undo import report_undo, undo_groups, undo_parity
from k2ktui.console.visuals.facts import fact, fact_lines
from k2ktui.console.visuals.panel import Panel, is_wide
from k2ktui.console.widgets.grid import Grid
from k2ktui.console.widgets.styled_text import glyphs_of, wrap_lines
from k2ktui.console.widgets.typed_keys import ASK
from k2ktui.engine.moves.apply import results_text
from k2ktui.engine.moves.journal import PARITY, EntryRow, JournalHeader, JournalRow
from k2ktui.engine.moves.positions import ACCEPT, CLEAR, PASS, RECOVER, SET
from k2ktui.engine.records.state import SourcePartition
from k2ktui.engine.severity import Severity, SeverityLabel
from k2ktui.errors import K2kError
from k2ktui.present import formatting
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone
from k2ktui.present.journal import (
    BEGUN,
    entry_columns,
    entry_row_columns,
    entry_time,
    is_bad,
    judge_entry,
    operation_text,
    row_place,
    row_values,
)
from k2ktui.sync import operations
from k2ktui.text import safe_message, safe_text
from k2ktui.watch.model import PartName, View

_ERROR_LINES = 6
_LABEL, _ROW_LABEL = 6, 11
# Entries whose rows are kept in memory, for the panel beside the table.
_KEPT = 50
NOTHING_APPLIED = "Nothing was applied yet. 4 moves groups; it is kept here."
# What "not ended" means, where the word stands.
_UNFINISHED = "its writer died or still writes: the rows say what is in effect"
_HELP = """
    Journal. Changes that were applied and undone on the target: who made them, when and from where.
    It is kept on the target, so every host shows the same entries. From 120 columns on, the panel
    beside the table shows the entry under the cursor, with its offsets before and after. Enter
    opens an entry, with every committed offset and its outcome.

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
    PANEL: ClassVar[str] = "Journal"
    HELP: ClassVar[str | None] = _HELP
    BINDINGS: ClassVar[list[BindingType]] = [Binding("U", "undo", "Undo", id="journal.undo")]
    CHANGES: ClassVar[frozenset[str]] = frozenset({"undo"})

    def __init__(self) -> None:
        super().__init__()
        self._undone: dict[str, JournalHeader] = {}
        # Whether an entry has a plan: a column without one takes the room of others.
        self._has_plans = True
        # The rows of entries that have been read, or why they could not be.
        self._rows: dict[tuple[str, str], operations.JournalEntry] = {}
        self._unreadable: tuple[str, str] = ("", "")

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
        grid.empty = NOTHING_APPLIED if read else formatting.NOT_YET
        has_plans = any(entry.plan for entry in view.journal)
        if has_plans != self._has_plans:
            self._has_plans = has_plans
            columns = entry_columns(glyphs_of(self), self._undone)
            grid.show_columns([c for c in columns if has_plans or c.id != "plan"])
        grid.show(view.journal)
        bad = [self.verdict(entry).severity for entry in view.journal]
        self.query_one("#table", Panel).mark(max(bad, default=None))
        self.show_side()

    def verdict(self, entry: JournalHeader) -> SeverityLabel:
        """Judge an entry by its outcome."""
        return judge_entry(entry, is_undone=entry.id in self._undone)

    def summary(self) -> Line:
        """Return the number of entries."""
        total = self.query_one(Grid).total
        return (Cell(f"entries: {total:,}, kept on the target"),) if total else ()

    def row_reason(self, row: JournalHeader) -> list[Line]:
        """Return by what an entry was undone."""
        return describe_entry(row, self._undone.get(row.id))[2:]

    def row_title(self, row: JournalHeader) -> str:
        """Return the id of an entry."""
        return f"Entry {row.id}"

    def row_lines(self, row: JournalHeader, width: int) -> list[Line]:
        """Return an entry: who, when, and its offsets before and after."""
        mark = glyphs_of(self).mark(self.verdict(row))
        undone = self._undone.get(row.id)
        why_not = super().refusal("undo") or _done(row, undone)
        lines = entry_lines(row, mark, undone, width, why_not)
        height = self.query_one("#side").content_size.height or self.size.height
        return [*lines, (), *self._offsets(row, width, max(6, height - len(lines) - 2))]

    def _offsets(self, entry: JournalHeader, width: int, most: int) -> list[Line]:
        if self.session.flow is None:
            return [(Cell("A recording holds no offsets of the journal.", Tone.MUTED),)]
        known = self._rows.get(_key(entry))
        if known is not None:
            return offset_lines(known, width, most, glyphs_of(self))
        if self._unreadable[0] == entry.id:
            return wrap_lines(self._unreadable[1], width, Tone.WARN)[:_ERROR_LINES]
        return [(Cell(f"Offsets are being read {formatting.NOT_YET}", Tone.MUTED),)]

    def show_side(self) -> None:
        """Show the entry under the cursor; its offsets are read once, while it is shown."""
        super().show_side()
        entry: JournalHeader | None = self.current if self.query(Grid) else None
        if entry is None or self.session.flow is None or not self.is_current:
            return
        if _key(entry) in self._rows or self._unreadable[0] == entry.id or not is_wide(self):
            return
        config, name = self.config, entry.id

        def done(read_entry: operations.JournalEntry) -> None:
            while len(self._rows) >= _KEPT:
                del self._rows[next(iter(self._rows))]
            self._rows[_key(entry)] = read_entry
            self.show_side()

        def failed(error: K2kError) -> None:
            self._unreadable = (name, str(error))
            self.show_side()

        self.background("entry", lambda: operations.read_entry(config, name), done, failed)

    def document(self) -> str | None:
        """Return the journal in the JSON that ``k2ktui journal`` prints."""
        rows: list[JournalHeader] = list(self.query_one(Grid).rows)
        return json.dumps(operations.journal_json(rows))

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        why = super().refusal(action)
        if why or action != "undo":
            return why
        entry: JournalHeader | None = self.current if self.is_mounted else None
        return "there is no entry" if entry is None else _done(entry, self._undone.get(entry.id))

    @work(group=ASK)
    async def action_undo(self) -> None:
        """Undo the entry under the cursor."""
        entry: JournalHeader | None = self.current
        if entry is not None:
            await _undo(self, entry.id)

    @on(Grid.Opened)
    def _opened(self, event: Grid.Opened) -> None:
        event.prevent_default()  # the base would open what is beside the table
        self.app.push_screen(EntryScreen(event.row, self._undone.get(event.row.id)))


class EntryScreen(OperationScreen):
    """One entry: each committed offset before and after.

    Args:
        header: the entry.
        undone: the entry that undid it, if there is one.
    """

    ENTRY: ClassVar[str] = "journal"
    HELP: ClassVar[str | None] = _HELP
    PANEL: ClassVar[str] = "Offsets"
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
            key=lambda line: (line[0], line[1].partition, row_place(line)),
            search=lambda line: f"{line[0]} {row_place(line)} {line[1].result}",
            problem=lambda line: is_bad(line[1]),
            order=lambda line: (not is_bad(line[1]), line[0], line[1].topic, line[1].partition),
            empty=formatting.NOT_YET,
            opens="Row",
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
        )

    def facts(self) -> list[Line]:
        """Return who made the change, when and from where, and what of it is in effect now."""
        who, _, *others = describe_entry(self._header, self._undone)
        lines = [who, *others]
        if self._entry is not None and BEGUN in self._header.counts:
            words = Counter(row.result.partition(": ")[0] for _, row in self._entry.lines)
            now = ", ".join(f"{count:,} {safe_text(word)}" for word, count in sorted(words.items()))
            lines.append((Cell(f"found now: {now}", Tone.WARN),))
        return lines

    def row_reason(self, line: EntryRow) -> list[Line]:
        """Return the result of a row, which the table may cut."""
        return [(Cell(part),) for part in self.wrap(line[1].result)]

    def row_title(self, line: EntryRow) -> str:
        """Return the group and the partition."""
        return f"{line[0]} {row_place(line)}"

    def row_lines(self, line: EntryRow, width: int) -> list[Line]:
        """Return all details of a row."""
        group, row = line
        if self._header.operation.startswith(PARITY):
            values = row_values(line)
            parts = [
                ("Kind", safe_text(group, 200), Tone.PLAIN),
                ("Value", row_place(line), Tone.HEADING),
                ("Before", values[0], Tone.HEADING),
                ("After", values[1], Tone.HEADING),
                ("Result", safe_message(row.result), Tone.BAD if is_bad(row) else Tone.OK),
            ]
            return fact_lines((fact(*part, _ROW_LABEL) for part in parts), width)
        # The metadata of a position is its whole record.
        own = self._header.operation in (SET, CLEAR, PASS, RECOVER, ACCEPT)
        before = _with_metadata(row.before, "" if own else row.before_metadata)
        after = _with_metadata(row.after, "" if own else row.after_metadata)
        facts = [
            ("Group", safe_text(group, 200), Tone.PLAIN),
            ("Partition", f"{safe_text(row.topic, 200)}-{row.partition}", Tone.PLAIN),
            ("Before", before, Tone.HEADING),
            ("After", after, Tone.HEADING),
            ("Jump", _jump(row), Tone.PLAIN),
            ("Result", safe_message(row.result), Tone.BAD if is_bad(row) else Tone.OK),
        ]
        return fact_lines((fact(*parts, _ROW_LABEL) for parts in facts), width)

    def document(self) -> str | None:
        """Return the entry in the JSON that the CLI prints."""
        return None if self._entry is None else json.dumps(self._entry.as_json())

    def refusal(self, action: str) -> str:
        """Return why an action is unavailable now."""
        why = super().refusal(action)
        if why or action != "undo":
            return why
        if self._entry is None:
            return "the entry has not been read"
        return _done(self._header, self._undone)

    @work(group=ASK)
    async def action_undo(self) -> None:
        """Undo the entry."""
        await _undo(self, self._header.id)


JournalScreen.DETAILS = (EntryScreen,)


async def _undo(screen: OperationScreen, entry_id: str) -> None:
    """Undo an entry of groups; one of parity or of positions in its own way."""
    report = partial(report_undo, screen)

    def other(entry: operations.JournalEntry) -> bool:
        if entry.header.operation.startswith(PARITY):
            screen.run_worker(undo_parity(screen, entry_id, report), group=ASK)
            return True
        before = {
            SourcePartition(row.topic, row.partition): row.before
            for _, row in entry.lines
            if row.before is not None
        }
        if not before or entry.header.operation not in (SET, CLEAR):
            return False
        # Later: the dialog that reads the entry closes first.
        plan = MovesScreen(lambda known: known.plan_set(before))
        screen.app.call_later(screen.app.push_screen, plan)
        return True

    await undo_groups(screen, entry_id, report, other)


def _key(entry: JournalHeader) -> tuple[str, str]:
    """Return the cache key of an entry's rows: an interrupted entry may be completed later."""
    return entry.id, results_text(entry.counts)


def _done(entry: JournalHeader, undone: JournalHeader | None) -> str:
    """Return that an entry was undone completely; empty if it was not."""
    if undone is None or dict(undone.counts) != {"applied": entry.counts.get("applied")}:
        return ""
    return f"entry {safe_text(undone.id)} has undone it completely"


def describe_entry(entry: JournalHeader, undone: JournalHeader | None) -> list[Line]:
    """Return who made the change, when and from where, and whether it was undone."""
    who, _, host = entry.who.rpartition("@")
    lines: list[Line] = [
        (
            Cell(f"{entry_time(entry.at_ms)} UTC  ", Tone.HEADING),
            Cell(f"by {safe_text(who or host, 60)} from {safe_text(host, 80)}"),
            Cell(f"  plan {safe_text(entry.plan)}" if entry.plan else "", Tone.MUTED),
        ),
        (Cell(f"{operation_text(entry)}: {safe_message(results_text(entry.counts))}"),),
    ]
    if BEGUN in entry.counts:
        lines.append((Cell(_UNFINISHED, Tone.WARN),))
    if undone is not None:
        by = f"by {safe_text(undone.who, 80)}, entry {safe_text(undone.id)}"
        lines.append((Cell(f"undone {entry_time(undone.at_ms)} UTC {by}"),))
    return lines


def entry_lines(
    entry: JournalHeader, mark: Cell, undone: JournalHeader | None, width: int, why_not: str
) -> list[Line]:
    """Return who made a change, when and from where, what became of it, and its undo."""
    who, _, host = entry.who.rpartition("@")
    facts = [
        ("When", f"{entry_time(entry.at_ms)} UTC", Tone.PLAIN),
        ("Who", f"{safe_text(who or host, 60)} from {safe_text(host, 80)}", Tone.HEADING),
        ("What", operation_text(entry), Tone.PLAIN),
        ("Plan", safe_text(entry.plan), Tone.PLAIN),
        ("Rows", safe_message(results_text(entry.counts)), Tone.PLAIN),
        ("", _UNFINISHED if BEGUN in entry.counts else "", Tone.WARN),
    ]
    if undone is not None:
        by = f"{safe_text(undone.who, 80)}, entry {safe_text(undone.id)}"
        facts.append(("Undo", f"undone {entry_time(undone.at_ms)} UTC by {by}", Tone.INFO))
    elif why_not:
        facts.append(("Undo", why_not, Tone.MUTED))
    else:
        facts.append(("Undo", "not undone; U undoes it", Tone.PLAIN))
    lines: list[Line] = [(Cell(f"{'State':<{_LABEL}}", Tone.MUTED), mark)]
    return [*lines, *fact_lines((fact(*parts, _LABEL) for parts in facts), width)]


def offset_lines(
    entry: operations.JournalEntry, width: int, most: int, glyphs: Glyphs
) -> list[Line]:
    """Return an entry's offsets before and after, the bad ones first with the reason."""
    rows = sorted(entry.lines, key=lambda line: not is_bad(line[1]))
    if not rows:
        return [(Cell("It changed no offset.", Tone.MUTED),)]
    lines: list[Line] = [(Cell("Offsets before → after", Tone.MUTED),)]
    group = ""
    for shown, (name, row) in enumerate(rows):
        heading: list[Line] = [(Cell(safe_text(name, 200), Tone.HEADING),)]
        more = [*(heading if name != group else []), *_row_lines((name, row), width, glyphs)]
        is_last = shown + 1 == len(rows)
        if len(lines) + len(more) > most - (not is_last):
            lines.append((Cell(f"and {len(rows) - shown:,} more: Enter", Tone.MUTED),))
            break
        lines += more
        group = name
    return lines


def _row_lines(line: EntryRow, width: int, glyphs: Glyphs) -> list[Line]:
    """Return a partition and its move on one line, or on two; and why it is not what was meant."""
    row, bad = line[1], is_bad(line[1])
    sign, tone = glyphs.status[Severity.BAD if bad else Severity.OK], Tone.BAD if bad else Tone.OK
    moved, where = " → ".join(row_values(line)), safe_text(row_place(line), 200)
    mark, move = Cell(f"{sign} ", tone), Cell(moved)
    gap = width - 2 - cell_len(where) - cell_len(moved)
    if gap >= 2:
        lines: list[Line] = [(mark, Cell(where), Cell(" " * gap), move)]
    else:
        lines = [(mark, Cell(where)), (Cell(" " * max(0, width - cell_len(moved))), move)]
    if bad:
        lines.append((Cell(f"  {safe_text(row.result, 400)}", Tone.BAD),))
    return lines


def _jump(row: JournalRow) -> str:
    """Return by how many offsets a commit was moved, and which way."""
    if row.before is None or row.after is None or row.before == row.after:
        return ""
    way = "forward" if row.after > row.before else "back"
    return f"{abs(row.after - row.before):,} offsets {way}"


def _with_metadata(offset: int | None, metadata: str) -> str:
    text = "none" if offset is None else f"{offset:,}"
    shown = safe_text(metadata.rstrip("\0"), 120)
    return f"{text} (metadata “{shown}”)" if shown else text
