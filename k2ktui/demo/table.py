"""The demo's live table: one line per topic, with position, lag and rate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from k2ktui.engine.status import PartitionStatus
from k2ktui.present.columns import Column, text_column
from k2ktui.present.formatting import NOT_AVAILABLE, number, seconds
from k2ktui.text import safe_message, safe_text
from k2ktui.watch.assemble import sum_totals
from k2ktui.watch.model import PartitionRow, View


@dataclass(frozen=True, slots=True)
class TopicLine:
    """What the table shows of a topic.

    Attributes:
        states: distinct states of its partitions.
        paths: distinct paths (``verbatim``, ``record``).
        position: sum of the replicated positions; None if none is known.
        end: sum of the source end offsets.
        lag_records, lag_seconds, rate: as in :class:`~k2ktui.watch.model.Totals`.
        mapped: sum of the records with a mapping.
        example: partition, position and target end of a partition that shows the divergence.
    """

    topic: str
    partitions: int
    states: tuple[str, ...]
    paths: tuple[str, ...]
    position: int | None
    end: int | None
    lag_records: int | None
    lag_seconds: float | None
    mapped: int | None
    rate: float | None
    example: tuple[int, int, int] | None


def summarize_topics(view: View) -> list[TopicLine]:
    """Return one line per topic, sorted by name."""
    topics: dict[str, list[PartitionRow]] = {}
    for row in view.partitions:
        topics.setdefault(row.status.topic, []).append(row)
    return [_line(topic, topics[topic]) for topic in sorted(topics)]


def _line(topic: str, rows: Sequence[PartitionRow]) -> TopicLine:
    totals, found = sum_totals(rows, None), [row.status for row in rows]
    return TopicLine(
        topic=topic,
        partitions=totals.partitions,
        states=tuple(totals.states),
        paths=tuple(sorted({p.path for p in found})),
        position=_total(p.position for p in found),
        end=_total(p.source_end for p in found),
        lag_records=totals.lag_records,
        lag_seconds=totals.lag_seconds,
        mapped=_total(p.mapped_records for p in found),
        rate=totals.rate,
        example=_example(found),
    )


def _total(numbers: Iterable[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _example(found: Sequence[PartitionStatus]) -> tuple[int, int, int] | None:
    for status in found:
        if status.position is not None and status.target_end is not None:
            return status.partition, status.position, status.target_end
    return None


_COLUMNS: tuple[Column[TopicLine], ...] = (
    text_column("topic", lambda line: safe_text(line.topic, 24), left=True),
    text_column("parts", lambda line: str(line.partitions)),
    text_column("position", lambda line: number(line.position)),
    text_column("source end", lambda line: number(line.end)),
    text_column("lag", lambda line: number(line.lag_records)),
    text_column("behind", lambda line: seconds(line.lag_seconds)),
    text_column("records/s", lambda line: number(line.rate)),
    text_column("offsets differ", lambda line: _divergence(line), left=True),
    text_column("state", lambda line: safe_text("/".join(line.states), 30), left=True),
    text_column("path", lambda line: safe_text("/".join(line.paths), 20), left=True),
)
# The minimum terminal widths of the columns that a narrow terminal leaves out.
_FROM_WIDTH = {"parts": 90, "source end": 90, "offsets differ": 110, "path": 100}


def render(lines: Sequence[TopicLine], note: str = "", width: int = 120) -> Table:
    """Return the table for a terminal of ``width`` columns; ``note`` is printed below it."""
    table = Table(
        title="source → target, exactly once",
        caption=Text(safe_message(note)) if note else None,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    columns = [column for column in _COLUMNS if width >= _FROM_WIDTH.get(column.id, 0)]
    for column in columns:
        justify: JustifyMethod = "right" if column.right else "left"
        table.add_column(column.heading, justify=justify, no_wrap=True)
    for line in lines:
        # Text, so that names are never parsed as markup.
        table.add_row(*(Text(column.cell(line).text) for column in columns))
    return table


def _divergence(line: TopicLine) -> str:
    return "p{} {:,} → {:,}".format(*line.example) if line.example else NOT_AVAILABLE
