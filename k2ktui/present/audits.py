"""Columns of a table of an audit of MirrorMaker 2's checkpoints."""

from __future__ import annotations

from k2ktui.engine.moves.audit import AuditRow
from k2ktui.present import formatting
from k2ktui.present.columns import Column, group_column, partition_column
from k2ktui.present.formatting import Cell, Tone
from k2ktui.text import safe_message


def _age(row: AuditRow) -> str:
    if row.checkpoint_age_s is None:
        return formatting.NOT_AVAILABLE
    return formatting.duration(row.checkpoint_age_s)


def _count(value: int | None, tone: Tone) -> Cell:
    return Cell(formatting.number(value), tone if value else Tone.PLAIN)


def audit_columns() -> tuple[Column[AuditRow], ...]:
    """Return the columns of a table of an audit.

    ``MM2`` is the effect of its newest checkpoint, ``synced`` that of the commit on the target.
    """
    return (
        group_column(lambda r: r.group, width=8, widest=24),
        partition_column(lambda r: (r.topic, r.partition), width=10, widest=24),
        Column("source", "source", lambda r: Cell(formatting.number(r.source_offset)), right=True),
        Column(
            "checkpoint",
            "checkpoint",
            lambda r: Cell(formatting.number(r.checkpoint_offset)),
            right=True,
            rank=2,
        ),
        Column("age", "age", lambda r: Cell(_age(r)), right=True, rank=8),
        Column(
            "again",
            "MM2 re-read",
            lambda r: _count(r.checkpoint_reread, Tone.WARN),
            lambda r: r.checkpoint_reread,
            right=True,
        ),
        Column(
            "skipped",
            "MM2 skipped",
            lambda r: _count(r.checkpoint_skipped, Tone.BAD),
            lambda r: r.checkpoint_skipped,
            right=True,
        ),
        Column(
            "synced",
            "synced",
            lambda r: Cell(formatting.number(r.synced_offset)),
            right=True,
            rank=6,
        ),
        Column(
            "synced-again",
            "synced re-read",
            lambda r: _count(r.synced_reread, Tone.WARN),
            lambda r: r.synced_reread,
            right=True,
            rank=4,
        ),
        Column(
            "synced-skipped",
            "synced skipped",
            lambda r: _count(r.synced_skipped, Tone.BAD),
            lambda r: r.synced_skipped,
            right=True,
            rank=4,
        ),
        Column(
            "right",
            "correct",
            lambda r: Cell(formatting.number(r.right_offset)),
            right=True,
            rank=1,
        ),
        Column("basis", "basis", lambda r: Cell(r.basis), lambda r: r.basis, width=8, rank=5),
        Column("note", "note", lambda r: Cell(safe_message(r.note, 400)), rank=12, widest=100),
    )
