"""Undo an entry of the journal: one that moved groups, or one of parity.

The journal, its entries, a plan for groups and the screen of parity offer it. Call the coroutines
in a worker of the group ``ask``. An undo has an entry of its own, which can be undone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from k2ktui.console import cli_equivalent
from k2ktui.console.screens.operation import OperationScreen
from k2ktui.console.widgets.confirm import Confirm, list_first
from k2ktui.console.widgets.typed_keys import ASK
from k2ktui.engine.moves.apply import undo_text
from k2ktui.engine.moves.journal import JournalHeader
from k2ktui.engine.moves.written import OffsetWrite
from k2ktui.engine.parity.model import ParityWrite
from k2ktui.errors import K2kError
from k2ktui.parity import operations as parity
from k2ktui.parity.writer import ParityApplied
from k2ktui.present.formatting import Line
from k2ktui.present.parity import value_text
from k2ktui.sync import operations
from k2ktui.sync.moves.apply import Applied, OffsetsChanged
from k2ktui.text import counted, safe_text

E = TypeVar("E")
A = TypeVar("A", Applied, ParityApplied)


async def undo_groups(
    screen: OperationScreen,
    entry_id: str,
    done: Callable[[Applied], None],
    other: Callable[[operations.JournalEntry], bool] = lambda _: False,
) -> None:
    """Read an entry, confirm, and undo it.

    Args:
        screen: the screen that acts.
        entry_id: id of the entry.
        done: called with what was undone.
        other: undoes an entry that did not change groups; returns whether it does.
    """
    config, files = screen.config, screen.session.files

    def describe(entry: operations.JournalEntry) -> list[str | Line]:
        if not entry.of_groups and other(entry):
            return []
        try:
            writes = entry.reversal()
        except K2kError as error:
            screen.error = error
            return []
        if not writes:
            screen.error = K2kError(
                f"entry {entry.header.id} applied nothing, so there is nothing to undo"
            )
            return []
        groups = counted(len({write.group for write in writes}), "group")
        by = entry.taken_back_by
        earlier = [f"Entry {safe_text(by)} has undone it already, or a part of it."] if by else []
        return [
            f"{counted(len(writes), 'committed offset')} of {groups} on the {entry.header.side} "
            "are reset to their previous values;",
            _whose(entry.header),
            *earlier,
            "If one of them has moved or its group has got a member since, nothing is changed.",
            "",
            *list_first(writes, lambda w: f"{w.group} {w.topic}-{w.partition}: {_move(w)}"),
            "",
            cli_equivalent.undo(files, entry.header.id),
        ]

    entry = await _ask(screen, lambda: operations.read_entry(config, entry_id), describe)
    if entry is not None:
        _undo_groups(screen, entry, done, skip_moved=False)


def _undo_groups(
    screen: OperationScreen,
    entry: operations.JournalEntry,
    done: Callable[[Applied], None],
    *,
    skip_moved: bool,
) -> None:
    config, files, may = screen.config, screen.session.files, screen.session.access

    def job() -> Applied:
        return operations.undo_entry(config, entry, files, may, skip_moved=skip_moved)

    def failed(error: K2kError) -> None:
        if isinstance(error, OffsetsChanged) and len(error.moved) < len(entry.reversal()):
            screen.run_worker(_undo_others(screen, entry, error, done), group=ASK)

    command = cli_equivalent.undo(files, entry.header.id, skip_moved=skip_moved)
    _act(screen, entry.header.id, job, done, command, failed)


async def _undo_others(
    screen: OperationScreen,
    entry: operations.JournalEntry,
    error: OffsetsChanged,
    done: Callable[[Applied], None],
) -> None:
    """Offer to undo what has not moved since."""
    left = len(entry.reversal()) - len(error.moved)
    lines: list[str | Line] = [
        f"Nothing was changed: {counted(len(error.moved), 'offset')} moved after the entry.",
        *list_first(sorted(error.moved), lambda at: f"{at[0]} {at[1]}-{at[2]}: {error.moved[at]}"),
        f"The other {left:,} can be undone without them.",
        "",
        cli_equivalent.undo(screen.session.files, entry.header.id, skip_moved=True),
    ]
    name = screen.session.pair.pipeline
    dialog = Confirm("Undo the others", lines, name, "Undo others", undoable=True)
    if await screen.ask(dialog):
        _undo_groups(screen, entry, done, skip_moved=True)


async def undo_parity(
    screen: OperationScreen, entry_id: str, done: Callable[[ParityApplied], None]
) -> None:
    """Read an entry of parity, confirm, and undo it; as :func:`undo_groups`."""
    config, files, may = screen.config, screen.session.files, screen.session.access
    command = cli_equivalent.parity_undo(files, entry_id)

    def describe(entry: tuple[JournalHeader, list[ParityWrite], str]) -> list[str | Line]:
        header, writes, by = entry
        earlier = [f"Entry {safe_text(by)} has undone it already."] if by else []
        return [
            f"{counted(len(writes), 'value')} on the target get their previous values;",
            _whose(header),
            *earlier,
            "If one of them has changed since, nothing is changed.",
            "",
            *list_writes(writes),
            "",
            command,
        ]

    def job() -> ParityApplied:
        return parity.undo_entry(config, entry_id, files, may)

    if await _ask(screen, lambda: parity.read_undo(config, entry_id), describe) is not None:
        _act(screen, entry_id, job, done, command)


async def _ask(
    screen: OperationScreen,
    read: Callable[[], E],
    describe: Callable[[E], Sequence[str | Line]],
) -> E | None:
    """Read an entry, and return it if the operator agrees to undo it."""
    return await screen.ask_about(
        Confirm("Undo", None, screen.session.pair.pipeline, "Undo", undoable=True),
        lambda done, failed: screen.act("reading the journal", read, done, failed=failed),
        describe,
    )


def _act(
    screen: OperationScreen,
    entry_id: str,
    job: Callable[[], A],
    done: Callable[[A], None],
    command: str,
    failed: Callable[[K2kError], None] | None = None,
) -> None:
    screen.act(
        f"undoing entry {entry_id}",
        job,
        done,
        failed=failed,
        writes=True,
        command=command,
        result=lambda applied: undo_text(applied.counts),
    )


def report_undo(screen: OperationScreen, applied: Applied | ParityApplied) -> None:
    """Report the outcome of an undo; a failure stays on the screen."""
    text = f"{undo_text(applied.counts)} Journal entry {applied.id}."
    if applied.complete:
        screen.inform(text, "information")
    else:
        screen.error = K2kError(text, hint="Open the entry: it has the reason of each row.")


def list_writes(writes: Sequence[ParityWrite]) -> list[str]:
    """Return the first writes of parity, each as a line of a dialog."""
    return list_first(writes, lambda w: f"{w.item}: {value_text(w.before)} → {value_text(w.after)}")


def _move(write: OffsetWrite) -> str:
    before, after = ("none" if o is None else f"{o:,}" for o in (write.before, write.after))
    return f"{before} → {after}"


def _whose(header: JournalHeader) -> str:
    who = safe_text(header.who, 60)
    return f"entry {safe_text(header.id)}: {safe_text(header.operation)} by {who}."
