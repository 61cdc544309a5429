"""Tables: columns that do not fit the terminal are left out, names are safe, unknown is a dash.

Output that does not go to a terminal has all rows and columns, untruncated.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

import click

from k2ktui.cli.terminal.notes import print_note
from k2ktui.config.model import PipelineConfig
from k2ktui.present.columns import SENTENCE, Column
from k2ktui.text import safe_message

if TYPE_CHECKING:
    from rich.console import Console

    from k2ktui.engine.drill.pair_state import PairState

T = TypeVar("T")

MOST = 500  # rows that are still useful in a terminal's scrollback
# Cells between two columns, and those of a sentence, which is wrapped.
_BETWEEN, _SENTENCE = 3, 24
_UNBOUNDED = 1_000_000


def output() -> Console:
    """Return the console for tables on standard output; without a terminal, its width is unlimited.

    Rich also takes a pipe for a terminal, if ``FORCE_COLOR`` or ``TTY_COMPATIBLE`` is set.
    """
    from rich.console import Console  # Rich is a tenth of a second, which not all commands need

    class _Console(Console):
        def on_broken_pipe(self) -> None:
            """Leave it to the command line; Rich would end the program with 1, findings."""
            raise

    console = _Console()
    if console.is_terminal and console.file.isatty():
        return console
    return _Console(width=_UNBOUNDED, soft_wrap=True, force_terminal=False)


def print_table(
    title: str,
    columns: Sequence[Column[T]],
    rows: Iterable[T],
    console: Console | None = None,
    *,
    most: int | None = None,
) -> None:
    """Print rows as a table.

    Args:
        title: title of the table.
        columns: the columns to show.
        rows: all rows.
        console: console to print to, standard output by default.
        most: maximum number of rows on a terminal; a line below gives the number left out.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    out = console or output()
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    every = list(rows)
    limit = most if out.is_terminal else None
    cells = {
        column.id: [_safe(column.cell(row).text) for row in every[:limit]] for column in columns
    }
    shown = _fitting(columns, cells, out.width)
    for column in shown:
        table.add_column(
            column.heading,
            justify="right" if column.right else "left",
            no_wrap=column.right or not out.is_terminal,
            overflow="fold",  # names that differ at their end must not look the same
        )
    for texts in zip(*(cells[column.id] for column in shown), strict=True):
        table.add_row(*map(Text, texts))
    out.print(table)
    if len(shown) < len(columns):
        left_out = ", ".join(column.heading for column in columns if column not in shown)
        out.print(Text(f"not shown: {left_out}; a wider terminal or --json shows them"))
    if limit is not None and len(every) > limit:
        out.print(Text(f"… and {len(every) - limit:,} more; --json prints all of them"))


def _fitting(
    columns: Sequence[Column[T]], cells: Mapping[str, Sequence[str]], width: int
) -> list[Column[T]]:
    """Return the columns that fit side by side, uncut; those of the highest rank go first.

    Sentences stay: they are wrapped.
    """
    from rich.cells import cell_len

    def needed(column: Column[T]) -> int:
        lines = [line for cell in cells[column.id] for line in cell.split("\n")]
        longest = max(map(cell_len, [column.heading, *lines]))
        return (min(longest, _SENTENCE) if column.widest >= SENTENCE else longest) + _BETWEEN

    widths = {column.id: needed(column) for column in columns}
    left = list(columns)
    while sum(widths[column.id] for column in left) > width:
        most = max(left, key=lambda column: column.rank if column.widest < SENTENCE else 0)
        if not most.rank or most.widest >= SENTENCE:
            break
        left.remove(most)
    return left


def _safe(cell: str) -> str:
    # Columns should return safe text; this is a second line of defense.
    return "\n".join(safe_message(line) for line in cell.split("\n"))


def print_json(value: object, indent: int | None = None) -> None:
    """Print what ``--json`` prints."""
    click.echo(json.dumps(value, indent=indent))


def print_pair(config: PipelineConfig, state: PairState) -> None:
    """Print the state of the pair as the first line of the output."""
    from k2ktui.present.pair_state import pair_line

    click.echo(f"Pair: {pair_line(config, state)}")


def read_beside(config: PipelineConfig) -> Callable[[], PairState]:
    """Read the state of the pair on a thread; return a function that waits for the result.

    It runs beside the command's own reading, so that an unreachable cluster costs one time-out, not
    two.
    """
    from k2ktui.sync.drill.pair import read_pair_state

    reading: Future[PairState] = Future()

    def read() -> None:
        try:
            reading.set_result(read_pair_state(config))
        except BaseException as error:
            reading.set_exception(error)

    # A daemon: a command that fails does not wait for it.
    threading.Thread(target=read, name="pair", daemon=True).start()
    return reading.result


def note_pair(config: PipelineConfig, state: PairState) -> None:
    """Print the state of the pair as a note, if there is anything to say.

    For commands whose output programs read.
    """
    from k2ktui.present.pair_state import is_plain, pair_line

    if not is_plain(state):
        print_note(f"pair: {pair_line(config, state)}")
