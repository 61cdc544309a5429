"""Tables on a terminal: columns give way on a narrow one, names are safe, unknown is a dash."""

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
MOST = 500  # rows that somebody may still want to scroll through


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column; ``wide`` ones are left out on a terminal of less than ``WIDE`` columns."""

    heading: str
    cell: Callable[[T], str]
    left: bool = False
    wide: bool = False


def number(value: int | None) -> str:
    """Return a count or an offset with separators, a dash for unknown."""
    return UNKNOWN if value is None else f"{value:,}"


def signed(value: int | None) -> str:
    """Return a difference with its sign, a dash for unknown."""
    return UNKNOWN if value is None else f"{value:+,}" if value else "0"


def moment(at: float) -> str:
    """Return epoch seconds as UTC text."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def print_table(
    title: str,
    columns: Sequence[Column[T]],
    rows: Iterable[T],
    console: Console | None = None,
    *,
    most: int | None = None,
) -> None:
    """Print rows as a table; of very many only the first ``most``, and how many are left."""
    out = console or Console()
    table = Table(title=Text(title), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    shown = [column for column in columns if out.width >= WIDE or not column.wide]
    for column in shown:
        table.add_column(
            column.heading, justify="left" if column.left else "right", no_wrap=not column.left
        )
    every = list(rows)
    for row in every[:most]:
        table.add_row(*(Text(_safe(column.cell(row))) for column in shown))
    out.print(table)
    if most is not None and len(every) > most:
        out.print(Text(f"… and {len(every) - most:,} more; --json prints all of them"))


def _safe(cell: str) -> str:
    # Columns make their names safe; this is for one that does not.
    return "\n".join(safe_text(line) for line in cell.split("\n"))
