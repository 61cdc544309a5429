"""What a failover now would do, as cells of a screen and as sentences."""

from __future__ import annotations

from collections.abc import Iterator

from k2ktui.engine.failover import FailoverEstimate
from k2ktui.present.formatting import (
    NOT_AVAILABLE,
    NOT_YET,
    Cell,
    Glyphs,
    Tone,
    age,
    duration,
    number,
    seconds,
    tone_of,
)
from k2ktui.present.pair_state import final_loss
from k2ktui.text import counted
from k2ktui.watch.model import PartName, View
from k2ktui.watch.severity import Severity


def group_cells(view: View, glyphs: Glyphs) -> list[Cell]:
    """Return the groups by what a failover now would do to them."""
    found = view.failover.groups
    if found is None:
        failed = view.part(PartName.GROUPS).error
        return [Cell(NOT_AVAILABLE if failed else NOT_YET)]
    old = glyphs.stale if view.groups_stale else ""
    if not found.total:
        return [Cell(f"{old}no group to move", Tone.MUTED)]
    cells = []
    for severity, count, text in (
        (Severity.OK, found.moved, "moved"),
        (Severity.BAD, found.losing, f"would lose {found.lost_records:,}"),
        (Severity.BAD, found.unmovable, "cannot move"),
        (Severity.UNKNOWN, found.unknown, "unknown"),
        (Severity.WARN, found.stop_first, "to stop first"),
        (Severity.INFO, found.not_copied, "not copied yet"),
        (Severity.OK, found.safe, "safe to move"),
    ):
        if count:
            sign = glyphs.status[severity]
            cell = Cell(f"{sign} {count:,} {text}", tone_of(severity))
            cells += [glyphs.aged(cell) if view.groups_stale else cell, Cell("  ")]
    if found.reread_records:
        cells.append(Cell(f"{old}{found.reread_records:,} read again", Tone.WARN))
    return cells


def loss_cells(view: View, now: float, glyphs: Glyphs) -> list[Cell]:
    """Return the records that are not copied, and how old the groups' commits are."""
    found = view.failover
    if found.failed_over:
        return [Cell(final_loss(view), Tone.HEADING)]
    known = all(view.part(p).taken_at is not None for p in (PartName.SOURCE, PartName.TARGET))
    records = Cell(number(found.rpo_records, known=known), Tone.HEADING)
    cells = [
        glyphs.aged(records) if view.copy_stale else records,
        Cell(" not copied" if found.rpo_records is None else _not_copied(found.rpo_records)),
    ]
    if found.rpo_records and found.rpo_s is not None:
        cells.append(Cell(f", oldest {seconds(found.rpo_s)}"))
    if found.unknown_partitions:
        cells.append(Cell(f"  {found.unknown_partitions:,} unknown", Tone.UNKNOWN))
    if found.commits_at is not None:
        tone = Tone.WARN if view.groups_stale else Tone.MUTED
        old = glyphs.stale if view.groups_stale else ""
        cells.append(Cell(f"  commits {old}{age(max(0.0, now - found.commits_at))} old", tone))
    return cells


def _not_copied(count: int) -> str:
    return " record not copied" if count == 1 else " records not copied"


def failover_lines(found: FailoverEstimate, now: float, loss: str = "") -> Iterator[str]:
    """Yield what a failover now would do, as sentences.

    Args:
        found: the estimate.
        now: the reference time for ages, in epoch seconds.
        loss: what was missing on the target, if the pair has failed over.
    """
    if found.groups is not None:
        parts = [
            f"{count:,} {text}"
            for count, text in (
                (found.groups.moved, "moved"),
                (found.groups.safe, "safe to move"),
                (found.groups.stop_first, "to stop first"),
                (found.groups.not_copied, "not copied yet"),
                (found.groups.unknown, "unknown"),
                (found.groups.unmovable, "that cannot be moved"),
                (
                    found.groups.losing,
                    f"that would lose {counted(found.groups.lost_records, 'record')}",
                ),
            )
            if count
        ]
        yield ("Groups: " if found.failed_over else "If you failed over now: ") + (
            f"{counted(found.groups.total, 'group')}: {', '.join(parts)}"
            if parts
            else "no group to move"
        )
        if found.groups.reread_records:
            yield f"Read again after a move: {counted(found.groups.reread_records, 'record')}"
    if found.failed_over:
        yield f"RPO: {loss}"
        return
    oldest = f", the oldest {seconds(found.rpo_s)} old" if found.rpo_records and found.rpo_s else ""
    missing = (
        f"; unknown for {counted(found.unknown_partitions, 'partition')}"
        if found.unknown_partitions
        else ""
    )
    records = NOT_AVAILABLE if found.rpo_records is None else counted(found.rpo_records, "record")
    yield f"Not copied (RPO): {records}{oldest}{missing}"
    if found.commits_at is not None:
        yield f"Commits of the groups: read {duration(max(0.0, now - found.commits_at))} ago"
