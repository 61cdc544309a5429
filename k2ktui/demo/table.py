"""The demo's live table: one line per topic, with position, lag and rate."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import JustifyMethod
from rich.table import Table
from rich.text import Text

from k2ktui.demo.status import PartitionStatus
from k2ktui.text import safe_text

_RATE_WINDOW_SECONDS = 5.0
_UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class TopicLine:
    """What the table shows of a topic.

    Attributes:
        states: distinct states of its partitions.
        paths: distinct paths (``verbatim``, ``record``).
        position: sum of the replicated positions; None if none is known.
        end: sum of the source end offsets.
        lag_records: sum of the lags in records; ``lag_seconds`` is the largest of its partitions.
        mapped: sum of the records with a mapping.
        rate: mapped records per second over the last seconds; None until known.
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


class Rates:
    """Turns growing counts into records per second, over a sliding window."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, deque[tuple[float, int]]] = {}

    def take(self, name: str, count: int | None) -> float | None:
        """Add a ``count`` of ``name`` and return its rate; None until there are two."""
        if count is None:
            return None
        now = self._clock()
        seen = self._seen.setdefault(name, deque())
        seen.append((now, count))
        while len(seen) > 2 and now - seen[1][0] >= _RATE_WINDOW_SECONDS:
            seen.popleft()
        first_at, first = seen[0]
        return (count - first) / (now - first_at) if now > first_at else None


def summarise(partitions: Iterable[PartitionStatus], rates: Rates) -> list[TopicLine]:
    """Return one line per topic, sorted by name; call it once for each snapshot."""
    topics: dict[str, list[PartitionStatus]] = {}
    for status in partitions:
        topics.setdefault(status.topic, []).append(status)
    return [_line(topic, topics[topic], rates) for topic in sorted(topics)]


def _line(topic: str, found: Sequence[PartitionStatus], rates: Rates) -> TopicLine:
    mapped = _total(p.mapped_records for p in found)
    seconds = [p.lag_seconds for p in found if p.lag_seconds is not None]
    return TopicLine(
        topic=topic,
        partitions=len(found),
        states=tuple(sorted({p.state for p in found})),
        paths=tuple(sorted({p.path for p in found})),
        position=_total(p.position for p in found),
        end=_total(p.source_end for p in found),
        lag_records=_total(p.lag_records for p in found),
        lag_seconds=max(seconds, default=None),
        mapped=mapped,
        rate=rates.take(topic, mapped),
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


# Heading, justification, cell, and the minimum terminal width for the column.
_COLUMNS: tuple[tuple[str, JustifyMethod, Callable[[TopicLine], str], int], ...] = (
    ("topic", "left", lambda line: safe_text(line.topic, 24), 0),
    ("parts", "right", lambda line: str(line.partitions), 90),
    ("position", "right", lambda line: _number(line.position), 0),
    ("source end", "right", lambda line: _number(line.end), 90),
    ("lag", "right", lambda line: _number(line.lag_records), 0),
    ("lag s", "right", lambda line: _number(line.lag_seconds, ".1f"), 0),
    ("records/s", "right", lambda line: _number(line.rate, ",.0f"), 0),
    ("offsets differ", "left", lambda line: _divergence(line), 110),
    ("state", "left", lambda line: safe_text("/".join(line.states), 30), 0),
    ("path", "left", lambda line: safe_text("/".join(line.paths), 20), 100),
)


def render(lines: Sequence[TopicLine], note: str = "", width: int = 120) -> Table:
    """Return the table for a terminal of ``width`` columns; ``note`` is printed below it."""
    table = Table(
        title="source → target, exactly once",
        caption=Text(safe_text(note)) if note else None,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    columns = [column for column in _COLUMNS if width >= column[3]]
    for heading, justify, _, _ in columns:
        table.add_column(heading, justify=justify, no_wrap=True)
    for line in lines:
        # Text, so that names are never parsed as markup.
        table.add_row(*(Text(cell(line)) for _, _, cell, _ in columns))
    return table


def _divergence(line: TopicLine) -> str:
    return "p{} {:,} → {:,}".format(*line.example) if line.example else _UNKNOWN


def _number(value: float | None, form: str = ",") -> str:
    return _UNKNOWN if value is None else format(value, form)
