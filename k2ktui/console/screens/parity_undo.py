"""Undo an entry of parity: the journal, its entries and the screen of parity offer it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from k2ktui.console import cli_equivalent
from k2ktui.console.screens.operation import OperationScreen
from k2ktui.console.widgets.confirm import Confirm
from k2ktui.engine.moves.apply import undo_text
from k2ktui.engine.moves.journal import JournalHeader
from k2ktui.engine.parity.model import ParityWrite
from k2ktui.errors import K2kError
from k2ktui.parity import operations
from k2ktui.parity.writer import ParityApplied
from k2ktui.present.formatting import Line
from k2ktui.present.parity import value_text
from k2ktui.text import counted, safe_message, safe_text

_LISTED = 8

Entry = tuple[JournalHeader, list[ParityWrite], str]


async def undo_parity(
    screen: OperationScreen, entry_id: str, done: Callable[[ParityApplied], None]
) -> None:
    """Read an entry, confirm, and undo it; call it in a worker of the group ``ask``.

    Args:
        screen: the screen that acts.
        entry_id: id of the entry.
        done: called with what was undone.
    """
    config, files, may = screen.config, screen.session.files, screen.session.access
    command = cli_equivalent.parity_undo(files, entry_id)

    def job() -> Entry:
        return operations.read_undo(config, entry_id)

    def describe(entry: Entry) -> list[str | Line]:
        header, writes, undone_by = entry
        earlier = [f"Entry {safe_text(undone_by)} has undone it already."] if undone_by else []
        return [
            f"{counted(len(writes), 'value')} on the target get their previous values;",
            f"entry {safe_text(entry_id)}: {safe_text(header.operation)} by "
            f"{safe_text(header.who, 60)}.",
            *earlier,
            "If one of them has changed since, nothing is changed.",
            "",
            *list_writes(writes),
            "",
            command,
        ]

    # An undo has an entry of its own, which can be undone.
    entry = await screen.ask_about(
        Confirm("Undo", None, screen.session.pair.pipeline, "Undo", undoable=True),
        lambda done, failed: screen.act("reading the journal", job, done, failed=failed),
        describe,
    )
    if entry is None:
        return

    def finished(applied: ParityApplied) -> None:
        screen.session.feed.refresh()
        done(applied)

    screen.act(
        f"undoing entry {entry_id}",
        lambda: operations.undo_entry(config, entry_id, files, may),
        finished,
        writes=True,
        command=command,
        result=lambda applied: undo_text(applied.counts),
    )


def list_writes(writes: Sequence[ParityWrite]) -> list[str]:
    """Return the first writes, each as a line of a dialog."""
    lines = [
        f"  {write.item}: {value_text(write.before)} → {value_text(write.after)}"
        for write in writes[:_LISTED]
    ]
    more = [f"  … and {len(writes) - _LISTED:,} more"] if len(writes) > _LISTED else []
    return [safe_message(line) for line in lines] + more


def report_parity_undo(screen: OperationScreen, applied: ParityApplied) -> None:
    """Report the outcome of an undo; a failure stays on the screen."""
    text = f"{undo_text(applied.counts)} Journal entry {applied.id}."
    if applied.complete:
        screen.inform(text, "information")
    else:
        screen.error = K2kError(text, hint="Open the entry: it has the reason of each row.")
