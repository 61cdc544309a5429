"""The table of runs on screen 5: what each owns and uses, drawn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from k2ktui.console.screens.job_runs import ShownRun
from k2ktui.console.visuals.shapes import bar, picture_cell
from k2ktui.console.widgets.grid import Grid
from k2ktui.engine.severity import Severity
from k2ktui.jobs.run_rows import RunRow
from k2ktui.jobs.usage import Usage
from k2ktui.present import formatting
from k2ktui.present.columns import Column
from k2ktui.present.formatting import Cell, Glyphs, Line, Tone
from k2ktui.present.runs import judge_run, run_columns

# Ids of the columns filled from heartbeats.
HEARTBEAT_COLUMNS = frozenset({"state", "beat", "lap", "lag", "commit", "slots", "slot-cells"})
_BAR = 6
# More slots than that are a bar: cells of one kind add nothing.
_MOST_CELLS = 16
# From this share of a limit on, a bar warns.
_HIGH = 0.9
# Where a terminal is narrow, what a run owns and uses stays longer than what it is.
_RANKS = {"lag": 2, "slots": 3, "slot-cells": 6, "memory": 4, "memory-bar": 7, "cpu": 4}
_RANKS |= {"cpu-bar": 7, "commit": 8, "lap": 9, "term": 10, "version": 14, "error": 13}
# The error of the run under the cursor has room below the table.
_WIDEST = {"error": 60, "pipeline": 24, "host": 24}


def jobs_grid(glyphs: Glyphs, now: Callable[[], float]) -> Grid[ShownRun]:
    """Return a table of runs; ``now`` returns the time that ages are relative to."""
    return Grid(
        _columns(glyphs, now),
        key=lambda row: row.key,
        search=lambda row: f"{row.pipeline} {row.state} {row.host} {row.user} {row.error}",
        problem=lambda row: judge_run(row).severity >= Severity.WARN,
        sorts_first="lag",
        id="jobs",
    )


def _columns(glyphs: Glyphs, now: Callable[[], float]) -> tuple[Column[ShownRun], ...]:
    columns: list[Column[ShownRun]] = []
    for column in run_columns(glyphs, now):
        if column.id == "slots":
            columns += _own_columns(glyphs)
        else:
            columns.append(column.of(_run))
    return tuple(
        replace(
            column,
            rank=_RANKS.get(column.id, column.rank),
            widest=_WIDEST.get(column.id, column.widest),
        )
        for column in columns
    )


def _run(row: ShownRun) -> RunRow:
    return row


def _own_columns(glyphs: Glyphs) -> list[Column[ShownRun]]:
    """Return the columns of what a run owns and uses: each figure with its drawing."""

    def drawing(name: str, line: Callable[[ShownRun], Line]) -> Column[ShownRun]:
        return Column(
            name,
            "",
            lambda row: picture_cell(line(row)),
            width=_BAR,
            widest=_MOST_CELLS,
            picture=True,
        )

    return [
        Column("slots", "slots", lambda row: Cell(slots_text(row)), None, True, 6),
        drawing("slot-cells", lambda row: slot_cells(row, _BAR, glyphs)),
        Column("memory", "memory", lambda row: Cell(memory_text(row.usage)), None, True, 7),
        drawing("memory-bar", lambda row: memory_bar(row.usage, _BAR, glyphs)),
        Column("cpu", "cores", lambda row: Cell(cores_text(row.usage)), None, True, 5),
        drawing("cpu-bar", lambda row: cores_bar(row.usage, _BAR, glyphs)),
    ]


def slots_text(row: ShownRun) -> str:
    """Return how many slots a run owns, and of how many."""
    if not row.all_slots:
        return str(row.slots) if row.slots else formatting.NOT_AVAILABLE
    return f"{len(row.owned) or row.slots} of {row.all_slots}"


def slot_cells(row: ShownRun, width: int, glyphs: Glyphs) -> Line:
    """Return a cell for each slot: full if the run owns it, empty if another one does, or a dot.

    Many slots are a bar of ``width`` cells. It is empty if nothing is known.
    """
    count = row.all_slots
    if not count:
        return ()
    if count > _MOST_CELLS:
        return bar((len(row.owned) or row.slots) / count, width, glyphs)
    full, empty, none = ("#", "o", ".") if glyphs.ascii else ("■", "□", "·")
    owned = row.owned or range(row.slots)
    cells: list[Cell] = []
    for slot in range(count):
        if slot in owned:
            cells.append(Cell(full, Tone.OK))
        elif slot in row.others:
            cells.append(Cell(empty, Tone.MUTED))
        else:
            cells.append(Cell(none, Tone.WARN))
    return tuple(cells)


def memory_text(usage: Usage | None, *, limit: bool = False) -> str:
    """Return the memory that a job uses, and of how much."""
    if usage is None:
        return formatting.NOT_AVAILABLE
    of = f" of {_bytes(usage.memory_limit)}" if limit else ""
    return f"{_bytes(usage.memory)}{of}"


def memory_bar(usage: Usage | None, width: int, glyphs: Glyphs) -> Line:
    """Return the memory as a share of what the host or the control group has."""
    return () if usage is None else _share(usage.memory / usage.memory_limit, width, glyphs)


def cores_text(usage: Usage | None, *, limit: bool = False) -> str:
    """Return how many processors were busy for a job, and of how many."""
    if usage is None:
        return formatting.NOT_AVAILABLE
    of = f" of {usage.cores_limit} cores" if limit else ""
    return f"{formatting.NOT_YET if usage.cores is None else f'{usage.cores:.1f}'}{of}"


def cores_bar(usage: Usage | None, width: int, glyphs: Glyphs) -> Line:
    """Return the busy processors as a share of those on which it may run."""
    if usage is None or usage.cores is None:
        return ()
    return _share(min(1.0, usage.cores / usage.cores_limit), width, glyphs)


def _share(value: float, width: int, glyphs: Glyphs) -> Line:
    return bar(value, width, glyphs, Tone.WARN if value >= _HIGH else Tone.INFO)


def _bytes(value: int) -> str:
    """Return bytes in a unit of which there are few: memory changes all the time, its text seldom.

    Units are powers of 1,000.
    """
    if value >= 10**9:
        return f"{value / 10**9:.1f} GB"
    return f"{value / 10**6:.0f} MB"
