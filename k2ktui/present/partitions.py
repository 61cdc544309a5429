"""Columns of a table of partitions."""

from __future__ import annotations

from k2ktui.engine.producers import Writer
from k2ktui.present import formatting
from k2ktui.present.columns import (
    Column,
    figure_column,
    partition_column,
    text_column,
)
from k2ktui.present.formatting import Cell, Glyphs, Tone, seconds
from k2ktui.text import safe_text
from k2ktui.watch.model import PartitionRow, PartName, View
from k2ktui.watch.severity import judge_partition

# The column with what the last comparison found.
COMPARED = "compared"
# Columns whose values come from a reading of one cluster.
_OF_BOTH = frozenset({"state", "lag", "behind", "coverage", "unmapped", "why"})
_OF_SOURCE = _OF_BOTH | {"start", "end", "held-back"}
_OF_TARGET = _OF_BOTH | {"position", "target-end"}
_NONE: frozenset[str] = frozenset()


def partition_columns(glyphs: Glyphs) -> tuple[Column[PartitionRow], ...]:
    """Return the columns; a narrow terminal keeps the most important ones."""
    return (
        partition_column(lambda row: row.key, width=14, widest=64),
        Column(
            "state",
            "state",
            lambda row: glyphs.mark(judge_partition(row)),
            lambda row: -_rank(row),
            width=11,
        ),
        figure_column("lag", "lag", lambda row: row.status.lag_records),
        figure_column("behind", "behind", lambda row: row.status.lag_s, text=seconds, rank=1),
        Column("trend", "", lambda row: Cell(glyphs.direction(row.direction)), width=1, rank=6),
        figure_column("rate", "records/s", lambda row: row.rate, rank=2),
        figure_column("left", "left", lambda row: row.eta_s, text=_left, rank=9),
        figure_column("position", "position", lambda row: row.status.position, rank=3),
        figure_column(
            "start",
            "log start",
            lambda row: row.status.source_start,
            tone=Tone.MUTED,
            is_sorted=False,
            rank=11,
        ),
        figure_column("end", "source end", lambda row: row.status.source_end, rank=5),
        Column(
            "coverage",
            "coverage",
            lambda row: Cell(formatting.share(row.status.coverage)),
            lambda row: row.status.coverage,
            right=True,
            rank=4,
        ),
        figure_column(
            "unmapped", "unmapped", lambda row: row.status.unmapped, cell=_unmapped, rank=6
        ),
        figure_column("held-back", "held back", lambda row: row.status.held_back, rank=11),
        Column("target", "target", _target, rank=8, width=10, widest=48),
        figure_column(
            "target-end",
            "target end",
            lambda row: row.status.target_end,
            is_sorted=False,
            rank=10,
        ),
        figure_column("mapped", "mapped", lambda row: row.status.mapped_records, rank=14),
        Column("path", "path", lambda row: Cell(row.status.path, Tone.MUTED), rank=12),
        Column("why", "why", lambda row: Cell(row.why, Tone.WARN), rank=13, widest=80),
    )


def _left(eta_s: float | None) -> str:
    return formatting.NOT_AVAILABLE if eta_s is None else formatting.duration(eta_s)


def _rank(row: PartitionRow) -> int:
    """Return how soon a row comes by its state: what was moved to the target comes last."""
    return -1 if row.status.moved_by else judge_partition(row).severity


def _unmapped(row: PartitionRow) -> Cell:
    count = row.status.unmapped
    return Cell(formatting.number(count), Tone.WARN if count else Tone.MUTED)


def _target(row: PartitionRow) -> Cell:
    status = row.status
    if not status.target_topic:
        return Cell(formatting.NOT_AVAILABLE, Tone.MUTED)
    where = "*" if status.target_partition is None else str(status.target_partition)
    return Cell(safe_text(f"{status.target_topic}-{where}", 400))


def writer_columns() -> tuple[Column[Writer], ...]:
    """Return the columns of a table of producers."""
    return (
        text_column("producer", lambda writer: writer.producer.name, left=True),
        text_column("writes to", lambda writer: writer.where, left=True),
        text_column("written", lambda writer: writer.amount, left=True),
        text_column("last", lambda writer: writer.newest, left=True),
    )


def stale_partition_columns(view: View) -> frozenset[str]:
    """Return the ids of the stale columns in a table of partitions."""
    source = _OF_SOURCE if view.stale(PartName.SOURCE) else _NONE
    target = _OF_TARGET if view.stale(PartName.TARGET) else _NONE
    groups = frozenset({"coverage", "unmapped", "mapped"}) if view.stale(PartName.GROUPS) else _NONE
    state = frozenset({COMPARED}) if view.stale(PartName.STATE) else _NONE
    return source | target | groups | state
