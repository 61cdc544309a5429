"""A column of a table, in a terminal or on a screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from k2ktui.present.formatting import Cell, Tone, moment, number
from k2ktui.text import safe_message, safe_text

T = TypeVar("T")
Row = TypeVar("Row")

# The rank of columns that a narrow terminal leaves out first, except for those as wide as
# sentences: a text table wraps their cells.
WIDE_RANK, SENTENCE = 8, 100


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """A column of a grid.

    Attributes:
        cell: returns the cell of a row; called for visible rows only.
        sort: returns the sort key of a row; None if the column cannot be sorted.
        right: whether the column is right-aligned, as numbers are.
        width: minimum width in cells.
        rank: on a narrow terminal, columns of the highest rank are left out first; 0 never is.
        widest: maximum width in cells.
        picture: whether it is for the screen only: it draws what another column says, or marks a
            row; exports and copies leave it out.
    """

    id: str
    heading: str
    cell: Callable[[T], Cell]
    sort: Callable[[T], Any] | None = None
    right: bool = False
    width: int = 4
    rank: int = 0
    widest: int = 24
    picture: bool = False

    def of(self, part: Callable[[Row], T]) -> Column[Row]:
        """Return this column for rows of which ``part`` returns what it shows."""
        cell, sort = self.cell, self.sort
        return Column(
            self.id,
            self.heading,
            lambda row: cell(part(row)),
            None if sort is None else lambda row: sort(part(row)),
            self.right,
            self.width,
            self.rank,
            self.widest,
            self.picture,
        )


def pick(columns: Sequence[Column[T]], *ids: str) -> tuple[Column[T], ...]:
    """Return the columns with these ids, in this order."""
    by_id = {column.id: column for column in columns}
    return tuple(by_id[name] for name in ids)


def rank(columns: Iterable[Column[T]], ranks: Mapping[str, int]) -> list[Column[T]]:
    """Return the columns that have a rank, in the order of the ranks, with it.

    Raises:
        KeyError: there is no column with an id that has a rank.
    """
    by_id = {column.id: column for column in columns}
    return [replace(by_id[name], rank=of) for name, of in ranks.items()]


def insert(columns: Iterable[Column[T]], further: Mapping[str, Column[T]]) -> list[Column[T]]:
    """Return the columns, each followed by the further one of its id, such as its drawing."""
    chosen: list[Column[T]] = []
    for column in columns:
        chosen += [column, *([further[column.id]] if column.id in further else [])]
    return chosen


def text_column(
    heading: str, text: Callable[[T], str], *, left: bool = False, wide: bool = False
) -> Column[T]:
    """Return a column of plain text; a ``wide`` one is left out on a narrow terminal."""
    rank = WIDE_RANK if wide else 0
    return Column(heading, heading, lambda row: Cell(text(row)), right=not left, rank=rank)


def name_column(
    id: str,
    name: Callable[[T], object],
    *,
    heading: str = "",
    longest: int | None = 400,
    width: int = 4,
    rank: int = 0,
    widest: int = 24,
) -> Column[T]:
    """Return the column of a name that Kafka or a person has given, sorted by it.

    Its heading is its id, unless another one is given; a name has ``longest`` characters at most.
    """
    return Column(
        id,
        heading or id,
        lambda row: Cell(safe_text(name(row), longest)),
        name,
        width=width,
        rank=rank,
        widest=widest,
    )


def sentence_column(
    id: str,
    text: Callable[[T], str],
    *,
    heading: str = "",
    tone: Callable[[T], Tone] = lambda _: Tone.PLAIN,
    longest: int | None = None,
    width: int = 20,
    rank: int = 0,
    widest: int = 500,
) -> Column[T]:
    """Return the column of a message; heading and ``longest`` are as for :func:`name_column`."""
    return Column(
        id,
        heading or id,
        lambda row: Cell(safe_message(text(row), longest), tone(row)),
        width=width,
        rank=rank,
        widest=widest,
    )


def begun_column(started_ms: Callable[[T], int]) -> Column[T]:
    """Return the column of when something has begun, in epoch milliseconds, to the minute."""

    def cell(row: T) -> Cell:
        return Cell(moment(started_ms(row) / 1000).removesuffix(" UTC")[5:-3])

    return Column("begun", "begun (UTC)", cell, started_ms, width=11)


def figure_column(
    id: str,
    heading: str,
    figure: Callable[[T], float | None],
    *,
    text: Callable[[float | None], str] = number,
    tone: Tone = Tone.PLAIN,
    cell: Callable[[T], Cell] | None = None,
    is_sorted: bool = True,
    width: int = 4,
    rank: int = 0,
) -> Column[T]:
    """Return the column of a figure; sorted by it, the largest come first.

    ``cell`` writes it, where its row says more than ``text`` and ``tone`` do.
    """
    return Column(
        id,
        heading,
        cell or (lambda row: Cell(text(figure(row)), tone)),
        (lambda row: descending(figure(row))) if is_sorted else None,
        right=True,
        width=width,
        rank=rank,
    )


def effect_column(
    id: str, heading: str, figure: Callable[[T], int | None], tone: Tone, *, rank: int = 0
) -> Column[T]:
    """Return the column of what a move does to records: it stands out unless it is none."""

    def cell(row: T) -> Cell:
        value = figure(row)
        return Cell(number(value), tone if value else Tone.PLAIN)

    return Column(id, heading, cell, figure, right=True, rank=rank)


def group_column(group: Callable[[T], str], *, width: int = 12, widest: int = 48) -> Column[T]:
    """Return the column of a consumer group's name, which comes from Kafka."""
    return name_column("group", group, width=width, widest=widest)


def partition_column(
    partition: Callable[[T], tuple[str, int]], *, width: int = 12, widest: int = 48
) -> Column[T]:
    """Return the column of a topic and partition, sorted by the partition's number."""

    def cell(row: T) -> Cell:
        topic, number = partition(row)
        return Cell(safe_text(f"{topic}-{number}", 400))

    return Column("partition", "partition", cell, partition, width=width, widest=widest)


def descending(value: float | None) -> float | None:
    """Return a sort key that puts the largest values first."""
    return None if value is None else -value
