"""What a failover now would do, as cells of a screen and as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from k2ktui.engine.moves.failover import GroupEstimate, MoveOutcome, NamedMove
from k2ktui.engine.severity import Severity, SeverityLabel
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
from k2ktui.text import counted, safe_text
from k2ktui.watch.model import PartName, View

NOTHING_LEFT = "nothing is left to fail over: every topic was moved to the target"
# Names of one kind in a line of text; programs read all of them in --json.
_MOST_NAMES = 20


def failover_verdict(groups: GroupEstimate) -> SeverityLabel:
    """Return whether a failover now is safe for every group, by the worst of them."""
    for count, severity, word in (
        (groups.losing, Severity.BAD, "no, loses records"),
        (groups.unmovable, Severity.BAD, "no"),
        (groups.unknown, Severity.UNKNOWN, "not known"),
        (groups.not_copied, Severity.WARN, "not yet"),
        (groups.stop_first, Severity.WARN, "not yet"),
        (groups.lost_already, Severity.WARN, "look first"),
    ):
        if count:
            return SeverityLabel(severity, word)
    return SeverityLabel(Severity.OK, "safe")


def group_cells(view: View, glyphs: Glyphs, names: int = 0) -> list[Cell]:
    """Return the groups by what a failover now would do to them; ``names`` at most of each kind."""
    groups = view.failover.groups
    if groups is None:
        failed = view.part(PartName.GROUPS).error
        return [Cell(NOT_AVAILABLE if failed else NOT_YET)]
    old = glyphs.stale if view.groups_stale else ""
    if not groups.total:
        return [Cell(f"{old}no group to move", Tone.MUTED)]
    cells = []
    for severity, outcome, count, text in (
        (Severity.OK, MoveOutcome.MOVED, groups.moved, "moved"),
        (Severity.BAD, MoveOutcome.LOSES, groups.losing, f"would lose {groups.lost_records:,}"),
        (Severity.WARN, MoveOutcome.LOST_ALREADY, groups.lost_already, _lost_already(groups)),
        (Severity.BAD, MoveOutcome.UNMOVABLE, groups.unmovable, "cannot move"),
        (Severity.UNKNOWN, MoveOutcome.UNKNOWN, groups.unknown, "unknown"),
        (Severity.WARN, MoveOutcome.STOP_FIRST, groups.stop_first, "to stop first"),
        (Severity.INFO, MoveOutcome.NOT_COPIED, groups.not_copied, "not copied yet"),
        (Severity.OK, MoveOutcome.SAFE, groups.safe, "safe to move"),
    ):
        if count:
            sign = glyphs.status[severity]
            named = groups.of(outcome) if names else []
            # The number of a single group is that of its kind.
            who = f": {list_moves(named, names, numbers=count > 1)}" if named else ""
            cell = Cell(f"{sign} {count:,} {text}{who}", tone_of(severity))
            cells += [glyphs.aged(cell) if view.groups_stale else cell, Cell("  ")]
    if groups.reread_records:
        cells.append(Cell(f"{old}{groups.reread_records:,} read again", Tone.WARN))
    return cells


def _lost_already(groups: GroupEstimate) -> str:
    """Say that a move skips records which are lost with and without it."""
    return f"lost {sum(m.gone_records for m in groups.of(MoveOutcome.LOST_ALREADY)):,} already"


def list_moves(moves: Sequence[NamedMove], most: int, *, numbers: bool = True) -> str:
    """Return the first groups, with what a move would lose, and the number of further ones."""
    shown = ", ".join(_named(move, numbers=numbers) for move in moves[:most])
    more = len(moves) - most
    return f"{shown} and {more:,} more" if more > 0 else shown


def _named(move: NamedMove, *, numbers: bool) -> str:
    facts = []
    if numbers and move.outcome in (MoveOutcome.LOSES, MoveOutcome.LOST_ALREADY):
        if move.lost_records:
            facts.append(f"{move.lost_records:,}")
        if move.gone_records:
            both = "" if move.outcome is MoveOutcome.LOST_ALREADY else " lost already"
            facts.append(f"{move.gone_records:,}{both}")
    if move.active and move.outcome is not MoveOutcome.STOP_FIRST:
        facts.append("stop first")
    name = safe_text(move.group, 60)
    return f"{name} ({', '.join(facts)})" if facts else name


def loss_cells(view: View, now: float, glyphs: Glyphs) -> list[Cell]:
    """Return the records that are not copied, and how old the groups' commits are."""
    failover = view.failover
    if failover.failed_over:
        return [Cell(final_loss(view), Tone.HEADING)]
    known = all(view.part(p).taken_at is not None for p in (PartName.SOURCE, PartName.TARGET))
    records = Cell(number(failover.rpo_records, known=known), Tone.HEADING)
    cells = [
        glyphs.aged(records) if view.copy_stale else records,
        Cell(" not copied" if failover.rpo_records is None else _not_copied(failover.rpo_records)),
    ]
    if failover.rpo_records and failover.rpo_s is not None:
        cells.append(Cell(f", oldest {seconds(failover.rpo_s)}"))
    cells += [Cell(f"  {text}", Tone.WARN) for text in view.missed_rpo]
    if failover.held_partitions:
        held = number(failover.held_records, known=known)
        cells.append(Cell(f"  {held} more held", Tone.MUTED))
    if failover.unknown_partitions:
        cells.append(Cell(f"  {failover.unknown_partitions:,} unknown", Tone.UNKNOWN))
    if failover.commits_at is not None:
        tone = Tone.WARN if view.groups_stale else Tone.MUTED
        old = glyphs.stale if view.groups_stale else ""
        cells.append(Cell(f"  commits {old}{age(max(0.0, now - failover.commits_at))} old", tone))
    return cells


