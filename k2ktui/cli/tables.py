"""Tables: wide columns are dropped on a narrow terminal, names are safe, unknown is a dash.

Output that does not go to a terminal has all rows and columns, untruncated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from k2ktui.present.columns import Column
from k2ktui.text import safe_message

T = TypeVar("T")

WIDE = 130
MOST = 500  # rows that are still useful in a terminal's scrollback
_UNBOUNDED = 1_000_000


def output(*, stderr: bool = False) -> Console:
    """Return the console for tables; without a terminal, its width is unlimited.

    Rich also takes a pipe for a terminal, if ``FORCE_COLOR`` or ``TTY_COMPATIBLE`` is set.
    """
    console = Console(stderr=stderr)
    if console.is_terminal and console.file.isatty():
        return console
    return Console(stderr=stderr, width=_UNBOUNDED, soft_wrap=True, force_terminal=False)


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
    out = console or output()
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    shown = [column for column in columns if out.width >= WIDE or not column.is_wide]
    for column in shown:
        table.add_column(
            column.heading,
            justify="right" if column.right else "left",
            no_wrap=column.right or not out.is_terminal,
        )
    every = list(rows)
    limit = most if out.is_terminal else None
    for row in every[:limit]:
        table.add_row(*(Text(_safe(column.cell(row).text)) for column in shown))
    out.print(table)
    if limit is not None and len(every) > limit:
        out.print(Text(f"… and {len(every) - limit:,} more; --json prints all of them"))


def _safe(cell: str) -> str:
    # Columns should return safe text; this is a second line of defense.
    return "\n".join(safe_message(line) for line in cell.split("\n"))
