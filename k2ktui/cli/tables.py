"""Tables: wide columns are dropped on a narrow terminal, names are safe, unknown is a dash.

Output that does not go to a terminal has all rows and columns, untruncated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Generic, TypeVar

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from k2ktui.text import safe_text

T = TypeVar("T")

UNKNOWN = "—"
WIDE = 130
MOST = 500  # rows that are still useful in a terminal's scrollback
_UNBOUNDED = 1_000_000


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column; ``wide`` ones are left out on a terminal of less than ``WIDE`` columns."""

    heading: str
    cell: Callable[[T], str]
    left: bool = False
    wide: bool = False


def number(value: int | None) -> str:
    """Return a count or an offset with thousands separators, a dash for unknown."""
    return UNKNOWN if value is None else f"{value:,}"


def signed(value: int | None) -> str:
    """Return a difference with its sign, a dash for unknown."""
    return UNKNOWN if value is None else f"{value:+,}" if value else "0"


def moment(at: float) -> str:
    """Return epoch seconds as a UTC date and time."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def output(*, stderr: bool = False) -> Console:
    """Return the console for tables; without a terminal, its width is unlimited."""
    console = Console(stderr=stderr)
    if console.is_terminal:
        return console
    return Console(stderr=stderr, width=_UNBOUNDED, soft_wrap=True)


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
    shown = [column for column in columns if out.width >= WIDE or not column.wide]
    for column in shown:
        table.add_column(
            column.heading,
            justify="left" if column.left else "right",
            no_wrap=not column.left or not out.is_terminal,
        )
    every = list(rows)
    limit = most if out.is_terminal else None
    for row in every[:limit]:
        table.add_row(*(Text(_safe(column.cell(row))) for column in shown))
    out.print(table)
    if limit is not None and len(every) > limit:
        out.print(Text(f"… and {len(every) - limit:,} more; --json prints all of them"))


def _safe(cell: str) -> str:
    # Columns should return safe text; this is a second line of defense.
    return "\n".join(safe_text(line) for line in cell.split("\n"))
