"""Columns of a table of partitions."""

from __future__ import annotations

from k2ktui.present import formatting
from k2ktui.present.columns import Column, descending, partition_column
from k2ktui.present.formatting import Cell, Glyphs, Tone
from k2ktui.text import safe_text
from k2ktui.watch.model import PartitionRow
from k2ktui.watch.severity import judge_partition


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
        Column(
            "lag",
            "lag",
            lambda row: Cell(formatting.number(row.status.lag_records)),
            lambda row: descending(row.status.lag_records),
            right=True,
        ),
        Column(
            "behind",
            "behind",
            lambda row: Cell(formatting.seconds(row.status.lag_s)),
            lambda row: descending(row.status.lag_s),
            right=True,
            rank=1,
        ),
        Column("trend", "", lambda row: Cell(glyphs.direction(row.direction)), width=1, rank=6),
        Column(
            "rate",
            "records/s",
            lambda row: Cell(formatting.number(row.rate)),
            lambda row: descending(row.rate),
            right=True,
            rank=2,
        ),
        Column(
            "left",
            "left",
            lambda row: Cell(formatting.duration(row.eta_s) if row.eta_s is not None else "—"),
            lambda row: descending(row.eta_s),
            right=True,
            rank=9,
        ),
        Column(
            "position",
            "position",
            lambda row: Cell(formatting.number(row.status.position)),
            lambda row: descending(row.status.position),
            right=True,
            rank=3,
        ),
        Column(
            "start",
            "log start",
            lambda row: Cell(formatting.number(row.status.source_start), Tone.MUTED),
            right=True,
            rank=11,
        ),
        Column(
            "end",
            "source end",
            lambda row: Cell(formatting.number(row.status.source_end)),
            lambda row: descending(row.status.source_end),
            right=True,
            rank=5,
        ),
        Column(
            "coverage",
            "coverage",
            lambda row: Cell(formatting.share(row.status.coverage)),
            lambda row: row.status.coverage,
            right=True,
            rank=4,
        ),
        Column(
            "unmapped",
            "unmapped",
            lambda row: Cell(
                formatting.number(row.status.unmapped),
                Tone.WARN if row.status.unmapped else Tone.MUTED,
            ),
            lambda row: descending(row.status.unmapped),
            right=True,
            rank=6,
        ),
        Column(
            "held-back",
            "held back",
            lambda row: Cell(formatting.number(row.status.held_back)),
            lambda row: descending(row.status.held_back),
            right=True,
            rank=11,
        ),
        Column("target", "target", _target, rank=8, width=10, widest=48),
        Column(
            "target-end",
            "target end",
            lambda row: Cell(formatting.number(row.status.target_end)),
            right=True,
            rank=10,
        ),
        Column(
            "mapped",
            "mapped",
            lambda row: Cell(formatting.number(row.status.mapped_records)),
            lambda row: descending(row.status.mapped_records),
            right=True,
            rank=14,
        ),
        Column("path", "path", lambda row: Cell(row.status.path, Tone.MUTED), rank=12),
        Column("why", "why", lambda row: Cell(row.why, Tone.WARN), rank=13, widest=80),
    )


def _rank(row: PartitionRow) -> int:
    """Return how soon a row comes by its state: what was moved to the target comes last."""
    return -1 if row.status.moved_by else judge_partition(row).severity


def _target(row: PartitionRow) -> Cell:
    status = row.status
    if not status.target_topic:
        return Cell(formatting.NOT_AVAILABLE, Tone.MUTED)
    where = "*" if status.target_partition is None else str(status.target_partition)
    return Cell(safe_text(f"{status.target_topic}-{where}", 400))
