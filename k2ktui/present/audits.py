"""An audit of MirrorMaker 2's checkpoints: its columns, its result in a sentence, its report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from k2ktui.drill.report import Report, Section, list_rows
from k2ktui.engine.moves.audit import Audit, AuditRow
from k2ktui.present import formatting
from k2ktui.present.columns import (
    Column,
    effect_column,
    figure_column,
    group_column,
    partition_column,
)
from k2ktui.present.formatting import Cell, Tone
from k2ktui.secret_values import hide_secrets
from k2ktui.text import counted, moment, safe_message, safe_text
from k2ktui.version import __version__

# A page of more rows is slow in a browser, and nobody reads them in a ticket.
_LISTED_PARTITIONS, _OTHERS = 2_000, "with --json"
_LEGEND = (
    "MM2: what happens if the group resumes at MirrorMaker 2's newest checkpoint. Without one, "
    "auto.offset.reset of the application decides.",
    "synced: what happens if it resumes at its commit on the target.",
    "re-read: records that it has read and would read again. skipped: records that it would "
    "never read.",
    "correct: the target offset of the first record that it has not read. Unknown: this offset is "
    "not known exactly, and nothing is counted; the note says why.",
)


def _age(row: AuditRow) -> str:
    if row.checkpoint_age_s is None:
        return formatting.NOT_AVAILABLE
    return formatting.duration(row.checkpoint_age_s)


def audit_columns() -> tuple[Column[AuditRow], ...]:
    """Return the columns of a table of an audit.

    ``MM2`` is the effect of its newest checkpoint, ``synced`` that of the commit on the target.
    """
    return (
        group_column(lambda r: r.group, width=8, widest=24),
        partition_column(lambda r: (r.topic, r.partition), width=10, widest=24),
        Column("source", "source", lambda r: Cell(formatting.number(r.source_offset)), right=True),
        figure_column(
            "checkpoint", "checkpoint", lambda r: r.checkpoint_offset, is_sorted=False, rank=2
        ),
        Column("age", "age", lambda r: Cell(_age(r)), right=True, rank=8),
        effect_column("again", "MM2 re-read", lambda r: r.checkpoint_reread, Tone.WARN),
        effect_column("skipped", "MM2 skipped", lambda r: r.checkpoint_skipped, Tone.BAD),
        figure_column("synced", "synced", lambda r: r.synced_offset, is_sorted=False, rank=6),
        effect_column(
            "synced-again", "synced re-read", lambda r: r.synced_reread, Tone.WARN, rank=4
        ),
        effect_column(
            "synced-skipped", "synced skipped", lambda r: r.synced_skipped, Tone.BAD, rank=4
        ),
        figure_column("right", "correct", lambda r: r.right_offset, is_sorted=False, rank=1),
        Column("basis", "basis", lambda r: Cell(r.basis), lambda r: r.basis, width=8, rank=5),
        Column("note", "note", lambda r: Cell(safe_message(r.note, 400)), rank=12, widest=100),
    )


def summarize_audit(audit: Audit) -> str:
    """Return what groups would read again or skip after a failover now, in a sentence."""
    if not audit.rows:
        return "No group has committed on what MirrorMaker 2 copies."
    totals = audit.totals()
    return (
        f"After a failover now, {totals['wrong']:,} of {totals['rows']:,} group-partitions would "
        "not continue at the same record. By MirrorMaker 2's checkpoints: "
        f"{counted(totals['checkpoint_reread'], 'record')} read again, "
        f"{totals['checkpoint_skipped']:,} never read, "
        f"{counted(totals['without_checkpoint'], 'partition')} without one. By its synced commits: "
        f"{totals['synced_reread']:,} read again, {totals['synced_skipped']:,} never read. "
        f"Unknown: {counted(totals['unknown'], 'partition')}."
    )


@dataclass(frozen=True, slots=True)
class GroupAudit:
    """The audit of one group: its partitions, and the sums over them as of ``Audit.totals``."""

    rows: tuple[AuditRow, ...]
    totals: Mapping[str, int]


def group_audits(audit: Audit) -> list[GroupAudit]:
    """Return an audit of each group, the worst first."""
    groups: dict[str, list[AuditRow]] = {}
    for row in sorted(audit.rows, key=lambda row: (row.group, row.topic, row.partition)):
        groups.setdefault(row.group, []).append(row)
    audits = [replace(audit, rows=tuple(rows)) for rows in groups.values()]
    return sorted((GroupAudit(one.rows, one.totals()) for one in audits), key=_harm, reverse=True)


def audit_group_columns() -> tuple[Column[GroupAudit], ...]:
    """Return the columns of a table of groups."""

    def total(name: str, heading: str, rank: int = 0) -> Column[GroupAudit]:
        def cell(one: GroupAudit) -> Cell:
            return Cell(formatting.number(one.totals[name]))

        return Column(name, heading, cell, right=True, rank=rank)

    return (
        group_column(lambda one: one.rows[0].group, width=8, widest=400),
        total("rows", "partitions", 5),
        total("wrong", "not at the same record", 3),
        total("checkpoint_reread", "MM2 re-read"),
        total("checkpoint_skipped", "MM2 skipped"),
        total("without_checkpoint", "without checkpoint", 2),
        total("synced_reread", "synced re-read", 4),
        total("synced_skipped", "synced skipped", 4),
        total("unknown", "unknown"),
    )


def make_audit_report(audit: Audit, notes: Sequence[str] = ()) -> Report:
    """Return the report of an audit; ``notes`` are those on the file of MirrorMaker 2."""
    return Report(
        title=f"Audit of MirrorMaker 2 {safe_text(audit.flow)}",
        summary=(
            summarize_audit(audit),
            f"Read at {moment(audit.taken_at)} by k2ktui {__version__}; nothing was changed",
        ),
        sections=tuple(_sections(group_audits(audit), (*notes, *audit.notes))),
        is_good=not audit.is_wrong,
    )


def _harm(group: GroupAudit) -> tuple[int, int, int]:
    """Return how much an operator should care for a group: skipped records are lost."""
    totals = group.totals
    skipped = totals["checkpoint_skipped"] + totals["synced_skipped"]
    return skipped, totals["checkpoint_reread"] + totals["synced_reread"], totals["wrong"]


def _sections(groups: Sequence[GroupAudit], notes: Sequence[str]) -> Iterator[Section]:
    """Yield the sections of a report; the groups come in this order."""
    if notes:
        yield Section("Notes", items=tuple(safe_message(hide_secrets(note)) for note in notes))
    if groups:
        totals, columns = audit_group_columns(), audit_columns()
        rows = (row for one in groups for row in one.rows)
        yield Section(
            "Groups",
            columns=tuple(column.heading for column in totals),
            rows=list_rows(
                (tuple(column.cell(one).text for column in totals) for one in groups),
                others=_OTHERS,
            ),
        )
        yield Section(
            "Partitions",
            columns=tuple(column.heading for column in columns),
            rows=list_rows(
                (tuple(column.cell(row).text for column in columns) for row in rows),
                _LISTED_PARTITIONS,
                _OTHERS,
            ),
        )
    yield Section("Columns", items=_LEGEND)
