"""The demo's output: progress, the pipeline's file, and live tables of topics and groups.

It uses Rich on a terminal and plain lines elsewhere. A closed terminal does not disturb the demo's
shutdown.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich import box
from rich.console import Console, Group, JustifyMethod
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from k2ktui.engine.moves.group_sums import GroupSummary
from k2ktui.engine.status import PartitionStatus
from k2ktui.present.columns import Column, text_column
from k2ktui.present.formatting import NOT_AVAILABLE, number, seconds
from k2ktui.present.view_lines import reread_text
from k2ktui.progress import ProgressStep
from k2ktui.text import safe_message, safe_text
from k2ktui.watch.assemble import sum_totals
from k2ktui.watch.model import PartitionRow, PartName, View

_PLAIN_SECONDS = 5.0
_PLAIN_WIDTH = 120


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
    totals, statuses = sum_totals(rows, None), [row.status for row in rows]
    return TopicLine(
        topic=topic,
        partitions=totals.partitions,
        states=tuple(totals.states),
        paths=tuple(sorted({p.path for p in statuses})),
        position=_total(p.position for p in statuses),
        end=_total(p.source_end for p in statuses),
        lag_records=totals.lag_records,
        lag_seconds=totals.lag_seconds,
        mapped=_total(p.mapped_records for p in statuses),
        rate=totals.rate,
        example=_example(statuses),
    )


def _total(numbers: Iterable[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _example(statuses: Sequence[PartitionStatus]) -> tuple[int, int, int] | None:
    for status in statuses:
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


def topics_table(lines: Sequence[TopicLine], note: str = "", width: int = 120) -> Table:
    """Return the table for a terminal of ``width`` columns; ``note`` is printed below it."""
    table = _table("source → target, exactly once", note)
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


def _table(title: str, note: str) -> Table:
    return Table(
        title=title,
        caption=Text(safe_message(note)) if note else None,
        title_justify="left",
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )


class Comparison:
    """The latest result.

    Attributes:
        groups: every group with the records it would re-read; empty until known.
        note: why the result is missing or outdated.
    """

    def __init__(self) -> None:
        self.groups: Sequence[GroupSummary] = ()
        self.note = "MirrorMaker 2 has not translated any group yet"

    def take(self, view: View) -> None:
        """Take the result from a view of the pipeline with its comparison."""
        failed = view.part(PartName.COMPARISON).error or view.part(PartName.GROUPS).error
        if view.audit is not None and view.audit.rows:
            self.groups, self.note = view.summaries, failed
        elif failed:
            self.note = failed


def groups_table(groups: Sequence[GroupSummary], note: str = "") -> Table:
    """Return the comparison as a table, with ``note`` below it."""
    table = _table("records read again after a failover now", note)
    table.add_column("group", no_wrap=True)
    for heading in ("k2ktui", "MirrorMaker 2"):
        table.add_column(heading, justify="right", no_wrap=True)
    for group in groups:
        by_mirror_maker = reread_text(group.theirs) if group.theirs else NOT_AVAILABLE
        table.add_row(
            *map(Text, (safe_text(group.group, 30), reread_text(group.ours), by_mirror_maker))
        )
    return table


#: Updates the live table: its lines, a note, and more tables, shown below it.
Show = Callable[[Sequence[TopicLine], str, Sequence[Table]], None]


class Screen:
    """The demo's output; ``console`` is a Rich console, on standard output by default."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or _console()
        self._begun = time.monotonic()

    def say(self, text: str) -> None:
        """Print a line with the seconds since the start."""
        seconds = time.monotonic() - self._begun
        with _if_it_is_there():
            self._console.print(f"{seconds:5.1f} s  {text}", markup=False, soft_wrap=True)

    def show_file(self, path: Path, text: str) -> None:
        """Print the path of the pipeline's file, and its YAML text if there is one."""
        self.say(f"The pipeline's file: {path}")
        if not text:
            return
        with _if_it_is_there():
            if self._console.is_terminal:
                self._console.print(Syntax(text, "yaml", background_color="default"))
            else:
                self._console.print(text, markup=False, soft_wrap=True)

    @contextlib.contextmanager
    def busy(self, text: str) -> Iterator[Callable[[ProgressStep], None]]:
        """Show progress while a block runs; yields a function that reports steps."""
        if not self._console.is_terminal:
            yield self._plain_steps(text)
            return
        progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            console=self._console,
            transient=True,
        )
        bar = progress.add_task(text, total=None)

        def report(step: ProgressStep) -> None:
            total = step.total or None
            progress.update(bar, description=step.text, completed=step.done, total=total)

        with _live(progress):
            yield report

    def _plain_steps(self, text: str) -> Callable[[ProgressStep], None]:
        said = [text]
        self.say(text)

        def report(step: ProgressStep) -> None:
            if step.text != said[-1]:
                said.append(step.text)
                self.say(step.text)

        return report

    @contextlib.contextmanager
    def live(self) -> Iterator[Show]:
        """Show the live table while a block runs; yields a function that updates it."""
        if not self._console.is_terminal:
            yield self._plain_table()
            return
        table = Live(console=self._console, auto_refresh=False)

        def show(lines: Sequence[TopicLine], note: str, beside: Sequence[Table]) -> None:
            with _if_it_is_there():
                tables = Group(topics_table(lines, note, self._console.width), *beside)
                table.update(tables, refresh=True)

        with _live(table):
            yield show

    def _plain_table(self) -> Show:
        last = [0.0]

        def show(lines: Sequence[TopicLine], note: str, beside: Sequence[Table]) -> None:
            if time.monotonic() - last[0] >= _PLAIN_SECONDS:
                last[0] = time.monotonic()
                self.say("" if lines else note)
                if lines:
                    with _if_it_is_there():
                        self._console.print(topics_table(lines, "", self._console.width), *beside)

        return show


class _LastingConsole(Console):
    """A Rich console that does not end the process when the reader of its output is gone."""

    def on_broken_pipe(self) -> None:
        """Print nothing from now on; Rich raises SystemExit, also in the middle of a shutdown."""
        self.quiet = True
        # Otherwise what is still buffered fails again when Python exits.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        with contextlib.suppress(OSError, ValueError):
            os.dup2(nowhere, self.file.fileno())
        os.close(nowhere)


def _console() -> Console:
    console = _LastingConsole(highlight=False)
    if not console.is_terminal:
        console.width = _PLAIN_WIDTH  # a file or a pipe has no width
    return console


@contextlib.contextmanager
def _live(display: Progress | Live) -> Iterator[None]:
    with _if_it_is_there():
        display.start()
    try:
        yield
    finally:
        with _if_it_is_there():
            display.stop()


@contextlib.contextmanager
def _if_it_is_there() -> Iterator[None]:
    # On a closed terminal every write fails, and shutdown must not depend on one.
    with contextlib.suppress(OSError, ValueError):
        yield