def _not_copied(count: int) -> str:
    return " record not copied" if count == 1 else " records not copied"


def failover_lines(view: View, now: float) -> Iterator[str]:
    """Yield what a failover now would do, as sentences; ``now`` is the reference time for ages."""
    estimate = view.failover
    if view.is_left:
        yield NOTHING_LEFT[0].upper() + NOTHING_LEFT[1:]
        return
    if estimate.groups is not None:
        yield from group_lines(estimate.groups, failed_over=estimate.failed_over)
    if estimate.failed_over:
        yield f"RPO: {final_loss(view)}"
        return
    oldest = (
        f", the oldest {seconds(estimate.rpo_s)} old"
        if estimate.rpo_records and estimate.rpo_s
        else ""
    )
    missing = (
        f"; unknown for {counted(estimate.unknown_partitions, 'partition')}"
        if estimate.unknown_partitions
        else ""
    )
    records = (
        NOT_AVAILABLE if estimate.rpo_records is None else counted(estimate.rpo_records, "record")
    )
    yield f"Not copied (RPO): {records}{oldest}{missing}"
    if estimate.held_partitions:
        of = counted(estimate.held_partitions, "partition")
        held = NOT_AVAILABLE
        if estimate.held_records is not None:
            held = counted(estimate.held_records, "record")
        yield f"Held by operators, and lost besides: {held} of {of}"
    if estimate.commits_at is not None:
        yield f"Commits of the groups: read {duration(max(0.0, now - estimate.commits_at))} ago"


def held_line(view: View) -> str:
    """Return what operators hold, which neither the lag nor the RPO counts."""
    totals = view.totals
    records = "an unknown number of records"
    if totals.held_records is not None:
        records = counted(totals.held_records, "record")
    oldest = f", the oldest {seconds(totals.held_s)} old" if totals.held_s else ""
    return (
        f"held by operators: {counted(totals.held_partitions, 'partition')}, "
        f"{records} not copied{oldest}"
    )


def objectives_line(view: View) -> str:
    """Return the objectives, and those that a failover now or the last rehearsal misses."""
    missed = ", ".join((*view.missed_rpo, *view.missed_rto)) or "none"
    return f"objectives: {view.objectives.describe()}; missed now: {missed}"


def group_lines(groups: GroupEstimate, *, failed_over: bool) -> Iterator[str]:
    """Yield the groups by what a failover now would do to them, as sentences, with names."""
    lost, gone = counted(groups.lost_records, "record"), _lost_already(groups)
    kinds = (
        (groups.moved, "moved"),
        (groups.safe, "safe to move"),
        (groups.stop_first, "to stop first"),
        (groups.not_copied, "not copied yet"),
        (groups.unknown, "unknown"),
        (groups.unmovable, "that cannot be moved"),
        (groups.lost_already, f"that {gone}"),
        (groups.losing, f"that would lose {lost}"),
    )
    parts = [f"{count:,} {text}" for count, text in kinds if count]
    yield ("Groups: " if failed_over else "If you failed over now: ") + (
        f"{counted(groups.total, 'group')}: {', '.join(parts)}" if parts else "no group to move"
    )
    for outcome, text in _KINDS.items():
        if named := groups.of(outcome):
            yield f"{text}: {list_moves(named, _MOST_NAMES)}"
    if groups.reread_records:
        yield f"Read again after a move: {counted(groups.reread_records, 'record')}"


_KINDS = {
    MoveOutcome.LOSES: "Would lose records by a move",
    MoveOutcome.LOST_ALREADY: (
        "Lost records already, which a move skips: both clusters have deleted them"
    ),
    MoveOutcome.UNMOVABLE: "Cannot be moved",
    MoveOutcome.UNKNOWN: "Effect of a move unknown",
    MoveOutcome.STOP_FIRST: "To stop first",
    MoveOutcome.NOT_COPIED: "Not copied yet",
}
